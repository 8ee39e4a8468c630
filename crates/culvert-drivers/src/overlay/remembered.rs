//! What is remembered of layers between lookups: directories that were found lately, so that their
//! parts need not be put together again, and what of lower layers has no marks, for those do not
//! change.

use super::nodes::Key;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use culvert::{Attributes, Node, Timespec, sync::Mutex};

/// So many directories are kept: each has a descriptor for each layer that has it.
const DIRECTORIES: usize = 64;
/// So many are known to have no marks.
const UNMARKED: usize = 4096;

/// A directory that was found in another one by this name, and its pin.
pub struct Kept {
    /// Where it is.
    pub dir: Node,
    /// What it is called there.
    pub name: Box<[u8]>,
    /// What ends the pin.
    pub key: Key,
}

/// What is remembered.
#[derive(Default)]
pub struct Remembered {
    /// The one that was asked for last first.
    directories: Mutex<Vec<Kept>>,
    /// When what has no marks was changed last.
    unmarked: Mutex<BTreeMap<(usize, Node), Timespec>>,
}

impl Remembered {
    /// The directory that was `name` in `dir`.
    pub fn directory(&self, dir: Node, name: &[u8]) -> Option<Node> {
        let mut all = self.directories.lock();
        let at = all
            .iter()
            .position(|kept| kept.dir == dir && *kept.name == *name)?;
        all[..=at].rotate_right(1);
        Some(all[0].key.1)
    }

    /// `node` is remembered no more: its pin.
    pub fn take(&self, node: Node) -> Option<Key> {
        let mut all = self.directories.lock();
        let at = all.iter().position(|kept| kept.key.1 == node)?;
        Some(all.remove(at).key)
    }

    /// Remembers `new`; the pin that goes for it.
    pub fn keep(&self, new: Kept) -> Option<Key> {
        let mut all = self.directories.lock();
        let same = |one: &Kept| one.key == new.key || one.dir == new.dir && one.name == new.name;
        let at = all.iter().position(same);
        let last = (all.len() == DIRECTORIES).then_some(DIRECTORIES - 1);
        let dropped = at.or(last).map(|at| all.remove(at).key);
        all.insert(0, new);
        dropped
    }

    /// Whether what was `found` in lower layer `index` is known to have no marks.
    pub fn is_unmarked(&self, index: usize, found: &Attributes) -> bool {
        self.unmarked.lock().get(&(index, found.node)) == Some(&found.ctime)
    }

    /// It has none.
    pub fn note_unmarked(&self, index: usize, found: &Attributes) {
        let mut unmarked = self.unmarked.lock();
        if unmarked.len() == UNMARKED {
            unmarked.clear();
        }
        unmarked.insert((index, found.node), found.ctime);
    }
}
