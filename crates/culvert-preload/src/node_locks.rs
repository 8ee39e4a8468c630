//! Locks between the processes of a run, one word for a group of nodes, in a file of the run directory that everybody maps.
//!
//! A word holds the thread id of its owner, so that the lock of a process that was killed can be taken over; robust futexes are not ours to use
//! (one list a thread, and it is glibc's).

use crate::resolver::MountId;
use crate::run::Run;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use culvert::{Errno, Node};
use culvert_sys::{nr, syscall};

const WORDS: usize = 1024;
const WAITERS: u32 = 1 << 31;

/// The lock words, mapped on first use.
pub struct NodeLocks {
    address: AtomicUsize,
    /// Used when the shared file cannot be mapped: then only this process is kept apart.
    fallback: AtomicU32,
}

/// A held lock.
pub struct NodeLock<'a> {
    word: &'a AtomicU32,
}

impl NodeLocks {
    /// Not mapped yet.
    pub const fn new() -> Self {
        Self {
            address: AtomicUsize::new(0),
            fallback: AtomicU32::new(0),
        }
    }

    fn map(run: &Run) -> Result<usize, Errno> {
        let path = run.file("locks");
        const O_RDWR_CREAT_CLOEXEC: usize = 0o2 | 0o100 | 0o2000000;
        // SAFETY: the path ends in NUL; the mapping is a new one of our own file, grown to its full length first, and lives for ever.
        unsafe {
            let fd = syscall::call(
                nr::OPEN,
                [path.as_ptr() as usize, O_RDWR_CREAT_CLOEXEC, 0o600],
            )?;
            let mapped = syscall::call(nr::FTRUNCATE, [fd, WORDS * 4]).and_then(|_| {
                syscall::call(
                    nr::MMAP,
                    [
                        0,
                        WORDS * 4,
                        3, /* READ|WRITE */
                        1, /* SHARED */
                        fd,
                        0,
                    ],
                )
            });
            let _ = syscall::call(nr::CLOSE, [fd]);
            mapped
        }
    }

    fn word(&self, mount: MountId, node: Node) -> &AtomicU32 {
        let mut address = self.address.load(Acquire);
        if address == 0 {
            address = match Self::map(&crate::process::get().run) {
                Ok(address) => address,
                Err(error) => {
                    crate::log!("no locks between processes: {error}");
                    return &self.fallback;
                }
            };
            if let Err(first) = self.address.compare_exchange(0, address, AcqRel, Acquire) {
                // SAFETY: the mapping was made above and nobody has seen it.
                let _ = unsafe { syscall::call(nr::MUNMAP, [address, WORDS * 4]) };
                address = first;
            }
        }
        let hash = (node.0 ^ (u64::from(mount.0) << 48)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        // SAFETY: WORDS words are mapped there for ever; hash < 1024.
        unsafe { &*(address as *const AtomicU32).add(hash as usize) }
    }

    /// Locks the word of `node`; waits for a living owner, takes over from a dead one.
    pub fn lock(&self, mount: MountId, node: Node) -> NodeLock<'_> {
        let word = self.word(mount, node);
        let me = thread_id();
        let mut seen = 0;
        loop {
            match word.compare_exchange(seen & WAITERS, me | seen & WAITERS, Acquire, Relaxed) {
                Ok(_) => return NodeLock { word },
                Err(now) => seen = now,
            }
            let owner = seen & !WAITERS;
            if owner == 0 {
                continue;
            }
            if !alive(owner) {
                if word
                    .compare_exchange(seen, me | WAITERS, Acquire, Relaxed)
                    .is_ok()
                {
                    return NodeLock { word };
                }
                continue;
            }
            if seen & WAITERS == 0
                && word
                    .compare_exchange(seen, seen | WAITERS, Relaxed, Relaxed)
                    .is_err()
            {
                continue;
            }
            // FUTEX_WAIT, shared; the time limit makes a waiter look whether the owner still lives.
            let limit = [0usize, 50_000_000];
            // SAFETY: the word and the time limit outlive the call.
            let _ = unsafe {
                syscall::call(
                    nr::FUTEX,
                    [
                        word.as_ptr() as usize,
                        0,
                        (seen | WAITERS) as usize,
                        limit.as_ptr() as usize,
                    ],
                )
            };
            seen = word.load(Relaxed);
        }
    }
}

impl Default for NodeLocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for NodeLock<'_> {
    fn drop(&mut self) {
        if self.word.swap(0, Release) & WAITERS != 0 {
            // FUTEX_WAKE, shared. Every waiter: one that takes the word clears nobody's mark but may not set it again.
            // SAFETY: the address is only a key for the kernel.
            let _ = unsafe {
                syscall::call(
                    nr::FUTEX,
                    [self.word.as_ptr() as usize, 1, i32::MAX as usize],
                )
            };
        }
    }
}

fn thread_id() -> u32 {
    // SAFETY: gettid has no arguments.
    unsafe { syscall::raw(nr::GETTID, [0; 6]) as u32 }
}

fn alive(thread: u32) -> bool {
    // SAFETY: signal 0 only asks whether the thread exists.
    unsafe { syscall::call(nr::TKILL, [thread as usize, 0]) != Err(Errno::ESRCH) }
}
