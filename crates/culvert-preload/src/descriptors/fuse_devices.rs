//! Descriptors that stand for /dev/fuse in a process that is a FUSE server (module `fuse_server`):
//! each is open on the FIFO that rings for it, by whose inode one is known that came from another
//! process.

use super::{DescriptorTable, FUSE, Knower, has_own_class, knower};
use core::sync::atomic::{AtomicU64, Ordering::*};
use culvert_intercept::descriptors as classes;
use culvert_run::stat_descriptor;
use culvert_sys::raw::general::stat;

/// Device and inode of the FIFO; zeroes where this process is no server.
static BELL: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// The FIFO is the file `found`.
pub fn begin(found: &stat) {
    BELL[0].store(found.st_dev, Relaxed);
    BELL[1].store(found.st_ino, Relaxed);
}

pub(super) fn is_bell(found: &stat) -> bool {
    BELL[1].load(Relaxed) == found.st_ino && BELL[0].load(Relaxed) == found.st_dev
}

pub(super) fn has_class(fd: i32) -> bool {
    (0..=0xffff).contains(&fd) && classes::get(fd) == FUSE
}

/// Whether `fd`, which the table does not have, stands for the device. Not to be asked where this
/// process is no server.
#[cold]
pub fn is_device(fd: i32) -> bool {
    match super::class(fd) {
        FUSE => true,
        classes::UNKNOWN => {
            let is_one = stat_descriptor(fd).is_ok_and(|found| is_bell(&found));
            // Also one that the process has from its start: while it is open the session goes on.
            if is_one {
                super::table().note_fuse(fd);
            }
            is_one
        }
        _ => false,
    }
}

/// Whether any descriptor is known that stands for the device.
pub fn are_any() -> bool {
    classes::of_class(FUSE).next().is_some()
}

impl DescriptorTable {
    /// Records that the kernel's own descriptor `fd` stands for the device.
    pub fn note_fuse(&self, fd: i32) {
        if let Knower::Memory = knower()
            && has_own_class(fd)
        {
            self.end.fetch_max(fd + 1, Relaxed);
            classes::set(fd, FUSE);
        }
    }
}
