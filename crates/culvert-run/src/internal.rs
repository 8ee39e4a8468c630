//! The descriptors that Culvert itself holds in the program's table: high numbers, hidden, out of
//! the program's way.

use super::adopted::Adopted;
use super::posix_locks::PosixLocks;
use super::{O_PATH, Run, ShadowName};
use crate::files::{self, OwnedFd, c_string, dup_from, dup_high, lowest_internal};
use crate::task::{self, VforkChild, tables};
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicI32, Ordering::*};
use culvert::Errno;
use culvert_intercept::descriptors as classes;
use culvert_sys::BorrowedFd;
use culvert_sys::fd::{Command, fcntl, memfd_create, replace};
use culvert_sys::raw::general::{
    F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE, MFD_ALLOW_SEALING, MFD_CLOEXEC,
    O_CLOEXEC, O_WRONLY,
};
use culvert_sys::sync::Mutex;

/// Held while a free number becomes one of Culvert's own, or the program's by dup2, so that neither
/// takes what the other has just got. Nothing is waited for under it.
static NUMBERS: Mutex<()> = Mutex::new(());

/// The class of a descriptor that Culvert itself holds.
pub const INTERNAL: u8 = 3;

/// What it holds.
pub(super) struct Internal {
    placeholder: AtomicI32,
    /// The same memfd, open with O_PATH.
    path_placeholder: AtomicI32,
    /// Descriptors of drivers.
    adopted: Adopted,
}

impl Internal {
    pub(super) const fn new() -> Self {
        Self {
            placeholder: AtomicI32::new(-1),
            path_placeholder: AtomicI32::new(-1),
            adopted: Adopted::new(),
        }
    }
}

impl Run {
    /// Makes way when a new descriptor came to lie right above one of Culvert's own, which stands
    /// where the program expects the next number.
    pub fn settle(&self, fd: i32, close_on_exec: bool) -> i32 {
        let mut fd = fd;
        // All of them at once, above the limit: else the next number would be that of the next one.
        if fd > 3
            && self.is_internal(fd - 1)
            && self.make_room()
            && let Ok(lowest) = dup_from(fd, 0, close_on_exec).map(OwnedFd::from_raw)
            && lowest.raw() < fd
        {
            drop(OwnedFd::from_raw(fd));
            return lowest.into_raw();
        }
        while fd > 3 && self.is_internal(fd - 1) && self.move_internal(fd - 1).is_ok() {
            let flag = if close_on_exec { O_CLOEXEC } else { 0 };
            // Both numbers are the program's to use: one just made, one just freed.
            if replace(BorrowedFd::number(fd), fd - 1, flag).is_err() {
                break;
            }
            drop(OwnedFd::from_raw(fd));
            fd -= 1;
        }
        fd
    }

    /// The place of `fd`, which an earlier program gave this one; hidden.
    pub fn receive_internal(&'static self, fd: i32) -> &'static AtomicI32 {
        classes::set(fd, INTERNAL);
        self.internal.adopted.add(fd)
    }

    /// Hides the descriptors that Culvert holds from the start from calls on descriptors.
    pub fn hide_internal(&self) {
        for fd in self.internal() {
            classes::set(fd, INTERNAL);
        }
    }

    /// The sealed memfd that private descriptors are dups of.
    pub fn placeholder(&self) -> Result<i32, Errno> {
        stand(&self.internal.placeholder, make_placeholder)
    }

    /// The same, open with O_PATH; the other one where there is no room for it, or a filter.
    pub fn path_placeholder(&self) -> Result<i32, Errno> {
        let writable = self.placeholder()?;
        stand(&self.internal.path_placeholder, || {
            open_again(writable, O_PATH)
        })
        .or(Ok(writable))
    }

    /// Runs `run`, which needs a number for a moment, when there is none: the placeholder's, which
    /// is made anew when it is needed. None: another thread may be using it.
    #[cold]
    pub fn without_placeholder<R>(&self, run: impl FnOnce() -> R) -> Option<R> {
        if culvert_intercept::multi_threaded() || task::vfork_child_with_table().is_some() {
            return None;
        }
        let given_up = self.internal.placeholder.swap(-1, AcqRel);
        if given_up >= 0 {
            classes::set(given_up, classes::UNKNOWN);
            drop(OwnedFd::from_raw(given_up));
        }
        Some(run())
    }

    /// Where the numbers of drivers' descriptors stand.
    pub fn places(&self) -> impl Iterator<Item = &AtomicI32> {
        self.internal.adopted.places()
    }

    /// Makes what would need unusual system calls later, before the program forbids them to itself.
    pub fn prepare_internal(&self) {
        let _ = self.placeholder();
    }

    /// Whether `fd` is one that Culvert itself holds open in this process.
    pub fn is_internal(&self, fd: i32) -> bool {
        // Low numbers are the program's; nothing of ours is ever moved there while higher ones are
        // free.
        fd >= 3
            && (classes::get(fd) == INTERNAL
                && (tables::are_asked_for() && fd <= 0xffff || self.held().any(|held| held == fd))
                || kept_in_child().contains(&fd))
    }

    /// All descriptors that Culvert holds open in this process.
    pub fn internal(&self) -> Vec<i32> {
        // Of a table that others have, too, their own.
        let others = tables::are_asked_for().then(|| classes::of_class(INTERNAL));
        let held = self.held().chain(others.into_iter().flatten());
        held.chain(kept_in_child()).collect()
    }

    fn held(&self) -> impl Iterator<Item = i32> {
        let own = [
            &self.internal.placeholder,
            &self.internal.path_placeholder,
            &self.lock_descriptor,
        ];
        let held = own.into_iter().chain(self.internal.adopted.places());
        held.map(|place| place.load(Relaxed)).filter(|&fd| fd >= 0)
    }

    /// Moves a driver's descriptor to a high number and protects it; returns where its number
    /// stands. None: it stays as it is, for the process has no higher number left.
    pub fn adopt_internal(&'static self, fd: i32) -> Option<&'static AtomicI32> {
        // Where the program has record locks on this very file, the number stays: a close would
        // drop them.
        if self.posix_locks.hold(fd) {
            classes::set(fd, INTERNAL);
            return Some(self.internal.adopted.add(fd));
        }
        let place = match self.take_high(fd) {
            // The table is full: above the limit.
            None => with_more(|| self.take_high(fd)).flatten(),
            place => place,
        }?;
        drop(OwnedFd::from_raw(fd));
        Some(place)
    }

    /// The same for a descriptor of the shadow of `name`; closed where there is no number for it.
    pub fn keep_shadow(
        &'static self,
        name: ShadowName,
        descriptor: OwnedFd,
    ) -> Option<&'static AtomicI32> {
        // One that must not be closed stays where it is, and the next one for the same node will be
        // this one.
        if descriptor.raw() >= lowest_internal()
            && !tables::are_asked_for()
            && self.posix_locks.are_on(name)
        {
            classes::set(descriptor.raw(), INTERNAL);
            return Some(self.internal.adopted.add(descriptor.into_raw()));
        }
        let place = self.take_high(descriptor.raw());
        self.posix_locks.close(name, descriptor);
        place
    }

    /// The place of a dup of `fd` at a high number.
    fn take_high(&'static self, fd: i32) -> Option<&'static AtomicI32> {
        let _numbers = NUMBERS.lock();
        let moved = dup_high(fd, true).ok()?;
        classes::set(moved, INTERNAL);
        Some(self.internal.adopted.add(moved))
    }

    /// Runs `run`, which makes `fd` the program's. None: that has become one of Culvert's own, and
    /// is to be moved first.
    pub fn unless_internal<R>(&self, fd: i32, run: impl FnOnce() -> R) -> Option<R> {
        let numbers = NUMBERS.lock();
        if self.is_internal(fd) {
            return None;
        }
        // One that is open nobody else gets, and to close what is there may take long.
        let _free = files::close_on_exec(fd).is_err().then_some(numbers);
        Some(run())
    }

    /// Moves an internal descriptor out of the way of a program that wants its number. Not to be
    /// called with a lock.
    ///
    /// EBUSY: of one that is known in memory which another table of descriptors shares, or whose
    /// close would drop locks of the program's, or while a thread stays in a hook.
    pub fn make_way(&self, fd: i32) -> Result<(), Errno> {
        // Opened for a child of vfork alone, which is the one who asks.
        let child = task::vfork_child_with_table();
        if let Some(place) = child.and_then(|child| child.place_of_kept(fd)) {
            place.store(dup_away(fd, true)?, Release);
            drop(OwnedFd::from_raw(fd));
            return Ok(());
        }
        match culvert_intercept::multi_threaded() {
            // Others are not to wait for what cannot be done: a child of vfork would stop its
            // parent's threads, and not let them go on if it is killed.
            true if task::tables_differ() => self.move_held(fd, false, dup_away),
            // A driver of another thread may be about to use the old number.
            true => culvert_intercept::if_alone(|| self.move_held(fd, true, dup_away))
                .unwrap_or(Err(Errno::EBUSY)),
            false => self.move_held(fd, true, dup_away),
        }
    }

    /// Gives the program all numbers that its limit allows: what Culvert holds goes above the
    /// limit, where the kernel lets it. Whether a number has become free.
    ///
    /// The limit is what [`with_more`] makes of it meanwhile.
    #[cold]
    pub fn make_room(&self) -> bool {
        let Some(limit) = soft_limit().filter(|_| task::vfork_child_with_table().is_none()) else {
            return false;
        };
        let mut ours = self.internal();
        ours.retain(|&fd| fd < limit);
        if ours.is_empty() {
            return false;
        }
        let alone = !culvert_intercept::multi_threaded();
        let move_all = || {
            let to = |fd: i32, close_on_exec: bool| dup_from(fd, limit, close_on_exec);
            let moved = |fd: &&i32| self.move_held(**fd, alone, to).is_ok();
            ours.iter().filter(moved).count() > 0
        };
        with_more(move_all).unwrap_or(false)
    }

    /// The same where others may be in hooks; EBUSY also when a driver has it and there are other
    /// threads.
    fn move_internal(&self, fd: i32) -> Result<(), Errno> {
        self.move_held(fd, !culvert_intercept::multi_threaded(), dup_away)
    }

    /// `alone`: no other thread is in a hook. `to` makes a dup at the new number.
    fn move_held(
        &self,
        fd: i32,
        alone: bool,
        to: impl Fn(i32, bool) -> Result<i32, Errno>,
    ) -> Result<(), Errno> {
        if tables::are_asked_for() && PosixLocks::is_left_over(fd) {
            classes::set(fd, classes::UNKNOWN);
            return Ok(());
        }
        // The numbers are known in memory that a vfork child shares, the descriptors are not.
        if task::tables_differ() || self.posix_locks.hold(fd) {
            return Err(Errno::EBUSY);
        }
        let adopted = alone
            .then(|| self.internal.adopted.places())
            .into_iter()
            .flatten();
        let holders = [
            (&self.internal.placeholder, true),
            (&self.internal.path_placeholder, true),
            (&self.lock_descriptor, false),
        ];
        for (holder, close_on_exec) in holders
            .into_iter()
            .chain(adopted.map(|holder| (holder, true)))
        {
            if holder.load(Relaxed) == fd {
                let _numbers = NUMBERS.lock();
                let moved = to(fd, close_on_exec)?;
                holder.store(moved, Release);
                classes::set(moved, INTERNAL);
                classes::set(fd, classes::UNKNOWN);
                drop(OwnedFd::from_raw(fd));
                return Ok(());
            }
        }
        Err(Errno::EBUSY)
    }
}

/// A dup of `fd` out of the way of a program that wants its number.
fn dup_away(fd: i32, close_on_exec: bool) -> Result<i32, Errno> {
    dup_from(fd, fd.saturating_mul(2), close_on_exec)
        .or_else(|_| dup_high(fd, close_on_exec))
        .or_else(|_| dup_from(fd, 3, close_on_exec))
}

/// What drivers have opened since in a child of vfork: its classes are its parent's, and say
/// nothing of them.
fn kept_in_child() -> Vec<i32> {
    task::vfork_child_with_table().map_or_else(Vec::new, VforkChild::kept_descriptors)
}

/// How many numbers the program may use; none where those above are not for descriptors of ours:
/// classes are kept of 65,536.
fn soft_limit() -> Option<i32> {
    let [soft, _] = files::number_limits(None).ok()?;
    (soft < 0x8000).then_some(soft as i32)
}

/// Runs `run` while the process may use more numbers than its limit allows, those above it, for
/// each that Culvert holds and some. None: it may not be raised, by a hard limit or a filter.
///
/// What `run` opens is Culvert's own, or gone when it ends.
#[cold]
pub fn with_more<R>(run: impl FnOnce() -> R) -> Option<R> {
    const ROOM: u64 = 64;
    if crate::task::is_confined() {
        return None;
    }
    let [soft, hard] = files::number_limits(None).ok()?;
    let raised = soft.checked_add(super::get().internal().len() as u64 + ROOM)?;
    files::number_limits(Some([raised, hard.max(raised)])).ok()?;
    let result = run();
    let _ = files::number_limits(Some([soft, hard]));
    Some(result)
}

/// The same for what gives the program a number: only where it has one left.
#[cold]
pub fn with_more_for_one<R>(run: impl FnOnce() -> R) -> Option<R> {
    let placeholder = super::get().placeholder().ok()?;
    dup_from(placeholder, 0, true)
        .map(OwnedFd::from_raw)
        .ok()
        .map(drop)?;
    with_more(run)
}

/// What `open` opens, at a number for internal descriptors from the beginning: of a file whose
/// descriptors must not be closed, so that it cannot be moved there. The numbers below are taken
/// meanwhile. Where that cannot be done, at any number.
pub fn open_high(open: &dyn Fn() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    // Other threads would see numbers taken that are not, and a filter may forbid dup.
    if culvert_intercept::multi_threaded() || crate::task::is_confined() {
        return open();
    }
    let placeholder = super::get().placeholder()?;
    let floor = files::internal_floor();
    let mut below = Vec::new();
    loop {
        match dup_from(placeholder, 0, true).map(OwnedFd::from_raw) {
            Ok(free) if free.raw() >= floor => break,
            Ok(low) => below.push(low),
            // The high ones are all in use: the highest that was free.
            Err(_) => {
                below.pop();
                break;
            }
        }
    }
    let opened = open();
    drop(below);
    match opened {
        Err(Errno::EMFILE) => open(),
        opened => opened,
    }
}

/// The descriptor in `place`, made there at first need.
fn stand(place: &AtomicI32, make: impl FnOnce() -> Result<i32, Errno>) -> Result<i32, Errno> {
    let fd = place.load(Acquire);
    if fd >= 0 {
        return Ok(fd);
    }
    let made = make()?;
    match place.compare_exchange(-1, made, AcqRel, Acquire) {
        Ok(_) => {
            classes::set(made, INTERNAL);
            Ok(made)
        }
        Err(first) => {
            drop(OwnedFd::from_raw(made));
            Ok(first)
        }
    }
}

fn make_placeholder() -> Result<i32, Errno> {
    let made = memfd_create(c"culvert", MFD_CLOEXEC | MFD_ALLOW_SEALING)?;
    let seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    fcntl(&made, Command::ADD_SEALS, seals as usize)?;
    open_again(made.raw(), O_WRONLY)
}

/// A new description of what `fd` is open on, with `flags`, at a number for internal descriptors.
fn open_again(fd: i32, flags: u32) -> Result<i32, Errno> {
    let opened = files::open(&c_string(alloc::format!("/proc/self/fd/{fd}")), flags, 0)?;
    dup_high(opened.raw(), true).or_else(|_| dup_from(opened.raw(), 3, true))
}

/// How descriptors are kept beside the program's own.
pub fn keeper() -> culvert_drivers::Keeper {
    culvert_drivers::Keeper {
        adopt: Some(adopt),
        table: Some(tables::number),
        lends: Some(|fd| tables::are_asked_for() && !super::get().is_internal(fd)),
    }
}

/// Takes a driver's descriptor out of the program's way.
fn adopt(fd: i32) -> Option<&'static AtomicI32> {
    match task::vfork_child_with_table() {
        None => super::get().adopt_internal(fd),
        // The process's own table does not have it.
        Some(child) => adopt_in_child(fd, child),
    }
}

/// Takes a driver's descriptor out of the way of a child of vfork, which is about to exec: a few
/// bytes are lost with it.
fn adopt_in_child(fd: i32, child: &VforkChild) -> Option<&'static AtomicI32> {
    let moved = dup_high(fd, true).ok()?;
    drop(OwnedFd::from_raw(fd));
    let place = &*Box::leak(Box::new(AtomicI32::new(moved)));
    child.keep_descriptor(place);
    Some(place)
}
