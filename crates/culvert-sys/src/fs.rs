//! Calls on files and their names.

use crate::Errno;
use crate::fd::{AsFd, BorrowedFd, OwnedFd};
use crate::flags::{AtFlags, OFlags, RenameFlags, Resolve};
use crate::plain::filled;
use crate::table::calls;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::ptr::{from_mut, from_ref, null};
use linux_raw_sys::general as linux;

pub use linux::{stat as Stat, statfs as StatFs, statx as Statx};

/// Two times, of access and of modification, as utimensat(2) takes them.
pub type Times = [linux::timespec; 2];

calls! {
    /// open(2).
    pub fn open(path: &CStr, flags: OFlags, mode: u32) -> OwnedFd
        = OPEN[path.as_ptr(), flags, mode];
    /// openat(2).
    pub fn openat(directory: impl AsFd, path: &CStr, flags: OFlags, mode: u32) -> OwnedFd
        = OPENAT[directory.as_fd(), path.as_ptr(), flags, mode];

    /// read(2).
    pub fn read(fd: impl AsFd, into: &mut [u8]) -> usize
        = READ[fd.as_fd(), into.as_mut_ptr(), into.len()];
    /// write(2).
    pub fn write(fd: impl AsFd, bytes: &[u8]) -> usize
        = WRITE[fd.as_fd(), bytes.as_ptr(), bytes.len()];
    /// pread(2).
    pub fn pread(fd: impl AsFd, into: &mut [u8], offset: u64) -> usize
        = PREAD64[fd.as_fd(), into.as_mut_ptr(), into.len(), offset];
    /// pwrite(2).
    pub fn pwrite(fd: impl AsFd, bytes: &[u8], offset: u64) -> usize
        = PWRITE64[fd.as_fd(), bytes.as_ptr(), bytes.len(), offset];
    /// lseek(2).
    pub fn seek(fd: impl AsFd, offset: i64, whence: u32) -> u64
        = LSEEK[fd.as_fd(), offset, whence];
    /// ftruncate(2).
    pub fn ftruncate(fd: impl AsFd, size: u64) -> () = FTRUNCATE[fd.as_fd(), size];
    /// truncate(2).
    pub fn truncate(path: &CStr, size: u64) -> () = TRUNCATE[path.as_ptr(), size];
    /// fallocate(2).
    pub fn fallocate(fd: impl AsFd, mode: u32, offset: u64, length: u64) -> ()
        = FALLOCATE[fd.as_fd(), mode, offset, length];
    /// sync_file_range(2).
    pub fn sync_file_range(fd: impl AsFd, offset: u64, length: u64, flags: u32) -> ()
        = SYNC_FILE_RANGE[fd.as_fd(), offset, length, flags];
    /// fsync(2).
    pub fn fsync(fd: impl AsFd) -> () = FSYNC[fd.as_fd()];
    /// posix_fadvise(2).
    pub fn fadvise(fd: impl AsFd, offset: u64, length: u64, advice: u32) -> ()
        = FADVISE64[fd.as_fd(), offset, length, advice];
    /// copy_file_range(2); the offsets are moved on.
    pub fn copy_file_range(
        from: impl AsFd,
        at: &mut u64,
        to: impl AsFd,
        to_at: &mut u64,
        length: usize,
    )
        -> usize = COPY_FILE_RANGE[from.as_fd(), from_mut(at), to.as_fd(), from_mut(to_at), length, 0];
    /// splice(2) between a pipe and what has no offset, or another pipe.
    pub fn splice(from: impl AsFd, to: impl AsFd, length: usize, flags: u32) -> usize
        = SPLICE[from.as_fd(), 0, to.as_fd(), 0, length, flags];
    /// splice(2) of a file from `at` on into a pipe; `at` is moved on.
    pub fn splice_from(file: impl AsFd, at: &mut u64, to: impl AsFd, length: usize, flags: u32)
        -> usize = SPLICE[file.as_fd(), from_mut(at), to.as_fd(), 0, length, flags];

    /// fchmod(2).
    pub fn fchmod(fd: impl AsFd, mode: u32) -> () = FCHMOD[fd.as_fd(), mode];
    /// chmod(2).
    pub fn chmod(path: &CStr, mode: u32) -> () = CHMOD[path.as_ptr(), mode];
    /// fchmodat(2), which follows links.
    pub fn fchmodat(directory: impl AsFd, path: &CStr, mode: u32) -> ()
        = FCHMODAT[directory.as_fd(), path.as_ptr(), mode];
    /// fchmodat2(2), Linux 6.6.
    pub fn fchmodat2(directory: impl AsFd, path: &CStr, mode: u32, flags: AtFlags) -> ()
        = FCHMODAT2[directory.as_fd(), path.as_ptr(), mode, flags];
    /// fchownat(2).
    pub fn fchownat(directory: impl AsFd, path: &CStr, uid: u32, gid: u32, flags: AtFlags) -> ()
        = FCHOWNAT[directory.as_fd(), path.as_ptr(), uid, gid, flags];
    /// access(2).
    pub fn access(path: &CStr, mode: u32) -> () = ACCESS[path.as_ptr(), mode];
    /// faccessat(2), of the real ids.
    pub fn faccessat(directory: impl AsFd, path: &CStr, mode: u32) -> ()
        = FACCESSAT[directory.as_fd(), path.as_ptr(), mode];
    /// faccessat2(2), Linux 5.8.
    pub fn faccessat2(directory: impl AsFd, path: &CStr, mode: u32, flags: AtFlags) -> ()
        = FACCESSAT2[directory.as_fd(), path.as_ptr(), mode, flags];

    /// unlink(2).
    pub fn unlink(path: &CStr) -> () = UNLINK[path.as_ptr()];
    /// unlinkat(2).
    pub fn unlinkat(directory: impl AsFd, path: &CStr, flags: AtFlags) -> ()
        = UNLINKAT[directory.as_fd(), path.as_ptr(), flags];
    /// rmdir(2).
    pub fn rmdir(path: &CStr) -> () = RMDIR[path.as_ptr()];
    /// mkdir(2).
    pub fn mkdir(path: &CStr, mode: u32) -> () = MKDIR[path.as_ptr(), mode];
    /// mkdirat(2).
    pub fn mkdirat(directory: impl AsFd, path: &CStr, mode: u32) -> ()
        = MKDIRAT[directory.as_fd(), path.as_ptr(), mode];
    /// mknod(2).
    pub fn mknod(path: &CStr, mode: u32, device: u32) -> () = MKNOD[path.as_ptr(), mode, device];
    /// mknodat(2).
    pub fn mknodat(directory: impl AsFd, path: &CStr, mode: u32, device: u32) -> ()
        = MKNODAT[directory.as_fd(), path.as_ptr(), mode, device];
    /// rename(2).
    pub fn rename(from: &CStr, to: &CStr) -> () = RENAME[from.as_ptr(), to.as_ptr()];
    /// renameat2(2).
    pub fn renameat2(
        from: impl AsFd,
        path: &CStr,
        to: impl AsFd,
        to_path: &CStr,
        flags: RenameFlags,
    ) -> ()
        = RENAMEAT2[from.as_fd(), path.as_ptr(), to.as_fd(), to_path.as_ptr(), flags];
    /// link(2).
    pub fn link(from: &CStr, to: &CStr) -> () = LINK[from.as_ptr(), to.as_ptr()];
    /// linkat(2).
    pub fn linkat(from: impl AsFd, path: &CStr, to: impl AsFd, to_path: &CStr, flags: AtFlags) -> ()
        = LINKAT[from.as_fd(), path.as_ptr(), to.as_fd(), to_path.as_ptr(), flags];
    /// symlink(2).
    pub fn symlink(target: &CStr, path: &CStr) -> () = SYMLINK[target.as_ptr(), path.as_ptr()];
    /// symlinkat(2).
    pub fn symlinkat(target: &CStr, directory: impl AsFd, path: &CStr) -> ()
        = SYMLINKAT[target.as_ptr(), directory.as_fd(), path.as_ptr()];
    /// readlinkat(2): how many bytes of the target are in `into`.
    pub fn readlinkat(directory: impl AsFd, path: &CStr, into: &mut [u8]) -> usize
        = READLINKAT[directory.as_fd(), path.as_ptr(), into.as_mut_ptr(), into.len()];
    /// getdents64(2): how many bytes of entries are in `into`; none at the end.
    pub fn getdents64(fd: impl AsFd, into: &mut [u8]) -> usize
        = GETDENTS64[fd.as_fd(), into.as_mut_ptr(), into.len()];
    /// getcwd(2): the length with the NUL.
    pub fn getcwd(into: &mut [u8]) -> usize = GETCWD[into.as_mut_ptr(), into.len()];
    /// chdir(2).
    pub fn chdir(path: &CStr) -> () = CHDIR[path.as_ptr()];
    /// fchdir(2).
    pub fn fchdir(fd: impl AsFd) -> () = FCHDIR[fd.as_fd()];

    /// open_tree(2), Linux 5.2.
    pub fn open_tree(directory: impl AsFd, path: &CStr, flags: u32) -> OwnedFd
        = OPEN_TREE[directory.as_fd(), path.as_ptr(), flags];
    /// mount_setattr(2), Linux 5.12.
    pub fn mount_setattr(
        directory: impl AsFd,
        path: &CStr,
        flags: AtFlags,
        change: &linux::mount_attr,
    )
        -> () = MOUNT_SETATTR[directory.as_fd(), path.as_ptr(), flags, from_ref(change), size_of::<linux::mount_attr>()];
    /// inotify_init1(2).
    pub fn inotify_init(flags: OFlags) -> OwnedFd = INOTIFY_INIT1[flags];
    /// inotify_add_watch(2).
    pub fn inotify_add_watch(list: impl AsFd, path: &CStr, mask: u32) -> i32
        = INOTIFY_ADD_WATCH[list.as_fd(), path.as_ptr(), mask];
    /// inotify_rm_watch(2).
    pub fn inotify_rm_watch(list: impl AsFd, watch: i32) -> ()
        = INOTIFY_RM_WATCH[list.as_fd(), watch];

    /// getxattr(2): the length of the value.
    pub fn getxattr(path: &CStr, name: &CStr, into: &mut [u8]) -> usize
        = GETXATTR[path.as_ptr(), name.as_ptr(), into.as_mut_ptr(), into.len()];
    /// fgetxattr(2): the length of the value.
    pub fn fgetxattr(fd: impl AsFd, name: &CStr, into: &mut [u8]) -> usize
        = FGETXATTR[fd.as_fd(), name.as_ptr(), into.as_mut_ptr(), into.len()];
    /// listxattr(2): the length of the list.
    pub fn listxattr(path: &CStr, into: &mut [u8]) -> usize
        = LISTXATTR[path.as_ptr(), into.as_mut_ptr(), into.len()];
    /// setxattr(2).
    pub fn setxattr(path: &CStr, name: &CStr, value: &[u8], flags: u32) -> ()
        = SETXATTR[path.as_ptr(), name.as_ptr(), value.as_ptr(), value.len(), flags];
    /// removexattr(2).
    pub fn removexattr(path: &CStr, name: &CStr) -> () = REMOVEXATTR[path.as_ptr(), name.as_ptr()];
}

calls! {
    fn fstat_into(fd: BorrowedFd<'_>, into: &mut Stat) -> () = FSTAT[fd, from_mut(into)];
    fn stat_into(path: &CStr, into: &mut Stat) -> () = STAT[path.as_ptr(), from_mut(into)];
    fn fstatat_into(directory: BorrowedFd<'_>, path: &CStr, flags: AtFlags, into: &mut Stat) -> ()
        = NEWFSTATAT[directory, path.as_ptr(), from_mut(into), flags];
    fn statx_into(
        directory: BorrowedFd<'_>,
        path: &CStr,
        flags: AtFlags,
        mask: u32,
        into: &mut Statx,
    )
        -> () = STATX[directory, path.as_ptr(), flags, mask, from_mut(into)];
    fn cachestat_into(fd: BorrowedFd<'_>, range: &[u64; 2], into: &mut linux::cachestat) -> ()
        = CACHESTAT[fd, from_ref(range), from_mut(into), 0];
    fn fstatfs_into(fd: BorrowedFd<'_>, into: &mut StatFs) -> () = FSTATFS[fd, from_mut(into)];
    fn statfs_into(path: &CStr, into: &mut StatFs) -> () = STATFS[path.as_ptr(), from_mut(into)];
}

/// The same calls where they may wait long, as for a network or another process: other threads may
/// fork meanwhile ([`crate::waits`]).
pub mod waiting {
    use super::*;

    calls! { waiting:
        /// pread(2).
        pub fn pread(fd: impl AsFd, into: &mut [u8], offset: u64) -> usize
            = PREAD64[fd.as_fd(), into.as_mut_ptr(), into.len(), offset];
        /// pwrite(2).
        pub fn pwrite(fd: impl AsFd, bytes: &[u8], offset: u64) -> usize
            = PWRITE64[fd.as_fd(), bytes.as_ptr(), bytes.len(), offset];
        /// fallocate(2).
        pub fn fallocate(fd: impl AsFd, mode: u32, offset: u64, length: u64) -> ()
            = FALLOCATE[fd.as_fd(), mode, offset, length];
        /// copy_file_range(2); the offsets are moved on.
        pub fn copy_file_range(
            from: impl AsFd,
            at: &mut u64,
            to: impl AsFd,
            to_at: &mut u64,
            length: usize,
        )
            -> usize = COPY_FILE_RANGE[from.as_fd(), from_mut(at), to.as_fd(), from_mut(to_at), length, 0];
        /// fsync(2).
        pub fn fsync(fd: impl AsFd) -> () = FSYNC[fd.as_fd()];
        /// fdatasync(2).
        pub fn fdatasync(fd: impl AsFd) -> () = FDATASYNC[fd.as_fd()];
        /// syncfs(2).
        pub fn syncfs(fd: impl AsFd) -> () = SYNCFS[fd.as_fd()];
    }

    calls! { waiting:
        fn entries(fd: BorrowedFd<'_>, into: &mut [MaybeUninit<u8>]) -> usize
            = GETDENTS64[fd, into.as_mut_ptr(), into.len()];
        fn write_vector(fd: BorrowedFd<'_>, vector: &[usize; 2], flags: u32) -> usize
            = PWRITEV2[fd, from_ref(vector), 1usize, usize::MAX, usize::MAX, flags];
    }

    /// pwritev2(2) at the end (`RWF_APPEND`), where the description's offset is left then.
    pub fn append(fd: impl AsFd, bytes: &[u8]) -> Result<usize, Errno> {
        let vector = [bytes.as_ptr() as usize, bytes.len()];
        write_vector(fd.as_fd(), &vector, linux::RWF_APPEND)
    }

    /// getdents64(2) into the room that `into` has; what was in it is gone.
    pub fn getdents64(fd: impl AsFd, into: &mut Vec<u8>) -> Result<(), Errno> {
        into.clear();
        append_by(into, |room| entries(fd.as_fd(), room)).map(drop)
    }

    /// statx(2); without a path that of the descriptor itself.
    pub fn statx(
        directory: impl AsFd,
        path: Option<&CStr>,
        flags: AtFlags,
        mask: u32,
    ) -> Result<Statx, Errno> {
        let (path, flags) = match path {
            Some(path) => (path, flags),
            None => (c"", flags.union(AtFlags::EMPTY_PATH)),
        };
        filled(|into| call(directory.as_fd(), path, flags, mask, into))
    }

    calls! { waiting:
        fn call(directory: BorrowedFd<'_>, path: &CStr, flags: AtFlags, mask: u32, into: &mut Statx)
            -> () = STATX[directory, path.as_ptr(), flags, mask, from_mut(into)];
    }
}

calls! {
    fn write_vector(fd: BorrowedFd<'_>, vector: &[usize; 2], offset: i64, flags: u32) -> usize
        = PWRITEV2[fd, from_ref(vector), 1usize, offset, 0, flags];
}

/// pwritev2(2) with flags, where the description's offset is.
pub fn write_with(fd: impl AsFd, bytes: &[u8], flags: u32) -> Result<usize, Errno> {
    write_vector(
        fd.as_fd(),
        &[bytes.as_ptr() as usize, bytes.len()],
        -1,
        flags,
    )
}

/// fstat(2).
#[inline]
pub fn fstat(fd: impl AsFd) -> Result<Stat, Errno> {
    filled(|into| fstat_into(fd.as_fd(), into))
}

/// stat(2).
pub fn stat(path: &CStr) -> Result<Stat, Errno> {
    filled(|into| stat_into(path, into))
}

/// fstatat(2).
pub fn fstatat(directory: impl AsFd, path: &CStr, flags: AtFlags) -> Result<Stat, Errno> {
    filled(|into| fstatat_into(directory.as_fd(), path, flags, into))
}

/// statx(2).
pub fn statx(directory: impl AsFd, path: &CStr, flags: AtFlags, mask: u32) -> Result<Statx, Errno> {
    filled(|into| statx_into(directory.as_fd(), path, flags, mask, into))
}

/// cachestat(2), Linux 6.5, of `length` bytes from `at` on.
pub fn cachestat(fd: impl AsFd, at: u64, length: u64) -> Result<linux::cachestat, Errno> {
    filled(|into| cachestat_into(fd.as_fd(), &[at, length], into))
}

/// fstatfs(2).
pub fn fstatfs(fd: impl AsFd) -> Result<StatFs, Errno> {
    filled(|into| fstatfs_into(fd.as_fd(), into))
}

/// statfs(2).
pub fn statfs(path: &CStr) -> Result<StatFs, Errno> {
    filled(|into| statfs_into(path, into))
}

calls! {
    fn read_into(fd: BorrowedFd<'_>, into: &mut [MaybeUninit<u8>]) -> usize
        = READ[fd, into.as_mut_ptr(), into.len()];
    fn target_into(directory: BorrowedFd<'_>, path: &CStr, into: &mut [MaybeUninit<u8>]) -> usize
        = READLINKAT[directory, path.as_ptr(), into.as_mut_ptr(), into.len()];
    fn utimes(
        directory: BorrowedFd<'_>,
        path: *const core::ffi::c_char,
        times: *const Times,
        flags: AtFlags,
    )
        -> () = UTIMENSAT[directory, path, times, flags];
    /// openat2(2), Linux 5.6, as the caller says how.
    pub fn open_how(directory: impl AsFd, path: &CStr, how: &linux::open_how) -> OwnedFd
        = OPENAT2[directory.as_fd(), path.as_ptr(), from_ref(how), size_of::<linux::open_how>()];
}

/// utimensat(2); without a path the times of the descriptor's file, without times the present.
pub fn utimensat(
    directory: impl AsFd,
    path: Option<&CStr>,
    times: Option<&Times>,
    flags: AtFlags,
) -> Result<(), Errno> {
    let path = path.map_or(null(), CStr::as_ptr);
    utimes(
        directory.as_fd(),
        path,
        times.map_or(null(), from_ref),
        flags,
    )
}

/// Lets `fill`, a call of the kernel that says how many bytes it has written, write into the room
/// that `into` has behind its end.
fn append_by(
    into: &mut Vec<u8>,
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let room = into.spare_capacity_mut();
    let count = fill(room)?.min(room.len());
    // SAFETY: there is room for as many bytes, and the kernel has written them.
    unsafe { into.set_len(into.len() + count) };
    Ok(count)
}

/// read(2) into the room that `into` has behind its end: how many bytes were added.
pub fn read_more(fd: impl AsFd, into: &mut Vec<u8>) -> Result<usize, Errno> {
    append_by(into, |room| read_into(fd.as_fd(), room))
}

/// openat2(2), Linux 5.6.
pub fn openat2(
    directory: impl AsFd,
    path: &CStr,
    flags: OFlags,
    mode: u32,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    let asked = linux::open_how {
        flags: flags.bits().into(),
        mode: mode.into(),
        resolve: resolve.bits().into(),
    };
    open_how(directory, path, &asked)
}

/// The target of a symbolic link (readlinkat(2)), at most 4095 bytes.
pub fn read_link(directory: impl AsFd, path: &CStr) -> Result<Vec<u8>, Errno> {
    let mut target: Vec<u8> = Vec::with_capacity(4096);
    append_by(&mut target, |room| {
        target_into(directory.as_fd(), path, room)
    })?;
    Ok(target)
}
