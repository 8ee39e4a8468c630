//! Promotion: from a description that this process keeps to one that the kernel keeps.

use super::{DescriptorTable, set_close_on_exec};
use crate::description::{Description, Object, SharedOn, kernel_seek};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::*;
use culvert::Errno;
use culvert_cache::shadow;
use culvert_intercept::descriptors as classes;
use culvert_run::files::on_exec;
use culvert_run::files::{close_on_exec, dup_high};
use culvert_run::internal::with_more;
use culvert_run::{INTERNAL, node_paths};
use culvert_sys::fd::Command;
use culvert_sys::sync::MutexGuard;
use culvert_sys::{BorrowedFd, OwnedFd};

impl DescriptorTable {
    /// Keeps other threads from changing what a number stands for (promotion, dup, close), while
    /// there are any.
    pub fn changing(&self) -> Option<MutexGuard<'_, ()>> {
        culvert_intercept::multi_threaded().then(|| self.changes.lock())
    }

    /// Promotes the description of `fd`: all its descriptors become ones on the node's shadow, and
    /// the kernel keeps the offset.
    pub fn promote(&self, fd: i32) -> Result<(), Errno> {
        let _changes = self.changing();
        let Some(description) = self.reference(fd) else {
            return Ok(());
        };
        if description.is_lent() {
            return keep(&description);
        }
        if description.is_shared() {
            return Ok(());
        }
        description.hand_over(|offset| {
            if let Object::File(file) = &description.object
                && let Some(own) = file.descriptor()
            {
                self.stand_in(&description, fd, own, offset)?;
                return Ok(SharedOn::DriversFile);
            }
            let name = description.name();
            let flags = match &description.object {
                Object::Directory => shadow::flags_of_directory(description.flags(fd)?),
                _ => description.flags(fd)? & !0o200000,
            };
            let opened = shadow_of(&description, flags)?;
            node_paths::note(name);
            if !matches!(description.object, Object::Path) && offset != 0 {
                kernel_seek(opened.raw(), offset as i64, 0)?;
            }
            self.replace_all(&description, fd, opened.raw())?;
            culvert_run::get().posix_locks.close_shared(name, opened);
            Ok(SharedOn::Shadow)
        })
    }

    /// `description` is about to get more descriptors: where its driver uses the program's number,
    /// it gets one of its own.
    /// The caller holds [`DescriptorTable::changing`].
    pub fn keep_lent(&self, description: &Description) -> Result<(), Errno> {
        match description.is_lent() {
            true => keep(description),
            false => Ok(()),
        }
    }

    /// The class of each descriptor of `description`, which is backed, by its flags.
    pub fn look_at_classes(&self, description: &Description) {
        if !self.is_own() {
            return;
        }
        let class = super::class_of(description);
        self.each(|fd, candidate| {
            if !core::ptr::eq(&**candidate, description) {
                return;
            }
            let _guard = self.lock.lock();
            if matches!(classes::get(fd), super::OURS | classes::BYTES) {
                self.set_class(fd, class);
            }
        });
    }

    /// Makes all descriptors of a description ones of `own`, the driver's descriptor on the file
    /// itself.
    ///
    /// No new description is opened for it: the file's mode may have changed since the open, and
    /// nobody uses the offset and the flags of the driver's own ([`culvert::File::descriptor`]).
    fn stand_in(
        &self,
        description: &Arc<Description>,
        fd: i32,
        own: i32,
        offset: u64,
    ) -> Result<(), Errno> {
        kernel_seek(own, offset as i64, 0)?;
        prepare(description, own, description.flags(fd)?)?;
        self.replace_all(description, fd, own)
    }

    /// The program's number for a description just made whose driver had to keep the file at a low
    /// number, because closing that would drop locks (`Run::adopt_internal`): this number itself,
    /// and the driver gets a high one. The description is direct from then on.
    pub(super) fn stand_at_own(
        &self,
        description: &Description,
        close_on_exec: bool,
    ) -> Option<i32> {
        let Object::File(file) = &description.object else {
            return None;
        };
        let own = file.descriptor()?;
        if own >= culvert_run::files::lowest_internal() || !culvert_run::get().posix_locks.hold(own)
        {
            return None;
        }
        let place = culvert_run::get()
            .places()
            .find(|it| it.load(Relaxed) == own)?;
        prepare(description, own, description.flags(own).ok()?).ok()?;
        let high = dup_high(own, true).ok()?;
        classes::set(high, INTERNAL);
        place.store(high, Release);
        // Neither fails: the number is there, and the description nobody else's.
        let _ = set_close_on_exec(own, close_on_exec);
        let _ = description.hand_over(|_| Ok(SharedOn::DriversFile));
        Some(own)
    }

    /// The program's number for a backed description just made: the one that the driver opened.
    pub(super) fn lend(
        &self,
        description: &Description,
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        let Object::File(file) = &description.object else {
            return Err(Errno::EIO);
        };
        let own = file.descriptor().ok_or(Errno::EIO)?;
        let number = BorrowedFd::number(own);
        let flags = description.settable_flags();
        if flags != 0 {
            culvert_sys::fd::fcntl(number, Command::SETFL, flags as usize)?;
        }
        // Before the number may change: the driver closes none from here on.
        let lend = |number| {
            file.lend_descriptor(Some(number))
                .map_err(|error| error.errno())
        };
        lend(own)?;
        // What lies in the way closes a descriptor of the file: not where that drops its locks.
        let run = culvert_run::get();
        let fd = match run.posix_locks.hold(own) {
            true => own,
            false => run.settle(own, close_on_exec),
        };
        if fd != own {
            lend(fd)?;
        }
        description.set_lent(true);
        Ok(fd)
    }

    fn replace_all(&self, description: &Arc<Description>, fd: i32, with: i32) -> Result<(), Errno> {
        replace(fd, with)?;
        // The table's reference and ours: there is no other descriptor.
        if Arc::strong_count(description) > 2 {
            self.each(|other, candidate| {
                if other != fd && Arc::ptr_eq(candidate, description) {
                    // One that cannot be replaced was closed by another thread meanwhile.
                    let _ = replace(other, with);
                }
            });
        }
        Ok(())
    }

    /// Promotes every private description (before fork); with `only_inheritable` those only that
    /// survive exec. An error is that of the first that cannot be promoted; the others are.
    pub fn promote_all(&self, only_inheritable: bool) -> Result<(), Errno> {
        if !crate::description::any_private() {
            return Ok(());
        }
        let mut result = Ok(());
        for fd in 0..self.end.load(Relaxed) {
            let Some(description) = self.known_reference(fd) else {
                continue;
            };
            let is_ready = description.is_shared() && !description.is_lent();
            if is_ready || (only_inheritable && close_on_exec(fd).unwrap_or(true)) {
                continue;
            }
            drop(description);
            result = result.and(self.promote(fd));
        }
        result
    }
}

/// Others will have descriptors of a backed description: its driver keeps one of its own, and the
/// processes of the run know them by the file's mark.
fn keep(description: &Description) -> Result<(), Errno> {
    match description.keep_descriptor() {
        // The number is the driver's: the program's limit does not count for it.
        Err(Errno::EMFILE) => {
            with_more(|| description.keep_descriptor()).unwrap_or(Err(Errno::EMFILE))?;
        }
        other => other?,
    }
    if let Object::File(file) = &description.object {
        mark(description, file.descriptor().ok_or(Errno::EIO)?)?;
    }
    description.set_lent(false);
    Ok(())
}

/// A descriptor of the shadow of a description's file.
fn shadow_of(description: &Description, flags: u32) -> Result<OwnedFd, Errno> {
    if let Some(gone) = description.orphan() {
        return gone.shadow(flags);
    }
    let name = description.name();
    let opened = shadow::open_description(name, flags)?;
    // It may just have become the file, and this be a new one with its name.
    match description.orphan() {
        None => Ok(opened),
        Some(gone) => {
            culvert_run::get().posix_locks.close(name, opened);
            gone.shadow(flags)
        }
    }
}

/// Makes `own`, the driver's descriptor on the file, ready for programs: with these status flags,
/// and known in the run.
pub(super) fn prepare(description: &Description, own: i32, flags: u32) -> Result<(), Errno> {
    culvert_sys::fd::fcntl(BorrowedFd::number(own), Command::SETFL, flags as usize)?;
    mark(description, own)
}

/// Makes `own`, the driver's descriptor on the file, known in the run.
fn mark(description: &Description, own: i32) -> Result<(), Errno> {
    let found = culvert_run::stat_descriptor(own)?;
    match culvert_run::get().mark(description.mount, &found) {
        // Whoever has given up the run's user cannot tell it. Nor does what he executes see the
        // mount: to that the file is one of the kernel's.
        Err(Errno::EACCES) => Ok(()),
        marked => marked,
    }
}

/// Makes `fd`, a dup of the placeholder, one of `shadow`; it keeps its close-on-exec flag.
fn replace(fd: i32, shadow: i32) -> Result<(), Errno> {
    culvert_sys::fd::replace(BorrowedFd::number(shadow), fd, on_exec(fd)?)
}
