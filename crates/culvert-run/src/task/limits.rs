//! What the kernel applies to new and growing files natively, and has to be known here: the umask
//! and `RLIMIT_FSIZE`.

use super::vfork_child;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use culvert::{Errno, FileSystem};
use culvert_sys::process::prlimit;
use culvert_sys::raw::general::RLIMIT_FSIZE;

/// The umask plus one; 0: nobody has asked yet.
static UMASK: AtomicU32 = AtomicU32::new(0);
/// The umask is not this process's alone, or not one: some thread has its own (`CLONE_FS` was
/// undone), or another process has the same.
static SPLIT: AtomicBool = AtomicBool::new(false);
/// `RLIMIT_FSIZE`; [`UNKNOWN`]: nobody has asked yet.
static FILE_SIZE: AtomicU64 = AtomicU64::new(UNKNOWN);
const UNKNOWN: u64 = u64::MAX - 1;

/// The umask of this process. Asked for at first need, and then known from its own calls of
/// umask(2).
pub fn umask() -> u32 {
    if let Some(own) = vfork_child().map(|child| child.umask.load(Relaxed))
        && own != 0
    {
        return own - 1;
    }
    if SPLIT.load(Relaxed) {
        return read_umask().unwrap_or(0o22);
    }
    let known = UMASK.load(Relaxed);
    if known != 0 {
        return known - 1;
    }
    let mask = match culvert_intercept::multi_threaded() {
        // No other thread can create a file in between.
        false => ask_umask(),
        true => read_umask().unwrap_or_else(|_| ask_umask()),
    };
    UMASK.store(mask + 1, Relaxed);
    mask
}

fn ask_umask() -> u32 {
    // The mask is put back at once.
    let mask = culvert_sys::process::umask(0o77);
    culvert_sys::process::umask(mask);
    mask & 0o777
}

/// `Umask:` of proc_pid_status(5).
fn read_umask() -> Result<u32, Errno> {
    let status = crate::files::read_file(c"/proc/thread-self/status")?;
    let label = b"Umask:\t";
    let at = status
        .windows(label.len())
        .position(|part| part == label)
        .ok_or(Errno::ENOENT)?
        + label.len();
    let digits = status[at..]
        .iter()
        .take_while(|byte| (b'0'..=b'7').contains(byte));
    Ok(digits.fold(0, |mask, digit| mask * 8 + u32::from(digit - b'0')) & 0o777)
}

/// umask(2) sets it.
pub fn set_umask(mask: u32) {
    let mask = (mask & 0o777) + 1;
    match vfork_child() {
        Some(child) => child.umask.store(mask, Relaxed),
        None => UMASK.store(mask, Relaxed),
    }
}

/// unshare(2) with `CLONE_FS`: from here on threads may have different umasks.
pub fn split_umask() {
    if culvert_intercept::multi_threaded() {
        SPLIT.store(true, Relaxed);
    }
}

/// Another process will have the same umask (`CLONE_FS` without `CLONE_VM`), and may set it.
pub fn umask_is_shared() {
    SPLIT.store(true, Relaxed);
}

/// The mode that a driver is given for a new file: with the umask applied, but as the program gave
/// it for a driver that acts by calls of this very process, where the kernel applies the umask, or
/// in its place the default ACL of the directory (acl(5)).
pub fn creation_mode(file_system: &dyn FileSystem, mode: u32) -> u32 {
    match file_system.capabilities().checks_permissions {
        true => mode,
        false => mode & !umask(),
    }
}

/// `RLIMIT_FSIZE` of this process: no file is made longer than that.
pub fn file_size() -> u64 {
    if vfork_child().is_some() {
        return ask_file_size();
    }
    let known = FILE_SIZE.load(Relaxed);
    if known != UNKNOWN {
        return known;
    }
    let limit = ask_file_size();
    FILE_SIZE.store(limit, Relaxed);
    limit
}

/// A limit was set: it is asked for again.
pub fn forget_file_size() {
    FILE_SIZE.store(UNKNOWN, Relaxed);
}

fn ask_file_size() -> u64 {
    const RLIMIT_FSIZE: usize = 1;
    let limits = culvert_sys::process::prlimit(RLIMIT_FSIZE as u32, None);
    match limits.map_or(u64::MAX, |[soft, _]| soft) {
        UNKNOWN => u64::MAX,
        limit => limit,
    }
}

/// A file may not become as long as a call wants: `SIGXFSZ`, and EFBIG where the program survives
/// that (`generic_write_check_limits`, fs/read_write.c).
pub fn too_large() -> Errno {
    const SIGXFSZ: u32 = 25;
    // To this very thread, as the kernel would send it.
    let _ = culvert_sys::process::tkill(culvert_sys::process::gettid(), SIGXFSZ);
    Errno::EFBIG
}

/// Checks a new length of a file that now has `old` bytes (`inode_newsize_ok`, fs/attr.c).
pub fn may_grow_to(old: u64, new: u64) -> Result<(), Errno> {
    if new > old && new > file_size() {
        return Err(too_large());
    }
    Ok(())
}

/// Runs `change`, which Culvert makes of a file of its own, or of bytes that the program has stored
/// in a mapping, up to `end`: natively no limit concerns these. `RLIMIT_FSIZE` is out of the way
/// meanwhile, where the hard limit allows that; `EFBIG` without a signal where not.
pub fn without_file_size<R, E: From<Errno>>(
    end: u64,
    change: impl FnOnce() -> Result<R, E>,
) -> Result<R, E> {
    if end <= file_size() {
        return change();
    }
    let limits = prlimit(RLIMIT_FSIZE, None)?;
    if end > limits[1] {
        return Err(Errno::EFBIG.into());
    }
    prlimit(RLIMIT_FSIZE, Some(&[limits[1]; 2]))?;
    let result = change();
    prlimit(RLIMIT_FSIZE, Some(&limits))?;
    result
}

/// Sets the length of a shadow, whatever the program's limit of file sizes says.
pub fn set_length(fd: i32, length: u64) -> Result<(), Errno> {
    without_file_size(length, || {
        culvert_sys::fs::ftruncate(culvert_sys::BorrowedFd::number(fd), length)
    })
}

/// Makes a file of the run directory at least so long, with room for all of it, so that no look at
/// a mapping of it can meet a page for which there is none.
pub fn make_room(fd: i32, length: u64) -> Result<(), Errno> {
    if super::is_confined() {
        // A filter that lets programs read files may end them for what comes below; others have
        // made room, or there is none.
        return match crate::files::stat_descriptor(fd)?.st_size as u64 >= length {
            true => Ok(()),
            false => Err(Errno::ENOSPC),
        };
    }
    without_file_size(length, || {
        let file = culvert_sys::BorrowedFd::number(fd);
        let made = culvert_sys::fs::fallocate(file, 0, 0, length);
        match made {
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINTR) => {
                culvert_sys::fs::ftruncate(culvert_sys::BorrowedFd::number(fd), length).map(|_| ())
            }
            made => made.map(|_| ()),
        }
    })
}
