//! What a driver by paths tells of changes, by node.

use super::{
    PathChange, PathFileSystem, PathObserver,
    state::AdapterState,
    table::{PathTable, ROOT},
};
use crate::{Change, Node, Observer};
use alloc::sync::{Arc, Weak};

pub(super) struct Told<T: PathFileSystem> {
    /// Not kept alive by the driver that it is a part of.
    of: Weak<AdapterState<T>>,
    observer: Arc<dyn Observer>,
}

impl<T: PathFileSystem> Told<T> {
    pub(super) fn new(of: Weak<AdapterState<T>>, observer: Arc<dyn Observer>) -> Self {
        Self { of, observer }
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

impl<T: PathFileSystem> PathObserver for Told<T> {
    fn tell(&self, change: PathChange<'_>) {
        let Some(shared) = self.of.upgrade() else {
            return;
        };
        let node = |path| known(&shared.table.lock(), path);
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
