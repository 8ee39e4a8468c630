//! Passthrough: the server has said which file of the kernel's is to be read and written in its
//! place (`FOPEN_PASSTHROUGH`). All else is asked of the server as before, as the kernel does.

use crate::{connection::Connection, opens::Handle};
use alloc::boxed::Box;
use culvert::{Errno, Error, OpenFlags, Result, Sink, Source};
use culvert_slots::Held;
use culvert_sys::{AsFd, BorrowedFd, flags::OFlags, fs};
use culvert_wire::{InitFlags, structures::OpenOut};

/// Bytes that are read or written at once where they cannot go directly.
const PIECE: usize = 65536;

/// The backing file of an open file.
pub struct BackingFile(Box<dyn Held>);

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
        let Ok(opened) = fs::open(&path, access, 0) else {
            return Ok(None);
        };
        drop(given);
        Ok(Some(Self(connection.channel.keep(opened)?)))
    }

    /// Its number.
    pub fn raw(&self) -> i32 {
        self.0.number()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        BorrowedFd::number(self.0.number())
    }

    /// Reads.
    pub fn read(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let mut piece = alloc::vec![0; PIECE.min(out.remaining())];
        culvert::read_through(out, &mut piece, |_, done, into| {
            Ok(fs::waiting::pread(self.descriptor(), into, offset + done)?)
        })
    }

    /// Writes.
    pub fn write(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let mut piece = alloc::vec![0; PIECE.min(from.remaining())];
        culvert::write_through(from, &mut piece, |_, done, bytes| {
            Ok(fs::waiting::pwrite(
                self.descriptor(),
                bytes,
                offset + done,
            )?)
        })
    }
}
