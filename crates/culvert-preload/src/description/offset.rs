//! The offset: here while the description is private, the kernel's once it is shared.

use super::Description;
use crate::process;
use core::cell::UnsafeCell;
use culvert::Errno;
use culvert_sys::{nr, sync::Mutex, syscall};

/// The offset of a private description. While the process has one thread its lock costs nothing.
#[derive(Default)]
pub(super) struct Offset {
    lock: Mutex<()>,
    value: UnsafeCell<u64>,
}

// SAFETY: the value is touched under the lock, or while only one thread exists.
unsafe impl Sync for Offset {}

impl Offset {
    fn with<R>(&self, run: impl FnOnce(&mut u64) -> R) -> R {
        let _guard = culvert_intercept::multi_threaded().then(|| self.lock.lock());
        // SAFETY: exclusive: the lock is held, or no other thread exists, and a hook is never re-entered by the same thread
        // (signals are deferred to its end).
        run(unsafe { &mut *self.value.get() })
    }
}

impl Description {
    /// Runs `io` at the description's offset, exclusively, and leaves the offset where it says; the result is passed on. `fd` is one of the
    /// description's descriptors.
    #[inline]
    pub fn at_offset<R>(&self, fd: i32, io: impl FnOnce(&mut u64) -> R) -> Result<R, Errno> {
        let io = match self.privately(io) {
            Ok(result) => return Ok(result),
            Err(_) if self.is_direct() => return Err(crate::calls::FORWARD),
            Err(io) => io,
        };
        let _lock = process::get().node_locks.lock(self.mount, self.node);
        let mut offset = kernel_seek(fd, 0, 1)?;
        let before = offset;
        let result = io(&mut offset);
        if offset != before {
            kernel_seek(fd, offset as i64, 0)?;
        }
        Ok(result)
    }

    /// The same for a change of the file: a private description's node is locked, too, where its file may have a shadow that follows.
    #[inline]
    pub fn at_offset_changing<R>(
        &self,
        fd: i32,
        io: impl FnOnce(&mut u64) -> R,
    ) -> Result<R, Errno> {
        let mut io = Some(io);
        let mut run = |offset: &mut u64| io.take().map(|io| io(offset)).ok_or(Errno::EIO);
        let privately = self.privately(|offset| {
            let _lock = crate::paging::follow::lock(self);
            run(offset)
        });
        // A shared one is locked by `at_offset`.
        match privately.ok() {
            Some(result) => result,
            None => self.at_offset(fd, run)?,
        }
    }

    /// Runs `io`, which changes the file, exclusively, and leaves the description's offset where it says, which need not be where it was: one system call
    /// less where the kernel keeps it. The node is locked as by [`Description::at_offset_changing`].
    pub fn to_offset<R>(
        &self,
        fd: i32,
        io: impl FnOnce() -> Result<(u64, R), Errno>,
    ) -> Result<R, Errno> {
        let mut io = Some(io);
        let mut run = || io.take().map_or(Err(Errno::EIO), |io| io());
        let privately = self.privately(|offset| {
            let _lock = crate::paging::follow::lock(self);
            let (to, result) = run()?;
            *offset = to;
            Ok(result)
        });
        match privately.ok() {
            Some(result) => return result,
            None if self.is_direct() => return Err(crate::calls::FORWARD),
            None => {}
        }
        let _lock = process::get().node_locks.lock(self.mount, self.node);
        let (to, result) = run()?;
        kernel_seek(fd, to as i64, 0)?;
        Ok(result)
    }

    /// Runs `io` at the offset of a private description; gives it back when it is shared, or was when the lock was had.
    #[inline]
    pub(super) fn privately<R, F: FnOnce(&mut u64) -> R>(&self, io: F) -> Result<R, F> {
        if self.is_shared() {
            return Err(io);
        }
        self.offset.with(|offset| {
            if self.is_shared() {
                Err(io)
            } else {
                Ok(io(offset))
            }
        })
    }
}

/// lseek of the kernel descriptor.
pub fn kernel_seek(fd: i32, offset: i64, whence: usize) -> Result<u64, Errno> {
    // SAFETY: moves the offset of a descriptor that stands for ours.
    unsafe { syscall::call(nr::LSEEK, [fd as usize, offset as usize, whence]) }.map(|at| at as u64)
}
