//! Extended attributes.

use super::arguments::{At, descriptor, is_empty, last_step, on_empty_path};
use super::path::on_path;
use crate::answer::{Answer, FORWARD};
use crate::description::{Held, Object};
use crate::process::Process;
use crate::vfs::node::On;
use crate::vfs::path::existing;
use crate::vfs::xattr::{self, NewValue};
use alloc::vec;
use culvert::Errno;
use culvert_intercept::{Call, user};
use culvert_mounts::resolver::LastStep;
use culvert_run::memory;
use culvert_sys::fd::CWD;
use culvert_sys::fs;
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

fn perform(on: On<'_>, request: Request, arguments: &[usize]) -> Answer {
    let mut room = [0u8; NAME_MAX + 1];
    match request {
        Request::List => give(&xattr::list(on)?, arguments[0], arguments[1]),
        Request::Get => {
            let length = name_at(arguments[0], &mut room)?;
            let value = xattr::get(on, &room[..length])?;
            give(&value, arguments[1], arguments[2])
        }
        Request::Set => xattr::set(on, || {
            let length = name_at(arguments[0], &mut room)?;
            if arguments[2] > SIZE_MAX {
                return Err(Errno::E2BIG);
            }
            let mut value = vec![0u8; arguments[2]];
            user::copy_in(&mut value, arguments[1]).map_err(|_| Errno::EFAULT)?;
            Ok(NewValue {
                name: &room[..length],
                value,
                flags: arguments[3] as u32,
            })
        })
        .map(|()| 0),
        Request::Remove => xattr::remove(on, || {
            let length = name_at(arguments[0], &mut room)?;
            Ok(&room[..length])
        })
        .map(|()| 0),
    }
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
pub fn by_path(process: &Process, call: &mut Call) -> Answer {
    let last = match call.number {
        nr::GETXATTR | nr::LISTXATTR | nr::SETXATTR | nr::REMOVEXATTR => LastStep::Follow,
        _ => LastStep::NoFollow,
    };
    on_path(process, call, At::new(0, last), None, |call, found| {
        existing(found)?;
        perform(On::Found(found), of_number(call.number), &call.args[1..])
    })
}

fn by_held(held: &Held, request: Request, arguments: &[usize]) -> Answer {
    if matches!(held.object, Object::Path) {
        return Err(Errno::EBADF);
    }
    perform(On::Held(held), request, arguments)
}

/// The f-forms.
pub fn by_descriptor(process: &Process, call: &mut Call) -> Answer {
    let Some(held) = descriptor(process, call.args[0]) else {
        return match call.args[0] as i32 {
            AT_FDCWD => of_working_directory(process, call),
            _ => Err(FORWARD),
        };
    };
    by_held(&held, of_number(call.number), &call.args[1..])
}

/// fgetxattr and fsetxattr of AT_FDCWD: since Linux 6.13 that is the working directory
/// (`path_getxattrat`, fs/xattr.c), before it is EBADF. The other two say so still.
fn of_working_directory(process: &Process, call: &Call) -> Answer {
    let request = of_number(call.number);
    let here = process.working_node();
    let (Some((mount, node)), Request::Get | Request::Set) = (here, request) else {
        return Err(FORWARD);
    };
    if fs::fgetxattr(CWD, c"user.culvert", &mut []) == Err(Errno::EBADF) {
        return Err(Errno::EBADF);
    }
    perform(On::Node(mount, node), request, &call.args[1..])
}

/// getxattrat(2) and its kin (since 6.13).
pub fn at(process: &Process, call: &mut Call) -> Answer {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    const AT_EMPTY_PATH: usize = 0x1000;
    let [fd, path, flags, ..] = call.args;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(FORWARD);
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
                return Err(FORWARD);
            }
            let (Ok(value), Ok(size), Ok(flags)) = (
                memory::get::<usize>(call.args[4]),
                memory::get::<u32>(call.args[4] + 8),
                memory::get::<u32>(call.args[4] + 12),
            ) else {
                return Err(FORWARD);
            };
            // `getxattrat`, fs/xattr.c.
            if call.number == nr::GETXATTRAT && flags != 0 {
                return Err(FORWARD);
            }
            [call.args[3], value, size as usize, flags as usize]
        }
    };
    if flags & AT_EMPTY_PATH != 0 && is_empty(path) {
        // As fgetxattr(2) and its kin (`path_getxattrat`, fs/xattr.c).
        return on_empty_path(process, fd, |on| match on {
            On::Held(held) => by_held(held, request, &arguments),
            On::Node(..) if matches!(request, Request::List | Request::Remove) => Err(FORWARD),
            on => perform(on, request, &arguments),
        })
        .unwrap_or(Err(FORWARD));
    }
    let last = last_step(flags);
    on_path(process, call, At::below(0, last), None, |_, found| {
        existing(found)?;
        perform(On::Found(found), request, &arguments)
    })
}
