//! Changes in a mount that is a tree of the kernel's own and mounted read-only, though its source is not: `EROFS`, where the kernel would say it.

use super::Answer;
use super::backed::{Backed, execute};
use super::path::{At, stat_at};
use crate::memory::Path;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_sys::nr;

const AT_SYMLINK_NOFOLLOW: usize = 0x100;
const AT_REMOVEDIR: usize = 0x200;
const W_OK: usize = 2;

/// Whether `call` changes what its path names, or asks whether it could.
#[inline]
pub fn concerns(call: &Call) -> bool {
    match call.number {
        nr::STAT | nr::LSTAT | nr::NEWFSTATAT | nr::STATX | nr::READLINK | nr::READLINKAT => false,
        nr::ACCESS => call.args[1] & W_OK != 0,
        nr::FACCESSAT | nr::FACCESSAT2 => call.args[2] & W_OK != 0,
        nr::MKDIR | nr::MKDIRAT | nr::MKNOD | nr::MKNODAT | nr::SYMLINK | nr::SYMLINKAT => true,
        nr::UNLINK | nr::UNLINKAT | nr::RMDIR => true,
        nr::CHMOD | nr::FCHMODAT | nr::FCHMODAT2 => true,
        nr::CHOWN | nr::LCHOWN | nr::FCHOWNAT => true,
        nr::TRUNCATE | nr::UTIME | nr::UTIMES | nr::FUTIMESAT | nr::UTIMENSAT => true,
        nr::SETXATTR | nr::LSETXATTR | nr::REMOVEXATTR | nr::LREMOVEXATTR => true,
        nr::SETXATTRAT | nr::REMOVEXATTRAT => true,
        _ => false,
    }
}

/// The answer to such a call on a place that a walk has found.
pub fn answer(call: &Call, at: At, place: &Backed<'_>) -> Answer {
    let path = match place.path() {
        path if path.is_empty() => Path::of(b".\0"),
        path => path,
    };
    let found = || stat_at(place.base, path, AT_SYMLINK_NOFOLLOW);
    match call.number {
        nr::MKDIR | nr::MKDIRAT => absent(place, false),
        nr::MKNOD | nr::MKNODAT | nr::SYMLINK | nr::SYMLINKAT => absent(place, true),
        nr::UNLINK | nr::UNLINKAT | nr::RMDIR => {
            let directory = call.number == nr::RMDIR
                || (call.number == nr::UNLINKAT && call.args[2] & AT_REMOVEDIR != 0);
            Err(match (last_name(place.path().bytes()), directory) {
                (b"", true) => super::changes::of_target(place.mount, Errno::EBUSY),
                (b"", false) => super::changes::of_target(place.mount, Errno::EISDIR),
                (b".", true) => Errno::EINVAL,
                (b"..", true) => Errno::ENOTEMPTY,
                (b"." | b"..", false) => Errno::EISDIR,
                _ => Errno::EROFS,
            })
        }
        nr::ACCESS | nr::FACCESSAT | nr::FACCESSAT2 => {
            execute(call, at, place.base, path, true)?;
            match found()?.st_mode & 0o170000 {
                0o100000 | 0o040000 | 0o120000 => Err(Errno::EROFS),
                _ => Ok(0),
            }
        }
        nr::TRUNCATE => Err(match found()?.st_mode & 0o170000 {
            0o100000 => Errno::EROFS,
            0o040000 => Errno::EISDIR,
            _ => Errno::EINVAL,
        }),
        _ => found().and(Err(Errno::EROFS)),
    }
}

/// What making a name answers: EEXIST and ENOENT come before EROFS (`filename_create`, fs/namei.c).
pub fn absent(place: &Backed<'_>, slash_matters: bool) -> Answer {
    let path = place.path();
    if path.is_empty() {
        return Err(Errno::EEXIST);
    }
    match stat_at(place.base, path, AT_SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EEXIST),
        Err(Errno::ENOENT) if slash_matters && path.last() == Some(&b'/') => Err(Errno::ENOENT),
        Err(Errno::ENOENT) => Err(Errno::EROFS),
        Err(Errno::ENOTDIR) if path.last() == Some(&b'/') => Err(Errno::EEXIST),
        Err(errno) => Err(errno),
    }
}

/// The last component of `path`, without slashes.
pub fn last_name(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    path[..end].rsplit(|&b| b == b'/').next().unwrap_or(b"")
}
