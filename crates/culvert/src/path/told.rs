//! What a driver by paths tells of changes, by node.

use super::{
    PathChange, PathObserver,
    table::{PathTable, ROOT},
};
use crate::{Change, Node, Observer, sync::Mutex};
use alloc::sync::{Arc, Weak};

pub(super) struct Told {
    /// Not kept alive by the driver that tells; nor is the driver by this: it would end while it
    /// tells.
    table: Weak<Mutex<PathTable>>,
    observer: Arc<dyn Observer>,
}

impl Told {
    pub(super) fn new(table: Weak<Mutex<PathTable>>, observer: Arc<dyn Observer>) -> Self {
        Self { table, observer }
    }
}

/// The node that `path` has led to, if that is known.
fn known(table: &PathTable, path: &[u8]) -> Option<Node> {
    let mut names = path.split(|&byte| byte == b'/');
    match path.is_empty() {
        true => Some(ROOT),
        false => names.try_fold(ROOT, |dir, name| table.child(dir, name)),
    }
}

impl PathObserver for Told {
    fn tell(&self, change: PathChange<'_>) {
        let Some(table) = self.table.upgrade() else {
            return;
        };
        let node = |path| known(&table.lock(), path);
        let change = match change {
            PathChange::Everything => Some(Change::Everything),
            PathChange::Attributes(path) => node(path).map(Change::Attributes),
            PathChange::Content(path) => node(path).map(Change::Content),
            PathChange::Name(path) => {
                let slash = path.iter().rposition(|&byte| byte == b'/');
                let (above, name) = match slash {
                    Some(slash) => (&path[..slash], &path[slash + 1..]),
                    None => (&path[..0], path),
                };
                let name = name.to_vec();
                node(above).map(|dir| Change::Name { dir, name })
            }
        };
        if let Some(change) = change {
            self.observer.tell(change);
        }
    }
}
