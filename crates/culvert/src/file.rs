//! An open file: what `open` returns and what a driven file does.

use crate::{
    Attributes, Caller, Errno, Lock, LockKind, LockOwner, OwnedFd, Result, SetAttributes, Sink,
    Source, Wait,
};
use alloc::{boxed::Box, vec::Vec};
use core::{any::Any, task::Waker};

/// What `open` found.
pub enum Opened {
    /// The descriptor *is* the data: the program gets it, the kernel front end makes it FUSE
    /// passthrough. Opened with the access mode that was asked for, close-on-exec.
    Backed(OwnedFd),
    /// The driver serves reads and writes itself.
    Driven(Box<dyn File>),
}

/// lseek's `SEEK_DATA` and `SEEK_HOLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The next byte that is not in a hole.
    Data,
    /// The next hole, the end of the file counting as one.
    Hole,
}

/// How the pages of a file may be cached (by a kernel mount, or by a program that maps a driven
/// file).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Caching {
    /// Until a later open, which drops them when size or modification time have changed.
    #[default]
    UntilChanged,
    /// Across opens: only the driver's own notice drops them (`FOPEN_KEEP_CACHE`).
    Keep,
    /// Not at all: every read asks the driver, and mapping the file shared fails with `ENODEV`
    /// (`FOPEN_DIRECT_IO`). For files whose content depends on the moment or the reader.
    Never,
}

/// What poll(2) reports of a file, in its bits (`POLLIN` 1, `POLLPRI` 2, `POLLOUT` 4, `POLLERR` 8,
/// `POLLHUP` 16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness(pub u16);

impl Readiness {
    /// What poll(2) says of every regular file: `POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM`
    /// (`DEFAULT_POLLMASK`, include/linux/poll.h).
    pub const ALWAYS: Self = Self(0x145);
}

/// What tells a program in a run that an open file may have become ready ([`File::waiter`]).
pub trait Waiter: Send + Sync {
    /// Its descriptor now, one of the driver's, out of the program's way: it becomes readable, is
    /// non-blocking and open for writing too, and what is read from it or written to it means
    /// nothing.
    fn descriptor(&self) -> i32;

    /// Another one, which becomes readable, and stays so, when nobody is there any more who would
    /// tell: the file is to be asked then. None, the default: that cannot be, or not be known.
    fn ended(&self) -> Option<i32> {
        None
    }
}

/// One open file served by the driver.
///
/// # What the driver may assume
///
/// - Offsets are in bytes from the start; `offset` plus the bytes wanted never passes `i64::MAX`
///   (the front end ends them there, and refuses larger offsets with `EINVAL`). The description's
///   own offset, its access mode, `O_APPEND` and `RLIMIT_FSIZE` are the front end's business: reads
///   come only through descriptions open for reading, changes only through those open for writing.
/// - The file lives while this value does, whatever happens to its names: [`File::attributes`] then
///   says 0 links.
/// - The value is dropped when the last descriptor of the description is closed, in every process
///   that has it, by exit at the latest; nothing can be reported any more then (see
///   [`File::flush`]). A process that is killed, or becomes another program, drops nothing.
///
/// # What the driver owes
///
/// - Calls come from several threads at once. A read and a write that overlap do not mix: the read
///   shows each byte of the write or none (POSIX, "Thread Interactions with Regular File
///   Operations").
/// - What one open of a file writes, every other open of it reads at once, in all processes that
///   this driver serves.
/// - Times: a read may move `atime` (relatime, mount(8)); a write or truncation that changes
///   anything sets `mtime` and `ctime`.
/// - Set-user-ID and set-group-ID: a write or a change of size clears set-user-ID, clears
///   set-group-ID where the group may execute, and removes `security.capability`, unless the caller
///   of the open was the superuser (`file_remove_privs`, fs/inode.c). Nobody else does it: the
///   kernel mount runs with `FUSE_HANDLE_KILLPRIV_V2`.
///
/// # Errors of every method
///
/// - `EIO`: the back end failed or its data are damaged; with a cause.
/// - `EINTR`: waited, was interrupted, and nothing was done (signal(7)).
/// - `ENOMEM`: no memory for the operation.
/// - `ESTALE`: the back end has lost the file (a server that was restarted).
pub trait File: Send + Sync {
    /// Reads from `offset` on into `out` until it is full or the file ends, and returns the bytes
    /// put: 0 only at or past the end or when nothing is wanted. An error after some bytes is
    /// reported as a short read, and met again by the next.
    ///
    /// Holes are put as zeroes ([`Sink::put_zeroes`]). Any `offset` up to `i64::MAX` is fine; past
    /// the end it gives 0, not an error (read(2)).
    ///
    /// - `EFAULT`: the sink's, handed on when nothing was put (read(2)).
    /// - `EIO`, `EINTR`: as above.
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize>;

    /// Writes all of `from` at `offset` and returns the bytes written; fewer only when space or the
    /// size limit ends (`ENOSPC`, `EFBIG` when nothing was written). `EROFS` never comes here: a
    /// read-only mount refuses the open.
    ///
    /// A gap between the old end and `offset` reads as zeroes. Nothing to write changes nothing,
    /// not even times (write(2)).
    ///
    /// - `EBADF`: the default: this driver writes nothing (write(2): not open for writing).
    /// - `EDQUOT`, `ENOSPC`: quota or device full (write(2)).
    /// - `EFBIG`: past the largest file of this driver (write(2); the process's own limit is the
    ///   front end's).
    /// - `EFAULT`: the source's, when nothing was written.
    /// - `EPERM`: sealed or immutable (write(2), `FS_IMMUTABLE_FL` in ioctl_iflags(2)).
    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let _ = (offset, from);
        Err(Errno::EBADF.into())
    }

    /// Appends atomically: finds the end and writes there, no other write between; returns the
    /// offset written at and the count.
    ///
    /// The default is atomic only if nobody else writes: a driver that writes overrides it. Errors
    /// as [`File::write_at`].
    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        let end = self.attributes(&Caller::SYSTEM)?.size;
        Ok((end, self.write_at(end, from)?))
    }

    /// fstat(2), also after the last link is gone. Agrees with
    /// [`FileSystem::attributes`](crate::FileSystem::attributes) of the same node.
    fn attributes(&self, caller: &Caller<'_>) -> Result<Attributes>;

    /// fchmod, fchown, ftruncate, futimens; returns the attributes after the change. Contract and
    /// errors of [`FileSystem::set_attributes`](crate::FileSystem::set_attributes), but it also
    /// reaches a file without a name.
    ///
    /// The default `ENOSYS` makes the front end call that one with the node, which fails for files
    /// without a name.
    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        let _ = (caller, changes);
        Err(Errno::ENOSYS.into())
    }

    /// fsync(2), or fdatasync(2) with `data_only`: content and what is needed to find it are
    /// durable when this returns.
    ///
    /// - `EIO`, `ENOSPC`, `EDQUOT`: an earlier write could not be stored; reported once to each
    ///   description (fsync(2)).
    fn sync(&self, data_only: bool) -> Result<()> {
        let _ = data_only;
        Ok(())
    }

    /// fallocate(2); `mode` as there (0 extends the file, `FALLOC_FL_*` bits do the rest). `length`
    /// is not 0.
    ///
    /// - `EOPNOTSUPP`: the default: not this `mode`. posix_fallocate(3) then writes zeroes.
    /// - `EFBIG`, `ENOSPC`, `EDQUOT`: as [`File::write_at`].
    /// - `EINVAL`: collapse or insert at an offset that is not a multiple of the block size, or
    ///   reaching the end (fallocate(2)).
    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        let _ = (mode, offset, length);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// lseek with SEEK_DATA or SEEK_HOLE from `offset`; `ENXIO` past the end. The default knows no
    /// holes.
    ///
    /// What is reported as a hole reads as zeroes; not every run of zeroes is a hole.
    ///
    /// - `ENXIO`: `offset` is at or past the end, or, for data, only a hole follows (lseek(2)).
    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        let size = self.attributes(&Caller::SYSTEM)?.size;
        if offset >= size {
            return Err(Errno::ENXIO.into());
        }
        Ok(match whence {
            Whence::Data => offset,
            Whence::Hole => size,
        })
    }

    /// Copies up to `length` bytes from `offset` to `to_offset` of `to`, another open file of this
    /// same file system (perhaps of the same node), inside the back end; returns how many, fewer
    /// only at the end of this file or as for a short write (copy_file_range(2)).
    ///
    /// - `EOPNOTSUPP`: the default: the front end reads and writes instead.
    /// - `EXDEV`: not between these two; likewise.
    /// - `EINVAL`: the same file, and the ranges overlap (copy_file_range(2)).
    /// - `EFBIG`, `ENOSPC`, `EDQUOT`, `EPERM`: as [`File::write_at`].
    fn copy_range(&self, offset: u64, to: &dyn File, to_offset: u64, length: u64) -> Result<u64> {
        let _ = (offset, to, to_offset, length);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// This file as what it is, for a driver that gets one of its own back ([`File::copy_range`]).
    /// A layer answers for the file it wraps.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// A descriptor of the kernel's, borrowed, on the same file with the same access mode, of a
    /// description that is this open file's alone and whose offset and status flags nobody uses:
    /// once the description is shared between processes, dups of it stand for it, the front end
    /// sets their offset and flags, and what concerns bytes and locks is the kernel's. So locks are
    /// those of the file itself, and whoever is not intercepted reads and writes the right bytes.
    /// None by default: a shadow stands for it. [`FileSystem::adopt`](crate::FileSystem::adopt) is
    /// the way back.
    fn descriptor(&self) -> Option<i32> {
        None
    }

    /// Whether a kernel may read and write the file of [`File::descriptor`] past the driver for as
    /// long as this one is open (`FUSE_PASSTHROUGH`). True by default. False where this may go on
    /// as another file, or must hear of each write.
    fn may_be_passed(&self) -> bool {
        true
    }

    /// Whether the file of [`File::descriptor`] *is* this one in all that concerns its bytes, so
    /// that the driver need not hear of them: the program gets that descriptor, and reads, writes,
    /// seeks, maps and locks by the kernel's own calls. What is left here are attributes and their
    /// changes, [`File::sync`], [`File::flush`] and the end. False by default; constant while the
    /// file is open.
    ///
    /// The descriptor has the status flags of no program: a front end that gives it away sets them.
    fn is_backed(&self) -> bool {
        false
    }

    /// Of a file that was opened with [`OpenFlags::LENDS`](crate::OpenFlags::LENDS): whose its
    /// descriptor is. With a `number` it is the program's from now on, by this number, which the
    /// program closes; the driver goes on using it. With none the driver has one of its own from
    /// now on, out of the program's way: a number that was lent may be closed, or mean something
    /// else.
    ///
    /// - `EMFILE`: there is no descriptor left (dup(2)).
    fn lend_descriptor(&self, number: Option<i32>) -> Result<()> {
        let _ = number;
        Ok(())
    }

    /// What another process continues this open file by ([`FileSystem::adopt`]) that may not open
    /// it anew: a descriptor of the kernel's, borrowed. One with another access mode than this
    /// open's is not used. By default [`File::descriptor`]; where there is none, such a process has
    /// an error.
    ///
    /// [`FileSystem::adopt`]: crate::FileSystem::adopt
    fn continued_by(&self) -> Option<i32> {
        self.descriptor()
    }

    /// For mmap(2): runs `map` on a descriptor of the kernel's, with the access mode of this open,
    /// on a file that *is* this one as far as bytes and length go: what is stored through a mapping
    /// of it is written, what anybody writes or cuts is seen there, for as long as the mapping
    /// lives. A driver may move its bytes to such a file first. The descriptor is the driver's,
    /// valid during the call.
    ///
    /// `range` (start and length, in bytes; it may reach past the end) is what will be mapped; with
    /// `stores`, others than the driver may then write there, so that it sets space aside where it
    /// can and refuses where there is none.
    ///
    /// False, without calling `map`: the default: there is no such file, and the front end maps its
    /// own copy. So it does without asking where nodes are [transient]: a file without a name
    /// becomes that copy when another program gets it.
    ///
    /// [transient]: crate::Capabilities::transient_nodes
    ///
    /// - `ENOMEM`: no space for the bytes to be moved to, or to be stored (mmap(2)).
    fn with_kernel_file(
        &self,
        range: (u64, u64),
        stores: bool,
        map: &mut dyn FnMut(i32),
    ) -> Result<bool> {
        let _ = (range, stores, map);
        Ok(false)
    }

    /// How its pages may be cached. Asked once, after the open.
    fn caching(&self) -> Caching {
        Caching::default()
    }

    /// The kernel keeps the description for the program from now on (fork, exec, SCM_RIGHTS, a
    /// lock): others may hold it that do not know the driver, and this value may be dropped while
    /// they do. A driver that counts who uses a file without a name asks the front end about such
    /// ones.
    fn shared(&self) {}

    /// The process is about to forbid itself system calls (seccomp(2)): what reading and writing
    /// this file needs is opened now, if it can be.
    fn confined(&self) {}

    /// One descriptor of this description is being closed (FUSE's FLUSH): report delayed errors
    /// now. By close, dup2, close_range, exit and exec, of which only close hears of errors. May
    /// come several times (dup, fork, an exec that fails) or never (a killed process): nothing is
    /// freed here.
    ///
    /// - `EIO`, `ENOSPC`, `EDQUOT`: what close(2) shall return; the descriptor is closed all the
    ///   same.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Whether [`File::flush`] may ever have something to report: a front end to which each call of
    /// it is a message leaves it out where not. The default, true, is right for every driver; false
    /// is for those that delay nothing.
    fn reports_at_close(&self) -> bool {
        true
    }

    /// An ioctl(2) the front end does not know: `ENOTTY` by default. `argument` holds the bytes
    /// that the size in `request` says (`_IOC_SIZE`), read from the program if the direction says
    /// so, and goes back to it likewise. Returns what ioctl returns.
    ///
    /// - `ENOTTY`: no such request for this file (ioctl(2)).
    /// - `EINVAL`: the argument makes no sense (ioctl(2)).
    fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<usize> {
        let _ = (request, argument);
        Err(Errno::ENOTTY.into())
    }

    /// poll(2), select(2), epoll(7): what may be done now without waiting. The default: everything,
    /// as with regular files. Asked only where [`Capabilities::polls`](crate::Capabilities::polls)
    /// says that it may be less.
    ///
    /// With a `waker` somebody waits: the driver wakes it when more becomes possible than this call
    /// has answered, from any thread, also within a call and with its locks held. That is a hint to
    /// ask again, so once too often does no harm. It looks and keeps the waker at one moment, or a
    /// change between the two would be waited for in vain. A later waker of the same open file
    /// takes the place of the earlier one; it is dropped unused with the file.
    ///
    /// Kernel mounts ask with a waker. Within a program that runs under `culvert run` who waits
    /// does so in the kernel, for other descriptors too, and what wakes is a descriptor
    /// ([`File::waiter`]): the waker that comes with the call is not woken, and says only that
    /// somebody waits. A file without such a descriptor is ready always there, for nobody calls a
    /// driver in the program's own process in the meantime. Drivers in a host (`place=host`) are
    /// asked as by a kernel mount.
    ///
    /// - any error is `POLLERR` to who waits.
    fn poll(&self, waker: Option<&Waker>) -> Result<Readiness> {
        let _ = waker;
        Ok(Readiness::ALWAYS)
    }

    /// Within a program that runs under `culvert run`: what becomes readable when more may have
    /// become possible than [`File::poll`] has answered since. Each wait, of each thread and
    /// process, has its own. None, the default: there is no such thing, and nobody waits.
    ///
    /// - those of making it: the file is ready then.
    fn waiter(&self) -> Result<Option<Box<dyn Waiter>>> {
        Ok(None)
    }

    /// `F_GETLK`: a lock of another owner that stands in the way of `lock`, none if it could be
    /// set.
    ///
    /// This and the next two are called by kernel mounts alone, of drivers that say
    /// [`Capabilities::locks`](crate::Capabilities::locks): within a run the kernel keeps locks, on
    /// the file itself or on its shadow.
    ///
    /// - `ENOSYS`: the default, of this and the next two: the front end keeps locks itself, for all
    ///   processes on this machine.
    fn get_lock(&self, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        let _ = (owner, lock);
        Err(Errno::ENOSYS.into())
    }

    /// `F_SETLK`, `F_SETLKW` and their OFD kin: sets, replaces or (`Unlock`) releases the owner's
    /// locks in the range, splitting and merging as fcntl(2) says. The front end releases a
    /// process's locks itself at its first close (with `Unlock` for the whole file).
    ///
    /// - `EAGAIN`: held by another, and `wait` is never (fcntl(2)).
    /// - `EINTR`: interrupted while waiting.
    /// - `EDEADLK`: waiting would be for ever (fcntl(2)).
    /// - `ENOLCK`: too many locks, or the lock server is away (fcntl(2)).
    fn set_lock(&self, owner: LockOwner, lock: &Lock, wait: Wait<'_>) -> Result<()> {
        let _ = (owner, lock, wait);
        Err(Errno::ENOSYS.into())
    }

    /// flock(2): one lock on the whole file, independent of record locks. A change between shared
    /// and exclusive is not atomic (flock(2)). Errors as [`File::set_lock`], without `EDEADLK`.
    fn flock(&self, owner: LockOwner, kind: LockKind, wait: Wait<'_>) -> Result<()> {
        let _ = (owner, kind, wait);
        Err(Errno::ENOSYS.into())
    }

    /// A descriptor of the kernel's, opened for this call, on a file that stands for this one's
    /// record locks wherever it is opened: by other runs, kernel mounts and hosts. The front end
    /// sets there what the program sets, and within a run on the shadow too. A process opens that
    /// file by this call alone: to close any descriptor of it drops the locks (fcntl(2)). None
    /// where nobody has made it yet and `make` is false: nobody has locked anything. None, the
    /// default, in any case: the front end keeps the locks, of a run's processes among themselves.
    ///
    /// - any error is `ENOLCK` to who locks.
    fn lock_file(&self, make: bool) -> Result<Option<OwnedFd>> {
        let _ = make;
        Ok(None)
    }

    /// A lock was set on the file of [`File::lock_file`]: what others wrote before they released
    /// theirs is seen from here on.
    fn locked(&self) {}

    /// A lock may be released there: what this process has written is seen by who gets it next.
    ///
    /// - any error is logged, and the lock released.
    fn before_unlock(&self) -> Result<()> {
        Ok(())
    }

    /// What [`FileSystem::restore`](crate::FileSystem::restore) needs, beyond the node and the
    /// flags, to continue this open file in the program that this process is about to execute. The
    /// exec may fail: the file goes on here then. Up to 4 KiB, else nothing goes over; nothing by
    /// default. Not asked of files with a descriptor of the kernel's, whose offset and bytes go on
    /// by themselves ([`File::descriptor`]).
    fn save(&self) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
}
