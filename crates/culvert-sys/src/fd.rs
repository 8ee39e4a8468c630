//! Descriptors: who closes them, and what may be asked of a number.
//!
//! An [`OwnedFd`] is closed when dropped, once. A [`BorrowedFd`] is closed by somebody else.
//!
//! Unlike in the standard library both can be made of any number without `unsafe`, for here a
//! number is no promise. In a program's process each descriptor, those of Culvert too, can be
//! closed or replaced at any moment by a thread that asks nobody (close(2), dup2(2)), and most
//! numbers come out of the program's registers. So no memory rests on what a number refers to: the
//! kernel says EBADF, or does to what is there what it would do for the program. Where a file of
//! which a descriptor is open is mapped as well, its bytes are memory that others change. To close
//! a number twice is a mistake all the same; the types are there to prevent it.

use crate::Errno;
use crate::table::{Answer, Word, calls};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use linux_raw_sys::general as linux;

/// A descriptor that is closed when dropped.
#[derive(Debug)]
#[repr(transparent)]
pub struct OwnedFd(i32);

impl OwnedFd {
    /// Takes over `number`: nobody else is to close it.
    #[inline]
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// The number; it stays this value's.
    #[inline]
    pub const fn raw(&self) -> i32 {
        self.0
    }

    /// Gives up ownership: the caller closes it.
    #[inline]
    pub fn into_raw(self) -> i32 {
        ManuallyDrop::new(self).0
    }

    /// close(2), with what the kernel has to say: a network file system tells of writes that failed
    /// late.
    pub fn close(self) -> Result<(), Errno> {
        close(self.into_raw())
    }

    /// It, for a call.
    #[inline]
    pub const fn borrow(&self) -> BorrowedFd<'_> {
        BorrowedFd(self.0, PhantomData)
    }
}

impl Drop for OwnedFd {
    #[inline]
    fn drop(&mut self) {
        let _ = close(self.0);
    }
}

/// A descriptor that somebody else closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct BorrowedFd<'fd>(i32, PhantomData<&'fd OwnedFd>);

/// The working directory, for calls that take a directory (`AT_FDCWD`).
pub const CWD: BorrowedFd<'static> = BorrowedFd::number(linux::AT_FDCWD);

impl BorrowedFd<'_> {
    /// Descriptor `number`, open or not: see above.
    #[inline]
    pub const fn number(number: i32) -> Self {
        Self(number, PhantomData)
    }

    /// The number.
    #[inline]
    pub const fn raw(self) -> i32 {
        self.0
    }
}

/// What a call on a descriptor can be given.
pub trait AsFd {
    /// The descriptor.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

impl AsFd for OwnedFd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.borrow()
    }
}

impl AsFd for BorrowedFd<'_> {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        *self
    }
}

impl<T: AsFd + ?Sized> AsFd for &T {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

impl Word for BorrowedFd<'_> {
    #[inline]
    fn word(&self) -> usize {
        self.0 as usize
    }
}

impl Answer for OwnedFd {
    #[inline]
    fn answer(result: usize) -> Self {
        Self(result as i32)
    }
}

/// A command of fcntl(2) whose argument is a number, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command(u32);

macro_rules! commands {
    ($($name:ident = $raw:ident;)*) => {
        impl Command { $(#[doc = concat!("`", stringify!($raw), "`.")] pub const $name: Self = Self(linux::$raw);)* }
    };
}

commands! {
    DUPFD = F_DUPFD; DUPFD_CLOEXEC = F_DUPFD_CLOEXEC; GETFD = F_GETFD; SETFD = F_SETFD;
    GETFL = F_GETFL; SETFL = F_SETFL; GETOWN = F_GETOWN; SETOWN = F_SETOWN; SETSIG = F_SETSIG;
    GETSIG = F_GETSIG; SETLEASE = F_SETLEASE; GETLEASE = F_GETLEASE; NOTIFY = F_NOTIFY;
    SETPIPE_SZ = F_SETPIPE_SZ; GETPIPE_SZ = F_GETPIPE_SZ; ADD_SEALS = F_ADD_SEALS;
    GET_SEALS = F_GET_SEALS; DUPFD_QUERY = F_DUPFD_QUERY; CREATED_QUERY = F_CREATED_QUERY;
}

impl Word for Command {
    #[inline]
    fn word(&self) -> usize {
        self.0 as usize
    }
}

/// A command of fcntl(2) about a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockCommand(u32);

impl LockCommand {
    /// `F_GETLK`.
    pub const GETLK: Self = Self(linux::F_GETLK);
    /// `F_SETLK`.
    pub const SETLK: Self = Self(linux::F_SETLK);
    /// `F_SETLKW`, which waits.
    pub const SETLKW: Self = Self(linux::F_SETLKW);
    /// `F_OFD_GETLK`.
    pub const OFD_GETLK: Self = Self(linux::F_OFD_GETLK);
    /// `F_OFD_SETLK`.
    pub const OFD_SETLK: Self = Self(linux::F_OFD_SETLK);
    /// `F_OFD_SETLKW`, which waits.
    pub const OFD_SETLKW: Self = Self(linux::F_OFD_SETLKW);

    /// Command `number`, if it is one.
    pub fn new(number: u32) -> Option<Self> {
        let is_one = matches!(number, linux::F_GETLK..=linux::F_SETLKW)
            || matches!(number, linux::F_OFD_GETLK..=linux::F_OFD_SETLKW);
        is_one.then_some(Self(number))
    }
}

impl Word for LockCommand {
    #[inline]
    fn word(&self) -> usize {
        self.0 as usize
    }
}

calls! {
    fn close(number: i32) -> () = CLOSE[number];
    /// dup3(2): what `number` was is closed.
    pub fn replace(
        from: impl AsFd,
        number: i32,
        flags: u32,
    ) -> () = DUP3[from.as_fd(), number, flags];
    /// fcntl(2) with a number.
    pub fn fcntl(fd: impl AsFd, command: Command, argument: usize) -> usize
        = FCNTL[fd.as_fd(), command, argument];
    /// fcntl(2) about a record lock.
    pub fn lock(fd: impl AsFd, command: LockCommand, lock: &mut linux::flock) -> ()
        = FCNTL[fd.as_fd(), command, core::ptr::from_mut(lock)];
    /// flock(2).
    pub fn flock(fd: impl AsFd, operation: u32) -> () = FLOCK[fd.as_fd(), operation];
    /// close_range(2): of descriptors that nobody's [`OwnedFd`] is left of.
    pub fn close_range(first: u32, last: u32, flags: u32) -> () = CLOSE_RANGE[first, last, flags];
    /// unshare(2): a table of descriptors of its own for this thread (`CLONE_FILES`).
    pub fn unshare() -> () = UNSHARE[linux::CLONE_FILES];
    /// userfaultfd(2).
    pub fn userfaultfd(flags: u32) -> OwnedFd = USERFAULTFD[flags];
    /// ioctl(2) of `/dev/userfaultfd`, `USERFAULTFD_IOC_NEW`.
    pub fn userfaultfd_of(device: impl AsFd, flags: u32) -> OwnedFd
        = IOCTL[device.as_fd(), 0xaa00u32, flags];
    /// epoll_create1(2).
    pub fn epoll_create() -> OwnedFd = EPOLL_CREATE1[linux::EPOLL_CLOEXEC];
    /// epoll_ctl(2).
    pub fn epoll_ctl(
        epoll: impl AsFd,
        operation: u32,
        fd: impl AsFd,
        event: &linux::epoll_event,
    ) -> ()
        = EPOLL_CTL[epoll.as_fd(), operation, fd.as_fd(), core::ptr::from_ref(event)];
    /// epoll_wait(2); the time in milliseconds, none for -1.
    pub fn epoll_wait(epoll: impl AsFd, into: &mut [linux::epoll_event], time: i32) -> usize
        = EPOLL_WAIT[epoll.as_fd(), into.as_mut_ptr(), into.len(), time];
    /// memfd_create(2).
    pub fn memfd_create(name: &core::ffi::CStr, flags: u32) -> OwnedFd
        = MEMFD_CREATE[name.as_ptr(), flags];
}

/// A duplicate, close-on-exec, with a number from `lowest` on (`F_DUPFD_CLOEXEC`).
#[inline]
pub fn duplicate(fd: impl AsFd, lowest: i32) -> Result<OwnedFd, Errno> {
    fcntl(fd, Command::DUPFD_CLOEXEC, lowest as usize).map(OwnedFd::answer)
}

calls! {
    fn pipe_into(ends: &mut [i32; 2], flags: u32) -> () = PIPE2[ends.as_mut_ptr(), flags];
}

/// pipe2(2): its end for reading, its end for writing.
pub fn pipe(flags: u32) -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut ends = [0i32; 2];
    pipe_into(&mut ends, flags)?;
    Ok((OwnedFd(ends[0]), OwnedFd(ends[1])))
}
