//! Sockets with a name in a mount (unix(7)). The driver keeps a socket's inode, as it keeps any
//! other; what connects the processes is a socket in the run directory, named by that inode, and so
//! the same for all of them.

use super::done;
use super::host::open_restricted;
use super::targets::parent_of;
use crate::answer::Answer;
use crate::memory::{self, Path, c_string};
use crate::process;
use crate::resolver::MountId;
use crate::run::{ShadowName, read_link};
use crate::shadow::Descriptor;
use alloc::{format, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use culvert::{Errno, Node};
use culvert_intercept::{Call, Outcome, user};
use culvert_sys::{nr, own_descriptors, syscall};

/// `sun_path` of `struct sockaddr_un`.
pub const LONGEST: usize = 108;
const AF_UNIX: [u8; 2] = [1, 0];
/// `struct msghdr`.
pub const SIZE_OF_MSGHDR: usize = 56;
/// The offset of `msg_namelen` in it.
pub const NAME_LENGTH: usize = 8;
const O_PATH: u64 = 0o10000000;
/// The folder of the run directory for [`FarName`]s. Short: each byte is one less for the socket's
/// name.
const FAR: &str = "far";

/// The socket that stands for inode `inode` of `mount`.
pub fn stand_in(mount: MountId, inode: u64) -> Vec<u8> {
    let name = ShadowName {
        mount: mount.0,
        node: Node(inode),
    };
    process::get().run.file(&format!("sockets/{}", name.text()))
}

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
pub fn with_address(call: &Call, at: usize, path: &[u8]) -> Answer {
    if path.len() > LONGEST {
        return Err(Errno::ENAMETOOLONG);
    }
    let address = [&AF_UNIX[..], path].concat();
    let mut arguments = call.args;
    let mut header = [0u8; SIZE_OF_MSGHDR];
    if call.number == nr::SENDMSG {
        user::copy_in(&mut header, call.args[1]).map_err(|_| Errno::EFAULT)?;
        header[..8].copy_from_slice(&(address.as_ptr() as usize).to_ne_bytes());
        let length = (address.len() as u32).to_ne_bytes();
        header[NAME_LENGTH..NAME_LENGTH + 4].copy_from_slice(&length);
        arguments[1] = header.as_ptr() as usize;
    } else {
        arguments[at] = address.as_ptr() as usize;
        arguments[at + 1] = address.len();
    }
    // SAFETY: the program's own call, with an address of ours of the length given.
    match unsafe { culvert_intercept::wait::interruptible(call.number, arguments) } {
        Ok(result) => Errno::check(result),
        Err(_) => Err(crate::answer::RESTART),
    }
}

/// bind(2) of a socket whose inode was just made; `given` is the name that the program gave.
pub fn bind(call: &Call, mount: MountId, inode: u64, given: &[u8]) -> Answer {
    has_names();
    let path = stand_in(mount, inode);
    let name = name_of(&path);
    let given = c_string(given);
    let _ = crate::run::make_directory(&process::get().run.file("sockets"));
    // SAFETY: the strings end in NUL. One left behind by a file that had the inode before is
    // nobody's.
    unsafe {
        let _ = syscall::call(nr::UNLINK, [path.as_ptr() as usize]);
        let _ = syscall::call(nr::UNLINK, [name.as_ptr() as usize]);
    }
    symbolic_link(&given, &name)?;
    with_address(call, 1, &path)
}

/// connect(2), sendto(2): ECONNREFUSED for a socket that nobody has bound in this run.
pub fn reach(call: &Call, at: usize, mount: MountId, inode: u64) -> Answer {
    with_address(call, at, &stand_in(mount, inode)).map_err(|errno| match errno {
        Errno::ENOENT => Errno::ECONNREFUSED,
        errno => errno,
    })
}

/// bind(2), connect(2), sendto(2) to what the kernel finds at `path` below `base`, where `whole`,
/// the path from the root, may be too long for an address (NUL-terminated).
pub fn by_kernel(
    call: &Call,
    at: usize,
    given: &[u8],
    whole: &[u8],
    (base, path): (i32, Path<'_>),
) -> Answer {
    if call.number == nr::BIND {
        has_names();
    }
    match (whole.len() > LONGEST, call.number == nr::BIND) {
        (false, _) => with_address(call, at, whole),
        (true, true) => bind_far(call, given, base, path),
        (true, false) => reach_far(call, at, base, path),
    }
}

/// By the link of its descriptor, which is short.
fn reach_far(call: &Call, at: usize, base: i32, path: Path<'_>) -> Answer {
    let socket = open_restricted(base, path, O_PATH, 0, 0)?;
    let link = format!("{}{}\0", own_descriptors::directory(), socket.0);
    with_address(call, at, link.as_bytes())
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
    let way = format!("{}{}\0", own_descriptors::directory(), parent.0);
    if let Ok(short) = FarName::new(way.as_bytes(), given) {
        let address = [short.directory(), b"/", name, b"\0"].concat();
        if address.len() <= LONGEST {
            return with_address(call, 1, &address).inspect_err(|_| short.remove());
        }
        short.remove();
    }
    // getsockname(2) tells this one.
    let way = way.strip_suffix('\0').unwrap_or(&way).as_bytes();
    with_address(call, 1, &[way, b"/", name, b"\0"].concat())
}

/// A short way to a directory in which a socket is bound, in the run directory.
struct FarName {
    /// NUL-terminated.
    link: Vec<u8>,
}

impl FarName {
    /// One that leads where `way` does, and is not used by any other process of the run.
    fn new(way: &[u8], given: &[u8]) -> Result<Self, Errno> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let run = &process::get().run;
        let _ = crate::run::make_directory(&run.file(FAR));
        loop {
            let number = NEXT.fetch_add(1, Relaxed);
            let link = run.file(&format!("{FAR}/{number}"));
            match symbolic_link(way, &link) {
                Ok(()) => {
                    let far = Self { link };
                    symbolic_link(&c_string(given), &name_of(&far.link))
                        .inspect_err(|_| far.remove())?;
                    return Ok(far);
                }
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Its path.
    fn directory(&self) -> &[u8] {
        self.link.strip_suffix(b"\0").unwrap_or(&self.link)
    }

    fn remove(&self) {
        for path in [&self.link, &name_of(&self.link)] {
            // SAFETY: the path ends in NUL.
            let _ = unsafe { syscall::call(nr::UNLINK, [path.as_ptr() as usize]) };
        }
    }
}

fn symbolic_link(to: &[u8], at: &[u8]) -> Result<(), Errno> {
    // SAFETY: both strings end in NUL.
    unsafe { syscall::call(nr::SYMLINK, [to.as_ptr() as usize, at.as_ptr() as usize]) }.map(|_| ())
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
    match renamed(&bytes[..(got as usize).min(bytes.len())]) {
        None => Outcome::Forward,
        Some(name) => done(put_name(&name, address, length, room as usize).map(|()| 0)),
    }
}

/// The address that the program knows, in place of the kernel's `address`, if that is another one.
fn renamed(address: &[u8]) -> Option<Vec<u8>> {
    let name = known_as(address.strip_prefix(&AF_UNIX)?)?;
    Some([&AF_UNIX[..], &name, b"\0"].concat())
}

/// Gives the program `name` at `address`, which has `room` bytes, and its length at `length`.
fn put_name(name: &[u8], address: usize, length: usize, room: usize) -> Result<(), Errno> {
    user::copy_out(address, &name[..name.len().min(room)]).map_err(|_| Errno::EFAULT)?;
    memory::put(length, name.len() as u32)
}

/// Some socket of the run has a name that is not the one that the kernel tells.
fn has_names() {
    if let Some(notes) = process::get().node_locks.notes() {
        notes.sockets.store(1, Relaxed);
    }
}

/// Whether a socket of the run may have one.
pub fn are_named() -> bool {
    let notes = process::get().node_locks.notes();
    notes.is_some_and(|notes| notes.sockets.load(Relaxed) != 0)
}

/// The kernel has written the name of who sent something, or connected, to `address`, which has
/// `room` bytes, and its length to `length`: the program gets the one that it knows.
pub fn tell_name(address: usize, length: usize, room: u32) {
    let mut bytes = [0u8; 128];
    let got = memory::get::<u32>(length).unwrap_or(0);
    let Some(kernels) = bytes.get_mut(..got as usize).filter(|_| got <= room) else {
        return;
    };
    if user::copy_in(kernels, address).is_ok()
        && let Some(name) = renamed(kernels)
    {
        let _ = put_name(&name, address, length, room as usize);
    }
}

/// recvfrom(2), accept(2), accept4(2): the name of the other socket is the one that the program
/// knows.
pub fn with_peer(call: &mut Call) -> Outcome {
    let at = if call.number == nr::RECVFROM { 4 } else { 1 };
    let (address, length) = (call.args[at], call.args[at + 1]);
    if address == 0 || !are_named() {
        return Outcome::Forward;
    }
    let Some(room) = memory::get::<u32>(length)
        .ok()
        .filter(|&room| room <= 1 << 16)
    else {
        return Outcome::Forward;
    };
    let (mut bytes, mut got) = ([0u8; 128], 128u32);
    let mut arguments = call.args;
    arguments[at] = bytes.as_mut_ptr() as usize;
    arguments[at + 1] = (&raw mut got) as usize;
    // SAFETY: the program's own call, with memory of ours of the length given for the name.
    match unsafe { culvert_intercept::wait::interruptible(call.number, arguments) } {
        Err(_) => Outcome::Restart,
        Ok(result) if result < 0 => Outcome::Return(result),
        Ok(result) => {
            let kernels = &bytes[..(got as usize).min(bytes.len())];
            let name = renamed(kernels).unwrap_or_else(|| kernels.to_vec());
            let put = put_name(&name, address, length, room as usize);
            if put.is_err() && call.number != nr::RECVFROM {
                drop(Descriptor(result as i32));
            }
            done(put.map(|()| result as usize))
        }
    }
}

/// What the program calls the socket that the kernel knows at `path`; none for those outside of
/// mounts.
fn known_as(path: &[u8]) -> Option<Vec<u8>> {
    let path = &path[..path.iter().position(|&b| b == 0).unwrap_or(path.len())];
    let process = process::get();
    let sockets = process.run.file("sockets/");
    if path.starts_with(sockets.strip_suffix(b"\0")?) {
        return read_link(&name_of(path)).ok();
    }
    let far = process.run.file(&format!("{FAR}/"));
    if let Some(rest) = path.strip_prefix(far.strip_suffix(b"\0")?) {
        let number = rest.split(|&b| b == b'/').next()?;
        return read_link(&name_of(&[&far[..far.len() - 1], number].concat())).ok();
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
