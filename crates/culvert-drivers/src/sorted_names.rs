//! Names of several directories that are listed as one: in the order of their hashes, so that a
//! position means the same in every process, whatever came and went.

use crate::passthrough::mix;
use alloc::vec::Vec;
use culvert::{DirectoryEntry, DirectorySink, FileKind};

/// One name of a directory.
pub struct Name {
    /// Where the listing goes on after it.
    next: u64,
    inode: u64,
    kind: FileKind,
    name: Vec<u8>,
}

impl Name {
    /// `name`, which is listed with these.
    pub const fn new(inode: u64, kind: FileKind, name: Vec<u8>) -> Self {
        Self {
            next: 0,
            inode,
            kind,
            name,
        }
    }
}

/// A number for `bytes`.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0x5eed, |sum, &byte| mix(sum ^ u64::from(byte)))
}

/// `names` in their order.
pub fn sorted(mut names: Vec<Name>) -> Vec<Name> {
    for name in &mut names {
        name.next = (hash(&name.name) >> 2) + 1;
    }
    names.sort_by_key(|name| name.next);
    let mut last = 0;
    for name in &mut names {
        name.next = name.next.max(last + 1);
        last = name.next;
    }
    names
}

/// Offers `names` from position `from` on.
pub fn list(names: &[Name], from: u64, sink: &mut DirectorySink<'_>) {
    let start = names.partition_point(|name| name.next <= from);
    for Name {
        next,
        inode,
        kind,
        name,
    } in &names[start..]
    {
        let entry = DirectoryEntry {
            inode: *inode,
            next: *next,
            kind: *kind,
            name,
        };
        if !sink(entry) {
            return;
        }
    }
}
