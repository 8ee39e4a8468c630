//! Nodes that are kept for open files.

use super::file::Held;
use super::nodes::Nodes;
use super::table::{Key, NodeState};
use alloc::sync::Arc;
use culvert::Node;

/// A node that is kept for an open file.
pub(super) struct Pin(Option<(Arc<Nodes>, Key)>);

impl Nodes {
    /// Keeps `node`, and its descriptor, until what is returned is dropped: while a file is open on
    /// it.
    pub fn pin(self: &Arc<Self>, node: Node) -> Pin {
        self.pin_by(node, None)
    }

    /// The same for `file`, which is open on it: of a node that has no descriptor it is the one.
    pub fn pin_file(self: &Arc<Self>, node: Node, file: &Arc<Held>) -> Pin {
        let key = (self.keeper.table(), node);
        let has_file = |known: &super::table::Known| {
            known.files > 0 && matches!(known.state, NodeState::Seen(_))
        };
        let is_second = self.table.lock().known.get(&key).is_some_and(has_file);
        if is_second {
            // The first may be closed before this one. An error leaves it to be found again by
            // path.
            let _ = self.get(node);
        }
        self.pin_by(node, Some(file))
    }

    fn pin_by(self: &Arc<Self>, node: Node, file: Option<&Arc<Held>>) -> Pin {
        let key = (self.keeper.table(), node);
        let mut table = self.table.lock();
        let entered = table.entered + 1;
        let mut is_new = false;
        let found = table.known.get_mut(&key).map(|known| {
            known.pins += 1;
            known.files += 1;
            if let (NodeState::Seen(seen), Some(file), 1) = (&mut known.state, file, known.files) {
                // From now on the number is kept; what was asked for before may be another inode.
                seen.file = Some(Arc::clone(file));
                known.entered = entered;
                is_new = true;
            }
        });
        if is_new {
            table.entered = entered;
        }
        Pin(found.map(|()| (self.clone(), key)))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let Some((nodes, key)) = self.0.take() else {
            return;
        };
        // Dropped when the lock is not held any more.
        let mut _file = None;
        let mut table = nodes.table.lock();
        table.release(key, |known| {
            known.pins -= 1;
            known.files -= 1;
            if known.files > 0 {
                return;
            }
            if let NodeState::Seen(seen) = &mut known.state
                && let Some(file) = seen.file.take()
            {
                // Its name may be another's by now.
                known.name = None;
                _file = Some(file);
            }
        });
        drop(table);
    }
}
