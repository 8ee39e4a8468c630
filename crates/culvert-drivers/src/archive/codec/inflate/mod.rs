//! Inflate (RFC 1951), and deflate64, able to stop after any byte and to go on there later with
//! nothing but two bit positions and the 32 KiB before: a restart reads the header of the block
//! again and then jumps into its middle.
//!
//! The inner loop works in 64-bit words on both sides and has no check per symbol but the tables'.
//! All of it is safe code.

mod decode;
mod tables;
#[cfg(test)]
mod tests;
mod window;

use super::{damaged, input::Input, lz};
use crate::archive::bytes::Bytes;
use alloc::boxed::Box;
use culvert::Result;
use decode::Bits;
use tables::{DISTANCE_BITS, DISTANCES, LITERAL_BITS, LITERALS, PLAIN, Table};
use window::Window;

/// Longest distance back of deflate and of deflate64, bytes.
pub const HISTORY: [usize; 2] = [32 << 10, 64 << 10];

/// Plain bytes decoded at once, at most.
pub const PIECE: usize = 128 << 10;

/// Where inflating can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStart {
    /// Bit position in the archive of the header of the present block.
    pub header: u64,
    /// Bit position in the archive of the next symbol; `header` itself when the block was not
    /// begun.
    pub next: u64,
}

/// Why inflating paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The window is full up to the limit.
    Full,
    /// The last block has ended; the input stands at the next whole byte.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    Stored { left: usize },
    Codes,
    End,
}

/// Notes which bytes before a restart point are referred to by those after it.
pub struct Tracker {
    /// One bit for each of the 32 KiB before the point, the last byte last.
    used: Box<[u64; (32 << 10) / 64]>,
    /// Bytes produced since the point.
    since: usize,
}

impl Tracker {
    fn new() -> Self {
        Self {
            used: Box::new([0; (32 << 10) / 64]),
            since: 0,
        }
    }

    /// A match `distance` back of `length`, `ahead` bytes after the last update of `since`.
    #[inline]
    fn mark(&mut self, ahead: usize, distance: usize, length: usize) {
        let past = self.since + ahead;
        if distance <= past {
            return;
        }
        let first = (32 << 10) - (distance - past).min(32 << 10);
        let last = (first + length).min(32 << 10);
        for byte in first..last {
            self.used[byte / 64] |= 1 << (byte % 64);
        }
    }

    /// Whether no later match can reach before the point.
    fn complete(&self) -> bool {
        self.since >= 32 << 10
    }

    /// Zeroes all of `window`, the bytes before the point, that is not referred to.
    pub fn thin(&self, window: &mut [u8]) {
        let skip = (32 << 10) - window.len();
        for (i, byte) in window.iter_mut().enumerate() {
            let i = skip + i;
            if self.used[i / 64] >> (i % 64) & 1 == 0 {
                *byte = 0;
            }
        }
    }
}

/// The state of one inflation.
pub struct Inflate {
    pub input: Input,
    pub window: Window,
    bits: Bits,
    state: State,
    /// The present block is the last.
    last: bool,
    /// Bit position of the present block's header.
    header: u64,
    /// A match that the limit cut: bytes left, distance.
    pending: (usize, usize),
    deflate64: bool,
    /// The tables are those of the fixed codes.
    fixed: bool,
    tracker: Option<Tracker>,
    literals: Box<Table<{ 1 << LITERAL_BITS }>>,
    distances: Box<Table<{ 1 << DISTANCE_BITS }>>,
}

impl Inflate {
    /// Deflate, or deflate64, of the archive's bytes `start..end`.
    pub fn new(deflate64: bool, start: u64, end: u64) -> Self {
        Self {
            input: Input::new(start, end),
            window: Window::new(HISTORY[usize::from(deflate64)], PIECE),
            bits: Bits::default(),
            state: State::Header,
            last: false,
            header: 0,
            pending: (0, 0),
            deflate64,
            fixed: false,
            tracker: None,
            literals: Box::new(Table::new()),
            distances: Box::new(Table::new()),
        }
    }

    /// Starts anew at the input's position, a whole byte.
    pub fn restart(&mut self) {
        self.bits = Bits::default();
        self.state = State::Header;
        self.last = false;
        self.pending = (0, 0);
    }

    /// Goes on at `place`; `packed` holds what came before.
    pub fn resume(&mut self, place: BlockStart, packed: &[u8], raw: &dyn Bytes) -> Result<()> {
        self.restart();
        self.window
            .reset(&lz::decompress(packed, self.window.history)?);
        self.seek(place.header, raw)?;
        if place.next == place.header {
            return Ok(());
        }
        let stale = || damaged("the index does not fit the archive");
        self.read_header(raw)?;
        let skipped = place.next.checked_sub(self.position()).ok_or_else(stale)?;
        match &mut self.state {
            State::Stored { left } => {
                let bytes = usize::try_from(skipped / 8).ok().filter(|n| n <= left);
                *left -= bytes.ok_or_else(stale)?;
            }
            State::Codes => {}
            State::Header | State::End => return Err(stale()),
        }
        self.seek(place.next, raw)
    }

    /// Where inflating goes on after what the window holds; none in the middle of a match or at the
    /// end.
    pub fn place(&self) -> Option<BlockStart> {
        if self.pending.0 > 0 || self.state == State::End {
            return None;
        }
        let next = self.position();
        let header = match self.state {
            State::Header => next,
            _ => self.header,
        };
        Some(BlockStart { header, next })
    }

    /// Notes from now on which of the bytes before are referred to.
    pub fn track(&mut self) {
        self.tracker = Some(Tracker::new());
    }

    /// The notes, once they are complete, or as they are with `now`.
    pub fn tracked(&mut self, now: bool) -> Option<Tracker> {
        if now || self.tracker.as_ref().is_some_and(Tracker::complete) {
            self.tracker.take()
        } else {
            None
        }
    }

    /// How many bytes of a match are left that the limit cut.
    pub fn cut(&self) -> usize {
        self.pending.0
    }

    /// Heap held, bytes.
    pub fn memory(&self) -> usize {
        let tables = size_of_val(&*self.literals) + size_of_val(&*self.distances);
        self.input.memory() + self.window.memory() + tables
    }

    /// Inflates up to `wanted` bytes, fewer where the window is smaller or the last block ends.
    pub fn run(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<Pause> {
        let limit = self.window.make_room(wanted.clamp(1, PIECE));
        loop {
            self.copy_pending(limit);
            if self.state != State::End && self.window.at >= limit {
                return Ok(Pause::Full);
            }
            match self.state {
                State::Header => self.read_header(raw)?,
                State::Stored { left } => {
                    let wanted = left.min(limit - self.window.at);
                    self.input.fill(raw, wanted.min(4096))?;
                    let count = wanted.min(self.input.available().len());
                    if count == 0 && left > 0 {
                        return Err(self.input.truncated("a stored deflate block"));
                    }
                    self.window.buffer[self.window.at..self.window.at + count]
                        .copy_from_slice(&self.input.available()[..count]);
                    self.window.at += count;
                    if let Some(tracker) = &mut self.tracker {
                        tracker.since += count;
                    }
                    self.input.consume(count);
                    self.state = match left - count {
                        0 => self.after_block(),
                        left => State::Stored { left },
                    };
                }
                State::Codes => {
                    self.input.fill(raw, 1024)?;
                    let before = self.window.at;
                    let ended = match self.tracker.is_some() {
                        true => self.decode::<true>(limit)?,
                        false => self.decode::<false>(limit)?,
                    };
                    if let Some(tracker) = &mut self.tracker {
                        tracker.since += self.window.at - before;
                    }
                    if ended {
                        self.state = self.after_block();
                    }
                }
                State::End => {
                    self.align();
                    return Ok(Pause::End);
                }
            }
        }
    }

    fn after_block(&self) -> State {
        if self.last { State::End } else { State::Header }
    }

    fn copy_pending(&mut self, limit: usize) {
        let (length, distance) = self.pending;
        if length == 0 {
            return;
        }
        let count = length.min(limit - self.window.at);
        for at in self.window.at..self.window.at + count {
            self.window.buffer[at] = self.window.buffer[at - distance];
        }
        if let Some(tracker) = &mut self.tracker {
            tracker.mark(0, distance, count);
            tracker.since += count;
        }
        self.window.at += count;
        self.pending.0 -= count;
    }

    /// Bit position in the archive of the next bit.
    fn position(&self) -> u64 {
        self.input.position() * 8 - u64::from(self.bits.count)
    }

    /// Stands at bit `position` of the archive.
    fn seek(&mut self, position: u64, raw: &dyn Bytes) -> Result<()> {
        self.bits = Bits::default();
        self.input.seek(position / 8);
        if !position.is_multiple_of(8) {
            let [byte] = self.input.take::<1>(raw, "deflate data")?;
            self.bits.put(byte);
            self.bits.drop((position % 8) as u32);
        }
        Ok(())
    }

    /// Gives whole bytes read ahead back to the input and drops the rest of the present one.
    fn align(&mut self) {
        self.input.at -= (self.bits.count / 8) as usize;
        self.bits = Bits::default();
    }

    /// Makes at least `wanted` (at most 32) bits ready.
    fn need(&mut self, wanted: u32, raw: &dyn Bytes) -> Result<()> {
        while self.bits.count < wanted {
            let [byte] = self.input.take::<1>(raw, "a deflate block header")?;
            self.bits.put(byte);
        }
        Ok(())
    }

    fn get(&mut self, bits: u32) -> u32 {
        let value = (self.bits.bits & ((1 << bits) - 1)) as u32;
        self.bits.drop(bits);
        value
    }

    fn read_header(&mut self, raw: &dyn Bytes) -> Result<()> {
        let outcome = self.parse_header(raw);
        // The inner loop may have read ahead zeroes that are not there.
        if self.input.ended && self.input.at - (self.bits.count / 8) as usize > self.input.end {
            self.input.at = self.input.end;
            return Err(self.input.truncated("a deflate block header"));
        }
        outcome
    }

    fn parse_header(&mut self, raw: &dyn Bytes) -> Result<()> {
        self.header = self.position();
        self.need(3, raw)?;
        self.last = self.get(1) == 1;
        self.state = match self.get(2) {
            0 => {
                self.align();
                let [a, b, c, d] = self.input.take::<4>(raw, "a deflate block header")?;
                let length = u16::from_le_bytes([a, b]);
                if length != !u16::from_le_bytes([c, d]) {
                    return Err(damaged("a stored deflate block has a bad length"));
                }
                match length {
                    0 => self.after_block(),
                    n => State::Stored { left: n.into() },
                }
            }
            1 => {
                if !self.fixed {
                    let mut lengths = [8; 288];
                    lengths[144..256].fill(9);
                    lengths[256..280].fill(7);
                    self.build_tables(&lengths, &[5; 32])?;
                    self.fixed = true;
                }
                State::Codes
            }
            2 => {
                self.read_codes(raw)?;
                State::Codes
            }
            _ => return Err(damaged("a deflate block has no valid type")),
        };
        Ok(())
    }

    fn build_tables(&mut self, literals: &[u8], distances: &[u8]) -> Result<()> {
        let kind = usize::from(self.deflate64);
        self.fixed = false;
        self.literals
            .build(literals, &LITERALS[kind])
            .and_then(|()| self.distances.build(distances, &DISTANCES[kind]))
            .ok_or_else(|| damaged("a deflate block has invalid code lengths"))
    }

    /// The code lengths of a dynamic block (RFC 1951, 3.2.7).
    fn read_codes(&mut self, raw: &dyn Bytes) -> Result<()> {
        const ORDER: [u8; 19] = [
            16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
        ];
        let invalid = || damaged("a deflate block has invalid code lengths");
        self.need(14, raw)?;
        let literals = self.get(5) as usize + 257;
        let distances = self.get(5) as usize + 1;
        let codes = self.get(4) as usize + 4;
        if literals > 286 || (distances > 30 && !self.deflate64) {
            return Err(invalid());
        }
        let mut lengths = [0u8; 19];
        for &symbol in &ORDER[..codes] {
            self.need(3, raw)?;
            lengths[usize::from(symbol)] = self.get(3) as u8;
        }
        let mut table = Table::<128>::new();
        table.build(&lengths, &PLAIN).ok_or_else(invalid)?;
        let mut lengths = [0u8; 288 + 32];
        let total = literals + distances;
        let mut at = 0;
        while at < total {
            // At the very end of the input fewer bits than asked for may be there.
            let ready = self.need(7 + 7, raw);
            let entry = table.root(self.bits.bits);
            let length = entry & 0xff;
            if entry & tables::SPECIAL != 0 {
                return Err(invalid());
            }
            let symbol = entry >> 16;
            let (extra, first) = match symbol {
                16 => (2, 3),
                17 => (3, 3),
                18 => (7, 11),
                _ => (0, 1),
            };
            if length + extra > self.bits.count {
                ready?;
            }
            self.get(length);
            let repeat = (first + self.get(extra)) as usize;
            let value = match symbol {
                0..16 => symbol as u8,
                16 => *lengths[..at].last().ok_or_else(invalid)?,
                _ => 0,
            };
            if at + repeat > total {
                return Err(invalid());
            }
            lengths[at..at + repeat].fill(value);
            at += repeat;
        }
        if lengths[256] == 0 {
            return Err(damaged("a deflate block has no code for its end"));
        }
        self.build_tables(&lengths[..literals], &lengths[literals..total])
    }
}
