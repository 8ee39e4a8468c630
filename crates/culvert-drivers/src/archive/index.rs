//! The index of an archive: built once, kept on disk, mapped by every process.

use super::bytes::{Bytes, copy_at, take_string, u64_at};
use super::format::{
    self, ENTRY, EntryRecord, HEADER, Header, NODE, NONE, NodeRecord, SLOT, Section,
};
use super::host::{self, Mapped};
use super::warning::Warnings;
use alloc::{format as text, sync::Arc, vec::Vec};
use culvert::{Errno, Error, Result};
use culvert_sys::trust;

/// Where the bytes of an index lie.
pub enum Image {
    /// A file of ours, mapped.
    Mapped(Mapped),
    /// Memory: just built.
    Memory(Vec<u8>),
}

impl Image {
    fn bytes(&self) -> &[u8] {
        match self {
            // SAFETY: `Index::open` maps only what is ours or root's and others may not write, and
            // index files are never changed in place: new ones are renamed over old ones.
            Self::Mapped(mapped) => unsafe { mapped.constant() },
            Self::Memory(bytes) => bytes,
        }
    }
}

impl Bytes for Image {
    fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Ok(copy_at(self.bytes(), offset, buffer))
    }
}

/// An index in use. Every access checks what it finds; what does not hold together is `EIO`.
pub struct Index {
    image: Arc<Image>,
    header: Header,
}

/// What is wrong with an index.
pub fn broken(what: &str) -> Error {
    Error::because(
        Errno::EIO,
        text!("the index is damaged ({what}); delete it, and the next run builds it anew"),
    )
}

impl Index {
    /// The index in `image`; `EIO` when its header is not in order.
    pub fn new(image: Image) -> Result<Self> {
        let bytes = image.bytes();
        let header = bytes
            .first_chunk::<HEADER>()
            .and_then(|header| Header::decode(header, bytes.len() as u64))
            .ok_or_else(|| broken("header"))?;
        let index = Self {
            image: Arc::new(image),
            header,
        };
        let slots = index.section(Section::Table).len() / SLOT;
        if !slots.is_power_of_two() || index.nodes() == 0 {
            return Err(broken("tables"));
        }
        Ok(index)
    }

    /// The index file `path`, mapped. Refused with `EACCES` unless it belongs to us or root and
    /// nobody else may write to it.
    pub fn open(path: &[u8]) -> Result<Self> {
        let file = host::open_read(path)?;
        let found = trust::kept(file.raw())
            .map_err(|why| Error::because(why.errno(), text!("the index is not trusted: {why}")))?;
        let size = found.st_size as u64;
        if size < HEADER as u64 {
            return Err(broken("length"));
        }
        Self::new(Image::Mapped(Mapped::new(&file, size)?))
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The bytes of the whole index.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Whether the body is as it was written. Reads all of it.
    pub fn verify(&self) -> bool {
        let sections = self.header.sections.iter();
        let bytes = self.image.bytes();
        let sections = sections.map(|&(start, length)| &bytes[start as usize..][..length as usize]);
        format::body_sum(sections) == self.header.body
    }

    /// Where `section` lies.
    pub fn place(&self, section: Section) -> (u64, u64) {
        self.header.sections[section as usize]
    }

    #[inline]
    fn section(&self, section: Section) -> &[u8] {
        let (start, length) = self.place(section);
        // In range: `Header::decode` has checked it against the length of the image.
        &self.image.bytes()[start as usize..][..length as usize]
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.section(Section::Nodes).len() / NODE
    }

    /// Record `number` of a section of records of `N` bytes.
    #[inline]
    fn record<const N: usize>(&self, section: Section, number: u64) -> Option<&[u8; N]> {
        let at = usize::try_from(number).ok()?.checked_mul(N)?;
        self.section(section).get(at..)?.first_chunk()
    }

    /// Node record `number`.
    #[inline]
    pub fn node(&self, number: u64) -> Result<NodeRecord> {
        self.record::<NODE>(Section::Nodes, number)
            .and_then(NodeRecord::decode)
            .ok_or_else(|| broken("nodes"))
    }

    /// Entry record `number`.
    #[inline]
    pub fn entry(&self, number: u64) -> Result<EntryRecord> {
        self.record::<ENTRY>(Section::Entries, number)
            .map(EntryRecord::decode)
            .ok_or_else(|| broken("entries"))
    }

    /// The name of `entry`.
    #[inline]
    pub fn name(&self, entry: &EntryRecord) -> Result<&[u8]> {
        self.names(entry.name.into(), entry.length.into())
    }

    /// `length` bytes of the names.
    #[inline]
    pub fn names(&self, start: u64, length: u64) -> Result<&[u8]> {
        let end = start
            .checked_add(length)
            .and_then(|end| usize::try_from(end).ok());
        end.and_then(|end| self.section(Section::Names).get(start as usize..end))
            .ok_or_else(|| broken("names"))
    }

    /// The entry called `name` in the directory of record `directory`.
    #[inline]
    pub fn find(&self, directory: u32, name: &[u8]) -> Result<Option<EntryRecord>> {
        let table = self.section(Section::Table);
        let slots = table.len() / SLOT;
        let hash = format::entry_hash(self.header.seed, directory, name);
        let (mut slot, tag) = format::slot_of(hash, slots);
        for _ in 0..slots {
            let found = u64_at(table, slot * SLOT);
            let Some(number) = (found >> 32).checked_sub(1) else {
                return Ok(None);
            };
            if found as u32 == tag {
                let entry = self.entry(number)?;
                if entry.parent == directory && self.name(&entry)? == name {
                    return Ok(Some(entry));
                }
            }
            slot = (slot + 1) & (slots - 1);
        }
        Ok(None)
    }

    /// The part of a sparse file's map that holds `offset`: whether it is data, where it ends, and
    /// where the byte at `offset` lies in the stored data. `map` is the map's place, `size` the
    /// file's size.
    pub fn extent(&self, map: u64, size: u64, offset: u64) -> Result<Extent> {
        let count = self.parts(map)?;
        let part = |number| self.part(map, number);
        // The first part that ends behind `offset`.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            let (start, length, _) = part(middle)?;
            if start.saturating_add(length) <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == count {
            return Ok(Extent {
                data: false,
                end: size,
                stored: 0,
            });
        }
        let (start, length, stored) = part(low)?;
        Ok(if offset < start {
            Extent {
                data: false,
                end: start.min(size),
                stored: 0,
            }
        } else {
            Extent {
                data: true,
                end: start.saturating_add(length).min(size),
                stored: stored.saturating_add(offset - start),
            }
        })
    }

    /// How many bytes of data a sparse file has.
    pub fn stored(&self, map: u64) -> Result<u64> {
        match self.parts(map)?.checked_sub(1) {
            Some(last) => {
                let (_, length, stored) = self.part(map, last)?;
                Ok(length.saturating_add(stored))
            }
            None => Ok(0),
        }
    }

    /// The number at `at` of the sparse maps.
    fn sparse_number(&self, at: u64) -> Result<u64> {
        let bytes = usize::try_from(at)
            .ok()
            .and_then(|at| self.section(Section::Sparse).get(at..)?.first_chunk());
        let bytes = bytes.ok_or_else(|| broken("sparse maps"))?;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// How many parts the sparse map at `map` has.
    fn parts(&self, map: u64) -> Result<u64> {
        let count = self.sparse_number(map)?;
        if count > self.section(Section::Sparse).len() as u64 / 24 {
            return Err(broken("sparse maps"));
        }
        Ok(count)
    }

    /// Start, length and place in the stored data of part `number`.
    fn part(&self, map: u64, number: u64) -> Result<(u64, u64, u64)> {
        let start = map.saturating_add(8 + 24 * number);
        let at = |field: u64| self.sparse_number(start.saturating_add(field));
        Ok((at(0)?, at(8)?, at(16)?))
    }

    /// Calls `each` with name and value of every extended attribute at `place` of its section.
    pub fn xattrs(&self, place: u32, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        if place == NONE {
            return Ok(());
        }
        let mut walk = || -> Option<()> {
            let xattrs = self.section(Section::Xattrs).get(place as usize..)?;
            let (count, mut rest) = xattrs.split_first_chunk::<4>()?;
            for _ in 0..u32::from_le_bytes(*count) {
                each(take_string(&mut rest)?, take_string(&mut rest)?);
            }
            Some(())
        };
        walk().ok_or_else(|| broken("extended attributes"))
    }

    /// What to tell the user about the archive.
    pub fn warnings(&self) -> Warnings {
        Warnings::decode(self.section(Section::Warnings))
    }
}

/// A stretch of a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Data, or a hole.
    pub data: bool,
    /// Where it ends in the file.
    pub end: u64,
    /// Of data: where it lies, from the start of the stored data.
    pub stored: u64,
}
