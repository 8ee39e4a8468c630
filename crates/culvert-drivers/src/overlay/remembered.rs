//! What is remembered of layers between lookups: directories that were found lately, so that their
//! parts need not be put together again, and what of lower layers has no marks, for those do not
//! change.

use super::marks::{Look, Marks};
use super::nodes::Key;
use super::state::{Core, Part};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use culvert::{Attributes, Entry, FileKind, Node, Result, Timespec, sync::Mutex};

/// So many directories are kept: each has a descriptor for each layer that has it.
const DIRECTORIES: usize = 64;
/// So many are known to have no marks.
const UNMARKED: usize = 4096;

/// A directory that was found in another one by this name, and its pin.
struct Kept {
    dir: Node,
    name: Box<[u8]>,
    key: Key,
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
    fn directory(&self, dir: Node, name: &[u8]) -> Option<Node> {
        let mut all = self.directories.lock();
        let at = all
            .iter()
            .position(|kept| kept.dir == dir && *kept.name == *name)?;
        all[..=at].rotate_right(1);
        Some(all[0].key.1)
    }

    fn take(&self, node: Node) -> Option<Key> {
        let mut all = self.directories.lock();
        let at = all.iter().position(|kept| kept.key.1 == node)?;
        Some(all.remove(at).key)
    }
}

impl Core {
    /// The directory `name` in `dir`, with one reference, if it is remembered and still there. The
    /// uppermost part of `dir` is asked, and the one that has the uppermost part of what is found:
    /// so whoever may not search there is refused, and changes from outside are seen.
    pub fn remembered(&self, dir: Node, name: &[u8]) -> Result<Option<Entry>> {
        if self.keeper.table() != 0 {
            return Ok(None);
        }
        let Some(node) = self.remembered.directory(dir, name) else {
            return Ok(None);
        };
        let entry = self.as_remembered((dir, name), node)?;
        if entry.is_none() {
            self.forget_directory(node);
        }
        Ok(entry)
    }

    fn as_remembered(&self, (dir, name): (Node, &[u8]), node: Node) -> Result<Option<Entry>> {
        let above = self.directory(dir)?;
        let Ok(parts) = self.known(node, |known| known.parts.clone()) else {
            return Ok(None);
        };
        let (first, top) = (above.top()?, parts.top()?);
        let Some(over) = above.all().find(|part| part.layer == top.layer) else {
            return Ok(None);
        };
        if first.layer != over.layer && !matches!(self.look(&first, name)?, Look::Nothing) {
            return Ok(None);
        }
        let Look::Found(found) = self.look(over, name)? else {
            return Ok(None);
        };
        if found.node != top.node {
            return Ok(None);
        }
        let is_there = |known: &super::nodes::Known| {
            let place = known.place.as_ref().map(|place| (place.0, &place.1[..]));
            !known.gone && known.kind == FileKind::Directory && place == Some((dir, name))
        };
        Ok(self.nodes.refer(top, is_there).map(|node| Entry {
            attributes: self.shown(node, &parts, found),
        }))
    }

    /// What `name` is in `dir`, whose reference is given back.
    fn look(&self, dir: &Part, name: &[u8]) -> Result<Look> {
        let look = self.look_in(dir, name)?;
        if let Look::Found(found) = &look {
            self.fs(*dir).forget(found.node, 1);
        }
        Ok(look)
    }

    /// `node` was found as `name` in `dir`.
    pub fn remember(&self, (dir, name): (Node, &[u8]), entry: &Entry) {
        let found = &entry.attributes;
        if found.kind != FileKind::Directory || self.keeper.table() != 0 {
            return;
        }
        let Ok(key) = self.nodes.pin(found.node) else {
            return;
        };
        let kept = Kept {
            dir,
            name: name.into(),
            key,
        };
        let dropped = {
            let mut all = self.remembered.directories.lock();
            let same = |one: &Kept| one.key == key || one.dir == dir && *one.name == *name;
            let at = all.iter().position(same);
            let last = (all.len() == DIRECTORIES).then_some(DIRECTORIES - 1);
            let dropped = at.or(last).map(|at| all.remove(at).key);
            all.insert(0, kept);
            dropped
        };
        if let Some(key) = dropped {
            self.give_back(self.nodes.unpin(key));
        }
    }

    /// `node` is no longer where it was.
    pub fn forget_directory(&self, node: Node) {
        if self.keeper.table() != 0 {
            return;
        }
        if let Some(key) = self.remembered.take(node) {
            self.give_back(self.nodes.unpin(key));
        }
    }

    /// What the marks of what was `found` in lower layer `index` say.
    pub fn lower_marks(&self, index: usize, found: &Attributes) -> Result<Marks> {
        let key = (index, found.node);
        if self.remembered.unmarked.lock().get(&key) == Some(&found.ctime) {
            return Ok(Marks::default());
        }
        let marks = self.marks(index, found.node, found.kind)?;
        if marks == Marks::default() && !self.hides_marks(index) {
            let mut unmarked = self.remembered.unmarked.lock();
            if unmarked.len() == UNMARKED {
                unmarked.clear();
            }
            unmarked.insert(key, found.ctime);
        }
        Ok(marks)
    }
}
