//! Records of a directory: a word and a name.

use crate::memory::layout::BLOCK;

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The inode; 0 when the record is free.
    pub inode: u32,
    /// `DT_*`.
    pub kind: u8,
    /// Bytes of the name.
    pub name: u8,
    /// Bytes of the record.
    pub length: u16,
}

impl Record {
    /// A free one.
    pub const fn free(length: u16) -> Self {
        Self {
            inode: 0,
            kind: 0,
            name: 0,
            length,
        }
    }

    /// The word.
    pub const fn word(self) -> u64 {
        self.inode as u64
            | (self.kind as u64) << 32
            | (self.name as u64) << 40
            | (self.length as u64) << 48
    }

    /// The record whose first word is `word`, at byte `within` of its block; none when it cannot be
    /// one.
    pub const fn of(word: u64, within: u64) -> Option<Self> {
        let record = Self {
            inode: word as u32,
            kind: (word >> 32) as u8,
            name: (word >> 40) as u8,
            length: (word >> 48) as u16,
        };
        let length = record.length as u64;
        let fits = length >= 8 && length.is_multiple_of(8) && within + length <= BLOCK;
        let named = record.inode == 0 || record.name > 0 && 8 + record.name as u64 <= length;
        if fits && named { Some(record) } else { None }
    }
}

/// The records of a block that are in use or free; ends early at one that cannot be.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = (Record, &[u8])> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let word = bytes.get(at..at + 8)?;
        let word = u64::from_le_bytes(word.try_into().ok()?);
        let record = Record::of(word, at as u64)?;
        let name = match record.inode {
            0 => &[][..],
            _ => bytes.get(at + 8..at + 8 + usize::from(record.name))?,
        };
        at += usize::from(record.length);
        Some((record, name))
    })
}
