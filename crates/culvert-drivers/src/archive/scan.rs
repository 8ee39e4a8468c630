//! Archives that are read from start to end: what a scanner wants next, from a file or from a
//! stream.

use super::bytes::Bytes;
use alloc::{vec, vec::Vec};
use culvert::Result;

/// What a scanner needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The next bytes, at most [`MOST`].
    Bytes(usize),
    /// To be told when this many bytes were passed over.
    Skip(u64),
    /// Nothing: what follows is not part of the archive.
    Nothing,
}

/// Most bytes that a scanner wants at once.
pub const MOST: usize = 64 << 10;

/// Takes an archive piece by piece, says what it can skip, and puts the members into a tree.
pub trait Scan {
    /// What it needs next.
    fn want(&self) -> Want;

    /// Takes the bytes that it wants.
    fn take(&mut self, bytes: &[u8]) -> Result<()>;

    /// `count` bytes were passed over, at most as many as wanted.
    fn skipped(&mut self, count: u64);

    /// The archive ends here, with `left` bytes that are fewer than it wants. `EIO` when it must
    /// not.
    fn end(&mut self, left: u64) -> Result<()>;
}

/// Feeds a scanner from pieces of any length.
#[derive(Default)]
pub struct Feeder {
    held: Vec<u8>,
}

impl Feeder {
    /// The stream has ended.
    pub fn end(&self, scanner: &mut dyn Scan) -> Result<()> {
        scanner.end(self.held.len() as u64)
    }

    /// Gives `scanner` the next bytes of the archive.
    pub fn feed(&mut self, scanner: &mut dyn Scan, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match scanner.want() {
                Want::Nothing => return Ok(()),
                Want::Skip(count) => {
                    let part = count.min(bytes.len() as u64);
                    scanner.skipped(part);
                    bytes = &bytes[part as usize..];
                }
                Want::Bytes(wanted) => {
                    if self.held.is_empty()
                        && let Some((piece, rest)) = bytes.split_at_checked(wanted)
                    {
                        scanner.take(piece)?;
                        bytes = rest;
                        continue;
                    }
                    let part = wanted.saturating_sub(self.held.len()).min(bytes.len());
                    self.held.extend_from_slice(&bytes[..part]);
                    bytes = &bytes[part..];
                    if self.held.len() >= wanted {
                        scanner.take(&self.held)?;
                        self.held.clear();
                    }
                }
            }
        }
        Ok(())
    }
}

/// Fewest bytes read at once: many are read where members are small, few where copying their data
/// would be in vain.
const FEWEST: usize = 1 << 10;
/// Members closer together than this are worth reading ahead for: on a disk it costs less to read
/// all than to seek.
const NEAR: u64 = 64 << 10;
/// Bytes asked for ahead at once.
const AHEAD: u64 = 4 << 20;

/// Headers of an archive, read in pieces that fit the size of its members.
struct Window<'a> {
    raw: &'a dyn Bytes,
    bytes: Vec<u8>,
    start: u64,
    length: usize,
    piece: usize,
    asked: u64,
}

impl<'a> Window<'a> {
    fn new(raw: &'a dyn Bytes) -> Self {
        Self {
            raw,
            bytes: vec![0; MOST],
            start: 0,
            length: 0,
            piece: 8 << 10,
            asked: 0,
        }
    }

    /// `count` bytes at `position`, which never goes back; none when the archive ends before their
    /// end.
    fn bytes(&mut self, position: u64, count: usize) -> Result<Option<&[u8]>> {
        let end = self.start + self.length as u64;
        if position + count as u64 > end {
            let near = position < end + self.piece as u64;
            self.piece = if near {
                (self.piece * 2).min(MOST)
            } else {
                (self.piece / 2).max(FEWEST)
            };
            if position < end + NEAR && position + AHEAD / 4 > self.asked {
                let from = self.asked.max(position);
                self.raw.will_need(from, AHEAD);
                self.asked = from + AHEAD;
            }
            self.start = position;
            let piece = self.piece.max(count).min(MOST);
            self.length = self.raw.read_at(position, &mut self.bytes[..piece])?;
        }
        let at = (position - self.start) as usize;
        Ok(self.bytes[..self.length]
            .get(at..)
            .and_then(|rest| rest.get(..count)))
    }
}

/// Runs `scanner` over `raw`, skipping the members' data; `progress` gets the bytes done now and
/// then.
pub fn scan(raw: &dyn Bytes, scanner: &mut dyn Scan, progress: &mut dyn FnMut(u64)) -> Result<()> {
    let mut window = Window::new(raw);
    let (mut position, mut told) = (0u64, 0);
    loop {
        match scanner.want() {
            Want::Nothing => return Ok(()),
            Want::Skip(count) => {
                // What is missing at the end may be the padding of the last block.
                let there = count.min(raw.len().saturating_sub(position));
                scanner.skipped(there);
                position += there;
                if there < count {
                    return scanner.end(0);
                }
            }
            Want::Bytes(count) => {
                if position - told >= 8 << 20 {
                    told = position;
                    progress(position);
                }
                let Some(bytes) = window.bytes(position, count)? else {
                    return scanner.end(raw.len().saturating_sub(position));
                };
                scanner.take(bytes)?;
                position += count as u64;
            }
        }
    }
}
