//! Making, removing and renaming names. The order of errors is the kernel's (`filename_create`,
//! `do_unlinkat`, `do_rmdir`, `do_renameat2` of fs/namei.c), a read-only mount's EROFS in its place
//! among them.

use super::arguments::At;
use super::done;
use super::path::on_path;
use crate::process::Process;
use crate::vfs::create;
use crate::vfs::remove::{remove_directory, remove_file};
use culvert_intercept::{Call, Outcome};
use culvert_mounts::resolver::LastStep;
use culvert_run::memory::PathBuffer;
use culvert_sys::nr;

/// mkdir(2), mkdirat(2)
pub fn mkdir(process: &Process, call: &mut Call) -> Outcome {
    let at = At::of(call.number == nr::MKDIRAT, 0, LastStep::Parent);
    let mode = call.args[at.path + 1];
    on_path(process, call, at, None, |_, found| {
        create::directory(found, mode as u32).map(|()| 0)
    })
}

/// mknod(2), mknodat(2)
pub fn mknod(process: &Process, call: &mut Call) -> Outcome {
    let at = At::of(call.number == nr::MKNODAT, 0, LastStep::Parent);
    let (mode, device) = (call.args[at.path + 1], call.args[at.path + 2]);
    // `may_mknod`: what no file system makes.
    match mode as u32 & 0o170000 {
        0 | 0o100000 | 0o020000 | 0o060000 | 0o010000 | 0o140000 => {}
        _ => return Outcome::Forward,
    }
    on_path(process, call, at, None, |_, found| {
        create::node(found, mode as u32, device as u64).map(|()| 0)
    })
}

/// symlink(2), symlinkat(2)
pub fn symlink(process: &Process, call: &mut Call) -> Outcome {
    let at = At::of(call.number == nr::SYMLINKAT, 1, LastStep::Parent);
    let mut target_room = PathBuffer::new();
    let target = match target_room.read(call.args[0]) {
        Ok(target) => target,
        Err(errno) => return done(Err(errno)),
    };
    if target.is_empty() {
        return Outcome::Forward;
    }
    on_path(process, call, at, None, |_, found| {
        create::symbolic_link(found, target.bytes()).map(|()| 0)
    })
}

/// unlink(2)
pub fn unlink(process: &Process, call: &mut Call) -> Outcome {
    on_path(
        process,
        call,
        At::new(0, LastStep::Parent),
        None,
        |_, found| remove_file(process, found),
    )
}

/// rmdir(2)
pub fn rmdir(process: &Process, call: &mut Call) -> Outcome {
    on_path(
        process,
        call,
        At::new(0, LastStep::Parent),
        None,
        |_, found| remove_directory(process, found),
    )
}

/// unlinkat(2)
pub fn unlinkat(process: &Process, call: &mut Call) -> Outcome {
    const AT_REMOVEDIR: usize = 0x200;
    match call.args[2] {
        0 => on_path(
            process,
            call,
            At::below(0, LastStep::Parent),
            None,
            |_, found| remove_file(process, found),
        ),
        AT_REMOVEDIR => on_path(
            process,
            call,
            At::below(0, LastStep::Parent),
            None,
            |_, found| remove_directory(process, found),
        ),
        _ => Outcome::Forward,
    }
}
