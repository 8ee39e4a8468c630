//! The service of all hosts that share a back end: where it is, and that it is the right one
//! (the other side: `culvert-sync/src/lease.rs`, `remote.rs`).

use super::host;
use super::patience::{be_patient, receive_all, send_all};
use crate::OwnedFd;
use crate::passthrough::kernel;
use alloc::vec::Vec;
use alloc::{format, string::String};
use core::net::{IpAddr, SocketAddr};
use culvert::{Errno, Error, Result};
use culvert_sync_wire::relay::{TOLD, wished};
use culvert_sync_wire::secret::{self, Greeting, SHORTEST, Session};
use culvert_sys::fd::AsFd;
use culvert_sys::raw::general as linux;
use culvert_sys::raw::net::{AF_INET, AF_INET6, AF_UNIX, SOCK_STREAM};
use culvert_sys::{fs, net, process};

/// The directory of the lease of a service, in a back end.
pub const SYNC: &[u8] = b".culvert-sync";
/// Bytes of a lease, and of a secret, at most.
const LARGEST: usize = 4096;
/// What a lease begins with.
const TITLE: &str = "culvert-sync 1\n";
const IPPROTO_TCP: u32 = 6;
const TCP_NODELAY: u32 = 1;
const SO_PEERCRED: u32 = 17;

/// The patience with a relay: it has this one's with the service, twice.
const PATIENCE_OF_RELAY: i64 = 5;

/// Connects to the service that has the lease of the back end at `path`, and lets both show that
/// they know its secret; by TLS if there is a `relay` (its address), and not otherwise.
pub fn connect(
    path: &[u8],
    relay: Option<&[u8]>,
    patience: i64,
) -> core::result::Result<(OwnedFd, Session), Errno> {
    let found = find(path).map_err(|error| error.errno())?;
    let socket = match (relay, &found.key) {
        (Some(relay), Some(key)) => through(relay, found.address, key)?,
        (None, None) => directly(found.address, patience)?,
        _ => return Err(Errno::EPROTONOSUPPORT),
    };
    let session = greet(&socket, &found.secret)?;
    Ok((socket, session))
}

fn directly(address: SocketAddr, patience: i64) -> core::result::Result<OwnedFd, Errno> {
    let (family, bytes) = kernels(address);
    let socket = net::socket(family, SOCK_STREAM | linux::O_CLOEXEC, 0)?;
    be_patient(&socket, patience)?;
    net::connect(&socket, &bytes)?;
    // A request waits for nothing.
    net::set_option(&socket, IPPROTO_TCP, TCP_NODELAY, &1u32)?;
    Ok(socket)
}

/// What the relay says, nobody believes: it can only hide, or not pass on, what both ends have
/// signed.
fn through(relay: &[u8], address: SocketAddr, key: &str) -> core::result::Result<OwnedFd, Errno> {
    let socket = net::socket(AF_UNIX, SOCK_STREAM | linux::O_CLOEXEC, 0)?;
    be_patient(&socket, PATIENCE_OF_RELAY)?;
    net::connect(&socket, relay)?;
    // Else another user's would read along.
    let [_, uid, _]: [u32; 3] = net::socket_option(&socket, SO_PEERCRED)?;
    if uid != 0 && uid != process::geteuid() {
        return Err(Errno::EACCES);
    }
    send_all(socket.as_fd(), &wished(address, key))?;
    let mut told = [0; TOLD];
    receive_all(socket.as_fd(), &mut told)?;
    match u32::from_le_bytes(told) {
        0 => Ok(socket),
        code => Err(i32::try_from(code).map_or(Errno::EPROTO, Errno::new)),
    }
}

/// Why the service of the back end at `path` cannot be used by TLS now, or has to be; none: it can
/// be, or there is none.
pub fn trouble(path: &[u8], relay: Option<&[u8]>) -> Option<String> {
    let found = find(path).ok()?;
    let why = match (relay, &found.key) {
        (Some(_), Some(_)) => match connect(path, relay, 0).err()? {
            Errno::EKEYREJECTED => "another one than the lease says answers at its address",
            Errno::EACCES => "it does not know the secret",
            Errno::EPROTO | Errno::ECONNRESET => "what answers at its address speaks no TLS",
            _ => return None,
        },
        (Some(_), None) => "it was started without --tls",
        (None, Some(_)) => "it was started with --tls, and the mount has no tls=yes",
        (None, None) => return None,
    };
    Some(format!(
        "the service at {} is not used: {why}",
        found.address
    ))
}

fn greet(socket: &OwnedFd, secret: &[u8]) -> core::result::Result<Session, Errno> {
    let mut writer = [0; 32];
    if process::getrandom(&mut writer, 0)? != writer.len() {
        return Err(Errno::EAGAIN);
    }
    send_all(socket.as_fd(), &secret::hello(&writer))?;
    let mut challenge = [0; secret::CHALLENGE_LENGTH];
    receive_all(socket.as_fd(), &mut challenge)?;
    let (nonce, digest) = challenge.split_at(challenge.len() / 2);
    let service = nonce.try_into().map_err(|_| Errno::EPROTO)?;
    let greeting = Greeting {
        secret,
        writer,
        service,
    };
    if !greeting.is_of_service(digest) {
        return Err(Errno::EACCES);
    }
    send_all(socket.as_fd(), &greeting.proof())?;
    Ok(greeting.session(false))
}

/// What a back end says of its service.
struct Found {
    address: SocketAddr,
    /// It is reached by TLS.
    key: Option<String>,
    secret: Vec<u8>,
}

fn find(path: &[u8]) -> Result<Found> {
    let root = kernel::open_root(path)?;
    let directory = host::open(&root, SYNC, linux::O_PATH | linux::O_DIRECTORY, 0)?;
    let secret = own_file(&directory, b"secret")?;
    if secret.len() < SHORTEST {
        return Err(Error::because(Errno::EINVAL, "the secret is too short"));
    }
    let lease = own_file(&directory, b"lease")?;
    let line = core::str::from_utf8(&lease).ok();
    let line = line.and_then(|text| text.strip_prefix(TITLE)?.trim().split_once(' '));
    // It is just being written, or nobody has had it yet.
    let (_, line) = line.ok_or(Errno::EAGAIN)?;
    let (address, key) = match line.split_once(' ') {
        Some((address, key)) => (address, Some(String::from(key))),
        None => (line, None),
    };
    let address = address.parse().map_err(|_| Errno::EAGAIN)?;
    Ok(Found {
        address,
        key,
        secret,
    })
}

/// The content of a file that is this user's alone.
fn own_file(directory: &OwnedFd, name: &[u8]) -> Result<Vec<u8>> {
    let flags = linux::O_RDONLY | linux::O_NONBLOCK;
    let file = host::open(directory, name, flags, 0)?;
    let found = fs::fstat(&file)?;
    let is_file = found.st_mode & linux::S_IFMT == linux::S_IFREG;
    if !is_file || found.st_uid != process::geteuid() || found.st_mode & 0o077 != 0 {
        return Err(Error::because(Errno::EACCES, "it is not this user's alone"));
    }
    let mut bytes = alloc::vec![0; LARGEST];
    let length = host::read_at(&file, 0, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// `address` as the kernel takes it: its family, and `struct sockaddr_in` or `sockaddr_in6`.
fn kernels(address: SocketAddr) -> (u32, Vec<u8>) {
    let port = address.port().to_be_bytes();
    match address.ip() {
        IpAddr::V4(ip) => {
            let family = (AF_INET as u16).to_ne_bytes();
            (
                AF_INET,
                [&family[..], &port, &ip.octets(), &[0; 8]].concat(),
            )
        }
        IpAddr::V6(ip) => {
            let family = (AF_INET6 as u16).to_ne_bytes();
            let bytes = [&family[..], &port, &[0; 4], &ip.octets(), &[0; 4]].concat();
            (AF_INET6, bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_the_kernel_takes_them() {
        let (family, bytes) = kernels("10.99.0.1:513".parse().unwrap());
        assert_eq!((family, bytes.len()), (2, 16));
        assert_eq!(bytes[2..8], [2, 1, 10, 99, 0, 1]);
        let (family, bytes) = kernels("[::1]:513".parse().unwrap());
        assert_eq!((family, bytes.len()), (10, 28));
        assert_eq!((bytes[3], bytes[23]), (1, 1));
    }

    #[test]
    fn who_has_no_lease_finds_no_service() {
        let error = find(b"/nowhere").err().unwrap();
        assert_eq!(error.errno(), Errno::ENOENT, "{error}");
    }
}
