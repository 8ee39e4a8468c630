//! Making, removing and renaming names. The order of errors is the kernel's (`filename_create`,
//! `do_unlinkat`, `do_rmdir`, `do_renameat2` of fs/namei.c), a read-only mount's EROFS in its place
//! among them.

use super::backed;
use super::done;
use super::host::stat_at;
use super::path::{At, Found, find, find_by_walking, is_link, look_again, on_path};
use super::stat::existing;
use super::targets::{parent_is_target, parent_of};
use super::unix_sockets;
use crate::answer::Answer;
use crate::gone::{self, Losing};
use crate::memory::{Path, PathBuffer, c_string};
use crate::process;
use crate::resolver::{Inside, Last, LastStep, MountId, Restrictions};
use crate::vfs::permission::{allowed, granted};
use crate::watch;
use alloc::vec::Vec;
use culvert::{Errno, FileKind, FileSystem, Node, Rights};
use culvert_intercept::{Call, Outcome, user};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::{nr, syscall};

const AT_SYMLINK_NOFOLLOW: usize = 0x100;
/// The device that stands for a removed name in overlays, which everybody may make (`WHITEOUT_DEV`,
/// include/linux/fs.h).
const WHITEOUT: u32 = 0;

/// A name that may be made.
pub struct Making<'a> {
    mount: MountId,
    /// Where.
    pub file_system: &'static dyn FileSystem,
    /// In which directory.
    pub parent: Node,
    /// The name.
    pub name: &'a [u8],
}

impl Making<'_> {
    /// What a call answers that makes the name by `make`: the reference on what is new goes back.
    fn by(&self, make: impl FnOnce(&Self) -> culvert::Result<culvert::Entry>) -> Answer {
        let entry = watch::made(self.mount, (self.parent, self.name), || {
            make(self).map_err(|error| error.errno())
        })?;
        self.file_system.forget(entry.attributes.node, 1);
        Ok(0)
    }

    /// The same for another name of `node`.
    pub fn link(&self, node: Node) -> Answer {
        let at = (self.parent, self.name);
        let entry = watch::linked(self.mount, node, at, || {
            self.file_system
                .link(&process::caller(), node, self.parent, self.name)
                .map_err(|error| error.errno())
        })?;
        self.file_system.forget(entry.attributes.node, 1);
        Ok(0)
    }
}

/// What creating calls check before they create (`filename_create`).
pub fn make<'a>(found: &'a Inside<'_>, directory: bool) -> Result<Making<'a>, Errno> {
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
    allowed(file_system, &parent, 3)?;
    Ok(Making {
        mount: found.mount,
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

/// Whether the caller may remove or rename `found` (`may_delete`): its directory writable, and the
/// sticky bit's rule.
pub fn may_remove(found: &Inside<'_>, file_system: &dyn FileSystem) -> Result<(), Errno> {
    if file_system.capabilities().checks_permissions {
        return Ok(());
    }
    let caller = process::caller();
    let parent = file_system
        .attributes(found.parent)
        .map_err(|error| error.errno())?;
    allowed(file_system, &parent, 3)?;
    if parent.permissions & 0o1000 != 0 && !caller.is_owner(parent.uid) {
        let owner = found.entry.as_ref().map(|entry| entry.attributes.uid);
        if owner.is_some_and(|owner| owner != caller.uid) {
            return Err(Errno::EPERM);
        }
    }
    Ok(())
}

/// The errno for removing or renaming a mount's target: its directory is looked at first, as for
/// every other name.
pub fn of_target(mount: MountId, errno: Errno) -> Errno {
    let parent = parent_of_target(mount);
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

/// The path (NUL-terminated) of the directory in which a mount's target lies.
pub fn parent_of_target(mount: MountId) -> Vec<u8> {
    let target = process::get().mounts.target(mount);
    let parent = &target[..target.iter().rposition(|&b| b == b'/').unwrap_or(0)];
    c_string(if parent.is_empty() { b"/" } else { parent })
}

fn remove_file(found: &Inside<'_>) -> Answer {
    let Last::Name(name) = &found.last else {
        return Err(match found.last {
            // With a slash behind it nothing more is looked at (`do_unlinkat`, fs/namei.c).
            Last::MountPoint if !found.trailing_slash => of_target(found.mount, Errno::EISDIR),
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
    let losing = gone::losing(found.mount, attributes);
    let of = (attributes.node, attributes.kind);
    watch::removed(file_system, found.mount, (found.parent, name), of, || {
        file_system
            .unlink(&process::caller(), found.parent, name)
            .map_err(|error| error.errno())
    })
    .map(|()| {
        losing.into_iter().for_each(Losing::lost);
        0
    })
}

fn remove_directory(found: &Inside<'_>) -> Answer {
    let name = match &found.last {
        Last::Name(name) => name,
        Last::Dot => return Err(Errno::EINVAL),
        Last::DotDot => return Err(Errno::ENOTEMPTY),
        Last::MountPoint => return Err(of_target(found.mount, Errno::EBUSY)),
        _ => return Err(Errno::EBUSY),
    };
    let file_system = process::file_system(found.mount)?;
    if file_system.capabilities().read_only {
        return Err(Errno::EROFS);
    }
    let attributes = existing(found)?;
    may_remove(found, file_system)?;
    if attributes.kind != FileKind::Directory && !file_system.capabilities().checks_permissions {
        return Err(Errno::ENOTDIR);
    }
    let of = (attributes.node, attributes.kind);
    watch::removed(file_system, found.mount, (found.parent, name), of, || {
        file_system
            .rmdir(&process::caller(), found.parent, name)
            .map_err(|error| error.errno())
    })
    .map(|()| 0)
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

/// bind(2) of a socket to a path in a mount.
pub fn bind_path(call: &mut Call) -> Outcome {
    on_socket_path(call, 1, LastStep::Parent, |call, found, given| {
        let making = make(&found, false).map_err(in_use)?;
        let (file_system, caller) = (making.file_system, process::caller());
        let mode = 0o140000 | masked(file_system, 0o777, 0o777);
        let made = watch::made(found.mount, (making.parent, making.name), || {
            file_system
                .mknod(&caller, making.parent, making.name, mode, 0)
                .map_err(|error| in_use(error.errno()))
        })?
        .attributes;
        file_system.forget(made.node, 1);
        unix_sockets::bind(call, found.mount, made.inode, given).inspect_err(|_| {
            let _ = file_system.unlink(&caller, making.parent, making.name);
        })
    })
}

/// connect(2) to a path in a mount.
pub fn connect_path(call: &mut Call) -> Outcome {
    on_socket_path(call, 1, LastStep::Follow, reach)
}

/// sendto(2) to a path in a mount.
pub fn sendto(call: &mut Call) -> Outcome {
    if call.args[4] == 0 {
        return Outcome::Forward;
    }
    on_socket_path(call, 4, LastStep::Follow, |call, found, _| {
        reach_at(call, 4, &found)
    })
}

/// sendmsg(2) to a path in a mount.
pub fn send_message(call: &Call) -> Outcome {
    on_socket_path(call, 1, LastStep::Follow, reach)
}

fn reach(call: &Call, found: Inside<'_>, _: &[u8]) -> Answer {
    reach_at(call, 1, &found)
}

/// `unix_find_bsd`, net/unix/af_unix.c
fn reach_at(call: &Call, at: usize, found: &Inside<'_>) -> Answer {
    let attributes = existing(found)?;
    let file_system = process::file_system(found.mount)?;
    granted(file_system, &process::caller(), attributes, 2)?;
    if attributes.kind != FileKind::Socket {
        return Err(Errno::ECONNREFUSED);
    }
    unix_sockets::reach(call, at, found.mount, attributes.inode)
}

/// A call whose arguments `at` and `at + 1` are the address of a socket.
fn on_socket_path(
    call: &Call,
    at: usize,
    last: LastStep,
    inside: impl FnOnce(&Call, Inside<'_>, &[u8]) -> Answer,
) -> Outcome {
    let (address, length) = unix_sockets::given_address(call, at);
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
    let given = &bytes[2..length];
    let given = &given[..given.iter().position(|&b| b == 0).unwrap_or(given.len())];
    let (path, binds) = (c_string(given), call.number == nr::BIND);
    let path = Path::of(&path);
    let mut found = find(AT_FDCWD, path, last, Restrictions(0));
    if let Ok(Found::Backed(place)) = &found {
        // A plain name in the working directory means the same to the kernel, and is not made
        // longer: `sun_path` is short.
        if place.base == AT_FDCWD && !path.contains(&b'/') && (binds || !is_link(AT_FDCWD, path)) {
            return Outcome::Forward;
        }
        found = find_by_walking(AT_FDCWD, path, last, Restrictions(0));
    }
    if matches!(found, Ok(Found::Kernel)) && !path.is_empty() {
        // Nothing by that name natively, or only the empty directory under a mount: a link outside
        // may lead into one.
        let certain = process::get().targets_open && parent_is_target(AT_FDCWD, path.bytes());
        let missing = || {
            let found = stat_at(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
            matches!(found, Err(Errno::ENOENT | Errno::ENOTDIR))
        };
        if certain || missing() {
            found = look_again(AT_FDCWD, path, last, Restrictions(0), certain);
        }
    }
    let answer = match found {
        Ok(Found::Inside(found)) => inside(call, found, given),
        Ok(Found::Backed(place)) => {
            let there = (place.base, place.path());
            if means_the_same(path, there, binds) {
                return Outcome::Forward;
            }
            let whole = backed::through_proc(place.base, place.path().bytes());
            unix_sockets::by_kernel(call, at, given, &whole, there)
        }
        Ok(Found::Outside(whole)) => {
            let there = (AT_FDCWD, Path::of(&whole));
            if means_the_same(path, there, binds) {
                return Outcome::Forward;
            }
            unix_sockets::by_kernel(call, at, given, &whole, there)
        }
        Ok(Found::MagicLink(_) | Found::Kernel) => return Outcome::Forward,
        Err(errno) => Err(errno),
    };
    done(answer)
}

/// Whether the kernel finds at `given` what is to be found at `there`, a path below a directory:
/// the socket, or where one is to be bound its directory. Then the address may stay as it is, which
/// is never too long, and is what getsockname(2) tells.
fn means_the_same(given: Path<'_>, (base, there): (i32, Path<'_>), binds: bool) -> bool {
    let identity = |directory: i32, path: Path<'_>| {
        let above = match binds {
            true => parent_of(&path),
            false => c_string(&path),
        };
        let found = stat_at(directory, Path::of(&above), 0).ok()?;
        Some((found.st_dev, found.st_ino))
    };
    let found = identity(AT_FDCWD, given);
    found.is_some() && found == identity(base, there)
}

/// EEXIST as bind(2) says it.
fn in_use(errno: Errno) -> Errno {
    match errno {
        Errno::EEXIST => crate::calls::socket::EADDRINUSE,
        errno => errno,
    }
}
