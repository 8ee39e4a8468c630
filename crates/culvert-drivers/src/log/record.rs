//! One operation, as it travels to the process that writes the log.
//!
//! A record is written by one write(2) of at most `PIPE_BUF` bytes, so that records of several
//! processes do not mix (pipe(7)). It never leaves the machine: numbers are in its byte order.

use alloc::vec::Vec;
use culvert::{Node, Operation};

/// Bytes of a record without its names.
const FIXED: usize = 112;
/// The longest record, bytes: what a pipe takes whole.
pub const LONGEST: usize = 4096;

/// What is told besides the operations of the driver API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An operation of the driver API.
    Operation(Operation),
    /// A file was closed for the last time in its process.
    Release,
    /// A process has begun to use the mount; the name is its program's.
    Process,
    /// The process is a child of fork(2) of `numbers[0]`.
    Forked,
    /// Nobody uses the mount any more.
    End,
}

const RELEASE: u8 = 252;
const PROCESS: u8 = 253;
const FORKED: u8 = 254;
const END: u8 = 255;

impl What {
    fn number(self) -> u8 {
        match self {
            Self::Operation(operation) => operation as u8,
            Self::Release => RELEASE,
            Self::Process => PROCESS,
            Self::Forked => FORKED,
            Self::End => END,
        }
    }

    fn of(number: u8) -> Option<Self> {
        Some(match number {
            RELEASE => Self::Release,
            PROCESS => Self::Process,
            FORKED => Self::Forked,
            END => Self::End,
            other => Self::Operation(*Operation::ALL.get(usize::from(other))?),
        })
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Which one.
    pub what: What,
    /// Its errno; 0: it succeeded.
    pub errno: u16,
    /// On whose behalf: process, user and group.
    pub caller: (u32, u32, u32),
    /// When it began: nanoseconds since the epoch.
    pub began: u64,
    /// How long it took, nanoseconds.
    pub took: u64,
    /// What it is about, or the directory of `name`.
    pub node: u64,
    /// The directory of `other`, or what `name` is a new name of.
    pub node2: u64,
    /// What `name` was found to be, or became; of changes of attributes the mode afterwards.
    pub found: u64,
    /// What the operation says besides; see where it is made.
    pub numbers: [u64; 4],
    /// The name, or the path of several components.
    pub name: &'a [u8],
    /// The other name: where a rename leads, what a link says, which attribute.
    pub other: &'a [u8],
}

impl Record<'_> {
    /// A record of `what` about `node`, that says no more yet.
    pub const fn new(what: What, node: Node) -> Self {
        Self {
            what,
            errno: 0,
            caller: (0, 0, 0),
            began: 0,
            took: 0,
            node: node.0,
            node2: 0,
            found: 0,
            numbers: [0; 4],
            name: b"",
            other: b"",
        }
    }

    /// Bytes that it needs.
    pub fn length(&self) -> usize {
        (FIXED + self.name.len() + self.other.len()).min(LONGEST)
    }

    /// Its bytes, in `into`, which has room for [`Record::length`]. Names are cut where a record
    /// would be too long, the longer one first.
    pub fn encode<'b>(&self, into: &'b mut [u8]) -> &'b [u8] {
        let room = into.len().min(LONGEST) - FIXED;
        let other = self
            .other
            .len()
            .min(room.saturating_sub(self.name.len()).max(room / 2));
        let name = self.name.len().min(room - other);
        let length = FIXED + name + other;
        // Half a name is nobody's.
        let is_cut = name < self.name.len() || other < self.other.len();
        let found = if is_cut { 0 } else { self.found };
        let (uid, gid) = (self.caller.1, self.caller.2);
        let head = [
            length as u64
                | (name as u64) << 16
                | u64::from(self.what.number()) << 32
                | u64::from(self.errno) << 40,
            u64::from(self.caller.0),
            u64::from(uid) | u64::from(gid) << 32,
            self.began,
            self.took,
            self.node,
            self.node2,
            found,
        ];
        let words = head.iter().chain(&self.numbers);
        for (place, word) in into.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        into[96..FIXED].fill(0);
        into[FIXED..FIXED + name].copy_from_slice(&self.name[..name]);
        into[FIXED + name..length].copy_from_slice(&self.other[..other]);
        &into[..length]
    }
}

impl<'a> Record<'a> {
    /// Whether `bytes` are the beginning of no record, however many more come.
    pub fn is_none(bytes: &[u8]) -> bool {
        let Some(head) = bytes.first_chunk::<8>() else {
            return false;
        };
        let head = u64::from_ne_bytes(*head);
        let (length, name) = ((head & 0xffff) as usize, (head >> 16 & 0xffff) as usize);
        let fits = (FIXED..=LONGEST).contains(&length) && name <= length - FIXED;
        !fits || What::of((head >> 32) as u8).is_none()
    }

    /// The record at the beginning of `bytes`, and its length. None: it is not whole yet, or is
    /// none; then nothing that follows can be read either.
    pub fn decode(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let words: Vec<u64> = bytes
            .get(..FIXED)?
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
            .collect();
        let (length, name) = (
            (words[0] & 0xffff) as usize,
            (words[0] >> 16 & 0xffff) as usize,
        );
        let names = bytes.get(FIXED..length)?;
        let (name, other) = names.split_at_checked(name)?;
        let record = Self {
            what: What::of((words[0] >> 32) as u8)?,
            errno: (words[0] >> 40) as u16,
            caller: (words[1] as u32, words[2] as u32, (words[2] >> 32) as u32),
            began: words[3],
            took: words[4],
            node: words[5],
            node2: words[6],
            found: words[7],
            numbers: [words[8], words[9], words[10], words[11]],
            name,
            other,
        };
        Some((record, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn what_is_encoded_is_decoded() {
        let record = Record {
            errno: 2,
            caller: (1, u32::MAX, 3),
            began: u64::MAX,
            took: 7,
            node2: 9,
            found: 11,
            numbers: [1, u64::MAX, 3, 4],
            name: b"a",
            other: b"b/c",
            ..Record::new(What::Operation(Operation::Rename), Node(8))
        };
        let mut room = [0; LONGEST];
        let bytes = record.encode(&mut room);
        assert_eq!(Record::decode(bytes), Some((record, bytes.len())));
        for what in [What::Release, What::Process, What::Forked, What::End] {
            let record = Record::new(what, Node(1));
            let mut room = [0; LONGEST];
            assert_eq!(Record::decode(record.encode(&mut room)).unwrap().0, record);
        }
    }

    #[test]
    fn long_names_are_cut_and_bad_bytes_are_no_record() {
        let long = vec![b'x'; 5000];
        let record = Record {
            name: &long,
            other: &long,
            ..Record::new(What::Operation(Operation::Lookup), Node(1))
        };
        let mut room = [0; LONGEST];
        let bytes = record.encode(&mut room).to_vec();
        assert_eq!(bytes.len(), LONGEST);
        for cut in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..cut]), None);
            assert!(!Record::is_none(&bytes[..cut]));
        }
        for (at, value) in (0..FIXED).flat_map(|at| [0, 1, 0x7f, 0xff].map(|value| (at, value))) {
            let mut bad = bytes.clone();
            bad[at] = value;
            match Record::decode(&bad) {
                Some((_, length)) => assert!(length <= bad.len() && !Record::is_none(&bad)),
                // No more than a whole one is ever waited for.
                None => assert!(Record::is_none(&bad)),
            }
        }
    }
}
