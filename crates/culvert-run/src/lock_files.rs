//! Files that stand for the record locks of nodes outside the run ([`culvert::File::lock_file`]):
//! this process has the same POSIX locks there as on the shadows, and loses them as the kernel has
//! it, when it closes a descriptor of such a file or dies.

use super::{ShadowName, stat_descriptor};
use crate::task::{tables, vfork_child_with_table};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use culvert::{Errno, Error, Result};
use culvert_intercept::descriptors as classes;
use culvert_sys::fd::{Command, LockCommand, fcntl, lock};
use culvert_sys::plain::Plain;
use culvert_sys::raw::general::{F_UNLCK, FD_CLOEXEC, flock};
use culvert_sys::{BorrowedFd, OwnedFd, sync::Mutex};

/// A file that stands for the record locks of a node, open in this process.
pub struct LockFile {
    /// Where its number stands.
    place: &'static AtomicI32,
    identity: Option<(u64, u64)>,
}

/// Those of this process, each node's once.
pub struct LockFiles {
    any: AtomicBool,
    /// One is being opened: to close another descriptor of the same file, as one that is moved out
    /// of the way, would drop its locks.
    opening: Mutex<()>,
    list: Mutex<Vec<(ShadowName, Arc<LockFile>)>>,
}

impl LockFile {
    /// The number, -1 when it is closed.
    pub fn raw(&self) -> i32 {
        self.place.load(Relaxed)
    }

    /// Gives up all locks, also those of a call that still has it.
    fn unlock(&self) {
        let mut whole = flock {
            l_type: F_UNLCK as i16,
            ..flock::zeroed()
        };
        let _ = lock(
            BorrowedFd::number(self.raw()),
            LockCommand::SETLK,
            &mut whole,
        );
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let fd = self.place.swap(-1, AcqRel);
        // The program may have closed the number and have it for something else now.
        if fd >= 0 && identity(fd) == self.identity {
            classes::set(fd, classes::UNKNOWN);
            drop(OwnedFd::from_raw(fd));
        }
    }
}

impl LockFiles {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            opening: Mutex::new(()),
            list: Mutex::new(Vec::new()),
        }
    }

    /// That of the node of `name`, if it is open.
    pub fn get(&self, name: ShadowName) -> Option<Arc<LockFile>> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let list = self.list.lock();
        let mut of_node = list.iter().filter(|(node, _)| *node == name);
        of_node.next().map(|(_, file)| Arc::clone(file))
    }

    /// The same, opened by `open` where it is not open yet.
    ///
    /// # Errors
    /// `ENOLCK`: the process has a table of descriptors that is not its own alone.
    pub fn get_or(
        &self,
        name: ShadowName,
        open: impl FnOnce() -> Result<Option<OwnedFd>>,
    ) -> Result<Option<Arc<LockFile>>> {
        let usual = !tables::are_asked_for() && vfork_child_with_table().is_none();
        if let Some(known) = self.get(name).filter(|_| usual) {
            return Ok(Some(known));
        }
        let _opening = self.opening.lock();
        if let Some(known) = self.get(name).filter(|_| usual) {
            return Ok(Some(known));
        }
        let Some(opened) = open()? else {
            return Ok(None);
        };
        if !usual {
            let text = "record locks of this file are not kept for a process whose table of \
                        descriptors or memory another one has";
            return Err(Error::because(Errno::ENOLCK, text));
        }
        let identity = identity(opened.raw());
        let place = super::get().adopt_internal(opened.raw());
        let place = place.ok_or(Errno::EMFILE)?;
        // It is in its place.
        let _ = opened.into_raw();
        Ok(Some(self.add(name, LockFile { place, identity })))
    }

    fn add(&self, name: ShadowName, file: LockFile) -> Arc<LockFile> {
        let file = Arc::new(file);
        self.list.lock().push((name, Arc::clone(&file)));
        self.any.store(true, Relaxed);
        file
    }

    /// `fd` is what an earlier program of this process had for the node of `name`, with its locks.
    pub fn receive(&self, name: ShadowName, fd: i32) {
        let place = super::get().receive_internal(fd);
        let identity = identity(fd);
        let _ = self.add(name, LockFile { place, identity });
    }

    /// Whether closing `fd`, of a file of this `identity`, would drop locks.
    pub(crate) fn hold(&self, identity: impl FnOnce() -> Option<(u64, u64)>) -> bool {
        self.any.load(Relaxed) && {
            let found = identity();
            let list = self.list.lock();
            found.is_some() && list.iter().any(|(_, file)| file.identity == found)
        }
    }

    /// The program closes a descriptor of the node of `name`: its locks are gone.
    pub(crate) fn closed(&self, name: ShadowName) {
        // A child of vfork has its parent's list, and no locks.
        if !self.any.load(Relaxed) || vfork_child_with_table().is_some() {
            return;
        }
        let found = {
            let mut list = self.list.lock();
            let at = list.iter().position(|(node, _)| *node == name);
            let found = at.map(|at| list.swap_remove(at));
            self.any.store(!list.is_empty(), Relaxed);
            found
        };
        if let Some((_, file)) = found {
            file.unlock();
        }
    }

    /// This is a forked child, which has no locks; its table of descriptors may be its parent's.
    pub(crate) fn forget_all(&self, shares_table: bool) {
        if self.any.load(Relaxed) && self.any.swap(false, Relaxed) {
            for (_, file) in core::mem::take(&mut *self.list.lock()) {
                if shares_table {
                    core::mem::forget(file);
                }
            }
        }
    }

    /// Before exec: those that go over it, with their nodes. `closes`: exec will close a descriptor
    /// of that node.
    pub fn over_exec(&self, closes: impl Fn(ShadowName) -> bool) -> Vec<(ShadowName, i32)> {
        if !self.any.load(Relaxed) || vfork_child_with_table().is_some() || tables::are_asked_for()
        {
            return Vec::new();
        }
        let list = self.list.lock().clone();
        let mut over = Vec::new();
        for (name, file) in &list {
            let stays = !closes(*name);
            let flag = if stays { 0 } else { FD_CLOEXEC as usize };
            let set = fcntl(BorrowedFd::number(file.raw()), Command::SETFD, flag);
            if stays && set.is_ok() {
                over.push((*name, file.raw()));
            }
        }
        over
    }
}

fn identity(fd: i32) -> Option<(u64, u64)> {
    let found = stat_descriptor(fd).ok()?;
    Some((found.st_dev, found.st_ino))
}
