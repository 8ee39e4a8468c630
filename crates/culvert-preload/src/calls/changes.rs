//! Making, removing and renaming names. The order of errors is the kernel's (`filename_create`,
//! `do_unlinkat`, `do_rmdir`, `do_renameat2` of fs/namei.c), a read-only mount's EROFS in its place
//! among them.

use super::arguments::At;
use super::done;
use super::path::on_path;
use crate::memory::PathBuffer;
use crate::process;
use crate::resolver::LastStep;
use crate::vfs::create::{make, masked};
use crate::vfs::remove::{remove_directory, remove_file};
use culvert::{Errno, Rights};
use culvert_intercept::{Call, Outcome};
use culvert_sys::nr;

/// The device that stands for a removed name in overlays, which everybody may make (`WHITEOUT_DEV`,
/// include/linux/fs.h).
const WHITEOUT: u32 = 0;

/// mkdir(2), mkdirat(2)
pub fn mkdir(call: &mut Call) -> Outcome {
    let at = if call.number == nr::MKDIRAT {
        At::below(0, LastStep::Parent)
    } else {
        At::new(0, LastStep::Parent)
    };
    let mode = call.args[at.path + 1];
    on_path(call, at, None, |_, found| {
        make(found, true)?.by(|making| {
            making.file_system.mkdir(
                &process::caller(),
                making.parent,
                making.name,
                masked(making.file_system, mode, 0o1777),
            )
        })
    })
}

/// mknod(2), mknodat(2)
pub fn mknod(call: &mut Call) -> Outcome {
    let at = if call.number == nr::MKNODAT {
        At::below(0, LastStep::Parent)
    } else {
        At::new(0, LastStep::Parent)
    };
    let (mode, device) = (call.args[at.path + 1], call.args[at.path + 2]);
    // `may_mknod`: what no file system makes.
    match mode as u32 & 0o170000 {
        0 | 0o100000 | 0o020000 | 0o060000 | 0o010000 | 0o140000 => {}
        _ => return Outcome::Forward,
    }
    on_path(call, at, None, |_, found| {
        let making = make(found, false)?;
        let kind = if mode as u32 & 0o170000 == 0 {
            0o100000
        } else {
            mode as u32 & 0o170000
        };
        if matches!(kind, 0o020000 | 0o060000)
            && !(kind == 0o020000 && device as u32 == WHITEOUT)
            && !process::caller().has(Rights::MKNOD)
        {
            return Err(Errno::EPERM);
        }
        making.by(|making| {
            making.file_system.mknod(
                &process::caller(),
                making.parent,
                making.name,
                kind | masked(making.file_system, mode, 0o7777),
                device as u64,
            )
        })
    })
}

/// symlink(2), symlinkat(2)
pub fn symlink(call: &mut Call) -> Outcome {
    let at = if call.number == nr::SYMLINKAT {
        At::below(1, LastStep::Parent)
    } else {
        At::new(1, LastStep::Parent)
    };
    let mut target_room = PathBuffer::new();
    let target = match target_room.read(call.args[0]) {
        Ok(target) => target,
        Err(errno) => return done(Err(errno)),
    };
    if target.is_empty() {
        return Outcome::Forward;
    }
    on_path(call, at, None, |_, found| {
        make(found, false)?.by(|making| {
            making.file_system.symlink(
                &process::caller(),
                making.parent,
                making.name,
                target.bytes(),
            )
        })
    })
}

/// unlink(2)
pub fn unlink(call: &mut Call) -> Outcome {
    on_path(call, At::new(0, LastStep::Parent), None, |_, found| {
        remove_file(found)
    })
}

/// rmdir(2)
pub fn rmdir(call: &mut Call) -> Outcome {
    on_path(call, At::new(0, LastStep::Parent), None, |_, found| {
        remove_directory(found)
    })
}

/// unlinkat(2)
pub fn unlinkat(call: &mut Call) -> Outcome {
    const AT_REMOVEDIR: usize = 0x200;
    match call.args[2] {
        0 => on_path(call, At::below(0, LastStep::Parent), None, |_, found| {
            remove_file(found)
        }),
        AT_REMOVEDIR => on_path(call, At::below(0, LastStep::Parent), None, |_, found| {
            remove_directory(found)
        }),
        _ => Outcome::Forward,
    }
}
