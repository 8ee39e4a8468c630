//! POSIX record locks of this process (`F_SETLK`), which the kernel drops with *any* descriptor of
//! their file that the process closes (fcntl(2)).
//!
//! So what Culvert opens and closes of such a file itself must not count, and what the program
//! closes must, even where it stands for the file only in our table.

use super::{INTERNAL, O_PATH, ShadowName, stat_descriptor, stat_path};
use crate::files::{self, OwnedFd};
use crate::lock_files::LockFiles;
use crate::task::{tables, vfork_child_with_table};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::*};
use culvert_intercept::descriptors as classes;
use culvert_sys::BorrowedFd;
use culvert_sys::fd::LockCommand;
use culvert_sys::plain::Plain;
use culvert_sys::raw::general::{F_UNLCK, F_WRLCK, flock};
use culvert_sys::sync::Mutex;

/// A node on which this process has set locks.
struct Locked {
    name: ShadowName,
    /// Descriptors of its shadow that would have been closed.
    parked: Vec<Parked>,
    /// The driver's own descriptor of the file, where that stands in the shadow's place.
    own: Option<i32>,
    /// Device and inode of that file, or of the shadow.
    identity: Option<(u64, u64)>,
}

/// A descriptor that is open for the locks' sake.
struct Parked {
    fd: i32,
    /// The shadow's inode.
    inode: u64,
    /// The program has descriptors of the same description, with an offset and flags that are its
    /// own.
    shared: bool,
}

/// The nodes on which this process has set locks.
pub struct PosixLocks {
    any: AtomicBool,
    /// There were some before exec, and nobody has said yet on which nodes.
    inherited: AtomicBool,
    /// A file that was inherited is being adopted, on which this process may have locks since
    /// before its exec.
    adopting: AtomicBool,
    list: Mutex<Vec<Locked>>,
    /// What stands for nodes' locks outside the run.
    pub files: LockFiles,
}

impl PosixLocks {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            any: AtomicBool::new(false),
            inherited: AtomicBool::new(false),
            adopting: AtomicBool::new(false),
            list: Mutex::new(Vec::new()),
            files: LockFiles::new(),
        }
    }

    /// The process has set a lock through `fd` on the node of `name`; `own`: the driver's own
    /// descriptor, where `fd` is of that file and of no shadow.
    pub fn note(&self, name: ShadowName, own: Option<i32>, fd: i32) {
        // A vfork child's locks are its own.
        if vfork_child_with_table().is_some() {
            return;
        }
        let mut list = self.list.lock();
        if list.iter().all(|locked| locked.name != name) {
            list.push(Locked {
                name,
                parked: Vec::new(),
                own,
                identity: identity(fd),
            });
        }
        self.any.store(true, Relaxed);
    }

    /// `fd`, of a file, was inherited: this process may have had locks on it before its exec, which
    /// end as if they had been set now.
    pub fn note_inherited(&self, name: ShadowName, own: Option<i32>, fd: i32) {
        if !tables::are_asked_for() && has_locks(fd) {
            self.note(name, own, fd);
        }
    }

    /// This process had locks before its exec: the kernel is asked for them before what they hang
    /// on is closed.
    pub fn expect_inherited(&self) {
        self.inherited.store(true, Relaxed);
    }

    /// Whether the next program has locks of this one, or may have.
    pub fn go_over_exec(&self) -> bool {
        (self.any.load(Relaxed) || self.inherited.load(Relaxed))
            && vfork_child_with_table().is_none()
            && !tables::are_asked_for()
    }

    /// Whether closing `fd` may drop locks from before exec.
    fn are_inherited(&self, fd: i32) -> bool {
        self.inherited.load(Relaxed)
            && vfork_child_with_table().is_none()
            && !is_path(fd)
            && has_locks(fd)
    }

    /// Whether this process has set locks on the node of `name`.
    pub fn are_on(&self, name: ShadowName) -> bool {
        self.any.load(Relaxed) && self.list.lock().iter().any(|locked| locked.name == name)
    }

    /// Runs `adopt`, by which a driver makes a descriptor of an inherited one: where that has a
    /// number for internal descriptors, it keeps it.
    pub fn while_adopting<R>(&self, adopt: impl FnOnce() -> R) -> R {
        self.adopting.store(true, Relaxed);
        let result = adopt();
        self.adopting.store(false, Relaxed);
        result
    }

    /// Whether closing `fd`, a driver's descriptor, could drop locks.
    pub fn hold(&self, fd: i32) -> bool {
        if self.adopting.load(Relaxed) && fd >= files::lowest_internal() {
            return true;
        }
        if tables::are_asked_for() {
            return !is_path(fd) && has_locks(fd);
        }
        // One opened with O_PATH is none of the file's (`filp_flush`, fs/open.c).
        self.are_inherited(fd)
            || self.files.hold(|| identity(fd).filter(|_| !is_path(fd)))
            || self.any.load(Relaxed) && !is_path(fd) && {
                let found = identity(fd);
                let list = self.list.lock();
                list.iter()
                    .any(|locked| locked.identity.is_some() && locked.identity == found)
            }
    }

    /// Closes a descriptor of the shadow of `name` that the program never had; kept open while
    /// closing it would drop locks.
    pub fn close(&self, name: ShadowName, descriptor: OwnedFd) {
        self.park(name, descriptor, false);
    }

    /// The same of one whose description the program has.
    pub fn close_shared(&self, name: ShadowName, descriptor: OwnedFd) {
        self.park(name, descriptor, true);
    }

    /// One of those that [`PosixLocks::close`] has kept open, on the shadow that `name` has now and
    /// with these status flags: the caller's until it closes it again. So there are as many as are
    /// needed at once, however often.
    pub fn parked(&self, name: ShadowName, flags: u32) -> Option<OwnedFd> {
        // A child of vfork has not got what its parent has parked since.
        if tables::are_asked_for() || vfork_child_with_table().is_some() {
            return None;
        }
        let run = super::get();
        let now = stat_path(&run.shadow(name)).ok()?;
        let mut list = self.list.lock();
        let locked = list.iter_mut().find(|locked| locked.name == name)?;
        let fits = |parked: &Parked| {
            !parked.shared
                && parked.inode == now.st_ino
                && identity(parked.fd) == Some((now.st_dev, now.st_ino))
                && status_flags(parked.fd) == Some(flags)
        };
        let fitting = locked.parked.iter().enumerate().filter(|it| fits(it.1));
        // A low number would have to be moved where it is kept, and another one be parked for that.
        let (at, _) = fitting.max_by_key(|it| it.1.fd)?;
        Some(OwnedFd::from_raw(locked.parked.swap_remove(at).fd))
    }

    fn park(&self, name: ShadowName, descriptor: OwnedFd, shared: bool) {
        if tables::are_asked_for() {
            self.close_or_park(name, descriptor);
            return;
        }
        if self.are_inherited(descriptor.raw()) {
            self.note(name, None, descriptor.raw());
        }
        // The locks are not those of a child of vfork, which has a table of its own.
        if self.any.load(Relaxed) && vfork_child_with_table().is_none() {
            let mut list = self.list.lock();
            if let Some(locked) = list.iter_mut().find(|locked| locked.name == name)
                && let Ok(found) = stat_descriptor(descriptor.raw())
            {
                locked.parked.push(Parked {
                    fd: descriptor.into_raw(),
                    inode: found.st_ino,
                    shared,
                });
                return;
            }
        }
        drop(descriptor);
    }

    /// [`PosixLocks::close`] in a table that others may have, too: the locks may be another
    /// process's, so the kernel is asked for them.
    fn close_or_park(&self, name: ShadowName, descriptor: OwnedFd) {
        let mut list = self.list.lock();
        for locked in &mut *list {
            locked.parked.retain(|&Parked { fd, inode, .. }| {
                let there = stat_descriptor(fd).is_ok_and(|found| found.st_ino == inode);
                let needed = there && has_locks(fd);
                if there && !needed {
                    classes::set(fd, classes::UNKNOWN);
                    drop(OwnedFd::from_raw(fd));
                }
                needed
            });
        }
        if !has_locks(descriptor.raw()) {
            return;
        }
        if let Ok(found) = stat_descriptor(descriptor.raw()) {
            // Where it is: to close it there would be to close it.
            classes::set(descriptor.raw(), INTERNAL);
            list.push(Locked {
                name,
                parked: alloc::vec![Parked {
                    fd: descriptor.into_raw(),
                    inode: found.st_ino,
                    shared: true,
                }],
                own: None,
                identity: None,
            });
        }
    }

    /// Whether `fd` is one that was parked in a table that others have, too, and is not needed any
    /// more.
    pub(crate) fn is_left_over(fd: i32) -> bool {
        let found = stat_descriptor(fd);
        let run = super::get();
        found.is_ok_and(|found| run.name_of(fd, &found).is_some()) && !has_locks(fd)
    }

    /// The program closes a descriptor of the node of `name`: its locks on the file are gone.
    /// Whether there were any, all on a shadow.
    pub fn closed(&self, name: ShadowName) -> bool {
        self.files.closed(name);
        if !self.any.load(Relaxed) {
            return false;
        }
        let found = {
            let mut list = self.list.lock();
            let at = list.iter().position(|locked| locked.name == name);
            let found = at.map(|at| list.swap_remove(at));
            self.any.store(!list.is_empty(), Relaxed);
            found
        };
        let Some(locked) = found else { return false };
        locked.release();
        locked.own.is_none()
    }

    /// Before exec: what would be closed there, and drop locks that the next program is to have,
    /// stays open; `own` says which descriptors of their own drivers have of which nodes.
    pub fn keep_over_exec(&self, own: impl FnOnce() -> Vec<(ShadowName, i32)>) {
        // A table that others have, too, keeps the locks; the next program gets a copy without
        // them.
        if tables::are_asked_for() || !self.any.load(Relaxed) {
            return;
        }
        let mut kept = own();
        let list = self.list.lock();
        kept.retain(|(name, _)| list.iter().any(|locked| locked.name == *name));
        let parked = list.iter().flat_map(|locked| &locked.parked);
        for fd in parked
            .map(|parked| parked.fd)
            .chain(kept.iter().map(|kept| kept.1))
        {
            let _ = culvert_sys::fd::fcntl(
                culvert_sys::BorrowedFd::number(fd),
                culvert_sys::fd::Command::SETFD,
                0,
            );
        }
    }

    /// This is a forked child, which has no locks; its table of descriptors may be its parent's.
    pub fn forget_all(&self, shares_table: bool) {
        self.files.forget_all(shares_table);
        // What is written in a child of fork is copied, with the page around it.
        if self.inherited.load(Relaxed) {
            self.inherited.store(false, Relaxed);
        }
        if self.any.load(Relaxed) && self.any.swap(false, Relaxed) {
            for locked in core::mem::take(&mut *self.list.lock()) {
                if !shares_table {
                    locked.release();
                }
            }
        }
    }
}

fn identity(fd: i32) -> Option<(u64, u64)> {
    let found = stat_descriptor(fd).ok()?;
    Some((found.st_dev, found.st_ino))
}

/// Whether there are record locks on the file of `fd`, of anybody but its own description.
fn has_locks(fd: i32) -> bool {
    has_locks_between(fd, 0, i64::MAX, &mut 64)
}

/// Whether a process has a record lock between `start` and `last`. Those of open file descriptions,
/// whose holder has no number, are looked past: they stay as long as the description does. After
/// `left` questions: yes.
fn has_locks_between(fd: i32, start: i64, last: i64, left: &mut u32) -> bool {
    const NOBODYS: i32 = -1;
    if *left == 0 {
        return true;
    }
    *left -= 1;
    let mut lock = flock {
        l_type: F_WRLCK as i16,
        l_start: start,
        // 0: to the end.
        l_len: if last == i64::MAX {
            0
        } else {
            last - start + 1
        },
        ..flock::zeroed()
    };
    if culvert_sys::fd::lock(BorrowedFd::number(fd), LockCommand::OFD_GETLK, &mut lock).is_err() {
        return true;
    }
    match lock.l_type as u32 {
        F_UNLCK => return false,
        // One that may be shared hides others in the same place.
        F_WRLCK if lock.l_pid == NOBODYS => {}
        _ => return true,
    }
    let (from, length) = (lock.l_start, lock.l_len);
    (from > start && has_locks_between(fd, start, from - 1, left))
        || (length > 0
            && from
                .checked_add(length)
                .is_some_and(|next| next <= last && has_locks_between(fd, next, last, left)))
}

/// Access mode and status flags as they were asked for.
fn status_flags(fd: i32) -> Option<u32> {
    const O_LARGEFILE: u32 = 0o100000;
    files::kernel_flags(fd)
        .ok()
        .map(|flags| flags & !O_LARGEFILE)
}

fn is_path(fd: i32) -> bool {
    status_flags(fd).is_some_and(|flags| flags & O_PATH != 0)
}

impl Locked {
    fn release(&self) {
        for &Parked { fd, inode, .. } in &self.parked {
            // The program may have closed the number and have it for something else now.
            if stat_descriptor(fd).is_ok_and(|found| found.st_ino == inode) {
                drop(OwnedFd::from_raw(fd));
            }
        }
    }
}
