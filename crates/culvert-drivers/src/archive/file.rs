//! An open member.

use super::codec::Member;
use super::contents::Archive;
use super::format::{NodeRecord, Storage};
use super::zip;
use alloc::sync::Arc;
use culvert::{Attributes, Caller, Errno, Error, File, Node, Result, Shared, Sink, Whence};

/// A regular file of an archive.
pub struct ArchiveFile {
    archive: Arc<Archive>,
    node: Node,
    record: NodeRecord,
    member: Option<Member>,
}

/// A sink that takes at most `left` bytes: the data of the next member lies right behind.
struct Limited<'a> {
    out: &'a mut dyn Sink,
    left: usize,
}

impl Sink for Limited<'_> {
    fn remaining(&self) -> usize {
        self.left.min(self.out.remaining())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        let taken = self.out.put(&bytes[..bytes.len().min(self.left)])?;
        self.left -= taken;
        Ok(taken)
    }

    fn put_shared(&mut self, bytes: Shared<'_>) -> Result<usize> {
        let taken = self.out.put_shared(bytes.part(0, self.left))?;
        self.left -= taken;
        Ok(taken)
    }

    fn put_zeroes(&mut self, count: usize) -> Result<usize> {
        let taken = self.out.put_zeroes(count.min(self.left))?;
        self.left -= taken;
        Ok(taken)
    }
}

impl ArchiveFile {
    /// The file of `record`. `EACCES` for an encrypted member, `EOPNOTSUPP` for a method that is
    /// not known, `EIO` when its data is not where it should be.
    pub fn open(archive: Arc<Archive>, node: Node, record: NodeRecord) -> Result<Self> {
        let member = match record.storage {
            Storage::Plain | Storage::Sparse | Storage::Indexed => None,
            Storage::Encrypted => {
                return Err(Error::because(
                    Errno::EACCES,
                    "encrypted; no password is asked for",
                ));
            }
            Storage::Member => {
                let data = zip::data_offset(&*archive.raw, record.place)?;
                Some(Member::open(
                    record.method,
                    archive.raw.clone(),
                    data,
                    record.extent,
                    record.size,
                    record.extra,
                )?)
            }
        };
        Ok(Self {
            archive,
            node,
            record,
            member,
        })
    }

    /// Puts up to `length` bytes of the plain stream from `offset` on.
    fn copy_plain(&self, offset: u64, length: u64, out: &mut dyn Sink) -> Result<usize> {
        match &self.archive.stream {
            None => match self.archive.raw.copy_to(offset, length, out) {
                Ok(0) if length > 0 && out.remaining() > 0 => Err(truncated()),
                outcome => outcome,
            },
            Some(stream) => {
                let left = usize::try_from(length).unwrap_or(usize::MAX);
                let mut out = Limited { out, left };
                match stream.read_at(offset, &mut out) {
                    Ok(0) if out.remaining() > 0 => Err(truncated()),
                    outcome => outcome,
                }
            }
        }
    }

    fn copy_sparse(&self, mut offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let size = self.record.size;
        let mut done = 0;
        while offset < size && out.remaining() > 0 {
            let step = self.sparse_step(offset, out);
            match step {
                Ok(0) => break,
                Ok(count) => {
                    done += count;
                    offset += count as u64;
                }
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn sparse_step(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let extent = self
            .archive
            .index
            .extent(self.record.extent, self.record.size, offset)?;
        let length = extent.end.saturating_sub(offset);
        if extent.data {
            let place = self.record.place.saturating_add(extent.stored);
            return self.copy_plain(place, length, out);
        }
        out.put_zeroes(usize::try_from(length).unwrap_or(usize::MAX))
    }
}

fn truncated() -> Error {
    Error::because(Errno::EIO, "the archive ends before the member's data does")
}

impl File for ArchiveFile {
    fn reports_at_close(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let rest = self.record.size.saturating_sub(offset);
        if rest == 0 || out.remaining() == 0 {
            return Ok(0);
        }
        if let Some(member) = &self.member {
            return member.read_at(offset, out);
        }
        match self.record.storage {
            Storage::Sparse => self.copy_sparse(offset, out),
            Storage::Indexed => {
                let index = &self.archive.index;
                let content = index.names(self.record.place, self.record.size)?;
                out.put(content.get(offset as usize..).unwrap_or_default())
            }
            _ => self.copy_plain(self.record.place.saturating_add(offset), rest, out),
        }
    }

    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        self.archive.attributes(self.node, &self.record)
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        let size = self.record.size;
        if offset >= size {
            return Err(Errno::ENXIO.into());
        }
        let sparse = self.record.storage == Storage::Sparse;
        let mut at = offset;
        while at < size {
            let (data, end) = if sparse {
                let extent = self.archive.index.extent(self.record.extent, size, at)?;
                (extent.data, extent.end)
            } else {
                (true, size)
            };
            if data == (whence == Whence::Data) {
                return Ok(at);
            }
            if end <= at {
                break;
            }
            at = end;
        }
        match whence {
            Whence::Hole => Ok(size),
            Whence::Data => Err(Errno::ENXIO.into()),
        }
    }
}
