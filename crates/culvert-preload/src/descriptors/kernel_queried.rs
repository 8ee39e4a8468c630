//! Descriptors whose meaning the kernel is asked for at each use, because tables are shared or
//! differ ([`tables`]).
//!
//! Everything is shared then, so that the kernel knows it: a descriptor is one on a shadow, or on
//! the driver's own file. A description on a shadow is remembered for as long as the number is one
//! on that shadow. One on the driver's own file is made anew for each call, on the program's
//! descriptor itself: one that the driver kept would hold the locks of a description that the
//! program has closed, and to close it would drop record locks.
//!
//! The engine's classes say of all numbers that nobody knows, but for Culvert's own.

use super::recognise::Looked;
use super::{DescriptorTable, counted, set_close_on_exec};
use crate::answer::Answer;
use crate::description::{Description, Held, Object, SharedOn};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::*;
use culvert::Errno;
use culvert_cache::shadow;
use culvert_intercept::descriptors as classes;
use culvert_run::files::{dup_from, kernel_flags};
use culvert_run::{INTERNAL, node_paths, stat_descriptor, task::tables};
use culvert_sys::raw::general::stat;

impl DescriptorTable {
    /// From here on the kernel is asked; nobody else is in a hook, and everything is shared.
    pub fn ask(&self) {
        if tables::are_asked_for() {
            return;
        }
        tables::ask();
        for fd in 0..self.end.load(Relaxed) {
            if let Some(description) = self.known_here(fd)
                && description.is_direct()
            {
                self.let_go(fd, description);
            }
        }
        for fd in 0..=u16::MAX.into() {
            if !matches!(classes::get(fd), INTERNAL | classes::UNKNOWN) {
                classes::set(fd, classes::UNKNOWN);
            }
        }
    }

    /// A process is about to be made with one table for two memories (`files`), or with one memory
    /// (`vm`) for two tables, which is no child of vfork.
    pub fn before_fork(&self, files: bool, vm: bool, vfork: bool) {
        if files && !vm {
            self.ask();
        } else if !files && vm && !vfork && !tables::are_asked_for() {
            culvert_intercept::exclusively(|| {
                // What other threads have opened since.
                let _ = self.promote_all(false);
                self.ask();
            });
        }
    }

    /// This is a new process, which `shares` its table with its parent or not. True: the drivers'
    /// descriptors are in another table.
    pub fn forked(&self, shares: bool) -> bool {
        let other_table = tables::forked(shares);
        if !shares && tables::are_asked_for() {
            tables::separate();
        }
        other_table
    }

    fn known_here(&self, fd: i32) -> Option<Arc<Description>> {
        self.known(fd).map(counted)
    }

    /// Forgets a direct description, so that only the program's descriptors keep the file. Where
    /// closing the driver's would drop record locks, it stays.
    fn let_go(&self, fd: i32, description: Arc<Description>) {
        self.drop_slot(fd);
        if culvert_run::get().posix_locks.are_on(description.name()) {
            core::mem::forget(description);
        }
    }

    /// Empties a slot. No descriptor is closed by this.
    pub(super) fn drop_slot(&self, fd: i32) {
        let Some(slot) = self.slot(fd) else { return };
        let old = slot.swap(None, &self.lock.lock());
        // When the lock is free.
        drop(old);
    }

    /// This process has another's table: what it has in memory is the other's.
    pub fn forget_all(&self) {
        for fd in 0..self.end.load(Relaxed) {
            self.drop_slot(fd);
        }
    }

    /// What `fd` stands for now.
    pub(super) fn kernel_queried(&self, fd: i32) -> Option<Held> {
        if fd < 0 || culvert_run::get().is_internal(fd) {
            return None;
        }
        let found = stat_descriptor(fd).ok()?;
        if let Some(known) = self.remembered(fd, &found) {
            return Some(Held::Counted(known));
        }
        match self.look_at(fd, &found) {
            Looked::Ours(description) => {
                self.remember(fd, &description, Some(&found));
                Some(Held::Counted(description))
            }
            _ => {
                self.drop_slot(fd);
                None
            }
        }
    }

    /// The description that was remembered for `fd`, if that is still one on its shadow, opened in
    /// the same way.
    fn remembered(&self, fd: i32, found: &stat) -> Option<Arc<Description>> {
        if found.st_dev != culvert_run::get().device || !tables::is_process_s() {
            return None;
        }
        let description = self.slot(fd)?.counted(&self.lock.lock())?;
        if description.is_direct() || !description.is_opened_as(kernel_flags(fd).ok()?) {
            return None;
        }
        // Shadows stay for as long as the run, so that an inode says which.
        match description.shadow.load(Relaxed) {
            0 => {
                let name = culvert_run::get().name_of(fd, found)?;
                if name != description.name() {
                    return None;
                }
                description.shadow.store(found.st_ino, Relaxed);
            }
            inode if inode != found.st_ino => return None,
            _ => {}
        }
        Some(description)
    }

    /// Remembers what `fd` stands for, where that is worth something.
    pub(super) fn remember(&self, fd: i32, description: &Arc<Description>, found: Option<&stat>) {
        if !tables::is_process_s() {
            return;
        }
        self.drop_slot(fd);
        if description.is_direct() {
            return;
        }
        if let Some(found) = found {
            description.shadow.store(found.st_ino, Relaxed);
        }
        let Some(slot) = self.slot_made(fd) else {
            return;
        };
        self.end.fetch_max(fd + 1, Relaxed);
        let old = slot.swap(Some(description.clone()), &self.lock.lock());
        drop(old);
    }

    /// A new descriptor for a description, which is shared at once: the lowest number free from
    /// `from` on.
    pub(super) fn add_shared(
        &self,
        description: Arc<Description>,
        from: i32,
        close_on_exec: bool,
    ) -> Result<i32, Errno> {
        if let Object::File(file) = &description.object
            && let Some(own) = file.descriptor()
        {
            super::promotion::prepare(&description, own, description.flags(own)?)?;
            let stays = culvert_run::get().posix_locks.hold(own);
            // The driver could not move it to a high number, since that would have dropped locks:
            // it is the program's.
            let fd = match stays && from == 0 && own < culvert_run::files::lowest_internal() {
                true => {
                    set_close_on_exec(own, close_on_exec)?;
                    if let Some(place) = culvert_run::get()
                        .places()
                        .find(|it| it.load(Relaxed) == own)
                    {
                        place.store(-1, Relaxed);
                    }
                    own
                }
                false => super::not_awaited(dup_from(own, from, close_on_exec)?)?,
            };
            self.settled(fd);
            let _ = description.hand_over(|_| Ok(SharedOn::DriversFile));
            if stays {
                core::mem::forget(description);
            }
            return Ok(fd);
        }
        let name = description.name();
        let flags = match &description.object {
            Object::Directory => shadow::flags_of_directory(description.flags(-1)?),
            _ => description.flags(-1)? & !0o200000,
        };
        let opened = match description.orphan() {
            Some(gone) => gone.shadow(flags)?,
            None => shadow::open_lowest(name, flags)?,
        };
        node_paths::note(name);
        let fd = match from {
            0 => {
                set_close_on_exec(opened.raw(), close_on_exec)?;
                opened.into_raw()
            }
            _ => {
                let fd = dup_from(opened.raw(), from, close_on_exec)?;
                culvert_run::get().posix_locks.close(name, opened);
                fd
            }
        };
        self.settled(fd);
        let _ = description.hand_over(|_| Ok(SharedOn::Shadow));
        self.remember(fd, &description, None);
        Ok(fd)
    }

    /// The kernel has given the program the number `fd`: it is none of Culvert's, whatever it was.
    pub(super) fn settled(&self, fd: i32) {
        if classes::get(fd) != classes::UNKNOWN {
            classes::set(fd, classes::UNKNOWN);
        }
    }

    /// Calls `visit` with every open descriptor that is ours.
    pub(super) fn each_asked(&self, mut visit: impl FnMut(i32, &Arc<Description>)) {
        for fd in culvert_run::files::open_descriptors() {
            if let Some(held) = self.kernel_queried(fd) {
                visit(fd, &counted(held));
            }
        }
    }
}

/// Runs `unshare`, which gives this thread a table of its own where it succeeds. None: it has one.
pub fn with_own_table(unshare: impl FnOnce() -> Answer) -> Option<Answer> {
    tables::may_share_table().then(|| to_own_table(unshare))
}

fn to_own_table(unshare: impl FnOnce() -> Answer) -> Answer {
    culvert_intercept::exclusively(|| {
        let table = super::table();
        table.promote_all(false)?;
        table.ask();
        let answer = unshare()?;
        tables::thread_has_own();
        // A process that shares no memory has the classes for itself, too.
        if !culvert_intercept::multi_threaded() {
            tables::separate();
        }
        Ok(answer)
    })
}
