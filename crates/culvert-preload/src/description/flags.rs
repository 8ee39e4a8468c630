//! Access mode and status flags: of a shared description the kernel keeps those that F_SETFL
//! changes.

use super::{Description, Object};
use core::sync::atomic::Ordering::*;
use culvert::Errno;
use culvert_sys::raw::general::O_DIRECT;

/// `O_APPEND`, `O_NONBLOCK`, `O_DIRECT`, `O_NOATIME`, `FASYNC`: what F_SETFL may change
/// (`SETFL_MASK`, fs/fcntl.c).
const SETTABLE: u32 = 0o2000 | 0o4000 | 0o40000 | 0o1000000 | 0o20000;

/// Whether the access mode in `flags` lets one read (`OPEN_FMODE`, include/linux/fs.h: the fourth
/// one, 3, lets one do neither).
pub fn may_read(flags: u32) -> bool {
    matches!(flags & 3, 0 | 2)
}

/// As [`may_read`], for writing.
pub fn may_write(flags: u32) -> bool {
    matches!(flags & 3, 1 | 2)
}

/// In [`Description::flags_known`]: never asked. No count of changes, those being even.
pub(super) const NOT_KNOWN: u32 = u32::MAX;
/// In [`culvert_run::node_locks::Notes::flag_changes`].
const FLAGS_OF_STRANGERS: u32 = 1;

impl Description {
    /// The status flags that F_SETFL may change, of a private description.
    pub fn settable_flags(&self) -> u32 {
        self.flags.load(Relaxed) & SETTABLE
    }

    /// Whether it goes round the page cache (O_DIRECT), as far as this process knows.
    pub fn is_unbuffered(&self) -> bool {
        self.flags.load(Relaxed) & O_DIRECT != 0
    }

    /// Notes that the kernel has its flags, and these among them.
    pub fn note_flags(&self, flags: u32) {
        let old = self.flags.load(Relaxed);
        self.flags
            .store(old & !SETTABLE | flags & SETTABLE, Relaxed);
        flags_changed();
    }

    /// Access mode and status flags, as F_GETFL gives them.
    pub fn flags(&self, fd: i32) -> Result<u32, Errno> {
        let mine = self.flags.load(Relaxed);
        if !self.is_shared() || matches!(self.object, Object::Path) {
            return Ok(mine);
        }
        // What nobody has changed since need not be asked for again. The count is read first: a
        // change after that counts.
        let changes = culvert_run::get()
            .node_locks
            .notes()
            .map_or(FLAGS_OF_STRANGERS, |notes| notes.flag_changes.load(Acquire));
        if changes & FLAGS_OF_STRANGERS == 0 && self.flags_known.load(Relaxed) == changes {
            return Ok(mine);
        }
        let kernel = culvert_run::files::kernel_flags(fd)?;
        // O_DIRECT means nothing to drivers, and the shadow does not have it.
        let kept_there = SETTABLE & !O_DIRECT;
        let flags = mine & !kept_there | kernel & kept_there;
        self.flags.store(flags, Relaxed);
        self.flags_known.store(changes, Release);
        Ok(flags)
    }

    /// F_SETFL.
    pub fn set_flags(&self, fd: i32, flags: u32) -> Result<(), Errno> {
        match self.object {
            Object::Path => return Err(Errno::EBADF),
            // `setfl`, fs/fcntl.c: only what has mappings of its own can be read past them.
            Object::Directory if flags & O_DIRECT != 0 => return Err(Errno::EINVAL),
            _ => {}
        }
        if self.is_shared() {
            culvert_sys::fd::fcntl(
                culvert_sys::BorrowedFd::number(fd),
                culvert_sys::fd::Command::SETFL,
                (flags & !O_DIRECT) as usize,
            )?;
            let old = self.flags.load(Relaxed);
            self.flags
                .store(old & !O_DIRECT | flags & O_DIRECT, Relaxed);
            flags_changed();
            return Ok(());
        }
        let old = self.flags.load(Relaxed);
        self.flags
            .store(old & !SETTABLE | flags & SETTABLE, Relaxed);
        Ok(())
    }
}

/// The status flags of some shared description have changed.
fn flags_changed() {
    if let Some(notes) = culvert_run::get().node_locks.notes() {
        notes.flag_changes.fetch_add(2, AcqRel);
    }
}

/// Somebody who is not intercepted gets a shared description, and may change its status flags
/// unseen from here on.
pub fn given_to_strangers() {
    if let Some(notes) = culvert_run::get().node_locks.notes() {
        notes.flag_changes.fetch_or(FLAGS_OF_STRANGERS, AcqRel);
    }
}
