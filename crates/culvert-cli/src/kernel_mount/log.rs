//! Where the messages of a server in the background go.

use crate::failure::{Failure, reason, shown};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::{
    ffi::{OsStr, OsString},
    fs::OpenOptions,
    io::Write,
    os::fd::OwnedFd,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// A place for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Log {
    /// Standard error, as it is.
    Terminal,
    /// The system's journal, under the name "culvert".
    Journal,
    /// The end of a file.
    File(PathBuf),
}

/// Where journald takes the output of a program (systemd-cat(1)).
const JOURNAL: &str = "/run/systemd/journal/stdout";

impl Log {
    /// The place called `word`: `terminal`, `journal`, or a file.
    pub fn named(word: OsString) -> Self {
        match word.as_bytes() {
            b"terminal" => Self::Terminal,
            b"journal" => Self::Journal,
            _ => {
                let absolute = std::path::absolute(&word);
                Self::File(absolute.unwrap_or_else(|_| word.into()))
            }
        }
    }

    /// Opens it; none: standard error stays.
    pub fn open(&self) -> Result<Option<OwnedFd>, Failure> {
        match self {
            Self::Terminal => Ok(None),
            Self::Journal => journal().map(Some),
            Self::File(path) => append(path).map(Some),
        }
    }
}

/// The end of the file `path`, which is made when it is missing.
pub fn append(path: &Path) -> Result<OwnedFd, Failure> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.map(OwnedFd::from)
        .map_err(|error| Failure::new(format!("log {}: {}", shown(path), reason(&error))))
}

fn journal() -> Result<OwnedFd, Failure> {
    // Name, unit, priority (info), whether lines begin with one, and whether they go on to syslog,
    // kernel log and console.
    const HEAD: &[u8] = b"culvert\n\n6\n0\n0\n0\n0\n";
    let connect = || -> rustix::io::Result<OwnedFd> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let address = SocketAddrUnix::new(OsStr::new(JOURNAL).as_bytes())?;
        rustix::net::connect(&socket, &address)?;
        Ok(socket)
    };
    let failed = |error: std::io::Error| {
        Failure::new(format!("log=journal: {JOURNAL}: {}", reason(&error)))
            .advice("without systemd's journal, give a file: --log FILE")
    };
    let socket = connect().map_err(|error| failed(error.into()))?;
    let mut stream = std::os::unix::net::UnixStream::from(socket);
    stream.write_all(HEAD).map_err(failed)?;
    Ok(stream.into())
}
