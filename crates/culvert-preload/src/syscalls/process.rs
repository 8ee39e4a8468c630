//! Processes: exec, exit, and what they share.

use super::arguments::{descriptor, last_step};
use crate::answer::{Answer, FORWARD};
use crate::descriptors::with_own_table;
use crate::exec::{self, Loader, Why, program};
use crate::fuse_server;
use crate::lifecycle::{credentials, exit as end};
use crate::process::Process;
use alloc::format;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_mounts::resolver::LastStep;
use culvert_run::memory::PathBuffer;
use culvert_sys::raw::general::AT_FDCWD;

/// execve(2), execveat(2) below another root: the program is the kernel's to find, and does not
/// join.
fn execute_elsewhere(process: &Process) -> Answer {
    exec::hand_down(process, &Loader::None(Why::NoLibrary)).and(Err(FORWARD))
}

/// execve(2)
pub fn execve(process: &Process, call: &mut Call) -> Answer {
    let [path, arguments, environment, ..] = call.args;
    let mut path_room = PathBuffer::new();
    let path = path_room.read(path)?;
    if culvert_run::task::has_left() {
        return execute_elsewhere(process);
    }
    if fuse_server::is_one() {
        let lists = || Ok([exec::pointers(arguments)?, exec::pointers(environment)?]);
        fuse_server::fusermount(path.bytes(), lists);
        fuse_server::processors::restore();
    }
    culvert_cache::executes();
    Err(exec::execute(
        process,
        path.bytes(),
        arguments,
        environment,
        &|path| program::locate(process, AT_FDCWD, path, LastStep::Follow),
    ))
}

/// execveat(2)
pub fn execveat(process: &Process, call: &mut Call) -> Answer {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    const AT_EMPTY_PATH: usize = 0x1000;
    const AT_EXECVE_CHECK: usize = 0x10000;
    let [fd, path, arguments, environment, flags, _] = call.args;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_EXECVE_CHECK) != 0 {
        return Err(FORWARD);
    }
    if culvert_run::task::has_left() {
        return execute_elsewhere(process);
    }
    let mut path_room = PathBuffer::new();
    let path = path_room.read(path)?;
    let fd = fd as i32;
    let ours = descriptor(process, fd as usize);
    fuse_server::processors::restore();
    if flags & AT_EXECVE_CHECK != 0 {
        return if ours.is_some() {
            Err(Errno::EINVAL)
        } else {
            Err(FORWARD)
        };
    }
    if path.is_empty() && flags & AT_EMPTY_PATH == 0 {
        return Err(Errno::ENOENT);
    }
    if ours.is_none() {
        program::may_start_below(process, fd, path)?;
    }
    culvert_cache::executes();
    if path.is_empty() {
        // As the kernel calls it, for scripts (`alloc_bprm`, fs/exec.c).
        let shown = format!("/dev/fd/{fd}");
        return Err(exec::execute(
            process,
            shown.as_bytes(),
            arguments,
            environment,
            &|path| {
                if path != shown.as_bytes() {
                    return program::locate(process, AT_FDCWD, path, LastStep::Follow);
                }
                program::of_descriptor(process, fd)
            },
        ));
    }
    let last = last_step(flags);
    let text = path.bytes();
    // As the kernel calls it, for scripts (`alloc_bprm`, fs/exec.c).
    let first = match text.first() {
        Some(b'/') => text.to_vec(),
        _ if fd == AT_FDCWD => text.to_vec(),
        _ => [format!("/dev/fd/{fd}/").as_bytes(), text].concat(),
    };
    Err(exec::execute(
        process,
        &first,
        arguments,
        environment,
        &|path| {
            if path == first {
                let program = program::locate(process, fd, text, last)?;
                match last == LastStep::NoFollow && program.is_link() {
                    // The kernel is told a path without a flag.
                    true => Err(Errno::ELOOP),
                    false => Ok(program),
                }
            } else {
                program::locate(process, AT_FDCWD, path, LastStep::Follow)
            }
        },
    ))
}

/// umask(2)
pub fn umask(_: &Process, call: &mut Call) -> Answer {
    culvert_run::task::limits::set_umask(call.args[0] as u32);
    Err(FORWARD)
}

/// setrlimit(2), prlimit64(2): the limit of a file's length may change.
pub fn limits(_: &Process, call: &mut Call) -> Answer {
    let answer = call.execute();
    culvert_run::task::limits::forget_file_size();
    answer
}

/// unshare(2)
pub fn unshare(process: &Process, call: &mut Call) -> Answer {
    // CLONE_FS, and CLONE_NEWNS and CLONE_NEWUSER, which imply it (`ksys_unshare`, kernel/fork.c).
    const OWN_UMASK: usize = 0x200 | 0x2_0000 | 0x1000_0000;
    const CLONE_FILES: usize = 0x400;
    const CLONE_NEWNS: usize = 0x2_0000;
    const CLONE_NEWUSER: usize = 0x1000_0000;
    if call.args[0] & OWN_UMASK != 0 {
        culvert_run::task::limits::split_umask();
    }
    let flags = call.args[0];
    if flags & CLONE_NEWNS != 0 {
        process.forget_what_kernel_sees();
    }
    if flags & (CLONE_FILES | CLONE_NEWUSER) == 0 {
        return Err(FORWARD);
    }
    credentials::entering(process, flags, || match flags & CLONE_FILES {
        0 => call.execute(),
        _ => with_own_table(|| call.execute()).unwrap_or_else(|| call.execute()),
    })
}

/// exit_group(2): what children that were not intercepted have written is not left to chance, and
/// what is open is closed.
pub fn exit_group(process: &Process, call: &mut Call) -> Answer {
    // A filter that lets a program end may forbid the calls for this.
    if !culvert_run::task::is_confined() {
        // What fails stays for the next process.
        culvert_cache::strangers::bring_all();
    }
    culvert_cache::ends();
    if end::exits(process) {
        // Here, for no handler of the program's may find its descriptors gone.
        let _ = call.execute();
    }
    Err(FORWARD)
}

/// exit(2): that of the last thread ends the process.
pub fn exit(process: &Process, call: &mut Call) -> Answer {
    let may_ask = culvert_run::task::vfork_child().is_none() && !culvert_run::task::is_confined();
    match may_ask && culvert_intercept::is_last_thread() {
        true => exit_group(process, call),
        false => Err(FORWARD),
    }
}
