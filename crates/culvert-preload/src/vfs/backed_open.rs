//! open(2) in a mount that is a tree of the kernel's own.

use super::backed::{Backed, within};
use crate::answer::RESTART;
use crate::process::Process;
use culvert::Errno;
use culvert_intercept::wait;
use culvert_mounts::resolver::Restrictions;
use culvert_sys::BorrowedFd;
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general::O_PATH;
use culvert_sys::raw::general::open_how;
use culvert_sys::raw::general::{
    O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY, O_TMPFILE, S_IFDIR, S_IFMT,
};

/// Why nothing was opened.
pub enum Failure {
    /// The call's answer.
    Errno(Errno),
    /// A link stands in the way: the path must be walked by the resolver.
    MustWalk,
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Opens `place` with the flags and mode of the call, and records the descriptor.
#[inline]
pub fn open(
    process: &Process,
    place: &Backed<'_>,
    restrictions: Restrictions,
    flags: u32,
    mode: u32,
) -> Result<i32, Failure> {
    let creates = flags & O_CREAT != 0 || flags & O_TMPFILE == O_TMPFILE;
    let path = place.path_or_dot();
    // openat2 refuses what open ignores: a mode where nothing is made, and bits that no mode has.
    let mode = if creates { mode & 0o7777 } else { 0 };
    let by_kernel = is_kernels(place, flags);
    let free = place.is_resolved() || place.is_left_to_kernel() || by_kernel;
    // A walk has obeyed what the program's own openat2 asked, up to the last component.
    const ABOUT_SCOPE: u64 = Restrictions::BENEATH | Restrictions::IN_ROOT;
    // It may wait (a FIFO), and signals must end that.
    let (base, text) = (BorrowedFd::number(place.base), path.c_str());
    let restricted = |resolve| {
        let how = open_how {
            flags: u64::from(flags),
            mode: u64::from(mode),
            resolve,
        };
        wait::open_how(base, text, &how)
    };
    let opened = match restrictions.0 & !ABOUT_SCOPE {
        _ if !free => within(&path, restricted),
        0 => wait::openat(base, text, OFlags::from_bits(flags), mode),
        resolve => restricted(resolve),
    };
    match opened {
        Ok(fd) if by_kernel => Ok(record_outside(process, fd.into_raw(), flags)),
        Ok(fd) => Ok(record(process, place, fd.into_raw(), flags)),
        Err(errno @ RESTART) => Err(errno.into()),
        Err(errno) if free => Err(errno.into()),
        // EXDEV: it climbs, ELOOP: too many links, a magic one or O_NOFOLLOW, EAGAIN: a rename
        // meanwhile, EPERM and ENOSYS: perhaps a filter that does not know openat2.
        Err(Errno::EXDEV | Errno::ELOOP | Errno::EAGAIN | Errno::EPERM | Errno::ENOSYS) => {
            Err(Failure::MustWalk)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Whether the kernel finds by itself what the path means, and need not be kept in the tree: what
/// is opened is as good as any other file of the kernel's, whose name is the right one already. Not
/// what is likely used as a directory, which is to be known as one of the mount's.
fn is_kernels(place: &Backed<'_>, flags: u32) -> bool {
    !place.is_resolved() && flags & (O_DIRECTORY | O_PATH) == 0 && place.is_seen_by_kernel()
}

fn record_outside(process: &Process, fd: i32, flags: u32) -> i32 {
    let table = &process.table;
    let fd = table.opened_by_kernel(fd, flags & O_CLOEXEC != 0);
    if flags & O_DIRECT != 0 {
        table.note_unbuffered(fd);
    }
    fd
}

fn record(process: &Process, place: &Backed<'_>, fd: i32, flags: u32) -> i32 {
    let is_directory = match flags {
        _ if flags & O_TMPFILE == O_TMPFILE => false,
        _ if flags & O_DIRECTORY != 0 => true,
        // Used as directories more often than not.
        _ if flags & O_PATH != 0 => {
            culvert_run::stat_descriptor(fd).is_ok_and(|found| found.st_mode & S_IFMT == S_IFDIR)
        }
        _ => false,
    };
    let close_on_exec = flags & O_CLOEXEC != 0;
    let table = &process.table;
    let fd = table.opened_in_backing(fd, place.mount, is_directory, close_on_exec);
    if flags & O_DIRECT != 0 {
        table.note_unbuffered(fd);
    }
    fd
}
