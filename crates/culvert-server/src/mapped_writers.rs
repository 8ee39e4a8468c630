//! Files into whose pages the kernel may have stored what no WRITE has brought yet.
//!
//! A store by a mapping is brought at msync(2) or munmap(2), or when the kernel likes, but LSEEK is
//! sent without it (`fuse_lseek`, fs/fuse/file.c). Whoever skips what the driver calls a hole, as
//! cp(1) does, would lose the store.

use crate::buffer::shrink;
use culvert::Node;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

#[derive(Debug)]
struct OpenNode {
    count: u64,
    /// The kernel may have pages of its holes: a page is read before it is stored into.
    read: bool,
}

/// The nodes that are open so that they may be mapped for storing.
#[derive(Debug, Default)]
pub struct MappedWriters {
    nodes: Mutex<HashMap<Node, OpenNode>>,
    /// Whether there are any, for who reads other files only.
    any: AtomicBool,
}

impl MappedWriters {
    fn nodes(&self) -> MutexGuard<'_, HashMap<Node, OpenNode>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes another such open of `node`. `kept`: pages that the kernel had before may stay.
    pub fn open(&self, node: Node, kept: bool) {
        let mut nodes = self.nodes();
        let open = nodes.entry(node).or_insert(OpenNode {
            count: 0,
            read: false,
        });
        open.count += 1;
        open.read |= kept;
        self.any.store(true, Relaxed);
    }

    /// Such an open of `node` has ended.
    pub fn close(&self, node: Node) {
        let mut nodes = self.nodes();
        if let Entry::Occupied(mut known) = nodes.entry(node) {
            known.get_mut().count -= 1;
            if known.get().count == 0 {
                known.remove();
            }
        }
        shrink(&mut nodes);
        self.any.store(!nodes.is_empty(), Relaxed);
    }

    /// The kernel reads `node`, by any open file. To be called before it is answered.
    pub fn read(&self, node: Node) {
        // Whoever has opened it for storing had his answer before he read.
        if self.any.load(Relaxed)
            && let Some(open) = self.nodes().get_mut(&node)
        {
            open.read = true;
        }
    }

    /// Whether there may be stores in holes of `node` of which the driver does not know.
    pub fn may_be_in_holes(&self, node: Node) -> bool {
        self.any.load(Relaxed) && self.nodes().get(&node).is_some_and(|open| open.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_may_be_stored_into_while_it_is_open() {
        let stores = MappedWriters::default();
        let node = Node(7);
        stores.read(node);
        stores.open(node, false);
        assert!(!stores.may_be_in_holes(node), "nothing was read");
        stores.read(Node(8));
        assert!(!stores.may_be_in_holes(node), "another was");
        stores.read(node);
        assert!(stores.may_be_in_holes(node));
        stores.open(node, false);
        stores.close(node);
        assert!(stores.may_be_in_holes(node), "one is left");
        stores.close(node);
        assert!(!stores.may_be_in_holes(node));
        stores.open(node, true);
        assert!(stores.may_be_in_holes(node), "pages from before");
    }
}
