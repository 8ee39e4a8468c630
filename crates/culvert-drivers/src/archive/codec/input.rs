//! Compressed bytes, read piece by piece into a buffer of our own: never through a slice of the
//! archive, whose mapping may vanish under a truncation.

use super::damaged;
use crate::archive::bytes::Bytes;
use alloc::{vec, vec::Vec};
use culvert::Result;

/// Bytes that may be loaded past the end of what is buffered; zero once the input has ended.
const SLACK: usize = 16;
/// Consumed bytes that stay.
const BACK: usize = 8;
/// How much is read at once, bytes.
const PIECE: usize = 64 << 10;

/// A buffered reader over a range of the archive. Fields are open to the decoders, whose inner
/// loops keep `at` in a register.
pub struct Input {
    /// `end` bytes of input and at least [`SLACK`] more.
    pub buffer: Vec<u8>,
    /// Next byte in `buffer`. A bit reader may carry it up to seven bytes past `end` once the input
    /// has ended.
    pub at: usize,
    /// End of the bytes in `buffer`.
    pub end: usize,
    /// Whether nothing follows `end`.
    pub ended: bool,
    /// Where `buffer` starts in the archive.
    offset: u64,
    /// Where the input ends in the archive.
    limit: u64,
}

impl Input {
    /// Reads `offset..limit` of the archive.
    pub fn new(offset: u64, limit: u64) -> Self {
        let limit = limit.max(offset);
        let capacity = usize::try_from(limit - offset).map_or(PIECE, |n| n.min(PIECE));
        Self {
            buffer: vec![0; BACK + capacity + SLACK],
            at: 0,
            end: 0,
            ended: false,
            offset,
            limit,
        }
    }

    /// Reads `offset..limit` of another archive, or of the same, in the same buffer, which must be
    /// of full size.
    pub fn restart(&mut self, offset: u64, limit: u64) {
        self.at = 0;
        self.end = 0;
        self.ended = false;
        self.offset = offset;
        self.limit = limit.max(offset);
    }

    /// The input ends at `limit`, which is not before the next byte.
    pub fn end_at(&mut self, limit: u64) {
        (self.limit, self.ended) = (limit, false);
    }

    /// Where the next byte lies in the archive.
    pub fn position(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// Where the input ends in the archive.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Heap held, bytes.
    pub fn memory(&self) -> usize {
        self.buffer.len()
    }

    /// Goes on reading at `position` of the archive.
    pub fn seek(&mut self, position: u64) {
        if position >= self.offset && position <= self.offset + self.end as u64 {
            self.at = (position - self.offset) as usize;
        } else {
            // Never smaller than what is left.
            self.buffer.resize(BACK + PIECE + SLACK, 0);
            self.offset = position.min(self.limit);
            self.at = 0;
            self.end = 0;
            self.ended = false;
        }
    }

    /// What is buffered and not consumed.
    pub fn available(&self) -> &[u8] {
        &self.buffer[self.at.min(self.end)..self.end]
    }

    /// Drops `count` bytes, which must be available.
    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.at);
        self.at += count;
    }

    /// Reads on until at least `wanted` bytes are available or the input ends. Never wants more
    /// than half the buffer.
    pub fn fill(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<()> {
        let capacity = self.buffer.len() - SLACK;
        while !self.ended && self.end - self.at < wanted {
            // A bit reader may give back up to seven bytes.
            let done = self.at.saturating_sub(BACK);
            if done > 0 {
                self.buffer.copy_within(done..self.end, 0);
                self.offset += done as u64;
                self.end -= done;
                self.at -= done;
            }
            let position = self.offset + self.end as u64;
            let room = usize::try_from(self.limit - position).unwrap_or(usize::MAX);
            let room = room.min(capacity - self.end);
            debug_assert!(
                room > 0 || position == self.limit,
                "wants more than the buffer holds"
            );
            let count = match room {
                0 => 0,
                _ => raw.read_at(position, &mut self.buffer[self.end..self.end + room])?,
            };
            self.end += count.min(room);
            if count == 0 {
                self.ended = true;
                self.buffer[self.end..self.end + SLACK].fill(0);
            }
        }
        Ok(())
    }

    /// The next `N` bytes.
    pub fn take<const N: usize>(&mut self, raw: &dyn Bytes, what: &str) -> Result<[u8; N]> {
        self.fill(raw, N)?;
        match self.available().first_chunk::<N>() {
            Some(bytes) => {
                let bytes = *bytes;
                self.at += N;
                Ok(bytes)
            }
            None => Err(self.truncated(what)),
        }
    }

    /// The error for an input that ends too early.
    pub fn truncated(&self, what: &str) -> culvert::Error {
        damaged(alloc::format!(
            "truncated: the data ends at byte {} within {what}",
            self.offset + self.end as u64
        ))
    }
}
