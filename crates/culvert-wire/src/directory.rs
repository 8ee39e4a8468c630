//! Listings: what READDIR and READDIRPLUS answer with.

use crate::{
    Malformed, Plain,
    structures::{Dirent, EntryOut},
};

/// One name of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireEntry<'a> {
    /// `d_ino`.
    pub inode: u64,
    /// Where the listing goes on after this name.
    pub next: u64,
    /// `DT_*`.
    pub kind: u32,
    /// The name, 1 byte or more; may be `.` or `..`.
    pub name: &'a [u8],
}

/// Fills a buffer with names, as many as fit.
#[derive(Debug)]
pub struct DirectoryWriter<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> DirectoryWriter<'a> {
    /// Writes to `buffer`, which is as long as the request allows.
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }

    /// Bytes written.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Adds a name (READDIR); false when it does not fit.
    pub fn add(&mut self, entry: &WireEntry<'_>) -> bool {
        self.parts(&[], entry)
    }

    /// Adds a name and what it leads to (READDIRPLUS); node 0 says nothing about that. False when
    /// it does not fit.
    pub fn add_plus(&mut self, found: &EntryOut, entry: &WireEntry<'_>) -> bool {
        self.parts(found.bytes(), entry)
    }

    fn parts(&mut self, first: &[u8], entry: &WireEntry<'_>) -> bool {
        let Ok(namelen) = u32::try_from(entry.name.len()) else {
            return false;
        };
        let dirent = Dirent {
            ino: entry.inode,
            off: entry.next,
            namelen,
            r#type: entry.kind,
        };
        let parts = [first, dirent.bytes(), entry.name];
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let end = self.length.saturating_add(length.next_multiple_of(8));
        let Some(mut place) = self.buffer.get_mut(self.length..end) else {
            return false;
        };
        for part in parts {
            let Some((head, tail)) = place.split_at_mut_checked(part.len()) else {
                return false;
            };
            head.copy_from_slice(part);
            place = tail;
        }
        place.fill(0);
        self.length = end;
        true
    }
}

/// The names in READDIR's answer. Ends at the first that is malformed, with the error.
#[derive(Clone, Debug)]
pub struct DirectoryEntries<'a>(pub &'a [u8]);

/// The names in READDIRPLUS's answer, and what they lead to. Ends at the first that is malformed,
/// with the error.
#[derive(Clone, Debug)]
pub struct DirectoryEntriesPlus<'a>(pub &'a [u8]);

/// The name at the start of `bytes`, `before` bytes of another structure in front of it, and what
/// follows.
fn take(bytes: &[u8], before: usize) -> Result<(WireEntry<'_>, &[u8]), Malformed> {
    let start = before + size_of::<Dirent>();
    let head = bytes.get(before..start).ok_or(Malformed::TooShort)?;
    let dirent = Dirent::from_prefix(head);
    let length = start
        .checked_add(dirent.namelen as usize)
        .ok_or(Malformed::TooShort)?;
    let name = bytes.get(start..length).ok_or(Malformed::TooShort)?;
    if name.is_empty() || name.iter().any(|&byte| byte == 0 || byte == b'/') {
        return Err(Malformed::Name);
    }
    let rest = bytes
        .get(length.next_multiple_of(8)..)
        .ok_or(Malformed::TooShort)?;
    let entry = WireEntry {
        inode: dirent.ino,
        next: dirent.off,
        kind: dirent.r#type,
        name,
    };
    Ok((entry, rest))
}

impl<'a> Iterator for DirectoryEntries<'a> {
    type Item = Result<WireEntry<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = core::mem::take(&mut self.0);
        (!bytes.is_empty()).then(|| {
            let (entry, rest) = take(bytes, 0)?;
            self.0 = rest;
            Ok(entry)
        })
    }
}

impl<'a> Iterator for DirectoryEntriesPlus<'a> {
    type Item = Result<(EntryOut, WireEntry<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = core::mem::take(&mut self.0);
        (!bytes.is_empty()).then(|| {
            let (entry, rest) = take(bytes, size_of::<EntryOut>())?;
            self.0 = rest;
            Ok((EntryOut::from_prefix(bytes), entry))
        })
    }
}
