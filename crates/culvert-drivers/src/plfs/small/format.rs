//! The format of PLFS 2.5's small files (`SmallFileLayout.h`): a directory's regular files are in
//! [`DIRECTORY`], beside its subdirectories and links, on each back end.
//!
//! Each writer has three droppings there. Its *name* dropping says what happened to names, in its
//! order; a file's number in it is the place of the record that opens the file for writing. Its
//! *index* dropping says which bytes of the file with which number are where in its *data*
//! dropping. All records have the time, by which those of several writers are merged.

use alloc::vec::Vec;

/// The directory of a directory's files.
pub const DIRECTORY: &[u8] = b"SMALLFILECONTAINER";
/// The file that has the owner and the mode of them all.
pub const STATUS: &[u8] = b"meta-file-for-stat-operation";
/// Begin the names of the three droppings.
pub const NAME: &[u8] = b"dropping.name.";
pub const INDEX: &[u8] = b"dropping.index.";
pub const DATA: &[u8] = b"dropping.data.";
/// The mode of files, before the umask.
pub const MODE: u32 = 0o644;

/// Bytes before the names in a record.
const HEADER: usize = 16;
/// The longest record: of a renaming.
const LONGEST: usize = HEADER + 2 * 256;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Create(&'a [u8]),
    Delete(&'a [u8]),
    /// It has a number from now on: the place of this record.
    Open(&'a [u8]),
    Rename(&'a [u8], &'a [u8]),
    /// The time of the record is the file's.
    Times(&'a [u8]),
}

/// A record of a name dropping: `time` is seconds in the upper and microseconds in the lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    pub time: u64,
    pub event: Event<'a>,
}

/// Whether a file can have this name here.
pub fn is_name(name: &[u8]) -> bool {
    let length = matches!(name.len(), 1..=255);
    length && !matches!(name, b"." | b"..") && !name.contains(&b'/') && name != DIRECTORY
}

impl<'a> Named<'a> {
    /// As it stands in the dropping.
    pub fn encode(&self) -> Vec<u8> {
        let (code, first, second): (u32, &[u8], Option<&[u8]>) = match self.event {
            Event::Create(name) => (1, name, None),
            Event::Delete(name) => (2, name, None),
            Event::Open(name) => (3, name, None),
            Event::Rename(from, to) => (4, from, Some(to)),
            Event::Times(name) => (5, name, None),
        };
        let mut bytes = [&[0; 4], &code.to_le_bytes()[..], &self.time.to_le_bytes()].concat();
        for name in core::iter::once(first).chain(second) {
            bytes.extend_from_slice(name);
            bytes.push(0);
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    /// The record that `bytes` begin with, and its length; none where they end before it does.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, &'static str> {
        let Some(head) = bytes.get(..HEADER) else {
            return Ok(None);
        };
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = word(0) as usize;
        if !(HEADER + 2..=LONGEST).contains(&length) || !length.is_multiple_of(4) {
            return Err("a record of a wrong length");
        }
        let Some(names) = bytes.get(HEADER..length) else {
            return Ok(None);
        };
        let mut names = names.split(|&byte| byte == 0);
        let mut name = || {
            names
                .next()
                .filter(|name| is_name(name))
                .ok_or("a record with a wrong name")
        };
        let event = match word(4) {
            1 => Event::Create(name()?),
            2 => Event::Delete(name()?),
            3 => Event::Open(name()?),
            4 => Event::Rename(name()?, name()?),
            5 => Event::Times(name()?),
            _ => return Err("a record of an unknown kind"),
        };
        let time = u64::from(word(12)) << 32 | u64::from(word(8));
        Ok(Some((Self { time, event }, length)))
    }
}

/// A record of an index dropping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file's number in the name dropping.
    pub file: u64,
    pub offset: u64,
    pub length: u64,
    pub time: u64,
    /// Where the bytes are in the data dropping; none: the file was cut or made longer to `offset`.
    pub physical: Option<u64>,
}

impl Entry {
    /// Bytes.
    pub const SIZE: usize = 40;

    /// As it stands in the dropping.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let physical = self.physical.unwrap_or(u64::MAX);
        let words = [self.file, self.offset, self.length, self.time, physical];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// None for what no write can have left.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (length, physical) = (word(16)?, word(32)?);
        let entry = Self {
            file: word(0)?,
            offset: word(8)?,
            length,
            time: word(24)?,
            physical: (physical != u64::MAX).then_some(physical),
        };
        let fits = |from: u64| {
            let end = from.checked_add(length);
            end.is_some_and(|end| end <= i64::MAX as u64)
        };
        let right = fits(entry.offset) && entry.physical.map_or(length == 0, fits);
        right.then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_as_in_plfs_and_come_back() {
        let time = 0x6000_0000_0000_0005;
        let bytes = Named {
            time,
            event: Event::Create(b"abc"),
        }
        .encode();
        assert_eq!(
            bytes,
            [
                20, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0x60, b'a', b'b', b'c', 0
            ]
        );
        for event in [
            Event::Delete(b"a"),
            Event::Open(b"ab"),
            Event::Rename(b"from", b"to"),
            Event::Times(&[b'x'; 255]),
        ] {
            let record = Named { time, event };
            let bytes = record.encode();
            assert_eq!(Named::decode(&bytes), Ok(Some((record, bytes.len()))));
            for end in 0..bytes.len() {
                assert_eq!(Named::decode(&bytes[..end]), Ok(None), "{end}");
            }
        }
        let entry = Entry {
            file: 20,
            offset: 1,
            length: 2,
            time,
            physical: Some(7),
        };
        assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        let cut = Entry {
            length: 0,
            physical: None,
            ..entry
        };
        assert_eq!(cut.encode()[32..], [0xff; 8]);
        assert_eq!(Entry::decode(&cut.encode()), Some(cut));
    }

    #[test]
    fn what_no_writer_leaves_is_refused() {
        let right = Named {
            time: 1,
            event: Event::Rename(b"a", b"b"),
        }
        .encode();
        for (at, value) in [
            (0, 8),
            (0, 19),
            (1, 255),
            (4, 0),
            (4, 6),
            (16, b'/'),
            (17, b'x'),
            (18, 0),
        ] {
            let mut wrong = right.clone();
            wrong[at] = value;
            assert!(Named::decode(&wrong).is_err(), "{at}");
        }
        let entry = Entry {
            file: 0,
            offset: 0,
            length: 1,
            time: 0,
            physical: Some(0),
        };
        for wrong in [
            Entry {
                offset: u64::MAX,
                ..entry
            },
            Entry {
                physical: Some(i64::MAX as u64),
                ..entry
            },
            Entry {
                physical: None,
                ..entry
            },
        ] {
            assert_eq!(Entry::decode(&wrong.encode()), None);
        }
    }
}
