//! Plain bytes as a decoder produces them: the history that matches refer to, and behind it what
//! was not handed out yet.

use alloc::{vec, vec::Vec};

/// Bytes that a match copy may write past the end of its match.
pub const OVERSHOOT: usize = 32;

/// A buffer whose last `history` bytes stay when it is emptied.
pub struct Window {
    /// Fields are open to the decoders' inner loops: history, then new bytes up to `at`.
    pub buffer: Vec<u8>,
    /// Where the next byte goes.
    pub at: usize,
    /// Where the present member starts, or 0 when farther back: no match reaches before it.
    pub floor: usize,
    /// First byte not handed out.
    start: usize,
    /// Longest distance back.
    pub history: usize,
}

impl Window {
    /// For distances of up to `history` and up to `room` new bytes at once.
    pub fn new(history: usize, room: usize) -> Self {
        Self {
            buffer: vec![0; history + room + OVERSHOOT],
            at: 0,
            floor: 0,
            start: 0,
            history,
        }
    }

    /// Starts anew with `bytes`, at most `history` of them, as what came before.
    pub fn reset(&mut self, bytes: &[u8]) {
        self.buffer[..bytes.len()].copy_from_slice(bytes);
        self.at = bytes.len();
        self.start = self.at;
        self.floor = 0;
    }

    /// Drops what was handed out, but for the history, unless `wanted` new bytes fit as it is.
    /// Returns the limit of `at` for as many new bytes, fewer when the buffer is smaller.
    pub fn make_room(&mut self, wanted: usize) -> usize {
        let capacity = self.buffer.len() - OVERSHOOT;
        if self.start == self.at && wanted > capacity - self.at {
            let keep = self.history.min(self.at);
            let from = self.at - keep;
            self.buffer.copy_within(from..self.at, 0);
            self.at = keep;
            self.start = keep;
            self.floor = self.floor.saturating_sub(from);
        }
        capacity.min(self.start.saturating_add(wanted))
    }

    /// Hands out what is new.
    pub fn hand_out(&mut self) -> &[u8] {
        let start = core::mem::replace(&mut self.start, self.at);
        &self.buffer[start..self.at]
    }

    /// What is new.
    pub fn fresh(&self) -> &[u8] {
        &self.buffer[self.start..self.at]
    }

    /// The last `count` bytes.
    pub fn last(&self, count: usize) -> &[u8] {
        &self.buffer[self.at - count..self.at]
    }

    /// A member starts here: no match reaches farther back.
    pub fn forget(&mut self) {
        self.floor = self.at;
    }

    /// Up to `history` bytes before `at`, those of earlier members left out.
    pub fn past(&self) -> &[u8] {
        &self.buffer[self.floor.max(self.at.saturating_sub(self.history))..self.at]
    }

    /// Heap held, bytes.
    pub fn memory(&self) -> usize {
        self.buffer.len()
    }
}

/// Copies the match of `length` bytes, `distance` back from `at`. The caller has checked that `1 <=
/// distance <= at` and that `length + OVERSHOOT` bytes fit; up to [`OVERSHOOT`] bytes behind the
/// match are overwritten.
#[inline(always)]
pub fn copy_match(buffer: &mut [u8], at: usize, distance: usize, length: usize) {
    let end = at + length;
    let (mut from, mut to) = (at - distance, at);
    if distance >= 16 {
        // Most matches are short.
        step::<16>(buffer, from, to);
        while to + 16 < end {
            from += 16;
            to += 16;
            step::<16>(buffer, from, to);
        }
        return;
    }
    if distance == 1 {
        let byte = buffer[from];
        buffer[at..end].fill(byte);
        return;
    }
    // A multiple of the distance is a distance too, once that much of the pattern is written.
    let mut period = distance;
    while period < 8 {
        for _ in 0..distance {
            buffer[to] = buffer[from];
            from += 1;
            to += 1;
        }
        period += distance;
    }
    from = to - period;
    while to < end {
        step::<8>(buffer, from, to);
        from += 8;
        to += 8;
    }
}

#[inline(always)]
fn step<const N: usize>(buffer: &mut [u8], from: usize, to: usize) {
    let mut block = [0; N];
    block.copy_from_slice(&buffer[from..from + N]);
    buffer[to..to + N].copy_from_slice(&block);
}
