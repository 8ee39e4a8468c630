//! Random access to the bytes of an archive file.

use super::host::{self, Mapped, OwnedFd, Status};
use crate::descriptor::{Keeper, KeptFd};
use alloc::{sync::Arc, vec::Vec};
use culvert::{Errno, Error, Result, Shared, Sink};
use culvert_sys::BorrowedFd;

/// Bytes that can be read at any offset, from several threads at once.
pub trait Bytes: Send + Sync {
    /// How many there are. Fixed when opened; the file behind may have become shorter.
    fn len(&self) -> u64;

    /// True when there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes from `offset` on into `buffer` until it is full or the bytes end; returns how
    /// many.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// The bytes in place, when they are mapped: only to be handed to [`Sink::put_shared`], which
    /// survives a file that was truncated. Code that computes on bytes reads copies of
    /// [`Bytes::read_at`].
    fn shared(&self, offset: u64, length: u64) -> Option<Shared<'_>> {
        let _ = (offset, length);
        None
    }

    /// Lets the kernel put bytes into `out` ([`Sink::read_from`]); how many, 0 where it cannot.
    fn read_into(&self, offset: u64, length: usize, out: &mut dyn Sink) -> usize {
        let _ = (offset, length, out);
        0
    }

    /// These bytes will be read soon.
    fn will_need(&self, offset: u64, length: u64) {
        let _ = (offset, length);
    }

    /// Copies exactly `buffer.len()` bytes; `EIO` when they are not all there.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if self.read_at(offset, buffer)? < buffer.len() {
            return Err(ends_before(offset.saturating_add(buffer.len() as u64)));
        }
        Ok(())
    }

    /// Puts up to `length` bytes from `offset` on into `out`; returns how many. `EIO` when the
    /// archive ends before the first.
    fn copy_to(&self, offset: u64, length: u64, out: &mut dyn Sink) -> Result<usize> {
        let wanted = length.min(out.remaining() as u64);
        if wanted == 0 {
            return Ok(0);
        }
        let wanted = match self.len().saturating_sub(offset) {
            0 => return Err(ends_before(offset.saturating_add(1))),
            there => wanted.min(there),
        };
        if let Some(bytes) = self.shared(offset, wanted) {
            return out.put_shared(bytes);
        }
        match self.read_into(offset, wanted as usize, out) {
            0 => {}
            read => return Ok(read),
        }
        // Not on the stack: archives lie in archives.
        let (mut done, mut bounce) = (0, alloc::vec![0; wanted.min(16 << 10) as usize]);
        while done < wanted {
            let part = (wanted - done).min(bounce.len() as u64) as usize;
            let outcome = self
                .read_exact_at(offset + done, &mut bounce[..part])
                .and_then(|()| out.put(&bounce[..part]));
            match outcome {
                Ok(0) => break,
                Ok(put) => done += put as u64,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done as usize)
    }
}

/// The little-endian number at `at`, which the caller knows to be inside.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// As [`u16_at`].
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// As [`u16_at`].
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Appends `string` with its length in front.
pub fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    out.extend_from_slice(&(string.len() as u32).to_le_bytes());
    out.extend_from_slice(string);
}

/// The next string that [`put_string`] wrote.
pub fn take_string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (string, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(string)
}

/// [`Bytes::read_at`] of bytes that lie in memory.
pub fn copy_at(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
    let start = usize::try_from(offset).ok();
    let rest = start.and_then(|start| bytes.get(start..)).unwrap_or(&[]);
    let count = rest.len().min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}

fn ends_before(byte: u64) -> Error {
    Error::because(
        Errno::EIO,
        alloc::format!("the archive ends before byte {byte}"),
    )
}

/// An archive file: read with pread(2) through a descriptor of its own, and mapped where that was
/// asked for and address space allows.
pub struct FileBytes {
    /// None once everything is read through the mapping.
    file: Option<KeptFd>,
    length: u64,
    mapped: Option<Mapped>,
}

impl FileBytes {
    /// Opens the regular file `path`. `EISDIR`, `EINVAL` with a cause for anything else.
    pub fn open(path: &[u8]) -> Result<(Self, Status)> {
        Self::of(host::open_read(path)?)
    }

    /// The regular file that `file` is open on, as [`FileBytes::open`].
    pub fn of(file: OwnedFd) -> Result<(Self, Status)> {
        let status = host::status(&file)?;
        if status.is_directory() {
            return Err(Errno::EISDIR.into());
        }
        if !status.is_regular() {
            return Err(Error::because(Errno::EINVAL, "not a regular file"));
        }
        let bytes = Self {
            file: Some(file.into()),
            length: status.size,
            mapped: None,
        };
        Ok((bytes, status))
    }

    /// Hands the descriptor to `keeper`.
    #[must_use]
    pub fn kept(mut self, keeper: Keeper) -> Self {
        self.file = self.file.take().map(|file| keeper.keep(file.release()));
        self
    }

    fn with<R>(
        &self,
        run: impl FnOnce(BorrowedFd<'_>) -> core::result::Result<R, Errno>,
    ) -> Result<R> {
        let file = self.file.as_ref().ok_or(Errno::EBADF)?;
        Ok(run(file.fd())?)
    }

    /// Closes the descriptor when the mapping serves every read.
    #[must_use]
    pub fn closed_if_mapped(mut self) -> Self {
        if self.mapped.is_some() {
            self.file = None;
        }
        self
    }

    /// Maps the file as well, unless it would take more than an eighth of a limited address space:
    /// that is the program's.
    #[must_use]
    pub fn mapped(mut self) -> Self {
        let fits = host::address_space_limit().is_none_or(|limit| self.length <= limit / 8);
        if fits && self.length > 0 {
            self.mapped = self.with(|file| Mapped::new(file, self.length)).ok();
        }
        self
    }

    /// What fstat(2) says now.
    pub fn status(&self) -> Result<Status> {
        self.with(|file| host::status(file))
    }
}

impl Bytes for FileBytes {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let rest = self.length.saturating_sub(offset);
        let count = rest.min(buffer.len() as u64) as usize;
        self.with(|file| host::read_at(file, offset, &mut buffer[..count]))
    }

    fn read_into(&self, offset: u64, length: usize, out: &mut dyn Sink) -> usize {
        let read = |file: &KeptFd| out.read_from(file.raw(), offset, length);
        self.file.as_ref().map_or(0, read)
    }

    fn will_need(&self, offset: u64, length: u64) {
        let _ = self.with(|file| {
            host::will_need(file, offset, length);
            Ok(())
        });
    }

    fn shared(&self, offset: u64, length: u64) -> Option<Shared<'_>> {
        let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
        let part = self.mapped.as_ref()?.shared().part(offset, length);
        (part.len() == length).then_some(part)
    }
}

/// A part of an archive file that is an archive by itself.
pub struct Part {
    of: Arc<dyn Bytes>,
    start: u64,
    length: u64,
}

impl Part {
    /// `length` bytes from `start` on; `EIO` where they are not all there.
    pub fn new(of: Arc<dyn Bytes>, start: u64, length: u64) -> Result<Self> {
        match start.checked_add(length) {
            Some(end) if end <= of.len() => Ok(Self { of, start, length }),
            _ => Err(ends_before(start.saturating_add(length))),
        }
    }

    fn within(&self, offset: u64, length: u64) -> u64 {
        length.min(self.length.saturating_sub(offset))
    }
}

impl Bytes for Part {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let count = self.within(offset, buffer.len() as u64) as usize;
        self.of
            .read_at(self.start.saturating_add(offset), &mut buffer[..count])
    }

    fn shared(&self, offset: u64, length: u64) -> Option<Shared<'_>> {
        match self.within(offset, length) {
            within if within < length => None,
            _ => self.of.shared(self.start + offset, length),
        }
    }

    fn read_into(&self, offset: u64, length: usize, out: &mut dyn Sink) -> usize {
        match self.within(offset, length as u64) as usize {
            0 => 0,
            length => self.of.read_into(self.start + offset, length, out),
        }
    }

    fn will_need(&self, offset: u64, length: u64) {
        let length = self.within(offset, length);
        self.of.will_need(self.start.saturating_add(offset), length);
    }
}

/// Bytes in memory.
impl Bytes for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Ok(copy_at(self, offset, buffer))
    }
}
