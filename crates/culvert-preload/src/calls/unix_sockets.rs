//! Sockets with a name in a mount (unix(7)). The driver keeps a socket's inode, as it keeps any other; what connects the processes is a socket in the run
//! directory, named by that inode, and so the same for all of them.

use super::backed::Backed;
use super::host::open_restricted;
use super::{Answer, done};
use crate::memory;
use crate::process;
use crate::resolver::MountId;
use crate::run::{ShadowName, read_link};
use alloc::{format, vec::Vec};
use culvert::{Errno, Node};
use culvert_intercept::{Call, Outcome, user};
use culvert_sys::{nr, own_descriptors, syscall};

/// `sun_path` of `struct sockaddr_un`.
pub const LONGEST: usize = 108;
const AF_UNIX: [u8; 2] = [1, 0];

/// The socket that stands for inode `inode` of `mount`.
pub fn stand_in(mount: MountId, inode: u64) -> Vec<u8> {
    let name = ShadowName {
        mount: mount.0,
        node: Node(inode),
    };
    process::get().run.file(&format!("sockets/{}", name.text()))
}

/// Does the call with this address in place of the program's, in arguments `at` and `at + 1`; a signal ends its wait.
pub fn with_address(call: &Call, at: usize, path: &[u8]) -> Answer {
    if path.len() > LONGEST {
        return Err(Errno::ENAMETOOLONG);
    }
    let address = [&AF_UNIX[..], path].concat();
    let mut arguments = call.args;
    arguments[at] = address.as_ptr() as usize;
    arguments[at + 1] = address.len();
    // SAFETY: the program's own call, with an address of ours of the length given.
    match unsafe { culvert_intercept::wait::interruptible(call.number, arguments) } {
        Ok(result) => Errno::check(result),
        Err(_) => Err(super::RESTART),
    }
}

/// bind(2) of a socket whose inode was just made; `given` is the name that the program gave.
pub fn bind(call: &Call, mount: MountId, inode: u64, given: &[u8]) -> Answer {
    let path = stand_in(mount, inode);
    let name = name_of(&path);
    let given = memory::c_string(given);
    let _ = crate::run::make_directory(&process::get().run.file("sockets"));
    // SAFETY: the strings end in NUL. One left behind by a file that had the inode before is nobody's.
    unsafe {
        let _ = syscall::call(nr::UNLINK, [path.as_ptr() as usize]);
        let _ = syscall::call(nr::UNLINK, [name.as_ptr() as usize]);
        syscall::call(
            nr::SYMLINK,
            [given.as_ptr() as usize, name.as_ptr() as usize],
        )?;
    }
    with_address(call, 1, &path)
}

/// connect(2), sendto(2): ECONNREFUSED for a socket that nobody has bound in this run.
pub fn reach(call: &Call, at: usize, mount: MountId, inode: u64) -> Answer {
    with_address(call, at, &stand_in(mount, inode)).map_err(|errno| match errno {
        Errno::ENOENT => Errno::ECONNREFUSED,
        errno => errno,
    })
}

/// connect(2), sendto(2) to a socket in a backing tree whose path from the root is too long for an address: by its descriptor's link, which is short.
pub fn reach_far(call: &Call, at: usize, place: &Backed<'_>) -> Answer {
    const O_PATH: u64 = 0o10000000;
    let socket = open_restricted(place.base, place.path(), O_PATH, 0, 0)?;
    let link = format!("{}{}\0", own_descriptors::directory(), socket.0);
    with_address(call, at, link.as_bytes())
}

/// Where the name is kept that the program gave to the socket at `path`.
fn name_of(path: &[u8]) -> Vec<u8> {
    [path.strip_suffix(b"\0").unwrap_or(path), b".name\0"].concat()
}

/// getsockname(2), getpeername(2): the name by which the program knows a socket in a mount.
pub fn socket_name(call: &mut Call) -> Outcome {
    let [_, address, length, ..] = call.args;
    let Ok(room) = memory::get::<u32>(length) else {
        return Outcome::Forward;
    };
    let mut bytes = [0u8; 128];
    let mut got = bytes.len() as u32;
    let arguments = [
        call.args[0],
        bytes.as_mut_ptr() as usize,
        (&raw mut got) as usize,
    ];
    // SAFETY: the program's own question, with memory of ours of the length given.
    if unsafe { syscall::call(call.number, arguments) }.is_err() {
        return Outcome::Forward;
    }
    let known = bytes
        .get(..got as usize)
        .and_then(|bytes| known_as(bytes.strip_prefix(&AF_UNIX)?));
    let Some(name) = known else {
        return Outcome::Forward;
    };
    let answer = [&AF_UNIX[..], &name, b"\0"].concat();
    done(
        user::copy_out(address, &answer[..answer.len().min(room as usize)])
            .map_err(|_| Errno::EFAULT)
            .and_then(|()| memory::put(length, answer.len() as u32))
            .map(|()| 0),
    )
}

/// What the program calls the socket that the kernel knows at `path`; none for those outside of mounts.
fn known_as(path: &[u8]) -> Option<Vec<u8>> {
    let path = &path[..path.iter().position(|&b| b == 0).unwrap_or(path.len())];
    let process = process::get();
    let sockets = process.run.file("sockets/");
    if path.starts_with(sockets.strip_suffix(b"\0")?) {
        return read_link(&name_of(path)).ok();
    }
    // One in a backing tree, named from the tree's root.
    let rest = path.strip_prefix(b"/proc/self/fd/")?;
    let slash = rest.iter().position(|&b| b == b'/')?;
    let root: i32 = core::str::from_utf8(&rest[..slash]).ok()?.parse().ok()?;
    let mount = process
        .mounts
        .ids()
        .find(|&mount| crate::backing::of(mount).is_some_and(|backing| backing.root == root))?;
    Some([process.mounts.target(mount), &rest[slash..]].concat())
}
