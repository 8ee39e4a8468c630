//! What a service manager is told (sd_notify(3)): one datagram to the socket in NOTIFY_SOCKET.

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::{env, os::unix::ffi::OsStrExt};

/// Tells `state` ("READY=1") to who wants to know; without one, or where it cannot be reached,
/// nothing.
pub fn notify(state: &str) {
    let Some(place) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match place.as_bytes() {
        // Of the abstract name space.
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name),
        path => SocketAddrUnix::new(path),
    };
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    );
    if let (Ok(address), Ok(socket)) = (address, socket) {
        let _ = rustix::net::sendto(&socket, state.as_bytes(), SendFlags::NOSIGNAL, &address);
    }
}

/// The mount can be used; `who` is the process to signal.
pub fn ready(who: u32, what: &str) {
    notify(&format!("READY=1\nMAINPID={who}\nSTATUS={what}"));
}
