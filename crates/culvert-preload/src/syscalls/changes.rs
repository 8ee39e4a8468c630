//! Making, removing and renaming names. The order of errors is the kernel's (`filename_create`,
//! `do_unlinkat`, `do_rmdir`, `do_renameat2` of fs/namei.c), a read-only mount's EROFS in its place
//! among them.

use super::arguments::At;
use super::path::{on_path, on_path_or_at_once};
use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use crate::vfs::create;
use crate::vfs::path::{AtOnce, is_nobodys_business};
use crate::vfs::remove::{remove_directory, remove_file};
use culvert_intercept::Call;
use culvert_mounts::resolver::LastStep;
use culvert_run::memory::PathBuffer;
use culvert_sys::nr;

const AT_REMOVEDIR: usize = 0x200;

/// mkdir(2), mkdirat(2)
pub fn mkdir(process: &Process, call: &mut Call) -> Answer {
    let at = At::of(call.number == nr::MKDIRAT, 0, LastStep::Parent);
    let mode = call.args[at.path + 1];
    on_path(process, call, at, None, |_, found| {
        create::directory(found, mode as u32).map(|()| 0)
    })
}

/// mknod(2), mknodat(2)
pub fn mknod(process: &Process, call: &mut Call) -> Answer {
    let at = At::of(call.number == nr::MKNODAT, 0, LastStep::Parent);
    let (mode, device) = (call.args[at.path + 1], call.args[at.path + 2]);
    // `may_mknod`: what no file system makes.
    match mode as u32 & 0o170000 {
        0 | 0o100000 | 0o020000 | 0o060000 | 0o010000 | 0o140000 => {}
        _ => return Err(FORWARD),
    }
    on_path(process, call, at, None, |_, found| {
        create::node(found, mode as u32, device as u64).map(|()| 0)
    })
}

/// symlink(2), symlinkat(2)
pub fn symlink(process: &Process, call: &mut Call) -> Answer {
    let at = At::of(call.number == nr::SYMLINKAT, 1, LastStep::Parent);
    let mut target_room = PathBuffer::new();
    let target = target_room.read(call.args[0])?;
    if target.is_empty() {
        return Err(FORWARD);
    }
    on_path(process, call, at, None, |_, found| {
        create::symbolic_link(found, target.bytes()).map(|()| 0)
    })
}

/// unlink(2), rmdir(2), unlinkat(2)
pub fn unlink(process: &Process, call: &mut Call) -> Answer {
    let at = At::of(call.number == nr::UNLINKAT, 0, LastStep::Parent);
    let flags = match call.number {
        nr::UNLINK => 0,
        nr::RMDIR => AT_REMOVEDIR,
        _ => call.args[2],
    };
    if flags & !AT_REMOVEDIR != 0 {
        return Err(FORWARD);
    }
    let ask = |place: &AtOnce<'_>| match flags == 0 && is_nobodys_business(place.driver) {
        true => Some(place.unlink()?.map(|()| 0)),
        false => None,
    };
    on_path_or_at_once(process, call, at, None, Some(ask), |_, found| match flags {
        0 => remove_file(process, found),
        _ => remove_directory(process, found),
    })
}
