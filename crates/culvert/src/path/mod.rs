//! Simple drivers by paths, made node-based by an adapter.
//!
//! A [`PathFileSystem`] answers for paths, as DEFUSE's drivers and FUSE's high-level operations do.
//! [`PathAdapter`] makes a [`FileSystem`](crate::FileSystem) of it: it keeps which node has which
//! path, moves everything below a directory that is renamed, knows hard links by their inode where
//! the driver reports inodes, and keeps open files usable when their name is removed.
//!
//! Paths are relative to the mount, without leading or trailing slash: `b""` is the root, `b"a/b"`
//! a file in directory `a`.
//!
//! ```
//! use culvert::path::{PathAdapter, PathEntry, PathFileSystem};
//! use culvert::testing::{Tree, reading};
//! use culvert::{Attributes, Caller, Errno, FileKind, OpenFlags, Result};
//!
//! /// One file that greets.
//! struct Hello;
//!
//! const GREETING: &[u8] = b"Hello, world!\n";
//!
//! impl PathFileSystem for Hello {
//!     type Handle = ();
//!
//!     fn attributes(&self, path: &[u8]) -> Result<Attributes> {
//!         match path {
//!             b"" => Ok(Attributes::new(FileKind::Directory, 0o755)),
//!             b"hello" => Ok(Attributes {
//!                 size: GREETING.len() as u64,
//!                 ..Attributes::new(FileKind::Regular, 0o444)
//!             }),
//!             _ => Err(Errno::ENOENT.into()),
//!         }
//!     }
//!
//!     fn list(&self, _: &[u8]) -> Result<Vec<PathEntry>> {
//!         Ok(vec![PathEntry::new("hello", FileKind::Regular)])
//!     }
//!
//!     fn open(&self, _: &Caller<'_>, _: &[u8], _: OpenFlags) -> Result<()> {
//!         Ok(())
//!     }
//!
//!     fn read(&self, _: &(), offset: u64, out: &mut [u8]) -> Result<usize> {
//!         let rest = GREETING.get(offset as usize..).unwrap_or_default();
//!         let count = rest.len().min(out.len());
//!         out[..count].copy_from_slice(&rest[..count]);
//!         Ok(count)
//!     }
//! }
//!
//! reading(&PathAdapter::new(Hello), &Tree::new().file("hello", GREETING)).assert_ok();
//! ```

mod adapter;
mod changes;
mod file;
mod lock;
mod state;
mod table;
mod told;

pub use adapter::PathAdapter;

use crate::{
    Access, Attributes, Caching, Caller, Capabilities, Errno, FileKind, Lock, LockKind, LockOwner,
    Maps, OpenFlags, OwnedFd, Readiness, RenameFlags, Result, SetAttributes, Sink, Source, StatFs,
    Validity, Wait, Whence,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::task::Waker;

/// One name that [`PathFileSystem::list`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// The name: 1 to 255 bytes, no slash, no NUL, not `.` or `..`.
    pub name: Vec<u8>,
    /// The type.
    pub kind: FileKind,
    /// The inode that [`PathFileSystem::attributes`] would report; 0 when that reports none.
    pub inode: u64,
}

impl PathEntry {
    /// An entry without inode.
    pub fn new(name: impl Into<Vec<u8>>, kind: FileKind) -> Self {
        Self {
            name: name.into(),
            kind,
            inode: 0,
        }
    }
}

/// An open directory for which a driver by paths keeps something: a snapshot, a cursor, a
/// connection. Dropped at the last close.
pub trait PathDirectory: Send + Sync {
    /// All names, as [`PathFileSystem::list`] gives them; asked at the start and after
    /// rewinddir(3).
    fn list(&self) -> Result<Vec<PathEntry>>;

    /// fsync(2) or fdatasync(2).
    fn sync(&self, data_only: bool) -> Result<()> {
        let _ = data_only;
        Ok(())
    }
}

/// What others have changed, by path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChange<'a> {
    /// Any name may mean something else: changes were lost.
    Everything,
    /// The path means something else now, or nothing, or has come to be.
    Name(&'a [u8]),
    /// The attributes of what is there.
    Attributes(&'a [u8]),
    /// The content of the file, or the names in the directory.
    Content(&'a [u8]),
}

/// Where a driver by paths tells of changes that did not come through the mount.
pub trait PathObserver: Send + Sync {
    /// Something has changed. Returns at once, and may be called from anywhere, within a call and
    /// with locks held too. What nobody was told of is not told on.
    fn tell(&self, change: PathChange<'_>);
}

/// A file system that answers for paths.
///
/// Four operations make one that can be read; the rest have defaults that refuse. Errors, and what
/// each operation owes, are those of the [`FileSystem`](crate::FileSystem) operation of the same
/// name. The adapter has checked that directories are directories, that what is opened is a regular
/// file and what is read as a link is one. No change of names (unlink, rmdir, rename) runs while
/// another operation by path does; otherwise calls come from several threads at once.
///
/// **Identity.** A driver that reports inodes ([`Attributes::inode`] not 0, stable, equal for hard
/// links only, not used again while open) gets the same nodes in every process. Where inodes are 0,
/// a node's number comes from the path it was first seen under: the same in every process until
/// something is renamed, so such a driver should be read-only or served by one process.
///
/// DEFUSE's 25 functions are here under these names: `init` (the driver's constructor), `finalize`
/// ([`finish`](Self::finish)), `open`, `close` (dropping the handle), `read`, `write`, `fsync`
/// ([`sync`](Self::sync)), `fgetattr` ([`handle_attributes`](Self::handle_attributes)), `save`,
/// `restore`, `getattr` ([`attributes`](Self::attributes)), `readlink`, `unlink`, `mkdir`, `rmdir`,
/// `getdirentcount` and `getdirents` ([`list`](Self::list)), `ftruncate`, `trunc`, `chown`,
/// `chmod`, `utime` (all [`set_attributes`](Self::set_attributes)), `access`, `rename`, `symlink`.
pub trait PathFileSystem: Send + Sync {
    /// An open file. Dropped at the last close.
    type Handle: Send + Sync;

    /// What the driver can do; read-only by default, since changes are.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: true,
            ..Capabilities::default()
        }
    }

    /// stat(2) of a path, links not followed. `ENOENT`, `ENOTDIR` as for a lookup.
    /// [`Attributes::node`] is filled in by the adapter, and [`Attributes::inode`] where it is 0.
    fn attributes(&self, path: &[u8]) -> Result<Attributes>;

    /// All names in a directory, in any order, without `.` and `..`.
    fn list(&self, path: &[u8]) -> Result<Vec<PathEntry>>;

    /// Opens a regular file that exists.
    fn open(&self, caller: &Caller<'_>, path: &[u8], flags: OpenFlags) -> Result<Self::Handle>;

    /// Whether [`open`](Self::open) refuses whatever is no regular file by now, a symbolic link
    /// too, without waiting for anybody. Then the adapter does not ask before each open whether the
    /// path still leads to a file, but compares what was opened.
    fn opens_files_only(&self) -> bool {
        false
    }

    /// Reads from `offset` on into `out`, and returns how many bytes; 0 only at or past the end.
    /// Called again when it gives fewer than wanted.
    fn read(&self, handle: &Self::Handle, offset: u64, out: &mut [u8]) -> Result<usize>;

    /// [`read`](Self::read) to where the bytes are wanted, without a copy in between: as
    /// [`File::read_at`](crate::File::read_at). None by default: the adapter copies what `read`
    /// reads.
    fn read_to(
        &self,
        handle: &Self::Handle,
        offset: u64,
        out: &mut dyn Sink,
    ) -> Option<Result<usize>> {
        let _ = (handle, offset, out);
        None
    }

    /// Target of a symbolic link.
    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        let _ = path;
        Err(Errno::EINVAL.into())
    }

    /// statfs(2).
    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs {
            block_size: 4096,
            name_max: 255,
            read_only: self.capabilities().read_only,
            ..StatFs::default()
        })
    }

    /// access(2); asked only with [`Capabilities::checks_permissions`].
    fn access(&self, caller: &Caller<'_>, path: &[u8], access: Access) -> Result<()> {
        let _ = (caller, path, access);
        Err(Errno::ENOSYS.into())
    }

    /// Attributes of an open file, from the file itself; none by default: the adapter asks by path.
    fn handle_attributes(&self, handle: &Self::Handle) -> Option<Result<Attributes>> {
        let _ = handle;
        None
    }

    /// Whether an open file stays usable through its handle when its last name is removed (a
    /// descriptor does, a remembered path does not). Where false, the adapter renames an open file
    /// to a hidden name (`.culvert-hidden-…`) instead, and removes it after the last close.
    fn keeps_unlinked(&self) -> bool {
        false
    }

    /// Not for drivers in libraries. Whether the driver knows where other processes that have this
    /// mount have renamed things to ([`PathFileSystem::moved`]). Then open directories and working
    /// directories follow, and [`FileSystem::path_of`](crate::FileSystem::path_of) asks whether a
    /// directory still is where it was. False by default: what others have renamed is `ESTALE` to
    /// who has it open.
    fn knows_moves(&self) -> bool {
        false
    }

    /// The path to which what has `inode` was renamed last, by whichever process. What is there is
    /// compared: an answer that is not true any more does no harm.
    fn moved(&self, inode: u64) -> Option<Vec<u8>> {
        let _ = inode;
        None
    }

    /// Not for drivers in libraries. What keeps hold of the directory `path`
    /// ([`FileSystem::hold`](crate::FileSystem::hold)) where its path does not lead to it any more:
    /// its attributes are asked for and changed by the handle then. None by default.
    fn hold(&self, path: &[u8]) -> Option<Self::Handle> {
        let _ = path;
        None
    }

    /// How a kernel mount may cache the pages of an open file. [`Caching::Never`] is for computed
    /// files: then every read asks the driver, and the size in the attributes does not matter. By
    /// default the kernel caches, and reads no further than that size.
    fn caching(&self, handle: &Self::Handle) -> Caching {
        let _ = handle;
        Caching::default()
    }

    /// Creates a regular file that does not exist, and opens it. `EEXIST` when it exists.
    fn create(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<Self::Handle> {
        let _ = (caller, path, flags, mode);
        Err(Errno::ENOSYS.into())
    }

    /// Writes at `offset` and returns how many bytes.
    fn write(&self, handle: &Self::Handle, offset: u64, bytes: &[u8]) -> Result<usize> {
        let _ = (handle, offset, bytes);
        Err(Errno::EBADF.into())
    }

    /// Appends and returns where, and how many bytes. By default writes at the end, which is atomic
    /// among the writers of this process only.
    fn append(&self, handle: &Self::Handle, end: u64, bytes: &[u8]) -> Result<(u64, usize)> {
        Ok((end, self.write(handle, end, bytes)?))
    }

    /// [`write`](Self::write) from where the bytes are, without a copy in between: as
    /// [`File::write_at`](crate::File::write_at). None by default: the adapter copies what `write`
    /// is given.
    fn write_from(
        &self,
        handle: &Self::Handle,
        offset: u64,
        from: &mut dyn Source,
    ) -> Option<Result<usize>> {
        let _ = (handle, offset, from);
        None
    }

    /// The same for [`append`](Self::append), by a driver that finds the end by itself.
    fn append_from(
        &self,
        handle: &Self::Handle,
        from: &mut dyn Source,
    ) -> Option<Result<(u64, usize)>> {
        let _ = (handle, from);
        None
    }

    /// fallocate(2), as [`File::allocate`](crate::File::allocate). `EOPNOTSUPP` by default.
    fn allocate(&self, handle: &Self::Handle, mode: u32, offset: u64, length: u64) -> Result<()> {
        let _ = (handle, mode, offset, length);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// lseek(2) with SEEK_DATA or SEEK_HOLE from `offset`, which is not past the end; none by
    /// default: then the file is taken to have no holes.
    fn seek(&self, handle: &Self::Handle, offset: u64, whence: Whence) -> Option<Result<u64>> {
        let _ = (handle, offset, whence);
        None
    }

    /// A descriptor of the kernel's, borrowed, whose file has the bytes of this one, at the same
    /// offsets and with the access mode of the open, for as long as the handle lives. Where there
    /// is one, reads and writes at offsets and mappings are the kernel's, straight from and to the
    /// program's memory, and [`read`](Self::read) and [`write`](Self::write) are asked only where
    /// it would not. None by default.
    fn descriptor(&self, handle: &Self::Handle) -> Option<i32> {
        let _ = handle;
        None
    }

    /// copy_file_range(2) between two open files: up to `length` bytes from one's offset to the
    /// other's, inside the back end ([`File::copy_range`](crate::File::copy_range)). `EOPNOTSUPP`
    /// by default: they are read and written.
    fn copy_range(
        &self,
        from: (&Self::Handle, u64),
        to: (&Self::Handle, u64),
        length: u64,
    ) -> Result<u64> {
        let _ = (from, to, length);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// ioctl(2), as [`File::ioctl`](crate::File::ioctl). `ENOTTY` by default.
    fn ioctl(&self, handle: &Self::Handle, request: u32, argument: &mut [u8]) -> Result<usize> {
        let _ = (handle, request, argument);
        Err(Errno::ENOTTY.into())
    }

    /// poll(2), as [`File::poll`](crate::File::poll); asked with
    /// [`Capabilities::polls`] only. Always ready by default.
    fn poll(&self, handle: &Self::Handle, waker: Option<&Waker>) -> Result<Readiness> {
        let _ = (handle, waker);
        Ok(Readiness::ALWAYS)
    }

    /// `F_GETLK`, as [`File::get_lock`](crate::File::get_lock). This and the next two: `ENOSYS` by
    /// default, and the front end keeps locks.
    fn get_lock(
        &self,
        handle: &Self::Handle,
        owner: LockOwner,
        lock: &Lock,
    ) -> Result<Option<Lock>> {
        let _ = (handle, owner, lock);
        Err(Errno::ENOSYS.into())
    }

    /// `F_SETLK`, as [`File::set_lock`](crate::File::set_lock).
    fn set_lock(
        &self,
        handle: &Self::Handle,
        owner: LockOwner,
        lock: &Lock,
        wait: Wait<'_>,
    ) -> Result<()> {
        let _ = (handle, owner, lock, wait);
        Err(Errno::ENOSYS.into())
    }

    /// flock(2), as [`File::flock`](crate::File::flock).
    fn flock(
        &self,
        handle: &Self::Handle,
        owner: LockOwner,
        kind: LockKind,
        wait: Wait<'_>,
    ) -> Result<()> {
        let _ = (handle, owner, kind, wait);
        Err(Errno::ENOSYS.into())
    }

    /// What stands for the record locks of a file ([`File::lock_file`](crate::File::lock_file)).
    fn lock_file(&self, handle: &Self::Handle, make: bool) -> Result<Option<OwnedFd>> {
        let _ = (handle, make);
        Ok(None)
    }

    /// A lock was set there ([`File::locked`](crate::File::locked)).
    fn locked(&self, handle: &Self::Handle) {
        let _ = handle;
    }

    /// A lock may be released there ([`File::before_unlock`](crate::File::before_unlock)).
    fn before_unlock(&self, handle: &Self::Handle) -> Result<()> {
        let _ = handle;
        Ok(())
    }

    /// Opens a directory for listing. None by default: its names are [`list`](Self::list)ed.
    fn open_directory(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
    ) -> Result<Option<Box<dyn PathDirectory>>> {
        let _ = (caller, path);
        Ok(None)
    }

    /// fsync(2) of a directory; the default is [`sync_all`](Self::sync_all).
    fn sync_directory(&self, path: &[u8], data_only: bool) -> Result<()> {
        let _ = (path, data_only);
        self.sync_all()
    }

    /// syncfs(2): everything written before is durable when this returns.
    fn sync_all(&self) -> Result<()> {
        Ok(())
    }

    /// How long a kernel mount believes what it was told ([`FileSystem::validity`]).
    ///
    /// [`FileSystem::validity`]: crate::FileSystem::validity
    fn validity(&self) -> Validity {
        match self.capabilities().immutable {
            true => Validity::FOREVER,
            false => Validity::SECOND,
        }
    }

    /// Changes by others are to be told to `observer` from now on. False, the default: the driver
    /// does not learn of them.
    fn observe(&self, observer: Arc<dyn PathObserver>) -> bool {
        let _ = observer;
        false
    }

    /// The maps of the mount's extension ([`FileSystem::extended`]).
    ///
    /// [`FileSystem::extended`]: crate::FileSystem::extended
    fn extended(&self, maps: Arc<dyn Maps>) -> Result<()> {
        let _ = maps;
        Ok(())
    }

    /// fsync(2) or fdatasync(2).
    fn sync(&self, handle: &Self::Handle, data_only: bool) -> Result<()> {
        let _ = (handle, data_only);
        Ok(())
    }

    /// A descriptor is being closed: delayed errors.
    fn flush(&self, handle: &Self::Handle) -> Result<()> {
        let _ = handle;
        Ok(())
    }

    /// chmod, chown, truncate, utimensat.
    fn set_attributes(
        &self,
        caller: Option<&Caller<'_>>,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Result<()> {
        let _ = (caller, path, changes);
        Err(Errno::ENOSYS.into())
    }

    /// The same through an open file; none by default: the adapter asks by path.
    fn set_handle_attributes(
        &self,
        handle: &Self::Handle,
        changes: &SetAttributes,
    ) -> Option<Result<()>> {
        let _ = (handle, changes);
        None
    }

    /// mkdir(2).
    fn mkdir(&self, caller: &Caller<'_>, path: &[u8], mode: u32) -> Result<()> {
        let _ = (caller, path, mode);
        Err(Errno::ENOSYS.into())
    }

    /// mknod(2).
    fn mknod(&self, caller: &Caller<'_>, path: &[u8], mode: u32, rdev: u64) -> Result<()> {
        let _ = (caller, path, mode, rdev);
        Err(Errno::EPERM.into())
    }

    /// symlink(2).
    fn symlink(&self, caller: &Caller<'_>, path: &[u8], target: &[u8]) -> Result<()> {
        let _ = (caller, path, target);
        Err(Errno::EPERM.into())
    }

    /// link(2): `new` becomes another name of `path`. The driver must report inodes, or the two are
    /// not known to be one.
    fn link(&self, caller: &Caller<'_>, path: &[u8], new: &[u8]) -> Result<()> {
        let _ = (caller, path, new);
        Err(Errno::EPERM.into())
    }

    /// unlink(2) of what is no directory.
    fn unlink(&self, caller: &Caller<'_>, path: &[u8]) -> Result<()> {
        let _ = (caller, path);
        Err(Errno::ENOSYS.into())
    }

    /// rmdir(2) of a directory; `ENOTEMPTY`.
    fn rmdir(&self, caller: &Caller<'_>, path: &[u8]) -> Result<()> {
        let _ = (caller, path);
        Err(Errno::ENOSYS.into())
    }

    /// renameat2(2). The adapter has checked that a directory does not move below itself; all else
    /// is the driver's: `EINVAL` for a flag it has not, `EEXIST`, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`.
    fn rename(
        &self,
        caller: &Caller<'_>,
        from: &[u8],
        to: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let _ = (caller, from, to, flags);
        Err(Errno::ENOSYS.into())
    }

    /// getxattr(2).
    fn get_xattr(&self, caller: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        let _ = (caller, path, name);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// listxattr(2), each name ended by NUL.
    fn list_xattr(&self, caller: &Caller<'_>, path: &[u8]) -> Result<Vec<u8>> {
        let _ = (caller, path);
        Ok(Vec::new())
    }

    /// setxattr(2).
    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let _ = (caller, path, name, value, flags);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// removexattr(2).
    fn remove_xattr(&self, caller: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<()> {
        let _ = (caller, path, name);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// What [`PathFileSystem::restore`] needs beyond the path and the flags
    /// ([`File::save`](crate::File::save)).
    fn save(&self, handle: &Self::Handle) -> Result<Vec<u8>> {
        let _ = handle;
        Ok(Vec::new())
    }

    /// Continues in another process a file that was open in one; by default opens it anew.
    fn restore(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Self::Handle> {
        let _ = state;
        self.open(caller, path, flags)
    }

    /// The directory of the kernel's that the file system is, all that is below it with the same
    /// names, inodes and rights ([`FileSystem::backing`](crate::FileSystem::backing)): a
    /// descriptor, borrowed, valid for as long as the driver lives. Asked of a driver that a
    /// library exports and that runs in a program: programs are then served by the kernel, and
    /// nothing else here is called. None by default.
    fn tree(&self) -> Option<i32> {
        None
    }

    /// This process is the child of a fork ([`FileSystem::forked`](crate::FileSystem::forked)).
    fn forked(&self, shared_descriptors: bool) {
        let _ = shared_descriptors;
    }

    /// The mount ends in this process ([`FileSystem::finish`](crate::FileSystem::finish)).
    fn finish(&self) {}
}

#[cfg(test)]
mod tests;
