//! Content in a file of its own: read, written, cut, with the lock of the content held as for
//! blocks of the image.
//!
//! The size in the inode says what counts. A file grows before its size does and shrinks after it,
//! so that whoever finds the lock of a dead writer has only to cut the file to that size
//! ([`Core::finish_external`]).

use super::super::{
    content::LARGEST,
    core::{Core, Inode},
    host as files,
    layout::{BLOCK, inode},
};
use crate::archive::host::{read_at, status};
use crate::memory::kernel_files::{self as host, KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE};
use culvert::{Errno, Result, Sink, Source, Whence};
use culvert_sys::raw::general as linux;
use culvert_sys::{fd::BorrowedFd, fs};

/// Bytes that go through a buffer at once where the kernel cannot copy directly.
const PIECE: usize = 64 << 10;

impl Core {
    /// Reads from `offset` into `out`.
    pub fn read_external(
        &self,
        of: &Inode<'_>,
        fd: BorrowedFd<'_>,
        offset: u64,
        out: &mut dyn Sink,
    ) -> Result<usize> {
        let wanted = out.remaining() as u64;
        let end = offset.saturating_add(wanted).min(of.get(inode::SIZE));
        let mut at = offset;
        let mut buffer = alloc::vec::Vec::new();
        while at < end {
            let direct = out.read_from(fd.raw(), at, (end - at) as usize) as u64;
            if direct > 0 {
                at += direct;
                continue;
            }
            buffer.resize(PIECE.min((end - at) as usize), 0);
            let length = buffer.len().min((end - at) as usize);
            let step = (|| {
                let read = read_at(fd, at, &mut buffer[..length])?;
                Ok((read, out.put(&buffer[..read])?))
            })();
            match step {
                Ok((read, put)) => {
                    at += put as u64;
                    if put == 0 || put < read {
                        break;
                    }
                }
                Err(_) if at > offset => break,
                Err(error) => return Err(error),
            }
        }
        Ok(at.saturating_sub(offset) as usize)
    }

    /// Writes at `offset`; returns the bytes written, an error only when there are none.
    pub fn write_external(
        &self,
        of: &Inode<'_>,
        fd: BorrowedFd<'_>,
        offset: u64,
        from: &mut dyn Source,
    ) -> Result<usize> {
        let wanted = from.remaining() as u64;
        if offset >= LARGEST && wanted > 0 {
            return Err(Errno::EFBIG.into());
        }
        let size = of.get(inode::SIZE);
        let end = offset.saturating_add(wanted).min(LARGEST);
        // A file without holes needs nothing more for what is there already.
        let whole = of.get(inode::INTENT) >= size.div_ceil(BLOCK);
        let grows = end > size || !whole;
        let end = match grows {
            true => self.permitted(fd, offset, end)?,
            false => end,
        };
        let (mut at, mut failure, mut tidied) = (offset, None, false);
        let mut buffer = alloc::vec::Vec::new();
        while at < end {
            let left = (end - at) as usize;
            let direct = from.write_to(fd.raw(), at, left) as u64;
            if direct > 0 {
                at += direct;
                continue;
            }
            buffer.resize(PIECE.min(left), 0);
            let length = buffer.len().min(left);
            let taken = match from.take(&mut buffer[..length]) {
                Ok(0) => break,
                Ok(taken) => taken,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            };
            let piece = &buffer[..taken];
            let (mut written, mut result) = files::write(fd, piece, at);
            if result == Err(Errno::ENOSPC) && !tidied {
                tidied = true;
                if self.give_back(1)? {
                    let (more, again) = files::write(fd, &piece[written..], at + written as u64);
                    (written, result) = (written + more, again);
                }
            }
            at += written as u64;
            if let Err(errno) = result {
                failure = Some(errno.into());
                break;
            }
        }
        if at > offset {
            let count = self.wrote(of, offset, at, size);
            if grows {
                self.recount(of, fd)?;
            }
            return Ok(count);
        }
        failure.map_or(Ok(0), Err)
    }

    /// How far a write from `offset` to `end` may go without taking more than `size=` allows;
    /// `ENOSPC` when nowhere.
    fn permitted(&self, fd: BorrowedFd<'_>, offset: u64, end: u64) -> Result<u64> {
        let needed = end.div_ceil(BLOCK) - offset / BLOCK;
        if needed <= self.room_outside()? {
            return Ok(end);
        }
        self.reclaim()?;
        let mut room = self.room_outside()?;
        let mut at = offset;
        while at < end {
            let data = host::seek(fd, at, linux::SEEK_DATA)?.unwrap_or(u64::MAX);
            let hole_end = data.min(end);
            let holes = hole_end.div_ceil(BLOCK).saturating_sub(at / BLOCK);
            if hole_end > at {
                if holes > room {
                    let stop = (at / BLOCK + room) * BLOCK;
                    return match stop > offset {
                        true => Ok(stop.min(end)),
                        false => Err(Errno::ENOSPC.into()),
                    };
                }
                room -= holes;
                at = hole_end;
            } else {
                at = host::seek(fd, at, linux::SEEK_HOLE)?.unwrap_or(end);
            }
        }
        Ok(end)
    }

    /// Blocks of the holes from `from` to `to`, those set aside among them.
    pub(super) fn holes(&self, fd: BorrowedFd<'_>, from: u64, to: u64) -> Result<u64> {
        let (mut at, mut count) = (from, 0);
        while at < to {
            let data = host::seek(fd, at, linux::SEEK_DATA)?.unwrap_or(to).min(to);
            if data > at {
                count += data.div_ceil(BLOCK).saturating_sub(at / BLOCK);
            }
            at = match data < to {
                true => host::seek(fd, data, linux::SEEK_HOLE)?.unwrap_or(to),
                false => to,
            };
        }
        Ok(count)
    }

    /// Looks how many blocks the file takes by now.
    pub fn recount(&self, of: &Inode<'_>, fd: BorrowedFd<'_>) -> Result<()> {
        let blocks = status(fd)?.blocks;
        if blocks != of.get(inode::INTENT) {
            self.transact(|change| change.charge(of, blocks))?;
        }
        Ok(())
    }

    /// Changes the size.
    pub fn resize_external(&self, of: &Inode<'_>, fd: BorrowedFd<'_>, size: u64) -> Result<()> {
        let old = of.get(inode::SIZE);
        if size > old {
            files::within_limit(size, || fs::ftruncate(fd, size))?;
        }
        self.transact(|change| change.resized(of, size))?;
        // Also where it stays: what was stored behind the end, in the last page, goes.
        if size <= old {
            fs::ftruncate(fd, size)?;
            self.recount(of, fd)?;
        }
        Ok(())
    }

    /// fallocate(2); what tmpfs has not is done by what it has.
    pub fn allocate_external(
        &self,
        of: &Inode<'_>,
        fd: BorrowedFd<'_>,
        mode: u32,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let end = offset.checked_add(length).filter(|&end| end <= LARGEST);
        let end = end.ok_or(Errno::EFBIG)?;
        let (keep, size) = (mode & KEEP_SIZE, of.get(inode::SIZE));
        match mode & !KEEP_SIZE {
            0 | ZERO_RANGE => {
                let needed = end.div_ceil(BLOCK) - offset / BLOCK;
                if needed > self.room_outside()? {
                    self.reclaim()?;
                    let holes = self.holes(fd, offset, end)?;
                    if holes > self.room_outside()? {
                        return Err(Errno::ENOSPC.into());
                    }
                }
                if mode & ZERO_RANGE != 0 {
                    files::set_aside(fd, KEEP_SIZE | PUNCH_HOLE, offset, length)?;
                }
                self.set_aside_outside(fd, offset, length)?;
                if keep == 0 && end > size {
                    files::within_limit(end, || fs::ftruncate(fd, end))?;
                }
            }
            PUNCH_HOLE if keep != 0 => {
                files::set_aside(fd, KEEP_SIZE | PUNCH_HOLE, offset, length)?;
            }
            _ => return Err(Errno::EOPNOTSUPP.into()),
        }
        let grown = mode & PUNCH_HOLE == 0 && keep == 0 && end > size;
        self.transact(|change| change.resized(of, if grown { end } else { size }))?;
        self.recount(of, fd)
    }

    /// fallocate(2), keeping the size, where the place may be full of what the image does not need
    /// any more. `EOPNOTSUPP` where that place is a spill whose file system has none.
    pub(super) fn set_aside_outside(
        &self,
        fd: BorrowedFd<'_>,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        match files::set_aside(fd, KEEP_SIZE, offset, length) {
            Err(Errno::ENOSPC) if self.give_back(1)? => {
                Ok(files::set_aside(fd, KEEP_SIZE, offset, length)?)
            }
            other => Ok(other?),
        }
    }

    /// lseek with SEEK_DATA and SEEK_HOLE.
    pub fn seek_external(
        &self,
        of: &Inode<'_>,
        fd: BorrowedFd<'_>,
        offset: u64,
        whence: Whence,
    ) -> Result<u64> {
        if offset >= of.get(inode::SIZE) {
            return Err(Errno::ENXIO.into());
        }
        let whence = match whence {
            Whence::Data => linux::SEEK_DATA,
            Whence::Hole => linux::SEEK_HOLE,
        };
        Ok(host::seek(fd, offset, whence)?.ok_or(Errno::ENXIO)?)
    }

    /// Finishes what a writer, or who moved the content here, began before it died. The caller
    /// alone has the content.
    pub fn finish_external(&self, of: &Inode<'_>) -> Result<()> {
        self.leave_image(of)?;
        let file = self.open_external(of, linux::O_RDWR)?;
        let size = of.get(inode::SIZE);
        if status(&file)?.size != size {
            files::within_limit(size, || fs::ftruncate(&file, size))?;
        }
        self.recount(of, file.borrow())
    }
}
