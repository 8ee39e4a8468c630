//! An open file: what `open` returns and what a driven file does.

use crate::{Attributes, Errno, Result, SetAttributes};
use alloc::boxed::Box;

/// Where a read puts its bytes: the program's memory (checked copy), a reply buffer, or a slice.
pub trait Sink {
    /// How many bytes are still wanted.
    fn remaining(&self) -> usize;
    /// Takes up to `remaining` bytes of `bytes` and returns how many. `EFAULT` when the program's memory is bad and nothing
    /// was taken by this call. A fault while *reading* `bytes` (a mapping that was truncated) is `EIO`.
    fn put(&mut self, bytes: &[u8]) -> Result<usize>;
    /// Takes up to `count` zero bytes (holes) and returns how many.
    fn put_zeroes(&mut self, count: usize) -> Result<usize>;
}

/// Where a write finds its bytes.
pub trait Source {
    /// How many bytes are left.
    fn remaining(&self) -> usize;
    /// Copies the next bytes into `into` and returns how many, fewer only at the end.
    fn take(&mut self, into: &mut [u8]) -> Result<usize>;
}

/// A sink over a slice.
impl Sink for &mut [u8] {
    fn remaining(&self) -> usize {
        self.len()
    }
    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = bytes.len().min(self.len());
        let (head, tail) = core::mem::take(self).split_at_mut(count);
        head.copy_from_slice(&bytes[..count]);
        *self = tail;
        Ok(count)
    }
    fn put_zeroes(&mut self, count: usize) -> Result<usize> {
        let count = count.min(self.len());
        let (head, tail) = core::mem::take(self).split_at_mut(count);
        head.fill(0);
        *self = tail;
        Ok(count)
    }
}

/// A source over a slice.
impl Source for &[u8] {
    fn remaining(&self) -> usize {
        self.len()
    }
    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        let count = into.len().min(self.len());
        let (head, tail) = self.split_at(count);
        into[..count].copy_from_slice(head);
        *self = tail;
        Ok(count)
    }
}

/// What `open` found.
pub enum Opened {
    /// The descriptor *is* the data: the program gets it, the kernel transport makes it FUSE passthrough. A raw descriptor number,
    /// owned by the receiver.
    Backed(i32),
    /// The driver serves reads and writes itself.
    Driven(Box<dyn File>),
}

/// Bytes of a file that lie in a shareable descriptor: may be mapped, and read, without a copy through the driver.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// The descriptor, borrowed from the file.
    pub fd: i32,
    /// Where the file's byte `offset` of the request lies in it.
    pub offset: u64,
    /// How many bytes from there on are contiguous.
    pub length: u64,
}

/// lseek's `SEEK_DATA` and `SEEK_HOLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The next byte that is not in a hole.
    Data,
    /// The next hole, the end of the file counting as one.
    Hole,
}

/// One open file served by the driver. Offsets are in bytes from the start; the description's own offset, O_APPEND and access modes are
/// the transport's business. Calls may come from several threads at once.
pub trait File: Send + Sync {
    /// Reads from `offset` on into `out` until it is full or the file ends, and returns the bytes put: 0 only at or past the end or
    /// when nothing is wanted. An error after some bytes is reported as a short read, and met again by the next.
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize>;

    /// Writes all of `from` at `offset` and returns the bytes written; fewer only when space or the size limit ends (`ENOSPC`, `EFBIG` when
    /// nothing was written). `EROFS` never comes here: a read-only mount refuses the open.
    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let _ = (offset, from);
        Err(Errno::EBADF.into())
    }

    /// Appends atomically: finds the end and writes there, no other write between; returns the offset written at and the count.
    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        let end = self.attributes()?.size;
        Ok((end, self.write_at(end, from)?))
    }

    /// fstat(2), also after the last link is gone.
    fn attributes(&self) -> Result<Attributes>;

    /// fchmod, fchown, ftruncate, futimens; returns the attributes after the change.
    fn set_attributes(&self, changes: &SetAttributes) -> Result<Attributes> {
        let _ = changes;
        Err(Errno::ENOSYS.into())
    }

    /// fsync(2), or fdatasync(2) with `data_only`.
    fn sync(&self, data_only: bool) -> Result<()> {
        let _ = data_only;
        Ok(())
    }

    /// fallocate(2); `mode` as there. `EOPNOTSUPP` for a mode that the driver has not.
    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        let _ = (mode, offset, length);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// lseek with SEEK_DATA or SEEK_HOLE from `offset`; `ENXIO` past the end. The default knows no holes.
    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        let size = self.attributes()?.size;
        if offset >= size {
            return Err(Errno::ENXIO.into());
        }
        Ok(match whence {
            Whence::Data => offset,
            Whence::Hole => size,
        })
    }

    /// Where the bytes from `offset` on lie in a shareable descriptor, if they do.
    fn mapping(&self, offset: u64) -> Option<Mapping> {
        let _ = offset;
        None
    }

    /// One descriptor of this description is being closed (FUSE's FLUSH): report delayed errors now.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// An ioctl(2) the transport does not know: `ENOTTY` by default.
    fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<usize> {
        let _ = (request, argument);
        Err(Errno::ENOTTY.into())
    }
}
