//! Random access to the bytes of an archive file.

use super::host::{self, Descriptor, Mapped, Status};
use alloc::vec::Vec;
use core::{
    mem::ManuallyDrop,
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};
use culvert::{Errno, Error, Result, Sink};

/// Bytes that can be read at any offset, from several threads at once.
pub trait Bytes: Send + Sync {
    /// How many there are. Fixed when opened; the file behind may have become shorter.
    fn len(&self) -> u64;

    /// True when there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes from `offset` on into `buffer` until it is full or the bytes end; returns how many.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// The bytes in place, when they are mapped. Only to be handed to [`Sink::put`], which survives a file that was truncated; code that
    /// computes on bytes reads copies of [`Bytes::read_at`].
    fn slice(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let _ = (offset, length);
        None
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

    /// Puts up to `length` bytes from `offset` on into `out`; returns how many. `EIO` when the archive ends before the first.
    fn copy_to(&self, offset: u64, length: u64, out: &mut dyn Sink) -> Result<usize> {
        let wanted = length.min(out.remaining() as u64);
        if wanted == 0 {
            return Ok(0);
        }
        let wanted = match self.len().saturating_sub(offset) {
            0 => return Err(ends_before(offset.saturating_add(1))),
            there => wanted.min(there),
        };
        if let Some(slice) = self.slice(offset, wanted) {
            return out.put(slice);
        }
        let (mut done, mut bounce) = (0, [0; 16 << 10]);
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

fn ends_before(byte: u64) -> Error {
    Error::because(
        Errno::EIO,
        alloc::format!("the archive ends before byte {byte}"),
    )
}

/// Moves a descriptor that the driver will keep out of the program's way and returns where its number is to be looked up each time: the
/// embedder may move it again. The driver closes it, and stores -1 there, when it is done; None: the driver keeps the number it has.
pub type Adopt = fn(i32) -> Option<&'static AtomicI32>;

/// Where the number of an adopted descriptor stands; closes it when dropped.
struct Kept(&'static AtomicI32);

impl Drop for Kept {
    fn drop(&mut self) {
        drop(Descriptor::from_raw(self.0.swap(-1, Relaxed)));
    }
}

/// A descriptor of the driver's own, or one that the embedder moves about.
enum Held {
    Own(Descriptor),
    Kept(Kept),
    /// Closed: everything is read through the mapping.
    Closed,
}

impl Held {
    fn with<R>(
        &self,
        run: impl FnOnce(&Descriptor) -> core::result::Result<R, Errno>,
    ) -> Result<R> {
        Ok(match self {
            Self::Own(file) => run(file),
            Self::Kept(Kept(number)) => run(&ManuallyDrop::new(Descriptor::from_raw(
                number.load(Relaxed),
            ))),
            Self::Closed => Err(Errno::EBADF),
        }?)
    }
}

/// An archive file: read with pread(2) through a descriptor of its own, and mapped where that was asked for and address space allows.
pub struct FileBytes {
    file: Held,
    length: u64,
    mapped: Option<Mapped>,
}

impl FileBytes {
    /// Opens the regular file `path`. `EISDIR`, `EINVAL` with a cause for anything else.
    pub fn open(path: &[u8]) -> Result<(Self, Status)> {
        let file = host::open_read(path)?;
        let status = host::status(&file)?;
        if status.is_directory() {
            return Err(Errno::EISDIR.into());
        }
        if !status.is_regular() {
            return Err(Error::because(Errno::EINVAL, "not a regular file"));
        }
        let bytes = Self {
            file: Held::Own(file),
            length: status.size,
            mapped: None,
        };
        Ok((bytes, status))
    }

    /// Hands the descriptor to `adopt`.
    #[must_use]
    pub fn adopted(mut self, adopt: Option<Adopt>) -> Self {
        let Some(adopt) = adopt else {
            return self;
        };
        self.file = match core::mem::replace(&mut self.file, Held::Closed) {
            Held::Own(file) => {
                let number = file.into_raw();
                match adopt(number) {
                    Some(place) => Held::Kept(Kept(place)),
                    None => Held::Own(Descriptor::from_raw(number)),
                }
            }
            other => other,
        };
        self
    }

    /// Closes the descriptor when the mapping serves every read.
    #[must_use]
    pub fn closed_if_mapped(mut self) -> Self {
        if self.mapped.is_some() {
            self.file = Held::Closed;
        }
        self
    }

    /// Maps the file as well, unless it would take more than an eighth of a limited address space: that is the program's.
    #[must_use]
    pub fn mapped(mut self) -> Self {
        let fits = host::address_space_limit().is_none_or(|limit| self.length <= limit / 8);
        if fits && self.length > 0 {
            self.mapped = self.file.with(|file| Mapped::new(file, self.length)).ok();
        }
        self
    }

    /// What fstat(2) says now.
    pub fn status(&self) -> Result<Status> {
        self.file.with(host::status)
    }
}

impl Bytes for FileBytes {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let rest = self.length.saturating_sub(offset);
        let count = rest.min(buffer.len() as u64) as usize;
        self.file
            .with(|file| host::read_at(file, offset, &mut buffer[..count]))
    }

    fn will_need(&self, offset: u64, length: u64) {
        let _ = self.file.with(|file| {
            host::will_need(file, offset, length);
            Ok(())
        });
    }

    fn slice(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let end = offset.checked_add(length)?;
        let bytes = self.mapped.as_ref()?.bytes();
        bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
    }
}

/// Bytes in memory, for tests.
impl Bytes for Vec<u8> {
    fn len(&self) -> u64 {
        self.as_slice().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..))
            .unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn slice(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let end = offset.checked_add(length)?;
        self.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
    }
}
