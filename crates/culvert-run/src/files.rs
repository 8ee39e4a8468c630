//! Files and descriptors of the kernel's, by its own calls: those of the run directory and proc(5).

use alloc::{ffi::CString, format, vec::Vec};
use core::ffi::CStr;
pub use culvert_sys::OwnedFd;
use culvert_sys::fd::{CWD, Command, fcntl};
use culvert_sys::flags::OFlags;
pub use culvert_sys::raw::general::O_PATH;
use culvert_sys::raw::general::{O_CLOEXEC, O_DIRECTORY, RLIMIT_NOFILE, stat, timespec};
use culvert_sys::{BorrowedFd, Errno, fs, process};

/// open(2), close-on-exec.
pub fn open(path: &CStr, flags: u32, mode: u32) -> Result<OwnedFd, Errno> {
    fs::open(path, OFlags::from_bits(flags) | OFlags::CLOEXEC, mode)
}

/// Access mode and status flags of `fd`, as the kernel has them.
pub fn kernel_flags(fd: i32) -> Result<u32, Errno> {
    fcntl(BorrowedFd::number(fd), Command::GETFL, 0).map(|flags| flags as u32)
}

/// The FD_CLOEXEC flag of `fd`.
pub fn close_on_exec(fd: i32) -> Result<bool, Errno> {
    fcntl(BorrowedFd::number(fd), Command::GETFD, 0).map(|flags| flags & 1 != 0)
}

/// The same as open(2) and dup3(2) take it: O_CLOEXEC, or 0.
pub fn on_exec(fd: i32) -> Result<u32, Errno> {
    close_on_exec(fd).map(|closes| if closes { O_CLOEXEC } else { 0 })
}

/// A dup of `fd` at the lowest free number from `from` on.
pub fn dup_from(fd: i32, from: i32, close_on_exec: bool) -> Result<i32, Errno> {
    let command = match close_on_exec {
        true => Command::DUPFD_CLOEXEC,
        false => Command::DUPFD,
    };
    fcntl(BorrowedFd::number(fd), command, from as usize).map(|fd| fd as i32)
}

/// Two times, of access and of modification: seconds and nanoseconds of each.
pub fn times(times: [(i64, u32); 2]) -> fs::Times {
    times.map(|(tv_sec, nanoseconds)| timespec {
        tv_sec,
        tv_nsec: nanoseconds.into(),
    })
}

/// All open descriptors of this process, from `/proc/self/fd`.
pub fn open_descriptors() -> Vec<i32> {
    let path = c_string(culvert_sys::own_descriptors::directory());
    let Ok(directory) = open(&path, O_DIRECTORY, 0) else {
        return Vec::new();
    };
    list(&directory)
        .iter()
        .filter_map(|name| core::str::from_utf8(name).ok()?.parse::<i32>().ok())
        .filter(|&fd| fd != directory.raw())
        .collect()
}

pub use fs::stat as stat_path;

/// `fstat` of `fd`.
pub fn stat_descriptor(fd: i32) -> Result<stat, Errno> {
    fs::fstat(BorrowedFd::number(fd))
}

/// `path` within the directory of this process's own descriptors.
pub fn own_descriptor(fd: i32) -> CString {
    c_string(format!("{}{fd}", culvert_sys::own_descriptors::directory()))
}

/// The link behind `/proc/self/fd/N`.
pub fn descriptor_path(fd: i32) -> Result<Vec<u8>, Errno> {
    read_link(&own_descriptor(fd))
}

/// Makes the directory `path` of the run for its user alone, whatever the program's umask says. One
/// that is there already is right.
pub fn make_directory(path: &CStr) -> Result<(), Errno> {
    const MODE: u32 = 0o700;
    match fs::mkdir(path, MODE) {
        // Not for nothing: where changes are watched, this is one.
        Ok(()) if stat_path(path)?.st_mode & MODE != MODE => fs::chmod(path, MODE),
        Err(Errno::EEXIST) => Ok(()),
        made => made,
    }
}

/// The target of the symbolic link `path`.
pub fn read_link(path: &CStr) -> Result<Vec<u8>, Errno> {
    fs::read_link(CWD, path)
}

/// The whole content of the file `path`.
pub fn read_file(path: &CStr) -> Result<Vec<u8>, Errno> {
    read_all(open(path, 0, 0)?.raw())
}

/// The content of the regular file `fd`, which stands at its beginning and whose size is `size`, in
/// one call unless it has another by now.
pub fn read_sized(fd: i32, size: usize) -> Result<Vec<u8>, Errno> {
    /// More is read piece by piece.
    const MOST: usize = 1 << 20;
    // One more: less than was asked for is the end.
    let mut content = alloc::vec![0; size.min(MOST) + 1];
    let got = fs::read(BorrowedFd::number(fd), &mut content).unwrap_or(0);
    content.truncate(got);
    if got != size {
        content.extend(read_all(fd)?);
    }
    Ok(content)
}

/// What can be read of `fd` from where it stands.
fn read_all(fd: i32) -> Result<Vec<u8>, Errno> {
    // The kernel gives no more at once of the files that it makes.
    const PAGE: usize = 4096;
    let mut content = Vec::with_capacity(2 * PAGE);
    loop {
        content.reserve(PAGE);
        match fs::read_more(BorrowedFd::number(fd), &mut content) {
            Ok(0) => return Ok(content),
            Ok(_) | Err(Errno::EINTR) => {}
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
        let got = fs::getdents64(directory, &mut buffer).unwrap_or(0);
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
    process::prlimit(RLIMIT_NOFILE, new.as_ref())
}

/// The size of a table of descriptors that costs the kernel little, and how many at its end are
/// internal.
const TABLE: i32 = 1024;
const INTERNAL: i32 = 8;

/// Where internal descriptors go.
pub fn internal_floor() -> i32 {
    let table = |[soft, _]: [u64; 2]| soft.min(TABLE as u64) as i32;
    let limit = number_limits(None).map_or(TABLE, table);
    (limit - INTERNAL).max(3)
}

/// A dup of `fd` at a number for internal descriptors. Where those are all taken (a limit of 1024
/// leaves eight, and drivers of trees hold one for each node in use), in the upper half of what the
/// limit allows, and then in the upper three quarters.
pub fn dup_high(fd: i32, close_on_exec: bool) -> Result<i32, Errno> {
    const HIGHEST: i32 = TABLE - INTERNAL;
    dup_from(fd, HIGHEST, close_on_exec).or_else(|errno| {
        let floor = internal_floor();
        let at_floor = match floor == HIGHEST {
            true => Err(errno),
            false => dup_from(fd, floor, close_on_exec),
        };
        at_floor
            .or_else(|_| dup_from(fd, floor / 2, close_on_exec))
            .or_else(|_| dup_from(fd, (floor / 4).max(3), close_on_exec))
    })
}

/// The lowest number that [`dup_high`] gives.
pub fn lowest_internal() -> i32 {
    (internal_floor() / 4).max(3)
}

/// `path` for a system call of our own, which would see it end at a NUL within.
pub fn c_string(path: impl AsRef<[u8]>) -> CString {
    let path = path.as_ref();
    let end = path.iter().position(|&byte| byte == 0);
    CString::new(&path[..end.unwrap_or(path.len())]).unwrap_or_default()
}
