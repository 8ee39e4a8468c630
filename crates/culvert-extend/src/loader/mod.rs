//! The loader service: extensions for mounts of ordinary users.
//!
//! A server connects to [`SOCKET`] and sends one message: the object, how many entries its maps
//! shall have, and its descriptor of /dev/fuse. The service ([`Service`]) looks whether the object
//! is on its list, the connection is the asker's and the mount harmless, and how much the user has
//! already; it loads and attaches, and sends the module's descriptor and those of the maps back.
//! It keeps nothing: what a user has stands in the kernel's own lists, by name.

mod allowed;
mod kernel;
mod message;
mod mounts;
mod service;

pub use allowed::{Allowed, LIST};
pub use service::{Limits, Service};

use crate::{
    bpf::MapKind,
    loaded::{self, Loaded, NAME},
    module::{Attached, Device, Unusable},
    object::Object,
};
use message::{Reply, Request};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

/// Where it listens.
pub const SOCKET: &str = "/run/culvert/extend";
/// How long a server waits for it: the verifier's time, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Has the kernel ask the program of `bytes` for the connection that `fuse` is one of; `entries` of
/// its maps, in their order, 0: as the object says. This process loads it, or the service does.
///
/// # Errors
/// With what keeps it from that, for people.
pub(crate) fn load(bytes: &[u8], entries: &[u32], fuse: BorrowedFd<'_>) -> Result<Loaded, String> {
    let object = Object::read(bytes).ok_or("it is no object of an extension")?;
    match Device::open() {
        Ok(device) => loaded::here(device, &object, entries, (fuse, NAME)),
        Err(Unusable::NotAllowed) => ask(bytes, &loaded::kinds(&object, entries)?, entries, fuse),
        Err(error) => Err(error.to_string()),
    }
}

/// Has the service load the object and attach it to the connection that `fuse` is one of.
fn ask(
    object: &[u8],
    kinds: &[MapKind],
    entries: &[u32],
    fuse: BorrowedFd<'_>,
) -> Result<Loaded, String> {
    let why = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            String::from("the module is root's, and there is no loader service (culvert extend)")
        }
        io::ErrorKind::WouldBlock => String::from("the loader service does not answer"),
        _ => format!("the loader service: {error}"),
    };
    let service = connect(SOCKET).map_err(why)?;
    // Root alone is given what a mount is.
    if peer(&service).map_err(why)?.uid != 0 {
        return Err(format!("{SOCKET} is not root's"));
    }
    ask_at(&service, object, entries, fuse, kinds.len()).map_err(why)?
}

fn ask_at(
    service: &OwnedFd,
    object: &[u8],
    entries: &[u32],
    fuse: BorrowedFd<'_>,
    maps: usize,
) -> io::Result<Result<Loaded, String>> {
    match (Request { object, entries }).send(service, fuse) {
        // It has refused before.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        sent => sent?,
    }
    let (reply, mut descriptors) = Reply::receive(service)?;
    if let Reply::Refused(why) = reply {
        return Ok(Err(format!("the loader service: {why}")));
    }
    if descriptors.len() != 1 + maps {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let maps = descriptors.split_off(1);
    let device = descriptors.pop().ok_or(io::ErrorKind::InvalidData)?;
    Ok(Ok(Loaded::new(Attached::from(device), maps)))
}

fn connect(place: &str) -> io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let socket = net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    net::connect(&socket, &SocketAddrUnix::new(place)?)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
    Ok(socket)
}

/// Who is at the other end of a socket, or was when it was connected.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// 0: it cannot be seen from here.
    pid: u32,
    uid: u32,
}

fn peer(socket: &OwnedFd) -> io::Result<Peer> {
    const SO_PEERCRED: u32 = 17;
    let socket = culvert_sys::BorrowedFd::number(std::os::fd::AsRawFd::as_raw_fd(socket));
    let [pid, uid, _gid] = culvert_sys::net::socket_option::<[u32; 3]>(socket, SO_PEERCRED)
        .map_err(|error| io::Error::from_raw_os_error(error.raw()))?;
    Ok(Peer { pid, uid })
}

#[cfg(test)]
mod tests;
