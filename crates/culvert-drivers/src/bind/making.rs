//! Directories in which something is being made.
//!
//! Where a server of root's makes a file by the kernel's calls it is root's at first, and given
//! away then. No other call of the mount sees it between: what it finds in a directory where
//! something was made meanwhile it looks for again.

use core::sync::atomic::{AtomicU32, Ordering};
use culvert::sync::{Mutex, MutexGuard};
use culvert::{Node, Result};

/// Directories in which something is being made, by their numbers.
#[derive(Default)]
pub struct Making([Group; 16]);

#[derive(Default)]
struct Group {
    one: Mutex<()>,
    /// Odd while something is made.
    count: AtomicU32,
}

/// Something is made, as long as this lives.
pub struct Made<'a> {
    group: &'a Group,
    _one: MutexGuard<'a, ()>,
}

impl Making {
    fn group(&self, dir: Node) -> &Group {
        &self.0[dir.0 as usize % self.0.len()]
    }

    /// Begins to make something in `dir`.
    pub fn begin(&self, dir: Node) -> Made<'_> {
        let group = self.group(dir);
        let one = group.one.lock();
        group.count.fetch_add(1, Ordering::SeqCst);
        Made { group, _one: one }
    }

    /// What `look` finds in `dir` when nothing there is half made.
    pub fn look<T>(
        &self,
        dir: Node,
        look: impl Fn() -> Result<T>,
        forget: impl FnOnce(T),
    ) -> Result<T> {
        let group = self.group(dir);
        let before = group.count.load(Ordering::SeqCst);
        let found = look();
        let after = group.count.load(Ordering::SeqCst);
        match found {
            Ok(found) if before != after || after % 2 == 1 => {
                forget(found);
                let _one = group.one.lock();
                look()
            }
            found => found,
        }
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        self.group.count.fetch_add(1, Ordering::SeqCst);
    }
}
