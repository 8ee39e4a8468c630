//! Tar archives: v7, ustar, pax, GNU and star, as `tar` reads them. Only headers are read: what an
//! index needs is where the data lies.

mod feed;
mod header;
mod number;
mod pax;
mod scan;
mod sparse;

pub use feed::Feeder;
pub use header::BLOCK;
pub use scan::{Scanner, Want};

use super::bytes::Bytes;
use alloc::{vec, vec::Vec};
use culvert::Result;
use header::Block;

/// Whether a file that starts with `block` can be a tar archive: a header, or the zeroes of an
/// empty archive.
pub fn detect(block: &Block) -> bool {
    header::Header::new(block).is_some() || block == &[0; BLOCK]
}

/// Most and fewest bytes read at once: many where members are small, few where copying their data
/// would be in vain.
const PIECES: (usize, usize) = (1 << 10, 64 << 10);
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
            bytes: vec![0; PIECES.1],
            start: 0,
            length: 0,
            piece: 8 << 10,
            asked: 0,
        }
    }

    /// The block at `position`, which never goes back; none when the archive ends before its end.
    fn block(&mut self, position: u64) -> Result<Option<&Block>> {
        let end = self.start + self.length as u64;
        if position + BLOCK as u64 > end {
            let near = position < end + self.piece as u64;
            self.piece = if near {
                (self.piece * 2).min(PIECES.1)
            } else {
                (self.piece / 2).max(PIECES.0)
            };
            if position < end + NEAR && position + AHEAD / 4 > self.asked {
                let from = self.asked.max(position);
                self.raw.will_need(from, AHEAD);
                self.asked = from + AHEAD;
            }
            self.start = position;
            self.length = self.raw.read_at(position, &mut self.bytes[..self.piece])?;
        }
        let at = (position - self.start) as usize;
        Ok(self.bytes[..self.length]
            .get(at..)
            .and_then(|rest| rest.first_chunk::<BLOCK>()))
    }
}

/// Runs `scanner` over `raw`, skipping the members' data; `progress` gets the bytes done now and
/// then.
pub fn scan(
    raw: &dyn Bytes,
    scanner: &mut Scanner<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
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
                    return scanner.end();
                }
            }
            Want::Block => {
                if position - told >= 8 << 20 {
                    told = position;
                    progress(position);
                }
                let Some(block) = window.block(position)? else {
                    return scanner.end();
                };
                scanner.block(block)?;
                position += BLOCK as u64;
            }
        }
    }
}
