//! Calls of sockets with a name in a mount: the kernel gets the address of what stands for it
//! ([`crate::vfs::unix_sockets`]), the program the one that it knows.

use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use crate::vfs::native::open_restricted;
use crate::vfs::targets::parent_of;
use crate::vfs::unix_sockets::{FarName, are_named, has_names, known_as, name_of, stand_in};
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::Errno;
use culvert_intercept::{Call, user};
use culvert_mounts::MountId;
use culvert_run::files::{c_string, own_descriptor};
use culvert_run::memory::{self, Path};
use culvert_sys::plain::Packed;
use culvert_sys::{OwnedFd, fs, nr};

/// `sun_path` of `struct sockaddr_un`.
pub const LONGEST: usize = 108;

const AF_UNIX: [u8; 2] = [1, 0];

/// `struct msghdr`.
pub const SIZE_OF_MSGHDR: usize = 56;

/// The offset of `msg_namelen` in it.
pub const NAME_LENGTH: usize = 8;

const O_PATH: u64 = 0o10000000;

/// Address and length of the name that is given to `call`: in arguments `at` and `at + 1`, or in
/// the `struct msghdr` of sendmsg(2).
pub fn given_address(call: &Call, at: usize) -> (usize, usize) {
    if call.number != nr::SENDMSG {
        return (call.args[at], call.args[at + 1]);
    }
    let length = memory::get::<u32>(call.args[1] + NAME_LENGTH);
    match (memory::get::<usize>(call.args[1]), length) {
        (Ok(address), Ok(length)) => (address, length as usize),
        _ => (0, 0),
    }
}

/// Whether the name in the `struct msghdr` at `header` is a path.
pub fn is_to_path(header: usize) -> bool {
    let address = memory::get::<usize>(header).unwrap_or(0);
    let length = memory::get::<u32>(header + NAME_LENGTH).unwrap_or(0);
    let mut start = [0u8; 3];
    length > 2
        && address != 0
        && user::copy_in(&mut start, address).is_ok()
        && start[..2] == AF_UNIX
        && start[2] != 0
}

/// Does the call with this address in place of the program's, where [`given_address`] finds it; a
/// signal ends its wait.
fn with_address(call: &Call, at: usize, path: &[u8]) -> Answer {
    if path.len() > LONGEST {
        return Err(Errno::ENAMETOOLONG);
    }
    let address = [&AF_UNIX[..], path].concat();
    let mut header = [0u8; SIZE_OF_MSGHDR];
    if call.number == nr::SENDMSG {
        user::copy_in(&mut header, call.args[1]).map_err(|_| Errno::EFAULT)?;
        header[..8].copy_from_slice(&(address.as_ptr() as usize).to_ne_bytes());
        let length = (address.len() as u32).to_ne_bytes();
        header[NAME_LENGTH..NAME_LENGTH + 4].copy_from_slice(&length);
        // SAFETY: a `struct msghdr`, and the name in it is as long as it says.
        return unsafe { call.replacing().bytes(1, &header) }.wait();
    }
    // SAFETY: its length is the next argument.
    let call = unsafe { call.replacing().bytes(at, &address) };
    call.word(at + 1, address.len()).wait()
}

/// bind(2) of a socket whose inode was just made; `given` is the name that the program gave.
pub fn bind(process: &Process, call: &Call, mount: MountId, inode: u64, given: &[u8]) -> Answer {
    has_names(process);
    let path = stand_in(process, mount, inode);
    let name = name_of(&path);
    let _ = culvert_run::make_directory(&process.run.file("sockets"));
    // One left behind by a file that had the inode before is nobody's.
    let _ = fs::unlink(&path);
    let _ = fs::unlink(&name);
    fs::symlink(&c_string(given), &name)?;
    with_address(call, 1, path.to_bytes_with_nul())
}

/// connect(2), sendto(2): ECONNREFUSED for a socket that nobody has bound in this run.
pub fn reach(process: &Process, call: &Call, at: usize, mount: MountId, inode: u64) -> Answer {
    with_address(
        call,
        at,
        stand_in(process, mount, inode).to_bytes_with_nul(),
    )
    .map_err(|errno| match errno {
        Errno::ENOENT => Errno::ECONNREFUSED,
        errno => errno,
    })
}

/// bind(2), connect(2), sendto(2) to what the kernel finds at `path` below `base`, where `whole`,
/// the path from the root, may be too long for an address.
pub fn by_kernel(
    process: &Process,
    call: &Call,
    at: usize,
    given: &[u8],
    whole: &CStr,
    (base, path): (i32, Path<'_>),
) -> Answer {
    if call.number == nr::BIND {
        has_names(process);
    }
    let whole = whole.to_bytes_with_nul();
    match (whole.len() > LONGEST, call.number == nr::BIND) {
        (false, _) => with_address(call, at, whole),
        (true, true) => bind_far(call, given, base, path),
        (true, false) => reach_far(call, at, base, path),
    }
}

/// By the link of its descriptor, which is short.
fn reach_far(call: &Call, at: usize, base: i32, path: Path<'_>) -> Answer {
    let socket = open_restricted(base, path, O_PATH, 0, 0)?;
    with_address(call, at, own_descriptor(socket.raw()).to_bytes_with_nul())
}

/// By a short path to the directory: a link in the run directory, beside which another one keeps
/// `given`, the name that the program gave.
fn bind_far(call: &Call, given: &[u8], base: i32, path: Path<'_>) -> Answer {
    const O_DIRECTORY: u64 = 0o200000;
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    let start = path[..end]
        .iter()
        .rposition(|&b| b == b'/')
        .map_or(0, |at| at + 1);
    let (parent, name) = (parent_of(&path), &path[start..]);
    let parent = open_restricted(base, Path::of(&parent), O_PATH | O_DIRECTORY, 0, 0)?;
    let way = own_descriptor(parent.raw());
    if let Ok(short) = FarName::new(&way, given) {
        let address = [short.directory(), b"/", name, b"\0"].concat();
        if address.len() <= LONGEST {
            return with_address(call, 1, &address).inspect_err(|_| short.remove());
        }
        short.remove();
    }
    // getsockname(2) tells this one.
    with_address(call, 1, &[way.to_bytes(), b"/", name, b"\0"].concat())
}

/// getsockname(2), getpeername(2): the name by which the program knows a socket in a mount.
pub fn socket_name(process: &Process, call: &mut Call) -> Answer {
    let [_, address, length, ..] = call.args;
    let room = memory::get::<u32>(length).map_err(|_| FORWARD)?;
    let mut bytes = [0u8; 128];
    let mut got = bytes.len() as u32;
    // SAFETY: a length, which says how much room there is for the address.
    let asked = unsafe {
        call.replacing()
            .room(1, &mut bytes)
            .room(2, got.bytes_mut())
    };
    if asked.execute().is_err() {
        return Err(FORWARD);
    }
    match renamed(process, &bytes[..(got as usize).min(bytes.len())]) {
        None => Err(FORWARD),
        Some(name) => put_name(&name, address, length, room as usize).map(|()| 0),
    }
}

/// The address that the program knows, in place of the kernel's `address`, if that is another one.
fn renamed(process: &Process, address: &[u8]) -> Option<Vec<u8>> {
    let name = known_as(process, address.strip_prefix(&AF_UNIX)?)?;
    Some([&AF_UNIX[..], &name, b"\0"].concat())
}

/// Gives the program `name` at `address`, which has `room` bytes, and its length at `length`.
fn put_name(name: &[u8], address: usize, length: usize, room: usize) -> Result<(), Errno> {
    user::copy_out(address, &name[..name.len().min(room)]).map_err(|_| Errno::EFAULT)?;
    memory::put(length, name.len() as u32)
}

/// The kernel has written the name of who sent something, or connected, to `address`, which has
/// `room` bytes, and its length to `length`: the program gets the one that it knows.
pub fn tell_name(process: &Process, address: usize, length: usize, room: u32) {
    let mut bytes = [0u8; 128];
    let got = memory::get::<u32>(length).unwrap_or(0);
    let Some(kernels) = bytes.get_mut(..got as usize).filter(|_| got <= room) else {
        return;
    };
    if user::copy_in(kernels, address).is_ok()
        && let Some(name) = renamed(process, kernels)
    {
        let _ = put_name(&name, address, length, room as usize);
    }
}

/// recvfrom(2), accept(2), accept4(2): the name of the other socket is the one that the program
/// knows.
pub fn with_peer(process: &Process, call: &mut Call) -> Answer {
    let at = if call.number == nr::RECVFROM { 4 } else { 1 };
    let (address, length) = (call.args[at], call.args[at + 1]);
    if address == 0 || !are_named(process) {
        return Err(FORWARD);
    }
    let room = memory::get::<u32>(length)
        .ok()
        .filter(|&room| room <= 1 << 16)
        .ok_or(FORWARD)?;
    let (mut bytes, mut got) = ([0u8; 128], 128u32);
    // SAFETY: as in `socket_name`.
    let asked = unsafe {
        call.replacing()
            .room(at, &mut bytes)
            .room(at + 1, got.bytes_mut())
    };
    let result = asked.wait()?;
    let kernels = &bytes[..(got as usize).min(bytes.len())];
    let name = renamed(process, kernels).unwrap_or_else(|| kernels.to_vec());
    let put = put_name(&name, address, length, room as usize);
    if put.is_err() && call.number != nr::RECVFROM {
        drop(OwnedFd::from_raw(result as i32));
    }
    put.map(|()| result)
}

/// EADDRINUSE, which file systems do not know.
pub const EADDRINUSE: Errno = Errno::new(98);
