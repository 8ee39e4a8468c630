//! Passthrough: the server has said which file of the kernel's is to be read and written in its
//! place (`FOPEN_PASSTHROUGH`). All else is asked of the server as before, as the kernel does.

use crate::{connection::Connection, opens::Handle};
use culvert::{Errno, Error, OpenFlags, OwnedFd, Result, Sink, Source};
use culvert_sys::{AsFd, flags::OFlags, fs};
use culvert_wire::{InitFlags, structures::OpenOut};

/// Bytes that are read or written at once where they cannot go directly.
const PIECE: usize = 65536;

/// The backing file of an open file.
pub struct BackingFile(OwnedFd);

impl BackingFile {
    /// The one of `handle`; none: the server reads and writes itself.
    pub fn of(connection: &Connection, handle: &Handle, flags: OpenFlags) -> Result<Option<Self>> {
        if handle.how & OpenOut::PASSTHROUGH == 0 {
            return Ok(None);
        }
        if !connection.agreed.has(InitFlags::PASSTHROUGH) || handle.how & OpenOut::KEEP_CACHE != 0 {
            return Err(Error::because(
                Errno::EIO,
                "the server opens a file by passthrough that cannot be",
            ));
        }
        let given = match connection.channel.backing(handle.backing) {
            Ok(given) => given,
            // The server is asked, who reads and writes as well.
            Err(Errno::EOPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // Offset and flags of the server's description stay its own.
        let path = alloc::format!("/proc/self/fd/{}", given.as_fd().raw());
        let path = alloc::ffi::CString::new(path).map_err(|_| Errno::EIO)?;
        let access = OFlags::from_bits(flags.0 & 3) | OFlags::CLOEXEC;
        // Who may not open it anew asks the server, who may.
        Ok(fs::open(&path, access, 0).ok().map(Self))
    }

    /// Its number.
    pub fn raw(&self) -> i32 {
        self.0.as_fd().raw()
    }

    /// Reads.
    pub fn read(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let mut piece = alloc::vec![0; PIECE.min(out.remaining())];
        culvert::read_through(out, &mut piece, |_, done, into| {
            Ok(fs::waiting::pread(&self.0, into, offset + done)?)
        })
    }

    /// Writes.
    pub fn write(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let mut piece = alloc::vec![0; PIECE.min(from.remaining())];
        culvert::write_through(from, &mut piece, |_, done, bytes| {
            Ok(fs::waiting::pwrite(&self.0, bytes, offset + done)?)
        })
    }
}
