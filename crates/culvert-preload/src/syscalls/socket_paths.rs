//! Calls of sockets whose address is a path in a mount (unix(7)).

use super::unix_sockets;
use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use crate::vfs::backed::through_proc;
use crate::vfs::create;
use crate::vfs::native::{AT_SYMLINK_NOFOLLOW, stat_at};
use crate::vfs::path::{Found, Given, existing, find, find_by_walking, is_link, look_again};
use crate::vfs::permission::granted;
use crate::vfs::targets::{parent_is_target, parent_of};
use culvert::{Errno, FileKind};
use culvert_intercept::{Call, user};
use culvert_mounts::resolver::{Inside, Last, LastStep};
use culvert_run::{files::c_string, memory::Path};
use culvert_sys::nr;
use culvert_sys::raw::general::AT_FDCWD;

/// bind(2) of a socket to a path in a mount.
pub fn bind_path(process: &Process, call: &mut Call) -> Answer {
    on_socket_path(process, call, 1, LastStep::Parent, |call, found, given| {
        let made = create::socket(&found).map_err(in_use)?;
        unix_sockets::bind(process, call, found.mount, made.inode, given).inspect_err(|_| {
            if let (Ok(file_system), Last::Name(name)) =
                (culvert_cache::file_system(found.mount), &found.last)
            {
                let _ = file_system.unlink(&culvert_run::task::caller(), found.parent, name);
            }
        })
    })
}

/// connect(2) to a path in a mount.
pub fn connect_path(process: &Process, call: &mut Call) -> Answer {
    on_socket_path(process, call, 1, LastStep::Follow, |call, found, _| {
        reach_at(process, call, 1, &found)
    })
}

/// sendto(2) to a path in a mount.
pub fn sendto(process: &Process, call: &mut Call) -> Answer {
    if call.args[4] == 0 {
        return Err(FORWARD);
    }
    on_socket_path(process, call, 4, LastStep::Follow, |call, found, _| {
        reach_at(process, call, 4, &found)
    })
}

/// sendmsg(2) to a path in a mount.
pub fn send_message(process: &Process, call: &Call) -> Answer {
    on_socket_path(process, call, 1, LastStep::Follow, |call, found, _| {
        reach_at(process, call, 1, &found)
    })
}

/// `unix_find_bsd`, net/unix/af_unix.c
fn reach_at(process: &Process, call: &Call, at: usize, found: &Inside<'_>) -> Answer {
    let attributes = existing(found)?;
    let file_system = culvert_cache::file_system(found.mount)?;
    granted(file_system, &culvert_run::task::caller(), attributes, 2)?;
    if attributes.kind != FileKind::Socket {
        return Err(Errno::ECONNREFUSED);
    }
    unix_sockets::reach(process, call, at, found.mount, attributes.inode)
}

/// A call whose arguments `at` and `at + 1` are the address of a socket.
fn on_socket_path(
    process: &Process,
    call: &Call,
    at: usize,
    last: LastStep,
    inside: impl FnOnce(&Call, Inside<'_>, &[u8]) -> Answer,
) -> Answer {
    let (address, length) = unix_sockets::given_address(call, at);
    let mut bytes = [0u8; 110];
    let length = length.min(bytes.len());
    const AF_UNIX: [u8; 2] = [1, 0];
    if length <= 2
        || user::copy_in(&mut bytes[..length], address).is_err()
        || bytes[..2] != AF_UNIX
        || bytes[2] == 0
    {
        return Err(FORWARD);
    }
    let given = &bytes[2..length];
    let given = &given[..given.iter().position(|&b| b == 0).unwrap_or(given.len())];
    let (path, binds) = (c_string(given), call.number == nr::BIND);
    let path = Path::of(&path);
    let here = Given::here(path, last);
    let mut found = find(process, here);
    if let Ok(Found::Backed(place)) = &found {
        // A plain name in the working directory means the same to the kernel, and is not made
        // longer: `sun_path` is short.
        if place.base == AT_FDCWD && !path.contains(&b'/') && (binds || !is_link(AT_FDCWD, path)) {
            return Err(FORWARD);
        }
        found = find_by_walking(process, here);
    }
    if matches!(found, Ok(Found::Kernel)) && !path.is_empty() {
        // Nothing by that name natively, or only the empty directory under a mount: a link outside
        // may lead into one.
        let certain = process.targets_open && parent_is_target(process, AT_FDCWD, path.bytes());
        let missing = || {
            let found = stat_at(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
            matches!(found, Err(Errno::ENOENT | Errno::ENOTDIR))
        };
        if certain || missing() {
            found = look_again(process, here, certain);
        }
    }
    match found? {
        Found::Inside(found) => inside(call, found, given),
        Found::Backed(place) => {
            let there = (place.base, place.path());
            if means_the_same(path, there, binds) {
                return Err(FORWARD);
            }
            let whole = through_proc(place.base, place.path().bytes());
            unix_sockets::by_kernel(process, call, at, given, &whole, there)
        }
        Found::Outside(whole) => {
            let there = (AT_FDCWD, Path::of(&whole));
            if means_the_same(path, there, binds) {
                return Err(FORWARD);
            }
            unix_sockets::by_kernel(process, call, at, given, &whole, there)
        }
        Found::MagicLink(_) | Found::Kernel => Err(FORWARD),
    }
}

/// Whether the kernel finds at `given` what is to be found at `there`, a path below a directory:
/// the socket, or where one is to be bound its directory. Then the address may stay as it is, which
/// is never too long, and is what getsockname(2) tells.
fn means_the_same(given: Path<'_>, (base, there): (i32, Path<'_>), binds: bool) -> bool {
    let identity = |directory: i32, path: Path<'_>| {
        let above = match binds {
            true => parent_of(&path),
            false => path.c_str().into(),
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
        Errno::EEXIST => super::unix_sockets::EADDRINUSE,
        errno => errno,
    }
}
