//! The index file: a flat image that every process maps and uses as it lies.
//!
//! All numbers are little-endian. A header of [`HEADER`] bytes, then the sections, each 8-byte
//! aligned:
//!
//! | section | holds |
//! |---|---|
//! | nodes | records of [`NODE`] bytes; record 0 is the root, node number = record number + 1; in the order of the archive |
//! | entries | records of [`ENTRY`] bytes: the names, grouped by directory, each group in the order of the archive |
//! | table | hash table from (directory, name) to entry: slots of 8 bytes, half the hash and the entry's number + 1, 0 when empty; a power of two of them, never full |
//! | names | bytes of names and link targets, and of small files that lie nowhere else as they are |
//! | sparse | per sparse file: count, then triples of offset in the file, length, offset in the stored data |
//! | xattrs | per node that has any: count, then name and value of each, their lengths in front |
//! | checkpoints | the seek table of a compressed stream, as `codec` made it |
//! | warnings | what to tell the user each time |
//!
//! The file is outside data although we wrote it: every offset is checked when used, and what does
//! not fit is `EIO`.

use crate::archive::bytes::{u16_at, u32_at, u64_at};
use crate::archive::hash;
use alloc::vec::Vec;
use culvert::{FileKind, Timespec};

/// First bytes of every index.
pub const MAGIC: [u8; 8] = *b"CULVidx\n";
/// Goes up when anything here or in the encoding of a section changes.
pub const VERSION: u32 = 4;
/// Bytes of the header.
pub const HEADER: usize = 256;
/// Bytes of a node record: one cache line.
pub const NODE: usize = 64;
/// Bytes of an entry record.
pub const ENTRY: usize = 16;
/// Bytes of a slot of the hash table.
pub const SLOT: usize = 8;
/// "No entry", "no extended attributes", "owner not known".
pub const NONE: u32 = u32::MAX;

/// The sections in the order in which they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the table above
pub enum Section {
    Nodes,
    Entries,
    Table,
    Names,
    Sparse,
    Xattrs,
    Checkpoints,
    Warnings,
}

/// How many sections there are.
pub const SECTIONS: usize = 8;

/// What tells one archive from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change.
    pub mtime: Timespec,
    /// Hash over head, tail and samples in between.
    pub content: u64,
}

/// `st_rdev` of a device (`makedev`, in the kernel's encoding for user space).
pub fn device_number(major: u64, minor: u64) -> u64 {
    (minor & 0xff)
        | (major & 0xfff) << 8
        | (minor & !0xff & 0xffff_ffff) << 12
        | (major & !0xfff & 0xffff_ffff) << 32
}

/// How the content of a regular file is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Storage {
    /// `size` bytes at `place` of the plain stream.
    Plain = 0,
    /// Data at `place` of the plain stream, spread over the file as the map at `extent` of the
    /// sparse section says.
    Sparse = 1,
    /// A zip member: local header at `place` of the file, `extent` compressed bytes, `method`,
    /// CRC-32 in `extra`.
    Member = 2,
    /// As `Member`, encrypted: listed, cannot be opened.
    Encrypted = 3,
    /// `size` bytes at `place` of the names: they lie in the index.
    Indexed = 4,
}

/// A node record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// `st_mode`.
    pub mode: u32,
    /// `st_nlink`.
    pub links: u32,
    /// Owner, [`NONE`] when the archive does not say.
    pub uid: u32,
    /// Group, [`NONE`] when the archive does not say.
    pub gid: u32,
    /// Last change of content.
    pub mtime: Timespec,
    /// One entry that names it, [`NONE`] for the root.
    pub entry: u32,
    /// `st_size`; of a link the length of its target.
    pub size: u64,
    /// Regular: see [`Storage`]. Directory: its first entry. Link: offset of its target in the
    /// names. Device: `st_rdev`.
    pub place: u64,
    /// Regular: see [`Storage`]. Directory: how many entries.
    pub extent: u64,
    /// Tar: offset in the xattr section or [`NONE`]. Zip: CRC-32 of the content.
    pub extra: u32,
    /// Regular files: how the content is stored.
    pub storage: Storage,
    /// Zip: the compression method.
    pub method: u16,
}

impl NodeRecord {
    /// A node of which no more is known.
    pub const fn new(mode: u32, mtime: Timespec) -> Self {
        Self {
            mode,
            links: 0,
            uid: NONE,
            gid: NONE,
            mtime,
            entry: NONE,
            size: 0,
            place: 0,
            extent: 0,
            extra: NONE,
            storage: Storage::Plain,
            method: 0,
        }
    }

    /// A directory?
    pub const fn is_directory(&self) -> bool {
        self.mode & 0o170000 == FileKind::Directory as u32
    }

    /// The bytes in the file.
    pub fn encode(&self) -> [u8; NODE] {
        let mut to = [0; NODE];
        to[0..4].copy_from_slice(&self.mode.to_le_bytes());
        to[4..8].copy_from_slice(&self.links.to_le_bytes());
        to[8..12].copy_from_slice(&self.uid.to_le_bytes());
        to[12..16].copy_from_slice(&self.gid.to_le_bytes());
        to[16..24].copy_from_slice(&self.mtime.seconds.to_le_bytes());
        to[24..28].copy_from_slice(&self.mtime.nanoseconds.to_le_bytes());
        to[28..32].copy_from_slice(&self.entry.to_le_bytes());
        to[32..40].copy_from_slice(&self.size.to_le_bytes());
        to[40..48].copy_from_slice(&self.place.to_le_bytes());
        to[48..56].copy_from_slice(&self.extent.to_le_bytes());
        to[56..60].copy_from_slice(&self.extra.to_le_bytes());
        to[60] = self.storage as u8;
        to[62..64].copy_from_slice(&self.method.to_le_bytes());
        to
    }

    /// Reads a record; none when its storage or nanoseconds are impossible.
    pub fn decode(from: &[u8; NODE]) -> Option<Self> {
        let nanoseconds = u32_at(from, 24);
        Some(Self {
            mode: u32_at(from, 0),
            links: u32_at(from, 4),
            uid: u32_at(from, 8),
            gid: u32_at(from, 12),
            mtime: Timespec {
                seconds: u64_at(from, 16) as i64,
                nanoseconds: (nanoseconds < 1_000_000_000).then_some(nanoseconds)?,
            },
            entry: u32_at(from, 28),
            size: u64_at(from, 32),
            place: u64_at(from, 40),
            extent: u64_at(from, 48),
            extra: u32_at(from, 56),
            storage: match from[60] {
                0 => Storage::Plain,
                1 => Storage::Sparse,
                2 => Storage::Member,
                3 => Storage::Encrypted,
                4 => Storage::Indexed,
                _ => return None,
            },
            method: u16_at(from, 62),
        })
    }
}

/// An entry record: a name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    /// Where the name starts in the names.
    pub name: u32,
    /// Record number of the node that it names.
    pub node: u32,
    /// Record number of the directory that holds it.
    pub parent: u32,
    /// Length of the name, 1 to 255.
    pub length: u8,
    /// `d_type` of the node.
    pub kind: u8,
}

impl EntryRecord {
    /// The bytes in the file.
    pub fn encode(&self) -> [u8; ENTRY] {
        let mut to = [0; ENTRY];
        to[0..4].copy_from_slice(&self.name.to_le_bytes());
        to[4..8].copy_from_slice(&self.node.to_le_bytes());
        to[8..12].copy_from_slice(&self.parent.to_le_bytes());
        to[12] = self.length;
        to[13] = self.kind;
        to
    }

    /// Reads a record.
    pub fn decode(from: &[u8; ENTRY]) -> Self {
        Self {
            name: u32_at(from, 0),
            node: u32_at(from, 4),
            parent: u32_at(from, 8),
            length: from[12],
            kind: from[13],
        }
    }
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole file.
    pub length: u64,
    /// Checksum of the sections.
    pub body: u64,
    /// The archive it belongs to.
    pub archive: Identity,
    /// 0 tar, 1 zip, from 2 on compressed tar: the codec's number + 2.
    pub kind: u8,
    /// Damage was passed over (option `damaged`).
    pub damaged: bool,
    /// Bytes of the plain stream.
    pub plain: u64,
    /// Sum of the sizes of all regular files.
    pub content: u64,
    /// Seed of the name hash.
    pub seed: u64,
    /// Offset and length of each section.
    pub sections: [(u64, u64); SECTIONS],
}

const SECTIONS_AT: usize = 112;
const SUM_AT: usize = HEADER - 8;

impl Header {
    /// The bytes in the file, own checksum last.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut to = [0; HEADER];
        to[0..8].copy_from_slice(&MAGIC);
        to[8..12].copy_from_slice(&VERSION.to_le_bytes());
        to[12] = self.kind;
        to[13] = u8::from(self.damaged);
        let numbers = [
            self.length,
            self.body,
            self.archive.size,
            self.archive.mtime.seconds as u64,
            u64::from(self.archive.mtime.nanoseconds),
            self.archive.content,
            self.plain,
            self.content,
            self.seed,
        ];
        for (number, field) in numbers.iter().zip(to[16..].chunks_exact_mut(8)) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        for ((offset, length), field) in self
            .sections
            .iter()
            .zip(to[SECTIONS_AT..].chunks_exact_mut(16))
        {
            field[..8].copy_from_slice(&offset.to_le_bytes());
            field[8..].copy_from_slice(&length.to_le_bytes());
        }
        let sum = hash::of_content(&to[..SUM_AT]);
        to[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        to
    }

    /// Reads and checks the header of an index of `length` bytes: none when it is no index, of
    /// another version, damaged or cut.
    pub fn decode(from: &[u8; HEADER], length: u64) -> Option<Self> {
        if from[0..8] != MAGIC
            || u32_at(from, 8) != VERSION
            || u64_at(from, SUM_AT) != hash::of_content(&from[..SUM_AT])
            || u64_at(from, 16) != length
        {
            return None;
        }
        let mut sections = [(0, 0); SECTIONS];
        for (at, section) in sections.iter_mut().enumerate() {
            let at = SECTIONS_AT + 16 * at;
            *section = (u64_at(from, at), u64_at(from, at + 8));
            if section.0.checked_add(section.1)? > length {
                return None;
            }
        }
        let nanoseconds = u32::try_from(u64_at(from, 48)).ok()?;
        Some(Self {
            length,
            body: u64_at(from, 24),
            archive: Identity {
                size: u64_at(from, 32),
                mtime: Timespec {
                    seconds: u64_at(from, 40) as i64,
                    nanoseconds,
                },
                content: u64_at(from, 56),
            },
            kind: from[12],
            damaged: from[13] != 0,
            plain: u64_at(from, 64),
            content: u64_at(from, 72),
            seed: u64_at(from, 80),
            sections,
        })
    }
}

/// A finished index in its parts: the sections may be large, and are never copied together only to
/// be written.
pub struct Parts {
    header: [u8; HEADER],
    sections: [Vec<u8>; SECTIONS],
}

impl Parts {
    /// Puts `sections` behind a header made from `header`, whose lengths, places and sums are
    /// filled in here.
    pub fn new(mut header: Header, sections: [Vec<u8>; SECTIONS]) -> Self {
        let mut at = HEADER as u64;
        for (section, place) in sections.iter().zip(&mut header.sections) {
            *place = (at, section.len() as u64);
            at += section.len().next_multiple_of(8) as u64;
        }
        header.length = at;
        header.body = body_sum(sections.iter().map(Vec::as_slice));
        Self {
            header: header.encode(),
            sections,
        }
    }

    /// The pieces of the file, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let sections = self.sections.iter().flat_map(|section| {
            let padding = section.len().next_multiple_of(8) - section.len();
            [&section[..], &[0; 8][..padding]]
        });
        core::iter::once(&self.header[..]).chain(sections)
    }

    /// The file as a whole.
    pub fn join(&self) -> Vec<u8> {
        self.pieces().collect::<Vec<_>>().concat()
    }
}

/// Checksum of the sections.
pub fn body_sum<'a>(sections: impl Iterator<Item = &'a [u8]>) -> u64 {
    sections.fold(0, |sum, section| {
        hash::of_name(sum, &hash::of_content(section).to_le_bytes())
    })
}

/// Hash of an entry: its name, seeded by its directory.
pub fn entry_hash(seed: u64, directory: u32, name: &[u8]) -> u64 {
    hash::of_name(
        seed ^ u64::from(directory).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        name,
    )
}

/// The slot of the hash table where a search starts, and the half of the hash that is kept beside
/// the entry's number.
pub const fn slot_of(hash: u64, slots: usize) -> (usize, u32) {
    (hash as usize & (slots - 1), (hash >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            length: 0,
            body: 0,
            archive: Identity {
                size: 1,
                mtime: Timespec {
                    seconds: -2,
                    nanoseconds: 3,
                },
                content: 4,
            },
            kind: 2,
            damaged: true,
            plain: 5,
            content: 6,
            seed: 7,
            sections: [(0, 0); SECTIONS],
        }
    }

    #[test]
    fn header_survives_and_any_flipped_bit_is_noticed() {
        let sections = [&b"1"[..], b"22", b"", b"4444", b"", b"", b"77", b"8"];
        let file = Parts::new(header(), sections.map(<[u8]>::to_vec)).join();
        let bytes: [u8; HEADER] = *file.first_chunk().unwrap();
        let read = Header::decode(&bytes, file.len() as u64).unwrap();
        assert_eq!(read.archive, header().archive);
        assert_eq!((read.kind, read.damaged), (2, true));
        assert_eq!((read.plain, read.content, read.seed), (5, 6, 7));
        let (at, length) = read.sections[3];
        assert_eq!(&file[at as usize..][..length as usize], b"4444");
        assert!(Header::decode(&bytes, file.len() as u64 - 1).is_none());
        for bit in 0..HEADER * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Header::decode(&bytes, file.len() as u64).is_none(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn records_survive() {
        let node = NodeRecord {
            mode: 0o100644,
            links: 2,
            uid: 3,
            gid: NONE,
            mtime: Timespec {
                seconds: -5,
                nanoseconds: 6,
            },
            entry: 7,
            size: 8,
            place: 9,
            extent: 10,
            extra: 11,
            storage: Storage::Member,
            method: 93,
        };
        assert_eq!(NodeRecord::decode(&node.encode()), Some(node));
        let entry = EntryRecord {
            name: 1,
            node: 2,
            parent: 3,
            length: 255,
            kind: 8,
        };
        assert_eq!(EntryRecord::decode(&entry.encode()), entry);
    }
}
