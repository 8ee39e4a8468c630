//! Nodes that are held ([`culvert::FileSystem::hold`]): they stay what they are, and a directory
//! goes on to be listed as whoever opened it might.

use super::kernel;
use super::nodes::Nodes;
use super::pins::Pin;
use super::table::Key;
use crate::descriptor::{Keeper, KeptFd};
use alloc::{
    collections::{BTreeMap, btree_map::Entry as Slot},
    sync::Arc,
};
use culvert::{FileKind, Node, Result, sync::Mutex};
use culvert_sys::fd::BorrowedFd;

/// A directory that was opened when it might be read. Its position is everybody's who has it.
pub(super) struct Listed {
    held: KeptFd,
    position: Mutex<()>,
}

impl Listed {
    /// Runs `run` on the descriptor, whose position nobody else moves meanwhile.
    pub fn with<R>(&self, run: impl FnOnce(BorrowedFd<'_>) -> R) -> R {
        let _guard = self.position.lock();
        run(self.held.fd())
    }
}

struct Holding {
    times: u64,
    opened: Option<Arc<Listed>>,
    _pin: Pin,
}

/// All holds of a mount in this process.
pub(super) struct Holds {
    keeper: Keeper,
    all: Mutex<BTreeMap<Key, Holding>>,
}

impl Holds {
    /// None yet.
    pub const fn new(keeper: Keeper) -> Self {
        Self {
            keeper,
            all: Mutex::new(BTreeMap::new()),
        }
    }

    /// Holds `node` once more. `ESTALE` when nobody keeps it.
    pub fn hold(&self, nodes: &Arc<Nodes>, node: Node) -> Result<()> {
        let object = nodes.get(node)?;
        let opened = match object.kind {
            FileKind::Directory => kernel::open_directory(object.fd(), 0, 0).ok(),
            _ => None,
        };
        let opened = opened.map(|opened| {
            Arc::new(Listed {
                held: self.keeper.keep(opened),
                position: Mutex::new(()),
            })
        });
        let pin = nodes.pin(node);
        let key = (self.keeper.table(), node);
        // What goes is dropped outside the lock: the embedder has locks of its own.
        let _gone = match self.all.lock().entry(key) {
            Slot::Occupied(mut found) => {
                let found = found.get_mut();
                found.times += 1;
                // The newest: the position of one of before a fork is the other process's, too.
                let older = opened.and_then(|opened| found.opened.replace(opened));
                (older, Some(pin))
            }
            Slot::Vacant(place) => {
                place.insert(Holding {
                    times: 1,
                    opened,
                    _pin: pin,
                });
                (None, None)
            }
        };
        Ok(())
    }

    /// The end of one hold.
    pub fn release(&self, node: Node) {
        let key = (self.keeper.table(), node);
        let _gone = match self.all.lock().entry(key) {
            Slot::Occupied(mut found) if found.get().times > 1 => {
                found.get_mut().times -= 1;
                None
            }
            Slot::Occupied(found) => Some(found.remove()),
            Slot::Vacant(_) => None,
        };
    }

    /// What `node` was opened as, if it is a directory that is held and could be read then.
    pub fn opened(&self, node: Node) -> Option<Arc<Listed>> {
        let key = (self.keeper.table(), node);
        self.all.lock().get(&key)?.opened.clone()
    }
}
