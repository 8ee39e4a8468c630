//! The service of all hosts that share a back end: where it is, and that it is the right one
//! (the other side: `culvert-sync/src/lease.rs`, `remote.rs`).

use super::host;
use super::patience::{be_patient, receive_all, send_all};
use crate::OwnedFd;
use crate::passthrough::kernel;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use culvert::{Errno, Error, Result};
use culvert_sync_wire::secret::{self, Greeting, SHORTEST, Session};
use culvert_sys::fd::AsFd;
use culvert_sys::raw::general as linux;
use culvert_sys::raw::net::{AF_INET, AF_INET6, SOCK_STREAM};
use culvert_sys::{fs, net, process};

/// The directory of the lease of a service, in a back end.
pub const SYNC: &[u8] = b".culvert-sync";
/// Bytes of a lease, and of a secret, at most.
const LARGEST: usize = 4096;
/// What a lease begins with.
const TITLE: &str = "culvert-sync 1\n";
const IPPROTO_TCP: u32 = 6;
const TCP_NODELAY: u32 = 1;

/// Connects to the service that has the lease of the back end at `path`, and lets both show that
/// they know its secret.
pub fn connect(path: &[u8], patience: i64) -> core::result::Result<(OwnedFd, Session), Errno> {
    let (address, secret) = find(path).map_err(|error| error.errno())?;
    let (family, bytes) = kernels(address);
    let socket = net::socket(family, SOCK_STREAM | linux::O_CLOEXEC, 0)?;
    be_patient(&socket, patience)?;
    net::connect(&socket, &bytes)?;
    // A request waits for nothing.
    net::set_option(&socket, IPPROTO_TCP, TCP_NODELAY, &1u32)?;
    let session = greet(&socket, &secret)?;
    Ok((socket, session))
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

/// The address of the service, and the secret.
fn find(path: &[u8]) -> Result<(SocketAddr, Vec<u8>)> {
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
    let address = line.and_then(|(_, address)| address.parse().ok());
    Ok((address.ok_or(Errno::EAGAIN)?, secret))
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
        let error = find(b"/nowhere").unwrap_err();
        assert_eq!(error.errno(), Errno::ENOENT, "{error}");
    }
}
