//! Extended attributes.

use super::arguments::{At, descriptor};
use super::done;
use super::path::on_path;
use crate::answer::Answer;
use crate::description::{Held, Object};
use crate::memory;
use crate::process::{self, Here};
use crate::resolver::{LastStep, MountId, Place};
use crate::vfs::path::existing;
use crate::vfs::permission::allowed;
use crate::watch::{self, Event};
use alloc::vec;
use alloc::vec::Vec;
use culvert::{Errno, FileKind, Node, Rights};
use culvert_intercept::{Call, Outcome, user};
use culvert_sys::nr;
use culvert_sys::raw::general::AT_FDCWD;

/// `XATTR_NAME_MAX` and `XATTR_SIZE_MAX` (xattr(7)).
const NAME_MAX: usize = 255;
const SIZE_MAX: usize = 65536;

/// What a call wants to do, with its arguments at `first` and after.
#[derive(Clone, Copy)]
enum Request {
    Get,
    List,
    Set,
    Remove,
}

impl Request {
    fn changes(self) -> bool {
        matches!(self, Self::Set | Self::Remove)
    }
}

/// The name at `address`, and its length; ERANGE for an empty or long one (`strncpy_from_user` in
/// fs/xattr.c).
fn name_at(address: usize, buffer: &mut [u8; NAME_MAX + 1]) -> Result<usize, Errno> {
    match user::string_in(address, buffer) {
        Ok(0) | Err(user::StringError::TooLong) => Err(Errno::ERANGE),
        Ok(length) => Ok(length),
        Err(user::StringError::Fault) => Err(Errno::EFAULT),
    }
}

fn give(value: &[u8], buffer: usize, size: usize) -> Answer {
    if size == 0 {
        return Ok(value.len());
    }
    if value.len() > size {
        return Err(Errno::ERANGE);
    }
    user::copy_out(buffer, value)
        .map(|()| value.len())
        .map_err(|_| Errno::EFAULT)
}

/// Whether the caller may not see attributes of this name (`xattr_permission`, fs/xattr.c;
/// `simple_xattr_list` leaves them out).
fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b"trusted.") && !process::caller().has(Rights::SYS_ADMIN)
}

/// `names`, each ending in NUL, without those that the caller may not see.
fn visible(mut names: Vec<u8>) -> Vec<u8> {
    if names.split(|&b| b == 0).any(is_hidden) {
        names = names
            .split_inclusive(|&b| b == 0)
            .filter(|name| !is_hidden(name))
            .flatten()
            .copied()
            .collect();
    }
    names
}

/// `xattr_permission`, fs/xattr.c: what belongs to users wants the right to read or write the file,
/// and is kept for files and directories only; in a directory where only owners remove names only
/// its owner writes it. Whatever else changes is the superuser's.
fn permitted(
    file_system: &dyn culvert::FileSystem,
    node: Node,
    name: &[u8],
    writes: bool,
) -> Result<(), Errno> {
    if file_system.capabilities().checks_permissions {
        return Ok(());
    }
    let caller = process::caller();
    if !name.starts_with(b"user.") {
        // `cap_inode_setxattr`, security/commoncap.c
        let needed = match name {
            b"security.capability" => Rights::SETFCAP,
            _ => Rights::SYS_ADMIN,
        };
        return match writes && name.starts_with(b"security.") && !caller.has(needed) {
            true => Err(Errno::EPERM),
            false => Ok(()),
        };
    }
    let attributes = file_system
        .attributes(node)
        .map_err(|error| error.errno())?;
    let sticky = attributes.mode() & 0o1000 != 0;
    let owner = caller.is_owner(attributes.uid);
    match attributes.kind {
        FileKind::Directory if writes && sticky && !owner => Err(Errno::EPERM),
        FileKind::Directory | FileKind::Regular => {
            allowed(file_system, &attributes, if writes { 2 } else { 4 })
        }
        _ if writes => Err(Errno::EPERM),
        _ => Err(Errno::ENODATA),
    }
}

fn perform(mount: MountId, node: Node, request: Request, arguments: &[usize]) -> Answer {
    let file_system = process::file_system(mount)?;
    let read_only = file_system.capabilities().read_only;
    let mut name = [0u8; NAME_MAX + 1];
    let errno = |error: culvert::Error| error.errno();
    match request {
        Request::List => give(
            &visible(file_system.list_xattr(node).map_err(errno)?),
            arguments[0],
            arguments[1],
        ),
        Request::Get => {
            let length = name_at(arguments[0], &mut name)?;
            if is_hidden(&name[..length]) {
                return Err(Errno::ENODATA);
            }
            permitted(file_system, node, &name[..length], false)?;
            give(
                &file_system
                    .get_xattr(node, &name[..length])
                    .map_err(errno)?,
                arguments[1],
                arguments[2],
            )
        }
        Request::Set | Request::Remove if read_only => Err(Errno::EROFS),
        Request::Set => {
            let length = name_at(arguments[0], &mut name)?;
            if arguments[2] > SIZE_MAX {
                return Err(Errno::E2BIG);
            }
            let mut value = vec![0u8; arguments[2]];
            user::copy_in(&mut value, arguments[1]).map_err(|_| Errno::EFAULT)?;
            if is_hidden(&name[..length]) {
                return Err(Errno::EPERM);
            }
            permitted(file_system, node, &name[..length], true)?;
            set(
                file_system,
                node,
                &name[..length],
                &value,
                arguments[3] as u32,
            )
        }
        Request::Remove => {
            let length = name_at(arguments[0], &mut name)?;
            if is_hidden(&name[..length]) {
                return Err(Errno::EPERM);
            }
            permitted(file_system, node, &name[..length], true)?;
            file_system
                .remove_xattr(&process::caller(), node, &name[..length])
                .map(|()| 0)
                .map_err(errno)
        }
    }
}

fn set(
    file_system: &dyn culvert::FileSystem,
    node: Node,
    name: &[u8],
    value: &[u8],
    flags: u32,
) -> Answer {
    file_system
        .set_xattr(&process::caller(), node, name, value, flags)
        .map(|()| 0)
        .map_err(|error| error.errno())
}

fn of_number(number: usize) -> Request {
    match number {
        nr::GETXATTR | nr::LGETXATTR | nr::FGETXATTR => Request::Get,
        nr::LISTXATTR | nr::LLISTXATTR | nr::FLISTXATTR => Request::List,
        nr::SETXATTR | nr::LSETXATTR | nr::FSETXATTR => Request::Set,
        _ => Request::Remove,
    }
}

/// getxattr(2), listxattr(2), setxattr(2), removexattr(2) and their l-forms.
pub fn by_path(call: &mut Call) -> Outcome {
    let follow = matches!(
        call.number,
        nr::GETXATTR | nr::LISTXATTR | nr::SETXATTR | nr::REMOVEXATTR
    );
    let last = if follow {
        LastStep::Follow
    } else {
        LastStep::NoFollow
    };
    on_path(call, At::new(0, last), None, |call, found| {
        let node = existing(found)?.node;
        let request = of_number(call.number);
        let answer = perform(found.mount, node, request, &call.args[1..])?;
        if request.changes() {
            watch::tell(found.mount, node, found.at(), Event::Attributes);
        }
        Ok(answer)
    })
}

fn by_held(held: &Held, request: Request, arguments: &[usize]) -> Answer {
    if matches!(held.object, Object::Path) {
        return Err(Errno::EBADF);
    }
    let answer = perform(held.mount, held.node, request, arguments)?;
    if request.changes() {
        held.tell(Event::Attributes);
    }
    Ok(answer)
}

/// The f-forms.
pub fn by_descriptor(call: &mut Call) -> Outcome {
    let Some(held) = descriptor(call.args[0]) else {
        return match call.args[0] as i32 {
            AT_FDCWD => of_working_directory(call),
            _ => Outcome::Forward,
        };
    };
    done(by_held(&held, of_number(call.number), &call.args[1..]))
}

/// fgetxattr and fsetxattr of AT_FDCWD: since Linux 6.13 that is the working directory
/// (`path_getxattrat`, fs/xattr.c), before it is EBADF. The other two say so still.
fn of_working_directory(call: &Call) -> Outcome {
    let request = of_number(call.number);
    let here = process::get().with_working_directory(|here| match here {
        Some(Here::Place(Place::Mount { mount, node })) => Some((*mount, *node)),
        _ => None,
    });
    let (Some((mount, node)), Request::Get | Request::Set) = (here, request) else {
        return Outcome::Forward;
    };
    let asked = [AT_FDCWD as usize, c"user.culvert".as_ptr() as usize, 0, 0];
    // SAFETY: the name ends in NUL; nothing is written into a buffer of no size.
    if unsafe { culvert_sys::syscall::call(nr::FGETXATTR, asked) } == Err(Errno::EBADF) {
        return done(Err(Errno::EBADF));
    }
    done(perform(mount, node, request, &call.args[1..]))
}

/// getxattrat(2) and its kin (since 6.13).
pub fn at(call: &mut Call) -> Outcome {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    const AT_EMPTY_PATH: usize = 0x1000;
    let [fd, path, flags, ..] = call.args;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Outcome::Forward;
    }
    let request = match call.number {
        nr::GETXATTRAT => Request::Get,
        nr::LISTXATTRAT => Request::List,
        nr::SETXATTRAT => Request::Set,
        _ => Request::Remove,
    };
    let arguments = match request {
        Request::List => [call.args[3], call.args[4], 0, 0],
        Request::Remove => [call.args[3], 0, 0, 0],
        Request::Get | Request::Set => {
            // struct xattr_args: value, size, flags.
            if memory::says_no_more(call.args[4], call.args[5], 16, 16).is_err() {
                return Outcome::Forward;
            }
            let (Ok(value), Ok(size), Ok(flags)) = (
                memory::get::<usize>(call.args[4]),
                memory::get::<u32>(call.args[4] + 8),
                memory::get::<u32>(call.args[4] + 12),
            ) else {
                return Outcome::Forward;
            };
            // `getxattrat`, fs/xattr.c.
            if call.number == nr::GETXATTRAT && flags != 0 {
                return Outcome::Forward;
            }
            [call.args[3], value, size as usize, flags as usize]
        }
    };
    if flags & AT_EMPTY_PATH != 0 && (path == 0 || memory::get::<u8>(path) == Ok(0)) {
        return match descriptor(fd) {
            // As fgetxattr(2) and its kin (`path_getxattrat`, fs/xattr.c).
            Some(held) => done(by_held(&held, request, &arguments)),
            None => Outcome::Forward,
        };
    }
    let last = if flags & AT_SYMLINK_NOFOLLOW != 0 {
        LastStep::NoFollow
    } else {
        LastStep::Follow
    };
    on_path(call, At::below(0, last), None, |_, found| {
        perform(found.mount, existing(found)?.node, request, &arguments)
    })
}
