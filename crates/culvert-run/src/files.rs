//! Files and descriptors of the kernel's, by its own calls: those of the run directory and proc(5).

use alloc::{format, vec::Vec};
pub use culvert_sys::OwnedFd;
use culvert_sys::raw::general::{AT_FDCWD, stat};
use culvert_sys::{Errno, nr, syscall};

/// O_PATH.
pub const O_PATH: u32 = 0o10000000;
const O_CLOEXEC: usize = 0o2000000;

/// open(2) by a NUL-terminated path, close-on-exec.
pub fn open(path: &[u8], flags: usize, mode: usize) -> Result<OwnedFd, Errno> {
    debug_assert_eq!(path.last(), Some(&0));
    // SAFETY: the path ends in NUL.
    unsafe { syscall::call(nr::OPEN, [path.as_ptr() as usize, flags | O_CLOEXEC, mode]) }
        .map(|fd| OwnedFd::from_raw(fd as i32))
}

/// Access mode and status flags of `fd`, as the kernel has them.
pub fn kernel_flags(fd: i32) -> Result<u32, Errno> {
    culvert_sys::fd::fcntl(
        culvert_sys::BorrowedFd::number(fd),
        culvert_sys::fd::Command::GETFL,
        0,
    )
    .map(|flags| flags as u32)
}

/// The FD_CLOEXEC flag of `fd`.
pub fn close_on_exec(fd: i32) -> Result<bool, Errno> {
    culvert_sys::fd::fcntl(
        culvert_sys::BorrowedFd::number(fd),
        culvert_sys::fd::Command::GETFD,
        0,
    )
    .map(|flags| flags & 1 != 0)
}

/// A dup of `fd` at the lowest free number from `from` on.
pub fn dup_from(fd: i32, from: i32, close_on_exec: bool) -> Result<i32, Errno> {
    let command = if close_on_exec {
        1030 /* F_DUPFD_CLOEXEC */
    } else {
        0 /* F_DUPFD */
    };
    // SAFETY: makes a new descriptor, nothing else.
    unsafe { syscall::call(nr::FCNTL, [fd as usize, command, from as usize]) }.map(|fd| fd as i32)
}

/// All open descriptors of this process, from `/proc/self/fd`.
pub fn open_descriptors() -> Vec<i32> {
    let Ok(directory) = open(
        format!("{}\0", culvert_sys::own_descriptors::directory()).as_bytes(),
        0o200000,
        0,
    ) else {
        return Vec::new();
    };
    list(&directory)
        .iter()
        .filter_map(|name| core::str::from_utf8(name).ok()?.parse::<i32>().ok())
        .filter(|&fd| fd != directory.raw())
        .collect()
}

/// `stat` of the path `path` (NUL-terminated).
pub fn stat_path(path: &[u8]) -> Result<stat, Errno> {
    debug_assert_eq!(path.last(), Some(&0));
    let mut out = core::mem::MaybeUninit::<stat>::zeroed();
    // SAFETY: the path ends in NUL, the buffer is a `struct stat`, plain data.
    unsafe {
        syscall::call(
            nr::STAT,
            [path.as_ptr() as usize, out.as_mut_ptr() as usize],
        )?;
        Ok(out.assume_init())
    }
}

/// `fstat` of `fd`.
pub fn stat_descriptor(fd: i32) -> Result<stat, Errno> {
    let mut out = core::mem::MaybeUninit::<stat>::zeroed();
    // SAFETY: the buffer is a `struct stat`, plain data.
    unsafe {
        syscall::call(nr::FSTAT, [fd as usize, out.as_mut_ptr() as usize])?;
        Ok(out.assume_init())
    }
}

/// The link behind `/proc/self/fd/N`.
pub fn descriptor_path(fd: i32) -> Result<Vec<u8>, Errno> {
    read_link(format!("{}{fd}\0", culvert_sys::own_descriptors::directory()).as_bytes())
}

/// Makes the directory `path` of the run, NUL-terminated, for its user alone, whatever the
/// program's umask says. One that is there already is right.
pub fn make_directory(path: &[u8]) -> Result<(), Errno> {
    const MODE: usize = 0o700;
    // SAFETY: the path ends in NUL.
    let call = |number| unsafe { syscall::call(number, [path.as_ptr() as usize, MODE]) };
    match call(nr::MKDIR) {
        // Not for nothing: where changes are watched, this is one.
        Ok(_) if stat_path(path)?.st_mode as usize & MODE != MODE => call(nr::CHMOD).map(|_| ()),
        Ok(_) => Ok(()),
        Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The target of the symbolic link `path` (NUL-terminated).
pub fn read_link(path: &[u8]) -> Result<Vec<u8>, Errno> {
    read_link_at(AT_FDCWD, path)
}

/// The target of the symbolic link `path` (NUL-terminated) below `directory`.
pub fn read_link_at(directory: i32, path: &[u8]) -> Result<Vec<u8>, Errno> {
    debug_assert_eq!(path.last(), Some(&0));
    let mut target = alloc::vec![0u8; 4096];
    // SAFETY: the path ends in NUL; the buffer's length is given.
    let length = unsafe {
        syscall::call(
            nr::READLINKAT,
            [
                directory as usize,
                path.as_ptr() as usize,
                target.as_mut_ptr() as usize,
                target.len(),
            ],
        )?
    };
    target.truncate(length);
    Ok(target)
}

/// The whole content of the file `path` (NUL-terminated).
pub fn read_file(path: &[u8]) -> Result<Vec<u8>, Errno> {
    debug_assert_eq!(path.last(), Some(&0));
    const O_RDONLY_CLOEXEC: usize = 0o2000000;
    // SAFETY: the path ends in NUL; the descriptor is ours until closed.
    unsafe {
        let fd = syscall::call(nr::OPEN, [path.as_ptr() as usize, O_RDONLY_CLOEXEC, 0])?;
        let result = read_all(fd as i32);
        let _ = syscall::call(nr::CLOSE, [fd]);
        result
    }
}

/// What can be read of `fd` from where it stands.
pub fn read_all(fd: i32) -> Result<Vec<u8>, Errno> {
    let mut content = Vec::new();
    loop {
        let start = content.len();
        content.resize(start + 4096, 0);
        let arguments = [fd as usize, content.as_mut_ptr() as usize + start, 4096];
        // SAFETY: the buffer is given with its length.
        match unsafe { syscall::call(nr::READ, arguments) } {
            Ok(count) => {
                content.truncate(start + count);
                if count == 0 {
                    return Ok(content);
                }
            }
            Err(Errno::EINTR) => content.truncate(start),
            Err(error) => return Err(error),
        }
    }
}

/// The names in a directory.
pub fn list(directory: &OwnedFd) -> Vec<Vec<u8>> {
    let found = positions(directory).into_iter();
    found.map(|(name, _)| name).collect()
}

/// The kernel's listing of an open directory: each name, and the position behind it (`struct
/// linux_dirent64`, getdents(2)).
pub fn positions(directory: &OwnedFd) -> Vec<(Vec<u8>, u64)> {
    let mut found = Vec::new();
    let mut buffer = alloc::vec![0u8; 4096];
    loop {
        let arguments = [
            directory.raw() as usize,
            buffer.as_mut_ptr() as usize,
            buffer.len(),
        ];
        // SAFETY: the buffer is given with its length.
        let got = unsafe { syscall::call(nr::GETDENTS64, arguments) }.unwrap_or(0);
        let mut rest = buffer.get(..got).unwrap_or(&[]);
        if rest.is_empty() {
            return found;
        }
        // Inode, position of the next one, length (2 bytes), type (1 byte), name.
        while let (Some(next), Some(length)) = (rest.get(8..16), rest.get(16..18)) {
            let next = next.try_into().map_or(0, u64::from_ne_bytes);
            let length = length
                .try_into()
                .map_or(0, u16::from_ne_bytes)
                .max(20)
                .into();
            let name = rest.get(19..length).unwrap_or(&[]);
            let end = name.iter().position(|&byte| byte == 0);
            let name = name.get(..end.unwrap_or(name.len())).unwrap_or(&[]);
            found.push((name.to_vec(), next));
            rest = rest.get(length..).unwrap_or(&[]);
        }
    }
}

/// `RLIMIT_NOFILE`, soft and hard; sets it first where `new` is given.
pub fn number_limits(new: Option<[u64; 2]>) -> Result<[u64; 2], Errno> {
    const RLIMIT_NOFILE: usize = 7;
    let mut old = [0u64; 2];
    let given = new.as_ref().map_or(0, |new| new.as_ptr() as usize);
    let arguments = [0, RLIMIT_NOFILE, given, old.as_mut_ptr() as usize];
    // SAFETY: prlimit64 of this process reads and writes two words.
    unsafe { syscall::call(nr::PRLIMIT64, arguments) }.map(|_| old)
}

/// Where internal descriptors go: high, but within a table of 1024, which costs the kernel little.
pub fn internal_floor() -> i32 {
    let limit = number_limits(None).map_or(1024, |[soft, _]| soft.min(1024) as i32);
    (limit - 8).max(3)
}

/// A dup of `fd` at a number for internal descriptors. Where those are all taken (a limit of 1024
/// leaves eight, and drivers of trees hold one for each node in use), in the upper half of what the
/// limit allows, and then in the upper three quarters.
pub fn dup_high(fd: i32, close_on_exec: bool) -> Result<i32, Errno> {
    let floor = internal_floor();
    dup_from(fd, floor, close_on_exec)
        .or_else(|_| dup_from(fd, floor / 2, close_on_exec))
        .or_else(|_| dup_from(fd, (floor / 4).max(3), close_on_exec))
}

/// The lowest number that [`dup_high`] gives.
pub fn lowest_internal() -> i32 {
    (internal_floor() / 4).max(3)
}

/// `path` with a NUL behind it, for a system call of our own.
pub fn c_string(path: &[u8]) -> Vec<u8> {
    let mut owned = Vec::with_capacity(path.len() + 1);
    owned.extend_from_slice(path);
    owned.push(0);
    owned
}
