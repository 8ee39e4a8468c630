//! The messages between the writers of a file and the synchronisation service, which says where
//! each of them appends. They carry no data: who was given a position writes there by itself.
//!
//! ```text
//! writer                                  service
//!   share ------------------------------>
//!   <------------------- memory, with its descriptor
//!   hold(file, path) ------------------->   takes the locks of the file
//!   <------------------- held(turn, place)
//!   append(file, turn, count, size) ---->   end = max(end, size) + count
//!   <------------- position, or not held
//!   reach(file, size) ------------------>   end = max(end, size)
//!   <----------------- done, or not held
//!   release(file) ---------------------->   gives the locks back
//!   <------------------- done
//! ```
//!
//! Who shares the service's memory ([`memory`]) takes positions there, and sends what is left.
//!
//! Each message is one packet of a `SOCK_SEQPACKET` connection, each request has one answer, and a
//! connection has one request under way at a time. Numbers are little-endian.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

pub mod memory;
pub mod relay;
pub mod secret;

use alloc::vec::Vec;
use memory::Place;

/// What every message begins with: the name and the version of the protocol.
const MAGIC: [u8; 4] = *b"CvS2";
/// Bytes of a request before its path.
pub const REQUEST: usize = 48;
/// Bytes of an answer.
pub const ANSWER: usize = 24;
/// The file of a container that each writer has locked from before it asks until its record is
/// written (flock(2), shared), and exclusively whoever appends without a service or cuts the file.
pub const APPENDS: &str = ".culvert-appends";
/// The file of a container that the service which holds the file has locked exclusively.
pub const HOLDER: &str = ".culvert-holder";
/// The longest path, PATH_MAX.
pub const LONGEST_PATH: usize = 4096;

/// A file: its container's device and inode, the device as makedev(3) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

/// What a writer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    /// The service is to hold the file, whose container is the directory at this absolute path.
    Hold(&'a [u8]),
    /// A position for `count` bytes.
    Append {
        /// The turn in which the writer believes the file to be.
        turn: u64,
        /// How many bytes.
        count: u64,
        /// How large the file is as far as the writer knows; 0 where nothing new is known.
        size: u64,
    },
    /// The service is to let go of the file: somebody cuts it.
    Release,
    /// The file reaches to this size at least: it was written to, not by an append.
    Reach(u64),
    /// The memory that the service shares with its writers. It is of no file.
    Share,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Of which file.
    pub file: FileId,
    /// What.
    pub ask: Ask<'a>,
}

/// What the service says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It holds the file, in this turn. Turns have different numbers, also those of other services.
    /// Where the file has a place in the service's memory, positions are taken there.
    Held(u64, Option<Place>),
    /// The position is the writer's.
    Position(u64),
    /// The service does not hold the file, or not in that turn any more.
    NotHeld,
    /// A file cannot be so large (EFBIG).
    TooLarge,
    /// It has done so.
    Done,
    /// It cannot hold the file, because of this error.
    Refused(u32),
    /// The memory comes along.
    Memory,
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(eight.try_into().ok()?))
}

fn kind(bytes: &[u8]) -> Option<u8> {
    let known = bytes.starts_with(&MAGIC) && bytes.get(5..8)? == [0; 3];
    known.then(|| bytes.get(4).copied())?
}

fn message(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::from(MAGIC);
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes
}

impl<'a> Request<'a> {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, numbers, path): (u8, [u64; 3], &[u8]) = match self.ask {
            Ask::Hold(path) => (1, [0; 3], path),
            Ask::Append { turn, count, size } => (2, [turn, count, size], b""),
            Ask::Release => (3, [0; 3], b""),
            Ask::Reach(size) => (4, [0, 0, size], b""),
            Ask::Share => (5, [0; 3], b""),
        };
        let [one, two, three] = numbers;
        let numbers = [self.file.device, self.file.inode, one, two, three];
        let mut bytes = message(kind, &numbers);
        bytes.extend_from_slice(path);
        bytes
    }

    /// What a packet says; none where it is no request.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let file = FileId {
            device: number(bytes, 8)?,
            inode: number(bytes, 16)?,
        };
        let (kind, path) = (kind(bytes)?, bytes.get(REQUEST..)?);
        let ask = match kind {
            1 if path.starts_with(b"/") && path.len() <= LONGEST_PATH => Ask::Hold(path),
            2 if path.is_empty() => Ask::Append {
                turn: number(bytes, 24)?,
                count: number(bytes, 32)?,
                size: number(bytes, 40)?,
            },
            3 if path.is_empty() => Ask::Release,
            4 if path.is_empty() => Ask::Reach(number(bytes, 40)?),
            5 if path.is_empty() => Ask::Share,
            _ => return None,
        };
        Some(Self { file, ask })
    }
}

impl Answer {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Held(turn, place) => {
                let packed = |Place { number, tag }| u64::from(number) << 16 | u64::from(tag);
                message(1, &[turn, place.map_or(u64::MAX, packed)])
            }
            Self::Position(position) => message(2, &[position, 0]),
            Self::NotHeld => message(3, &[0, 0]),
            Self::TooLarge => message(4, &[0, 0]),
            Self::Done => message(5, &[0, 0]),
            Self::Refused(errno) => message(6, &[errno.into(), 0]),
            Self::Memory => message(7, &[0, 0]),
        }
    }

    /// What a packet says; none where it is no answer.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != ANSWER {
            return None;
        }
        let (value, packed) = (number(bytes, 8)?, number(bytes, 16)?);
        let place = |number| Place {
            number,
            tag: packed as u16,
        };
        Some(match kind(bytes)? {
            1 => Self::Held(value, u32::try_from(packed >> 16).ok().map(place)),
            2 => Self::Position(value),
            3 => Self::NotHeld,
            4 => Self::TooLarge,
            5 => Self::Done,
            6 => Self::Refused(u32::try_from(value).ok()?),
            7 => Self::Memory,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId {
        device: 7,
        inode: u64::MAX,
    };

    #[test]
    fn messages_come_back_as_they_were() {
        let append = Ask::Append {
            turn: 1,
            count: 2,
            size: u64::MAX,
        };
        let others = [Ask::Release, Ask::Reach(5), Ask::Share];
        for ask in [Ask::Hold(b"/a/b"), append].into_iter().chain(others) {
            let request = Request { file: FILE, ask };
            assert_eq!(Request::decode(&request.encode()), Some(request));
        }
        for answer in [
            Answer::Held(9, None),
            Answer::Held(9, Some(Place { number: 7, tag: 3 })),
            Answer::Memory,
            Answer::Position(u64::MAX),
            Answer::NotHeld,
            Answer::TooLarge,
            Answer::Done,
            Answer::Refused(13),
        ] {
            let bytes = answer.encode();
            assert_eq!(bytes.len(), ANSWER);
            assert_eq!(Answer::decode(&bytes), Some(answer));
        }
    }

    #[test]
    fn what_is_no_message_is_none() {
        let ask = Ask::Release;
        let whole = Request { file: FILE, ask }.encode();
        for length in 0..whole.len() {
            assert_eq!(Request::decode(&whole[..length]), None, "{length}");
        }
        for at in 0..8 {
            let mut wrong = whole.clone();
            wrong[at] ^= 0x40;
            assert_eq!(Request::decode(&wrong), None, "{at}");
        }
        let relative = Ask::Hold(b"a");
        let relative = Request {
            file: FILE,
            ask: relative,
        };
        assert_eq!(Request::decode(&relative.encode()), None);
        assert_eq!(Answer::decode(&whole), None);
    }
}
