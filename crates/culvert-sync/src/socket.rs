//! The socket of a service: one service has it, by a lock beside it that the kernel releases.

use rustix::fs::{FlockOperation, Mode, OFlags, chmod, flock, open};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How many connections may wait for the listener.
const BACKLOG: i32 = 1024;

/// What is served at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Positions: each message is a packet.
    Service,
    /// The way to services of other hosts (`relay.rs`).
    Relay,
}

impl Kind {
    fn socket(self) -> SocketType {
        match self {
            Self::Service => SocketType::SEQPACKET,
            Self::Relay => SocketType::STREAM,
        }
    }
}

/// A socket that clients connect to.
#[derive(Debug)]
pub struct Listener {
    pub(crate) socket: OwnedFd,
    path: PathBuf,
    /// File system and inode of what it has made at `path`.
    made: (u64, u64),
    /// Locked as long as it lives.
    _lock: OwnedFd,
}

/// A place that nobody else makes a socket at, as long as it lives.
#[derive(Debug)]
pub struct Reserved {
    path: PathBuf,
    lock: OwnedFd,
}

impl Reserved {
    /// Makes the socket, in the place of one that a dead service has left.
    pub fn listen(self, kind: Kind) -> io::Result<Listener> {
        let path = self.path;
        may_be_replaced(&path)?;
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, kind.socket(), flags, None)?;
        net::bind(&socket, &SocketAddrUnix::new(&path)?)?;
        chmod(&path, Mode::RUSR | Mode::WUSR)?;
        net::listen(&socket, BACKLOG)?;
        Ok(Listener {
            socket,
            made: identity(&path)?,
            path,
            _lock: self.lock,
        })
    }
}

impl Listener {
    /// The same as [`Listener::reserve`], and makes the socket of a service.
    ///
    /// # Errors
    /// As there.
    pub fn new(path: &Path) -> io::Result<Self> {
        Self::reserve(path)?.listen(Kind::Service)
    }

    /// Sees to it that nobody else makes a socket at `path`.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] where there is a service, [`io::ErrorKind::AlreadyExists`]
    /// where something else is than a socket of this user's.
    pub fn reserve(path: &Path) -> io::Result<Reserved> {
        may_be_replaced(path)?;
        let mut beside = OsString::from(path);
        beside.push(".lock");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = open(Path::new(&beside), flags, Mode::RUSR | Mode::WUSR)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(io::ErrorKind::AddrInUse.into()),
            locked => locked?,
        }
        Ok(Reserved {
            path: path.to_owned(),
            lock,
        })
    }

    /// Whether one of this kind answers at `path`.
    pub fn answers(path: &Path, kind: Kind) -> bool {
        let connect = || -> rustix::io::Result<()> {
            let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
            let socket = net::socket_with(family, kind.socket(), flags, None)?;
            net::connect(&socket, &SocketAddrUnix::new(path)?)
        };
        connect().is_ok()
    }

    /// Whether its socket is still at its path: if not, nobody can come any more.
    pub fn is_there(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.made)
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Whether nothing is lost with what is at `path`.
fn may_be_replaced(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let why = match found.file_type().is_socket() {
        false => "something is there that is no socket",
        true if found.uid() != rustix::process::geteuid().as_raw() => {
            "another user's socket is there"
        }
        true => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::AlreadyExists, why))
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Before the lock is released. Where all was removed, the lock too, it may be another's.
        if self.is_there() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
