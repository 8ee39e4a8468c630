//! Numbers of descriptors that the kernel will look up later.
//!
//! A request that waits for another one, or is given to a worker, is told its file when its turn
//! comes (`io_assign_file`, io_uring/io_uring.c). Such a number never becomes a descriptor of a
//! mount's any more: what the kernel would find there is not the file.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8};

static ANY: AtomicBool = AtomicBool::new(false);
/// One bit for each number up to 65535; higher ones share them.
static NAMED: [AtomicU8; 8192] = [const { AtomicU8::new(0) }; 8192];

/// Records that the kernel may look at `fd` at any time.
pub fn await_descriptor(fd: i32) {
    if fd >= 0 {
        let at = fd as usize & 0xffff;
        NAMED[at / 8].fetch_or(1 << (at % 8), Relaxed);
        ANY.store(true, Relaxed);
    }
}

/// Whether a request of a ring may be about to look at `fd`.
#[inline]
pub fn is_awaited(fd: i32) -> bool {
    let at = fd as usize & 0xffff;
    ANY.load(Relaxed) && NAMED[at / 8].load(Relaxed) & 1 << (at % 8) != 0
}
