//! open and its relatives.

use super::backed::Backed;
use super::opened::{add, add_directory, give, give_new};
use super::path::{At, Found, find_by_walking, look_again, outside};
use super::stat::existing;
use super::{backed_open, done};
use crate::answer::Answer;
use crate::description::{O_PATH, Object};
use crate::memory::{self, Path, PathBuffer};
use crate::paging::{self, change};
use crate::process;
use crate::resolver::{Inside, Last, LastStep, Restrictions};
use crate::run::{ShadowName, stat_descriptor};
use crate::vfs::permission::{allowed, granted};
use crate::watch;
use culvert::{Attributes, Errno, FileKind, OpenFlags};
use culvert_intercept::{Call, Outcome};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::raw::general::{O_ACCMODE, O_DIRECT, O_DIRECTORY, O_NOATIME, O_NOFOLLOW};
pub(super) use culvert_sys::raw::general::{O_CLOEXEC, O_CREAT, O_EXCL, O_TMPFILE, O_TRUNC};
use culvert_sys::{nr, syscall};

/// The size of `struct open_how`, which has had no other yet.
const OPEN_HOW: usize = 24;
/// `VALID_OPEN_FLAGS`: open and openat ignore the rest, openat2 refuses it.
const VALID: u32 = 0o37777703;
/// What O_PATH leaves of the flags (`O_PATH_FLAGS`).
const PATH_FLAGS: u32 = O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;

/// open(2)
pub fn open(call: &mut Call) -> Outcome {
    let (flags, mode) = (call.args[1] as u32, call.args[2] as u32);
    open_at(call, At::new(0, LastStep::Follow), flags & VALID, mode)
}

/// creat(2)
pub fn creat(call: &mut Call) -> Outcome {
    let mode = call.args[1] as u32;
    open_at(
        call,
        At::new(0, LastStep::Follow),
        O_CREAT | O_TRUNC | 1,
        mode,
    )
}

/// openat(2)
pub fn openat(call: &mut Call) -> Outcome {
    let (flags, mode) = (call.args[2] as u32, call.args[3] as u32);
    open_at(call, At::below(0, LastStep::Follow), flags & VALID, mode)
}

/// openat2(2)
pub fn openat2(call: &mut Call) -> Outcome {
    let [_, _, how, size, ..] = call.args;
    if memory::says_no_more(how, size, OPEN_HOW, OPEN_HOW).is_err() {
        return Outcome::Forward;
    }
    let (Ok(flags), Ok(mode), Ok(resolve)) = (
        memory::get::<u64>(how),
        memory::get::<u64>(how + 8),
        memory::get::<u64>(how + 16),
    ) else {
        return Outcome::Forward;
    };
    if refused_by_kernel(flags, mode, resolve) {
        return Outcome::Forward;
    }
    let path_only = flags & u64::from(O_PATH) != 0;
    let creates = flags & u64::from(O_CREAT | O_TMPFILE & !O_DIRECTORY) != 0;
    if (path_only && flags & !u64::from(PATH_FLAGS) != 0) || (mode != 0 && !creates) {
        return Outcome::Forward;
    }
    let at = At {
        restrictions: Restrictions(resolve),
        ..At::below(0, LastStep::Follow)
    };
    open_at(call, at, flags as u32, mode as u32)
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

fn open_at(call: &mut Call, at: At, flags: u32, mode: u32) -> Outcome {
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
        return done(Err(Errno::EINVAL));
    }
    let last = match (
        creates,
        flags & O_NOFOLLOW != 0 || (creates && flags & O_EXCL != 0),
    ) {
        (true, true) => LastStep::CreateNoFollow,
        (true, false) => LastStep::Create,
        (false, true) => LastStep::NoFollow,
        (false, false) => LastStep::Follow,
    };
    let at = At { last, ..at };
    let mut room = PathBuffer::new();
    let path = match room.read(call.args[at.path]) {
        Ok(path) => path,
        Err(errno) => return done(Err(errno)),
    };
    let directory = at
        .directory
        .map_or(AT_FDCWD, |index| call.args[index] as i32);
    match super::path::find(directory, path, last, at.restrictions) {
        Err(errno) => return done(Err(errno)),
        Ok(Found::Inside(found)) => return done(open_inside(found, flags, mode)),
        Ok(Found::Backed(place)) => return open_backed(call, at, path, &place, flags, mode),
        Ok(Found::Outside(path)) => return open_outside(call, at, &path),
        Ok(Found::MagicLink(_) | Found::Kernel) => {}
    }
    let given = path;
    let path = given.bytes();
    if let Some(answer) = super::proc_files::open(path, flags) {
        return done(answer);
    }
    if path.is_empty() {
        return Outcome::Forward;
    }
    let process = process::get();
    if last == LastStep::Create && process.targets_open && super::path::is_link(directory, given) {
        // The kernel would make a file where the link leads: in the empty directory under a mount,
        // if it leads into one.
        match look_again(directory, given, last, at.restrictions, true) {
            Ok(Found::Inside(found)) => return done(open_inside(found, flags, mode)),
            Ok(Found::Backed(place)) => return open_backed(call, at, given, &place, flags, mode),
            Ok(Found::Outside(path)) => return open_outside(call, at, &path),
            Ok(Found::MagicLink(_) | Found::Kernel) => {}
            Err(errno) => return done(Err(errno)),
        }
    }
    let certain =
        creates && process.targets_open && super::targets::parent_is_target(directory, path);
    let answer = if certain {
        Err(Errno::ENOENT)
    } else {
        // SAFETY: the program's own call with its own arguments. It may wait (a FIFO), and signals
        // must end that.
        match unsafe { culvert_intercept::wait::interruptible(call.number, call.args) } {
            Ok(result) => Errno::check(result),
            Err(_) => return Outcome::Restart,
        }
    };
    match answer {
        Ok(fd) => {
            let fd = process
                .table
                .opened_by_kernel(fd as i32, flags & O_CLOEXEC != 0) as usize;
            if flags & O_DIRECT != 0 {
                process.table.note_unbuffered(fd as i32);
            }
            // Another process's descriptor may be a shadow.
            if path.starts_with(b"/proc/") && path.windows(4).any(|part| part == b"/fd/") {
                process.table.forget(fd as i32);
            }
            if flags & (O_DIRECTORY | O_PATH) != 0
                && process.targets_exist
                && let Some(mount) = stat_descriptor(fd as i32)
                    .ok()
                    .and_then(|found| process.mounts.is_target(found.st_dev, found.st_ino))
            {
                return match super::targets::adopt_target(fd as i32, mount) {
                    Ok(()) => done(Ok(fd)),
                    Err(errno) => done(Err(errno)),
                };
            }
            done(Ok(fd))
        }
        Err(Errno::ENOENT | Errno::ENOTDIR) => {
            match look_again(directory, given, last, at.restrictions, certain) {
                Ok(Found::Inside(found)) => done(open_inside(found, flags, mode)),
                Ok(Found::Backed(place)) => open_backed(call, at, given, &place, flags, mode),
                Ok(Found::Outside(path)) => open_outside(call, at, &path),
                Err(errno) => done(Err(errno)),
                _ => done(answer),
            }
        }
        Err(_) => done(answer),
    }
}

/// Opens something in the backing tree of a mount: the program gets the kernel's own descriptor.
fn open_backed(
    call: &Call,
    at: At,
    path: Path<'_>,
    place: &Backed<'_>,
    flags: u32,
    mode: u32,
) -> Outcome {
    let mut opened = super::backed_open::open(place, at.restrictions, flags, mode);
    if let Err(backed_open::Failure::MustWalk) = opened {
        let directory = at.directory_of(call);
        opened = match find_by_walking(directory, path, at.last, at.restrictions) {
            Err(errno) => return done(Err(errno)),
            Ok(Found::Inside(found)) => return done(open_inside(found, flags, mode)),
            Ok(Found::Outside(path)) => return open_outside(call, at, &path),
            Ok(Found::Backed(place)) => {
                super::backed_open::open(&place, at.restrictions, flags, mode)
            }
            Ok(Found::MagicLink(_) | Found::Kernel) => return Outcome::Forward,
        };
    }
    match opened {
        Ok(fd) => done(Ok(fd as usize)),
        Err(backed_open::Failure::Errno(errno)) => done(Err(errno)),
        Err(backed_open::Failure::Restart) => Outcome::Restart,
        Err(backed_open::Failure::MustWalk) => done(Err(Errno::ELOOP)),
    }
}

/// The open with an absolute path that leaves the mounts.
fn open_outside(call: &Call, at: At, path: &[u8]) -> Outcome {
    if let Some(answer) = super::proc_files::open(
        &path[..path.len() - 1],
        call.args[if at.directory.is_some() { 2 } else { 1 }] as u32,
    ) {
        return done(answer);
    }
    if call.number != nr::OPENAT2 {
        return outside(call, at, path);
    }
    // BENEATH and IN_ROOT have been obeyed and would refuse the absolute path.
    let Ok(flags) = memory::get::<u64>(call.args[2]) else {
        return Outcome::Forward;
    };
    let mode = memory::get::<u64>(call.args[2] + 8).unwrap_or(0);
    let how = [flags, mode, at.restrictions.0 & !0x18];
    let args = [
        AT_FDCWD as usize,
        path.as_ptr() as usize,
        how.as_ptr() as usize,
        24,
        0,
        0,
    ];
    // SAFETY: the path ends in NUL; `how` is a `struct open_how` of the length given.
    done(unsafe { syscall::call(nr::OPENAT2, args) })
}

/// What a driver is told of the flags: O_DIRECT asks for aligned buffers, which its own are not.
fn to_driver(flags: u32) -> OpenFlags {
    OpenFlags(flags & !O_DIRECT)
}

/// Opens something in a mount (`do_open`, `may_open`, `lookup_open` of fs/namei.c, in their order
/// of errors).
pub fn open_inside(mut found: Inside<'_>, flags: u32, mode: u32) -> Answer {
    let file_system = process::file_system(found.mount)?;
    let read_only = file_system.capabilities().read_only;
    let caller = process::caller();
    if flags & O_TMPFILE == O_TMPFILE && flags & O_PATH == 0 {
        let attributes = existing(&found)?;
        return match attributes.kind {
            FileKind::Directory if read_only => Err(Errno::EROFS),
            FileKind::Directory => {
                let (entry, opened) = file_system
                    .tmpfile(
                        &caller,
                        attributes.node,
                        to_driver(flags),
                        process::limits::creation_mode(file_system, mode & 0o7777),
                    )
                    .map_err(|error| error.errno())?;
                give_new(&mut found, entry.attributes, opened, flags)
            }
            _ => Err(Errno::ENOTDIR),
        };
    }
    let Some(entry) = found.entry else {
        if read_only {
            return Err(Errno::EROFS);
        }
        let Last::Name(name) = &found.last else {
            return Err(Errno::EISDIR);
        };
        may_change(
            &found,
            file_system
                .attributes(found.parent)
                .map_err(|error| error.errno())?,
        )?;
        let mode = process::limits::creation_mode(file_system, mode & 0o7777);
        let mut file = None;
        let entry = watch::made(found.mount, (found.parent, name), || {
            let (entry, opened) = file_system
                .create(&caller, found.parent, name, to_driver(flags), mode)
                .map_err(|error| appeared(&found, name, error.errno()))?;
            file = Some(opened);
            Ok(entry)
        })?;
        let opened = file.ok_or(Errno::EIO)?;
        return give_new(&mut found, entry.attributes, opened, flags & !O_TRUNC);
    };
    let attributes = entry.attributes;
    if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL {
        return Err(Errno::EEXIST);
    }
    if flags & O_CREAT != 0 && attributes.kind == FileKind::Directory {
        return Err(Errno::EISDIR);
    }
    if flags & O_PATH != 0 {
        if flags & O_DIRECTORY != 0 && attributes.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        return add(&mut found, attributes, Object::Path, flags);
    }
    if flags & O_DIRECTORY != 0 && attributes.kind != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let access = flags & O_ACCMODE;
    let wanted = match access {
        0 => 4,
        1 => 2,
        _ => 6,
    } | if flags & O_TRUNC != 0 { 2 } else { 0 };
    match attributes.kind {
        FileKind::Symlink => return Err(Errno::ELOOP),
        FileKind::Directory if wanted & 2 != 0 => return Err(Errno::EISDIR),
        FileKind::Regular | FileKind::Directory if wanted & 2 != 0 && read_only => {
            return Err(Errno::EROFS);
        }
        _ => {}
    }
    // The driver opens regular files itself, and may look at more than mode bits.
    match attributes.kind {
        FileKind::Regular => allowed(file_system, &attributes, wanted)?,
        _ => granted(file_system, &caller, &attributes, wanted)?,
    }
    if flags & O_NOATIME != 0 && !caller.is_owner(attributes.uid) {
        return Err(Errno::EPERM);
    }
    match attributes.kind {
        FileKind::Directory if flags & O_DIRECT != 0 => Err(Errno::EINVAL),
        FileKind::Directory => add_directory(&mut found, attributes, &caller, flags),
        FileKind::Regular => {
            // As on tmpfs (since Linux 6.6), which has no cache to go around either. What cannot be
            // changed is decompressed: there it means nothing.
            if flags & O_DIRECT != 0 && file_system.capabilities().immutable {
                return Err(Errno::EINVAL);
            }
            if wanted & 2 != 0 {
                crate::exec::busy::may_write(ShadowName {
                    mount: found.mount.0,
                    node: attributes.node,
                })?;
            }
            let open = || {
                if found.last == Last::Magic
                    && attributes.links == 0
                    && let Some(gone) = crate::gone::open(found.mount, &attributes, flags)
                {
                    return Ok(gone);
                }
                let opened = file_system.open(&caller, attributes.node, to_driver(flags));
                opened.map_err(|error| {
                    if let Some(cause) = error.cause() {
                        crate::log!(
                            "a file on {} (inode {}) cannot be opened: {cause}",
                            crate::log::mount(found.mount.0),
                            attributes.node.0
                        );
                    }
                    error.errno()
                })
            };
            let opened = match flags & O_TRUNC {
                0 => open(),
                _ => change::resizing(found.mount, attributes.node, || Ok((open()?, 0))),
            }?;
            paging::recover_node(ShadowName {
                mount: found.mount.0,
                node: attributes.node,
            });
            give(&mut found, attributes, opened, flags)
        }
        // No device driver, no pipe behind a name in an archive (`nodev`).
        FileKind::Fifo => crate::fifos::open(&mut found, &attributes, flags),
        FileKind::Socket => Err(Errno::ENXIO),
        FileKind::CharacterDevice | FileKind::BlockDevice => Err(Errno::EACCES),
        FileKind::Symlink => Err(Errno::ELOOP),
    }
}

/// What a create says that failed by `errno`. A link or a FIFO may have got the name since it was
/// looked up: it is to be looked up again (`ESTALE`), and followed or opened as it would have been.
#[cold]
fn appeared(found: &Inside<'_>, name: &[u8], errno: Errno) -> Errno {
    if !matches!(errno, Errno::ELOOP | Errno::ENXIO) {
        return errno;
    }
    let Ok(file_system) = process::file_system(found.mount) else {
        return errno;
    };
    match file_system.lookup(&process::caller(), found.parent, name) {
        Ok(entry) => {
            file_system.forget(entry.attributes.node, 1);
            Errno::ESTALE
        }
        // Gone again.
        Err(error) if error.errno() == Errno::ENOENT => Errno::ESTALE,
        Err(_) => errno,
    }
}

/// Whether the caller may add or remove names in the directory.
pub fn may_change(found: &Inside<'_>, directory: Attributes) -> Result<(), Errno> {
    allowed(process::file_system(found.mount)?, &directory, 3)
}
