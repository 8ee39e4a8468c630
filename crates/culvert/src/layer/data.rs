//! Layers that change what files hold: encryption, compression of blocks, checksums.

use crate::{
    Attributes, Caller, Errno, File, FileLayer, Result, SetAttributes, Sink, Source, Whence,
    sync::Mutex,
};
use alloc::sync::Arc;
use core::any::Any;

/// An open file whose bytes are other bytes in the file that it wraps.
///
/// [`FileLayer`](crate::FileLayer) hands every operation on, so that one which overrides only reads
/// and writes shows the inner bytes through append, copies and mappings. Here all of these are made
/// of [`read_at`](DataLayer::read_at) and [`write_at`](DataLayer::write_at) by [`DataFile`], or
/// refused in a way that makes the front end read and write instead:
///
/// | operation | what [`DataFile`] does |
/// |---|---|
/// | append | finds the end by [`attributes`](DataLayer::attributes), and writes there |
/// | a write behind the end, a larger size | writes zeroes up to there first |
/// | copy_range, allocate, SEEK_HOLE | not offered: the front end reads and writes; no holes |
/// | mapping, the kernel's file, descriptor | not offered: the front end maps its own copy |
/// | ioctl | `ENOTTY`: a request could be about the inner bytes |
///
/// The layer around it changes sizes by path too: its
/// [`set_attributes`](crate::Layer::set_attributes) opens the file and asks [`DataFile`].
pub trait DataLayer: Send + Sync {
    /// What this layer wraps, `dyn` or concrete.
    type Inner: File + ?Sized;

    /// The file that holds the changed bytes.
    fn inner(&self) -> &Self::Inner;

    /// As [`File::read_at`], in this layer's bytes.
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize>;

    /// As [`File::write_at`], in this layer's bytes. `offset` is never behind the end.
    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize>;

    /// As [`File::attributes`], with the size of this layer's bytes; that of the inner file by
    /// default.
    fn attributes(&self, caller: &Caller<'_>) -> Result<Attributes> {
        self.inner().attributes(caller)
    }

    /// Cuts the file to `size` bytes of this layer, which is not larger than what it has.
    fn cut(&self, size: u64) -> Result<()> {
        let changes = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        self.inner()
            .set_attributes(&Caller::SYSTEM, &changes)
            .map(drop)
    }
}

/// A [`DataLayer`] as a [`FileLayer`], to be wrapped in [`LayeredFile`](crate::LayeredFile).
pub struct DataFile<L> {
    layer: L,
    /// Held from finding the end of a file to writing there: one for each mount, so that it is one
    /// for all opens of a file.
    growing: Arc<Mutex<()>>,
}

impl<L: DataLayer> DataFile<L> {
    /// `layer` as a file. `growing` is the mount's, the same for each of its files.
    pub const fn new(layer: L, growing: Arc<Mutex<()>>) -> Self {
        Self { layer, growing }
    }

    /// Writes zeroes from the end, `size`, up to `to`. The file must be held for growing.
    fn fill(&self, mut size: u64, to: u64) -> Result<()> {
        const ZEROES: [u8; 4096] = [0; 4096];
        while size < to {
            let count = ZEROES.len().min((to - size) as usize);
            match self.layer.write_at(size, &mut &ZEROES[..count])? {
                0 => return Err(Errno::EIO.into()),
                written => size += written as u64,
            }
        }
        Ok(())
    }
}

impl<L: DataLayer> FileLayer for DataFile<L> {
    type Inner = L::Inner;

    fn inner(&self) -> &L::Inner {
        self.layer.inner()
    }

    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        self.layer.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        if from.remaining() == 0 {
            return Ok(0);
        }
        if offset > self.layer.attributes(&Caller::SYSTEM)?.size {
            let _growing = self.growing.lock();
            self.fill(self.layer.attributes(&Caller::SYSTEM)?.size, offset)?;
            return self.layer.write_at(offset, from);
        }
        self.layer.write_at(offset, from)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        let _growing = self.growing.lock();
        let end = self.layer.attributes(&Caller::SYSTEM)?.size;
        Ok((end, self.layer.write_at(end, from)?))
    }

    fn attributes(&self, caller: &Caller<'_>) -> Result<Attributes> {
        self.layer.attributes(caller)
    }

    fn set_attributes(&self, caller: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        if let Some(size) = changes.size {
            let _growing = self.growing.lock();
            let end = self.layer.attributes(&Caller::SYSTEM)?.size;
            match size > end {
                true => self.fill(end, size)?,
                false => self.layer.cut(size)?,
            }
        }
        let rest = SetAttributes {
            size: None,
            ..*changes
        };
        // No change at all is a chown(2) with -1 twice.
        if changes.size.is_none() || rest != SetAttributes::default() {
            self.layer.inner().set_attributes(caller, &rest)?;
        }
        self.layer.attributes(caller)
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        let size = self.layer.attributes(&Caller::SYSTEM)?.size;
        match whence {
            _ if offset >= size => Err(Errno::ENXIO.into()),
            Whence::Data => Ok(offset),
            Whence::Hole => Ok(size),
        }
    }

    fn allocate(&self, _mode: u32, _offset: u64, _length: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn copy_range(&self, _: u64, _: &dyn File, _: u64, _: u64) -> Result<u64> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn ioctl(&self, _request: u32, _argument: &mut [u8]) -> Result<usize> {
        Err(Errno::ENOTTY.into())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}
