//! Making, removing and renaming names. The order of errors is the kernel's (`filename_create`, `do_unlinkat`, `do_rmdir`, `do_renameat2` of
//! fs/namei.c), a read-only mount's EROFS in its place among them.

use super::path::{At, Found, find, look_again, on_path, parent_is_target};
use super::stat::existing;
use super::{Answer, descriptor, done, permits};
use crate::memory::{PathBuffer, c_string};
use crate::process;
use crate::resolver::{Inside, Last, LastStep, Restrictions};
use culvert::{Errno, FileKind, FileSystem, Node, RenameFlags};
use culvert_intercept::{Call, Outcome, user};
use culvert_sys::{nr, syscall};

const AT_FDCWD: i32 = super::path::AT_FDCWD;

struct Making<'a> {
    file_system: &'static dyn FileSystem,
    parent: Node,
    name: &'a [u8],
}

/// What creating calls check before they create (`filename_create`).
fn make<'a>(found: &'a Inside<'_>, directory: bool) -> Result<Making<'a>, Errno> {
    let Last::Name(name) = &found.last else {
        return Err(Errno::EEXIST);
    };
    if found.entry.is_some() {
        return Err(Errno::EEXIST);
    }
    if found.trailing_slash && !directory {
        return Err(Errno::ENOENT);
    }
    let file_system = process::file_system(found.mount)?;
    if file_system.capabilities().read_only {
        return Err(Errno::EROFS);
    }
    let parent = file_system
        .attributes(found.parent)
        .map_err(|error| error.errno())?;
    if !permits(&process::caller(), &parent, 3) {
        return Err(Errno::EACCES);
    }
    Ok(Making {
        file_system,
        parent: found.parent,
        name,
    })
}

fn masked(file_system: &dyn FileSystem, mode: usize, allowed: u32) -> u32 {
    process::limits::creation_mode(file_system, mode as u32 & allowed)
}

/// mkdir(2), mkdirat(2)
pub fn mkdir(call: &mut Call) -> Outcome {
    let at = if call.number == nr::MKDIRAT {
        At::below(0, LastStep::Parent)
    } else {
        At::new(0, LastStep::Parent)
    };
    let mode = call.args[at.path + 1];
    on_path(call, at, None, |_, found| {
        let making = make(&found, true)?;
        making
            .file_system
            .mkdir(
                &process::caller(),
                making.parent,
                making.name,
                masked(making.file_system, mode, 0o1777),
            )
            .map(|_| 0)
            .map_err(|error| error.errno())
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
        let making = make(&found, false)?;
        let kind = if mode as u32 & 0o170000 == 0 {
            0o100000
        } else {
            mode as u32 & 0o170000
        };
        if matches!(kind, 0o020000 | 0o060000) && process::caller().uid != 0 {
            return Err(Errno::EPERM);
        }
        making
            .file_system
            .mknod(
                &process::caller(),
                making.parent,
                making.name,
                kind | masked(making.file_system, mode, 0o7777),
                device as u64,
            )
            .map(|_| 0)
            .map_err(|error| error.errno())
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
        let making = make(&found, false)?;
        making
            .file_system
            .symlink(&process::caller(), making.parent, making.name, target)
            .map(|_| 0)
            .map_err(|error| error.errno())
    })
}

/// Whether the caller may remove or rename `found` (`may_delete`): its directory writable, and the sticky bit's rule.
fn may_remove(found: &Inside<'_>, file_system: &dyn FileSystem) -> Result<(), Errno> {
    let caller = process::caller();
    let parent = file_system
        .attributes(found.parent)
        .map_err(|error| error.errno())?;
    if !permits(&caller, &parent, 3) {
        return Err(Errno::EACCES);
    }
    if parent.permissions & 0o1000 != 0 && caller.uid != 0 && caller.uid != parent.uid {
        let owner = found.entry.as_ref().map(|entry| entry.attributes.uid);
        if owner.is_some_and(|owner| owner != caller.uid) {
            return Err(Errno::EPERM);
        }
    }
    Ok(())
}

/// The errno for removing or renaming a mount's target: its directory is looked at first, as for every other name.
fn of_target(found: &Inside<'_>, errno: Errno) -> Errno {
    let target = process::get().mounts.target(found.mount);
    let parent = target[..target.iter().rposition(|&b| b == b'/').unwrap_or(0)].to_vec();
    let parent = c_string(if parent.is_empty() { b"/" } else { &parent });
    const W_OK_X_OK: usize = 3;
    const AT_EACCESS: usize = 0x200;
    let arguments = [
        AT_FDCWD as usize,
        parent.as_ptr() as usize,
        W_OK_X_OK,
        AT_EACCESS,
    ];
    // SAFETY: the path ends in NUL.
    match unsafe { syscall::call(nr::FACCESSAT2, arguments) } {
        Err(Errno::EACCES) => Errno::EACCES,
        _ => errno,
    }
}

fn remove_file(found: &Inside<'_>) -> Answer {
    let Last::Name(name) = &found.last else {
        return Err(match found.last {
            Last::MountPoint => of_target(found, Errno::EISDIR),
            _ => Errno::EISDIR,
        });
    };
    let file_system = process::file_system(found.mount)?;
    if file_system.capabilities().read_only {
        return Err(Errno::EROFS);
    }
    let attributes = existing(found)?;
    if found.trailing_slash {
        return Err(if attributes.kind == FileKind::Directory {
            Errno::EISDIR
        } else {
            Errno::ENOTDIR
        });
    }
    may_remove(found, file_system)?;
    if attributes.kind == FileKind::Directory {
        return Err(Errno::EISDIR);
    }
    file_system
        .unlink(&process::caller(), found.parent, name)
        .map(|()| 0)
        .map_err(|error| error.errno())
}

fn remove_directory(found: &Inside<'_>) -> Answer {
    let name = match &found.last {
        Last::Name(name) => name,
        Last::Dot => return Err(Errno::EINVAL),
        Last::DotDot => return Err(Errno::ENOTEMPTY),
        Last::MountPoint => return Err(of_target(found, Errno::EBUSY)),
        _ => return Err(Errno::EBUSY),
    };
    let file_system = process::file_system(found.mount)?;
    if file_system.capabilities().read_only {
        return Err(Errno::EROFS);
    }
    let attributes = existing(found)?;
    may_remove(found, file_system)?;
    if attributes.kind != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    file_system
        .rmdir(&process::caller(), found.parent, name)
        .map(|()| 0)
        .map_err(|error| error.errno())
}

/// unlink(2)
pub fn unlink(call: &mut Call) -> Outcome {
    on_path(call, At::new(0, LastStep::Parent), None, |_, found| {
        remove_file(&found)
    })
}

/// rmdir(2)
pub fn rmdir(call: &mut Call) -> Outcome {
    on_path(call, At::new(0, LastStep::Parent), None, |_, found| {
        remove_directory(&found)
    })
}

/// unlinkat(2)
pub fn unlinkat(call: &mut Call) -> Outcome {
    const AT_REMOVEDIR: usize = 0x200;
    match call.args[2] {
        0 => on_path(call, At::below(0, LastStep::Parent), None, |_, found| {
            remove_file(&found)
        }),
        AT_REMOVEDIR => on_path(call, At::below(0, LastStep::Parent), None, |_, found| {
            remove_directory(&found)
        }),
        _ => Outcome::Forward,
    }
}

/// One of the two paths of link and rename.
enum Side<'p> {
    Inside(Inside<'p>),
    /// Outside all mounts: directory and path (NUL-terminated) for the kernel.
    Host(i32, alloc::vec::Vec<u8>),
}

fn side<'p>(directory: i32, path: &'p [u8], last: LastStep) -> Result<Side<'p>, Errno> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let host = || Side::Host(directory, c_string(path));
    Ok(match find(directory, path, last, Restrictions(0))? {
        Found::Inside(found) => Side::Inside(found),
        Found::Outside(path) => Side::Host(AT_FDCWD, path),
        Found::MagicLink(_) => host(),
        Found::Kernel => {
            // Nothing natively by that name: a link outside may lead into a mount.
            let certain = process::get().targets_open && parent_is_target(directory, path);
            let missing = !certain && !path.is_empty() && {
                let full = c_string(path);
                let mut scratch = [0u8; 144];
                // SAFETY: the path ends in NUL; the buffer is as large as a `struct stat`.
                let found = unsafe {
                    syscall::call(
                        nr::NEWFSTATAT,
                        [
                            directory as usize,
                            full.as_ptr() as usize,
                            scratch.as_mut_ptr() as usize,
                            0x100,
                        ],
                    )
                };
                matches!(found, Err(Errno::ENOENT | Errno::ENOTDIR))
            };
            match if certain || missing {
                look_again(directory, path, last, Restrictions(0), certain)
            } else {
                Ok(Found::Kernel)
            } {
                Ok(Found::Inside(found)) => Side::Inside(found),
                Ok(Found::Outside(path)) => Side::Host(AT_FDCWD, path),
                _ => host(),
            }
        }
    })
}

/// rename(2), renameat(2), renameat2(2)
pub fn rename(call: &mut Call) -> Outcome {
    let [a, b, c, d, e, _] = call.args;
    let (from_directory, from, to_directory, to, flags) = match call.number {
        nr::RENAME => (AT_FDCWD, a, AT_FDCWD, b, 0),
        nr::RENAMEAT => (a as i32, b, c as i32, d, 0),
        _ => (a as i32, b, c as i32, d, e as u32),
    };
    if flags & !7 != 0 || (flags & RenameFlags::EXCHANGE != 0 && flags != RenameFlags::EXCHANGE) {
        return Outcome::Forward;
    }
    let (mut from_room, mut to_room) = (PathBuffer::new(), PathBuffer::new());
    let (from, to) = match (from_room.read(from), to_room.read(to)) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(errno), _) | (_, Err(errno)) => return done(Err(errno)),
    };
    let sides = side(from_directory, from, LastStep::Parent)
        .and_then(|from| Ok((from, side(to_directory, to, LastStep::Parent)?)));
    match sides {
        Err(errno) => done(Err(errno)),
        Ok((Side::Host(from_directory, from), Side::Host(to_directory, to))) => {
            let args = [
                from_directory as usize,
                from.as_ptr() as usize,
                to_directory as usize,
                to.as_ptr() as usize,
                flags as usize,
            ];
            // SAFETY: both paths end in NUL.
            done(unsafe { syscall::call(nr::RENAMEAT2, args) })
        }
        Ok((Side::Inside(from), Side::Inside(to))) if from.mount == to.mount => {
            done(rename_inside(&from, &to, flags))
        }
        Ok((from, to)) => done(Err(mixed(&from)
            .or_else(|| mixed(&to))
            .unwrap_or(Errno::EXDEV))),
    }
}

/// What is wrong with one side of a rename between two file systems, before that they are two: a parent that is missing, or a mount's target.
fn mixed(side: &Side<'_>) -> Option<Errno> {
    match side {
        Side::Inside(found) => {
            matches!(found.last, Last::MountPoint).then(|| of_target(found, Errno::EBUSY))
        }
        Side::Host(directory, path) => {
            let path = &path[..path.len() - 1];
            let trimmed = &path[..path
                .iter()
                .rposition(|&b| b != b'/')
                .map_or(0, |end| end + 1)];
            let parent = trimmed
                .iter()
                .rposition(|&b| b == b'/')
                .map_or(&b"."[..], |slash| &trimmed[..slash + 1]);
            let (parent, mut scratch) = (c_string(parent), [0u8; 144]);
            // SAFETY: the path ends in NUL; the buffer is as large as a `struct stat`.
            unsafe {
                syscall::call(
                    nr::NEWFSTATAT,
                    [
                        *directory as usize,
                        parent.as_ptr() as usize,
                        scratch.as_mut_ptr() as usize,
                        0,
                    ],
                )
            }
            .err()
        }
    }
}

fn rename_inside(from: &Inside<'_>, to: &Inside<'_>, flags: u32) -> Answer {
    let Last::Name(old) = &from.last else {
        return Err(Errno::EBUSY);
    };
    let Last::Name(new) = &to.last else {
        return Err(if flags & RenameFlags::NO_REPLACE != 0 {
            Errno::EEXIST
        } else {
            Errno::EBUSY
        });
    };
    let file_system = process::file_system(from.mount)?;
    if file_system.capabilities().read_only {
        return Err(Errno::EROFS);
    }
    let moved = existing(from)?;
    if flags & RenameFlags::NO_REPLACE != 0 && to.entry.is_some() {
        return Err(Errno::EEXIST);
    }
    if flags & RenameFlags::EXCHANGE != 0 && to.entry.is_none() {
        return Err(Errno::ENOENT);
    }
    if moved.kind != FileKind::Directory
        && (from.trailing_slash || (to.trailing_slash && flags & RenameFlags::EXCHANGE == 0))
    {
        return Err(Errno::ENOTDIR);
    }
    may_remove(from, file_system)?;
    may_remove(to, file_system)?;
    file_system
        .rename(
            &process::caller(),
            (from.parent, old),
            (to.parent, new),
            RenameFlags(flags),
        )
        .map(|()| 0)
        .map_err(|error| error.errno())
}

/// link(2), linkat(2)
pub fn link(call: &mut Call) -> Outcome {
    const AT_SYMLINK_FOLLOW: usize = 0x400;
    const AT_EMPTY_PATH: usize = 0x1000;
    let [a, b, c, d, e, _] = call.args;
    let (from_directory, from, to_directory, to, flags) = if call.number == nr::LINK {
        (AT_FDCWD, a, AT_FDCWD, b, 0)
    } else {
        (a as i32, b, c as i32, d, e)
    };
    if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) != 0 {
        return Outcome::Forward;
    }
    let last = if flags & AT_SYMLINK_FOLLOW != 0 {
        LastStep::Follow
    } else {
        LastStep::NoFollow
    };
    let (mut from_room, mut to_room) = (PathBuffer::new(), PathBuffer::new());
    let (from, to) = match (from_room.read(from), to_room.read(to)) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(errno), _) | (_, Err(errno)) => return done(Err(errno)),
    };
    let target = match side(to_directory, to, LastStep::Parent) {
        Ok(target) => target,
        Err(errno) => return done(Err(errno)),
    };
    let linked = |found: &Inside<'_>,
                  mount: crate::resolver::MountId,
                  node: Node,
                  kind: FileKind|
     -> Answer {
        let making = make(found, false)?;
        if found.mount != mount {
            return Err(Errno::EXDEV);
        }
        if kind == FileKind::Directory {
            return Err(Errno::EPERM);
        }
        making
            .file_system
            .link(&process::caller(), node, making.parent, making.name)
            .map(|_| 0)
            .map_err(|error| error.errno())
    };
    if from.is_empty() && flags & AT_EMPTY_PATH != 0 {
        return match (descriptor(from_directory as usize), target) {
            (None, Side::Host(..)) => Outcome::Forward,
            (Some(held), Side::Inside(found)) => {
                done(linked(&found, held.mount, held.node, held.kind))
            }
            (None, Side::Inside(found)) => done(make(&found, false).and(Err(Errno::EXDEV))),
            (Some(_), Side::Host(..)) => done(Err(Errno::EXDEV)),
        };
    }
    match (side(from_directory, from, last), target) {
        (Err(errno), _) => done(Err(errno)),
        (Ok(Side::Host(from_directory, from)), Side::Host(to_directory, to)) => {
            let args = [
                from_directory as usize,
                from.as_ptr() as usize,
                to_directory as usize,
                to.as_ptr() as usize,
                flags,
            ];
            // SAFETY: both paths end in NUL.
            done(unsafe { syscall::call(nr::LINKAT, args) })
        }
        (Ok(Side::Inside(source)), Side::Inside(found)) => done((|| {
            let attributes = existing(&source)?;
            linked(&found, source.mount, attributes.node, attributes.kind)
        })()),
        (Ok(Side::Host(..)), Side::Inside(found)) => {
            done(make(&found, false).and(Err(Errno::EXDEV)))
        }
        (Ok(Side::Inside(source)), Side::Host(..)) => {
            done(existing(&source).and(Err(Errno::EXDEV)))
        }
    }
}

/// bind(2) of a socket to a path in a mount.
pub fn bind_path(call: &mut Call) -> Outcome {
    on_socket_path(call, |found| {
        let making = make(&found, false).map_err(|error| {
            if error == Errno::EEXIST {
                crate::calls::socket::EADDRINUSE
            } else {
                error
            }
        })?;
        let _ = making.file_system;
        Err(Errno::EOPNOTSUPP)
    })
}

/// connect(2) to a path in a mount.
pub fn connect_path(call: &mut Call) -> Outcome {
    on_socket_path(call, |found| {
        let attributes = existing(&found)?;
        if !permits(&process::caller(), &attributes, 2) {
            return Err(Errno::EACCES);
        }
        Err(Errno::ECONNREFUSED)
    })
}

fn on_socket_path(call: &Call, inside: impl FnOnce(Inside<'_>) -> Answer) -> Outcome {
    let [_, address, length, ..] = call.args;
    let mut bytes = [0u8; 110];
    let length = length.min(bytes.len());
    const AF_UNIX: [u8; 2] = [1, 0];
    if length <= 2
        || user::copy_in(&mut bytes[..length], address).is_err()
        || bytes[..2] != AF_UNIX
        || bytes[2] == 0
    {
        return Outcome::Forward;
    }
    let path = &bytes[2..length];
    let path = &path[..path.iter().position(|&b| b == 0).unwrap_or(path.len())];
    match find(AT_FDCWD, path, LastStep::Parent, Restrictions(0)) {
        Ok(Found::Inside(found)) => done(inside(found)),
        Ok(Found::Outside(path)) if path.len() <= 108 => {
            let address = [&AF_UNIX[..], &path].concat();
            let arguments = [call.args[0], address.as_ptr() as usize, address.len()];
            // SAFETY: the program's own call, with an address of ours of the length given.
            done(unsafe { syscall::call(call.number, arguments) })
        }
        Ok(Found::Outside(_)) => done(Err(Errno::ENAMETOOLONG)),
        Ok(_) => Outcome::Forward,
        Err(errno) => done(Err(errno)),
    }
}
