//! Descriptors on the backing trees of mounts: the kernel's own, known here only as belonging to a
//! mount.
//!
//! A directory has a class of its own in the engine's table, so that close and dup are seen. A file
//! is foreign like any other, and nothing about it is intercepted; that it was opened through a
//! mount is remembered beside, for what asks by the way (`/proc/self/fd`, a directory opened
//! without `O_DIRECTORY` that is used as one), and forgotten with the next open of its number.

use super::{DescriptorTable, Knower, has_own_class, knower};
use crate::backing;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::*};
use culvert_intercept::descriptors as classes;
use culvert_mounts::MountId;
use culvert_run::{descriptor_path, stat_descriptor};

/// The class of a directory of mount 0; that of mount N is N more.
pub(super) const BACKED: u8 = 16;
/// Directories of later mounts have no class, and are recognised at each use.
const CLASSES: u16 = 200;
const SIZE: usize = 1 << 16;

/// The mount, plus one, through which the descriptor was opened last; 0: none, or one without a
/// class.
static OPENED_THROUGH: [AtomicU8; SIZE] = [const { AtomicU8::new(0) }; SIZE];
/// Whether it says that of any descriptor: most processes need not look, which is a page fault.
static ANY: AtomicBool = AtomicBool::new(false);

fn class_of(mount: MountId) -> u8 {
    match mount.0 {
        number @ 0..CLASSES => BACKED + number as u8,
        _ => classes::UNKNOWN,
    }
}

fn narrow(fd: i32) -> bool {
    (0..SIZE as i32).contains(&fd)
}

fn is_ring(fd: i32) -> bool {
    narrow(fd) && classes::get(fd) == super::RING
}

fn is_mounts(fd: i32) -> bool {
    narrow(fd) && classes::get(fd) == super::MOUNTS
}

fn is_epoll(fd: i32) -> bool {
    narrow(fd) && classes::get(fd) == super::EPOLL
}

impl DescriptorTable {
    /// Whether the engine's table says that `fd` is a directory of a backing tree.
    fn is_backed_directory(&self, fd: i32) -> bool {
        fd >= 0 && classes::get(fd) >= BACKED
    }

    /// The mount whose backing tree directory `fd` belongs to.
    #[inline]
    pub fn backed(&self, fd: i32) -> Option<MountId> {
        match super::class(fd) {
            class @ BACKED.. => Some(MountId(u16::from(class - BACKED))),
            classes::FOREIGN if self.opened_through(fd).is_none() => None,
            _ => self.find_backed(fd, classes::get(fd)),
        }
    }

    #[cold]
    fn find_backed(&self, fd: i32, class: u8) -> Option<MountId> {
        if fd < 0
            || matches!(
                class,
                culvert_run::INTERNAL
                    | super::OURS
                    | classes::BYTES
                    | super::UNBUFFERED
                    | super::RING
                    | super::MOUNTS
                    | super::EPOLL
                    | super::FUSE
            )
        {
            return None;
        }
        if class == classes::FOREIGN && self.opened_through(fd).is_none() {
            return None;
        }
        if class == classes::UNKNOWN {
            if self.get(fd).is_some() {
                return None;
            }
            match classes::get(fd) {
                classes::FOREIGN if narrow(fd) => return None,
                class if class >= BACKED && narrow(fd) => {
                    return Some(MountId(u16::from(class - BACKED)));
                }
                _ => {}
            }
        }
        let found = stat_descriptor(fd).ok()?;
        let mount = self.recognise_directory(fd, &found)?;
        self.note_directory(fd, mount);
        Some(mount)
    }

    /// The mount whose backing tree holds the directory `fd`, which nobody told us of.
    pub(super) fn recognise_directory(
        &self,
        fd: i32,
        found: &culvert_sys::raw::general::stat,
    ) -> Option<MountId> {
        if found.st_mode & 0o170000 != 0o040000 {
            return None;
        }
        backing::mount_above(&descriptor_path(fd).ok()?)
    }

    /// Records that `fd` is a directory of the backing tree of `mount`.
    pub fn note_directory(&self, fd: i32, mount: MountId) {
        match knower() {
            Knower::Memory if narrow(fd) => {
                self.end.fetch_max(fd + 1, Relaxed);
                classes::set(fd, class_of(mount));
            }
            Knower::Child(_) => self.remove(fd),
            Knower::Memory | Knower::Kernel => {}
        }
    }

    /// Records that the kernel has just opened `fd` in the backing tree of `mount`; returns its
    /// number, which may have become a lower one.
    pub fn opened_in_backing(
        &self,
        fd: i32,
        mount: MountId,
        is_directory: bool,
        close_on_exec: bool,
    ) -> i32 {
        let fd = self.opened_by_kernel(fd, close_on_exec);
        if is_directory {
            self.note_directory(fd, mount);
        }
        if has_own_class(fd) && mount.0 < CLASSES {
            // Before the table: who closes it forgets what stands there only if there is any.
            ANY.store(true, Release);
            OPENED_THROUGH[fd as usize].store(mount.0 as u8 + 1, Relaxed);
        }
        fd
    }

    /// The mount through which the kernel's own descriptor `fd` was opened, as far as that is
    /// known.
    pub fn opened_through(&self, fd: i32) -> Option<MountId> {
        if !narrow(fd) || !ANY.load(Acquire) {
            return None;
        }
        let mount = OPENED_THROUGH[fd as usize].load(Relaxed).checked_sub(1)?;
        Some(MountId(u16::from(mount)))
    }

    /// Forgets through which mount `fd` was opened.
    #[inline]
    pub(super) fn forget_origin(&self, fd: i32) {
        if narrow(fd) && ANY.load(Acquire) && OPENED_THROUGH[fd as usize].load(Relaxed) != 0 {
            OPENED_THROUGH[fd as usize].store(0, Relaxed);
        }
    }

    /// Whether dups of the foreign descriptor `fd`, and its end, are to be recorded.
    pub fn has_class(&self, fd: i32) -> bool {
        self.is_backed_directory(fd)
            || self.is_unbuffered(fd)
            || is_ring(fd)
            || is_mounts(fd)
            || is_epoll(fd)
            || super::fuse_devices::has_class(fd)
    }

    /// Records that `new` is now a dup of `old`, if that is a directory of a backing tree, open
    /// with O_DIRECT, a ring, or a table of mounts, and whether it is.
    pub fn duplicated(&self, old: i32, new: i32) -> bool {
        if self.is_unbuffered(old) {
            self.remove(new);
            self.note_unbuffered(new);
            return true;
        }
        if is_ring(old) {
            self.remove(new);
            super::rings::duplicated(old, new);
            self.note_ring(new);
            return true;
        }
        if super::fuse_devices::has_class(old) {
            self.remove(new);
            self.note_fuse(new);
            return true;
        }
        if is_epoll(old) {
            self.remove(new);
            self.note_epoll(new);
            crate::description::epolls::duplicated(old, new);
            return true;
        }
        if is_mounts(old) {
            self.remove(new);
            super::mount_tables::duplicated(old, new);
            return true;
        }
        let Some(mount) = self.backed(old) else {
            return false;
        };
        self.remove(new);
        self.note_directory(new, mount);
        true
    }
}
