//! open and its relatives.

use super::arguments::At;
use super::path::outside;
use crate::answer::{Answer, FORWARD};
use crate::fuse_server;
use crate::process::Process;
use crate::vfs::backed::Backed;
use crate::vfs::backed_open;
use crate::vfs::misses;
use crate::vfs::open::open_inside;
use crate::vfs::path::{Found, find_by_walking, look_again};
use core::ffi::CStr;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_mounts::resolver::{LastStep, Restrictions};
use culvert_run::memory::{self, Path, PathBuffer};
use culvert_run::stat_descriptor;
use culvert_sys::fd::CWD;
use culvert_sys::fs;
use culvert_sys::nr;
use culvert_sys::raw::general::O_PATH;
use culvert_sys::raw::general::open_how;
use culvert_sys::raw::general::{AT_FDCWD, O_ACCMODE, O_DIRECT, O_DIRECTORY, O_NOFOLLOW, O_WRONLY};
pub(super) use culvert_sys::raw::general::{O_CLOEXEC, O_CREAT, O_EXCL, O_TMPFILE, O_TRUNC};

/// The size of `struct open_how`, which has had no other yet.
const OPEN_HOW: usize = 24;

/// `VALID_OPEN_FLAGS`: open and openat ignore the rest, openat2 refuses it.
const VALID: u32 = 0o37777703;

/// What O_PATH leaves of the flags (`O_PATH_FLAGS`).
const PATH_FLAGS: u32 = O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;

/// open(2), openat(2), creat(2)
pub fn open(process: &Process, call: &mut Call) -> Answer {
    let at = At::of(call.number == nr::OPENAT, 0, LastStep::Follow);
    let (flags, mode) = match call.number {
        nr::CREAT => (O_CREAT | O_TRUNC | O_WRONLY, call.args[1]),
        _ => (call.args[at.path + 1] as u32, call.args[at.path + 2]),
    };
    open_at(process, call, at, flags & VALID, mode as u32)
}

/// openat2(2)
pub fn openat2(process: &Process, call: &mut Call) -> Answer {
    let [_, _, how, size, ..] = call.args;
    if memory::says_no_more(how, size, OPEN_HOW, OPEN_HOW).is_err() {
        return Err(FORWARD);
    }
    let (Ok(flags), Ok(mode), Ok(resolve)) = (
        memory::get::<u64>(how),
        memory::get::<u64>(how + 8),
        memory::get::<u64>(how + 16),
    ) else {
        return Err(FORWARD);
    };
    if refused_by_kernel(flags, mode, resolve) {
        return Err(FORWARD);
    }
    let path_only = flags & u64::from(O_PATH) != 0;
    let creates = flags & u64::from(O_CREAT | O_TMPFILE & !O_DIRECTORY) != 0;
    if (path_only && flags & !u64::from(PATH_FLAGS) != 0) || (mode != 0 && !creates) {
        return Err(FORWARD);
    }
    let at = At {
        restrictions: Restrictions(resolve),
        ..At::below(0, LastStep::Follow)
    };
    open_at(process, call, at, flags as u32, mode as u32)
}

/// Whether the kernel refuses an openat2 before it looks at the path (fs/open.c,
/// `build_open_flags`).
fn refused_by_kernel(flags: u64, mode: u64, resolve: u64) -> bool {
    const TMPFILE_ALONE: u64 = (O_TMPFILE & !O_DIRECTORY) as u64;
    let has = |flag: u32| flags & u64::from(flag) != 0;
    let creates = has(O_CREAT) || flags & TMPFILE_ALONE != 0;
    let scopes = Restrictions::BENEATH | Restrictions::IN_ROOT;
    flags & !u64::from(VALID | O_PATH) != 0
        || resolve & !0x3f != 0
        || resolve & scopes == scopes
        || mode & if creates { !0o7777 } else { !0 } != 0
        || (has(O_CREAT) && has(O_DIRECTORY))
        || (flags & TMPFILE_ALONE != 0 && (!has(O_DIRECTORY) || flags & u64::from(O_ACCMODE) == 0))
        || (has(O_PATH) && flags & !u64::from(PATH_FLAGS) != 0)
}

fn open_at(process: &Process, call: &mut Call, at: At, flags: u32, mode: u32) -> Answer {
    let flags = if flags & O_PATH != 0 {
        flags & PATH_FLAGS
    } else {
        flags
    };
    let creates = flags & O_CREAT != 0;
    const TMPFILE_ALONE: u32 = O_TMPFILE & !O_DIRECTORY;
    // `build_open_flags`, fs/open.c; the first since Linux 6.3.
    if flags & (O_CREAT | O_DIRECTORY) == O_CREAT | O_DIRECTORY
        || (flags & TMPFILE_ALONE != 0
            && (flags & (O_DIRECTORY | O_CREAT) != O_DIRECTORY || flags & O_ACCMODE == 0))
    {
        return Err(Errno::EINVAL);
    }
    let last = match (creates, flags & O_NOFOLLOW != 0) {
        (true, _) if flags & O_EXCL != 0 => LastStep::CreateNew,
        (true, true) => LastStep::CreateNoFollow,
        (true, false) => LastStep::Create,
        (false, true) => LastStep::NoFollow,
        (false, false) => LastStep::Follow,
    };
    let at = At { last, ..at };
    let mut room = PathBuffer::new();
    let path = room.read(call.args[at.path])?;
    if let Some(answer) = fuse_server::open(path.bytes(), flags) {
        return answer;
    }
    let directory = at
        .directory
        .map_or(AT_FDCWD, |index| call.args[index] as i32);
    let found = crate::vfs::path::find(process, directory, path, last, at.restrictions)?;
    if let Some(answer) = open_found(process, call, at, path, found, (flags, mode)) {
        return answer;
    }
    let given = path;
    let path = given.bytes();
    if let Some(answer) = crate::vfs::proc_files::open(process, path, flags) {
        return answer;
    }
    if path.is_empty() {
        return Err(FORWARD);
    }
    // The kernel would make a file where a link leads: in the empty directory under a mount, if it
    // leads into one.
    let made_there = match flags & TMPFILE_ALONE != 0 {
        true => {
            process.targets_exist
                && crate::vfs::targets::target_at(process, directory, given).is_some()
        }
        false => {
            last == LastStep::Create
                && process.targets_open
                && crate::vfs::path::is_link(directory, given)
        }
    };
    if made_there {
        let found = look_again(process, directory, given, last, at.restrictions, true)?;
        if let Some(answer) = open_found(process, call, at, given, found, (flags, mode)) {
            return answer;
        }
    }
    let certain = creates
        && process.targets_open
        && crate::vfs::targets::parent_is_target(process, directory, path);
    let told = match at.restrictions {
        Restrictions(0) if !certain => misses::open(process, directory, given, flags),
        _ => None,
    };
    let answer = match told {
        Some(Err(errno)) => return Err(errno),
        Some(opened) => opened,
        None if certain => Err(Errno::ENOENT),
        // It may wait (a FIFO), and signals must end that.
        None => call.wait(),
    };
    match answer {
        Ok(fd) => keep_opened(process, fd as i32, path, flags),
        Err(Errno::ENOENT | Errno::ENOTDIR) => {
            let found = look_again(process, directory, given, last, at.restrictions, certain)?;
            open_found(process, call, at, given, found, (flags, mode)).unwrap_or(answer)
        }
        Err(_) => answer,
    }
}

/// Opens what `given` was found to be; none: it is the kernel's.
fn open_found(
    process: &Process,
    call: &Call,
    at: At,
    given: Path<'_>,
    found: Found<'_>,
    (flags, mode): (u32, u32),
) -> Option<Answer> {
    match found {
        Found::Inside(found) => Some(open_inside(process, found, flags, mode)),
        Found::Backed(place) => Some(open_backed(process, call, at, given, &place, flags, mode)),
        Found::Outside(path) => Some(open_outside(process, call, at, &path)),
        Found::MagicLink(_) | Found::Kernel => None,
    }
}

/// What is known of a descriptor that the kernel has opened by `path`; the target of a mount
/// becomes its root.
fn keep_opened(process: &Process, fd: i32, path: &[u8], flags: u32) -> Answer {
    let table = &process.table;
    let fd = table.opened_by_kernel(fd, flags & O_CLOEXEC != 0);
    if flags & O_DIRECT != 0 {
        table.note_unbuffered(fd);
    }
    // Another process's descriptor may be a shadow.
    if path.starts_with(b"/proc/") && path.windows(4).any(|part| part == b"/fd/") {
        table.forget(fd);
    }
    if flags & (O_DIRECTORY | O_PATH) != 0
        && process.targets_exist
        && let Ok(found) = stat_descriptor(fd)
        && let Some(mount) = process.mounts.is_target(found.st_dev, found.st_ino)
    {
        crate::vfs::targets::adopt_target(process, fd, mount)?;
    }
    Ok(fd as usize)
}

/// Opens something in the backing tree of a mount: the program gets the kernel's own descriptor.
fn open_backed(
    process: &Process,
    call: &Call,
    at: At,
    path: Path<'_>,
    place: &Backed<'_>,
    flags: u32,
    mode: u32,
) -> Answer {
    let mut opened = crate::vfs::backed_open::open(process, place, at.restrictions, flags, mode);
    if let Err(backed_open::Failure::MustWalk) = opened {
        let directory = at.directory_of(call);
        opened = match find_by_walking(process, directory, path, at.last, at.restrictions)? {
            Found::Inside(found) => return open_inside(process, found, flags, mode),
            Found::Outside(path) => return open_outside(process, call, at, &path),
            Found::Backed(place) => {
                crate::vfs::backed_open::open(process, &place, at.restrictions, flags, mode)
            }
            Found::MagicLink(_) | Found::Kernel => return Err(FORWARD),
        };
    }
    match opened {
        Ok(fd) => Ok(fd as usize),
        Err(backed_open::Failure::Errno(errno)) => Err(errno),
        Err(backed_open::Failure::MustWalk) => Err(Errno::ELOOP),
    }
}

/// The open with an absolute path that leaves the mounts.
fn open_outside(process: &Process, call: &Call, at: At, path: &CStr) -> Answer {
    if let Some(answer) = crate::vfs::proc_files::open(
        process,
        path.to_bytes(),
        call.args[if at.directory.is_some() { 2 } else { 1 }] as u32,
    ) {
        return answer;
    }
    if call.number != nr::OPENAT2 {
        return outside(call, at, path);
    }
    // BENEATH and IN_ROOT have been obeyed and would refuse the absolute path.
    let flags = memory::get::<u64>(call.args[2]).map_err(|_| FORWARD)?;
    let mode = memory::get::<u64>(call.args[2] + 8).unwrap_or(0);
    let how = open_how {
        flags,
        mode,
        resolve: at.restrictions.0 & !0x18,
    };
    fs::open_how(CWD, path, &how).map(|fd| fd.into_raw() as usize)
}
