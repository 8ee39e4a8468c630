//! Backing files that the kernel reads and writes itself (FUSE passthrough): one counted number for
//! each node.
//!
//! The kernel takes one backing file for a node, and no cached opens beside (EIO,
//! fs/fuse/iomode.c). So the first open of a node decides for all that overlap with it.

use crate::{buffer::shrink, channel::Channel};
use culvert::Node;
use culvert_sys::BorrowedFd;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, PoisonError},
};

/// How the open files of a node are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Through the page cache, by requests.
    Cached,
    /// By the kernel, from the backing file of this number.
    Backing(i32),
}

#[derive(Debug)]
struct BackedNode {
    mode: Mode,
    count: u64,
    /// How many of them may be mapped for storing.
    storing: u64,
}

/// The nodes that are open.
#[derive(Debug, Default)]
pub struct Backings(Mutex<HashMap<Node, BackedNode>>);

impl Backings {
    /// Notes another open of `node`, whose data are in `file` if they are the kernel's, and which
    /// may be mapped for storing if it `stores`; the number of its backing file when the kernel is
    /// to serve it.
    pub fn open(
        &self,
        node: Node,
        file: Option<BorrowedFd<'_>>,
        stores: bool,
        channel: &dyn Channel,
    ) -> Option<i32> {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = match nodes.entry(node) {
            Entry::Occupied(mut known) => {
                let open = known.get_mut();
                open.count += 1;
                open.storing += u64::from(stores);
                open.mode
            }
            Entry::Vacant(free) => {
                // Refused for many reasons (a stacked file system, no privilege): then requests
                // serve it.
                let number = file.and_then(|file| channel.register_backing(file).ok());
                let mode = number.map_or(Mode::Cached, Mode::Backing);
                free.insert(BackedNode {
                    mode,
                    count: 1,
                    storing: u64::from(stores),
                });
                mode
            }
        };
        match mode {
            Mode::Backing(number) => Some(number),
            Mode::Cached => None,
        }
    }

    /// Whether the kernel may store into `node` by a mapping of its backing file.
    pub fn may_be_stored_into(&self, node: Node) -> bool {
        let nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nodes
            .get(&node)
            .is_some_and(|open| open.storing > 0 && matches!(open.mode, Mode::Backing(_)))
    }

    /// An open of `node` that an earlier server has counted, by this backing number if by any.
    pub fn restore(&self, node: Node, number: Option<i32>, stores: bool) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = nodes.entry(node).or_insert(BackedNode {
            mode: number.map_or(Mode::Cached, Mode::Backing),
            count: 0,
            storing: 0,
        });
        open.count += 1;
        open.storing += u64::from(stores);
    }

    /// An open of `node` has ended.
    pub fn close(&self, node: Node, stores: bool, channel: &dyn Channel) {
        let last = self.count_off(node, stores);
        // Without the lock, for which the next open of another node may wait.
        if let Some(Mode::Backing(number)) = last {
            channel.release_backing(number);
        }
    }

    /// An open of `node` has ended; how it was served, if it was the last.
    fn count_off(&self, node: Node, stores: bool) -> Option<Mode> {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Entry::Occupied(mut known) = nodes.entry(node) else {
            return None;
        };
        let open = known.get_mut();
        open.count -= 1;
        open.storing -= u64::from(stores);
        let last = (open.count == 0).then(|| known.remove().mode);
        shrink(&mut nodes);
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::Message;
    use std::{
        io,
        sync::atomic::{AtomicI32, Ordering::Relaxed},
    };

    const STDIN: BorrowedFd<'static> = BorrowedFd::number(0);

    /// Gives numbers, and counts those that are out.
    #[derive(Default)]
    struct Counting {
        next: AtomicI32,
        out: AtomicI32,
    }

    impl Channel for Counting {
        fn send(&self, _: &Message<'_>) -> io::Result<()> {
            Ok(())
        }
        fn register_backing(&self, _: BorrowedFd<'_>) -> io::Result<i32> {
            self.out.fetch_add(1, Relaxed);
            Ok(self.next.fetch_add(1, Relaxed) + 1)
        }
        fn release_backing(&self, _: i32) {
            self.out.fetch_sub(1, Relaxed);
        }
    }

    #[test]
    fn one_number_for_all_opens_of_a_node() {
        let (backings, kernel) = (Backings::default(), Counting::default());
        let file = Some(STDIN);
        assert_eq!(backings.open(Node(1), file, false, &kernel), Some(1));
        assert_eq!(backings.open(Node(1), file, false, &kernel), Some(1));
        assert_eq!(backings.open(Node(2), file, false, &kernel), Some(2));
        backings.close(Node(1), false, &kernel);
        assert_eq!(kernel.out.load(Relaxed), 2);
        backings.close(Node(1), false, &kernel);
        backings.close(Node(2), false, &kernel);
        assert_eq!(kernel.out.load(Relaxed), 0);
    }

    #[test]
    fn cached_and_backed_opens_do_not_mix() {
        let (backings, kernel) = (Backings::default(), Counting::default());
        assert_eq!(backings.open(Node(1), None, false, &kernel), None);
        assert_eq!(backings.open(Node(1), Some(STDIN), false, &kernel), None);
        backings.close(Node(1), false, &kernel);
        backings.close(Node(1), false, &kernel);
        assert!(
            backings
                .open(Node(1), Some(STDIN), false, &kernel)
                .is_some()
        );
        // The open that has no file of its own is served by the first one's.
        assert!(backings.open(Node(1), None, false, &kernel).is_some());
    }

    #[test]
    fn stores_are_known_until_the_last_of_them_ends() {
        let (backings, kernel) = (Backings::default(), Counting::default());
        let file = Some(STDIN);
        backings.open(Node(1), file, false, &kernel);
        assert!(!backings.may_be_stored_into(Node(1)));
        backings.open(Node(1), file, true, &kernel);
        assert!(backings.may_be_stored_into(Node(1)));
        backings.close(Node(1), true, &kernel);
        assert!(!backings.may_be_stored_into(Node(1)));
        // Of what is cached the kernel knows itself.
        backings.open(Node(2), None, true, &kernel);
        assert!(!backings.may_be_stored_into(Node(2)));
    }
}
