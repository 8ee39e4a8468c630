//! The inner loop: symbols to bytes.

use super::{
    Inflate,
    tables::{DISTANCE_BITS, END, INVALID, LITERAL, SPECIAL, Table},
    window::{OVERSHOOT, copy_match},
};
use crate::archive::codec::{damaged, input::Input};

type Distances = Table<{ 1 << DISTANCE_BITS }>;

/// Input that one round of the fast loop may load: two refills of at most seven bytes, each loading
/// eight.
const FAST_INPUT: usize = 7 + 7 + 8;
/// Output that one round may write: three literals and the longest match of deflate.
const FAST_OUTPUT: usize = 3 + 258;

/// Bits read ahead.
#[derive(Clone, Copy, Default)]
pub struct Bits {
    /// The next bits; those above `count` repeat what follows in the input.
    pub bits: u64,
    pub count: u32,
}

impl Bits {
    /// Adds the next byte of the input.
    pub fn put(&mut self, byte: u8) {
        // Above `count` the same bits may stand already.
        self.bits |= u64::from(byte) << self.count;
        self.count += 8;
    }

    /// Drops `count` bits, of which the lower eight bits count.
    #[inline(always)]
    pub fn drop(&mut self, count: u32) {
        self.bits >>= count & 0xff;
        self.count -= count & 0xff;
    }

    /// Loads eight bytes and counts those that fit; the bits of the next one stand above `count`
    /// and are loaded again, alike.
    #[inline(always)]
    fn refill(&mut self, source: &[u8], at: &mut usize) {
        let word = match source[*at..].first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => 0,
        };
        self.bits |= word << self.count;
        *at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
    }

    /// The entry behind the pointer `entry`.
    #[inline(always)]
    fn follow<const ROOT: usize>(&mut self, table: &Table<ROOT>, entry: u32) -> u32 {
        let behind = table.behind(entry, self.bits);
        self.drop(entry);
        behind
    }

    /// The value of the base `entry`, with its extra bits, which follow its code.
    #[inline(always)]
    fn value(&mut self, entry: u32) -> usize {
        let bits = self.bits & ((1u64 << (entry & 0xff)) - 1);
        self.drop(entry);
        (entry >> 16) as usize + (bits >> (entry >> 8 & 0x1f)) as usize
    }

    /// The distance of a match, at least 1 and at most `most`.
    #[inline(always)]
    fn distance(&mut self, table: &Distances, most: usize) -> Result<usize, &'static str> {
        let mut entry = table.root(self.bits);
        if entry & SPECIAL != 0 {
            if entry & END == 0 {
                entry = self.follow(table, entry);
            }
            if entry & SPECIAL != 0 {
                return Err("a deflate block has an invalid distance code");
            }
        }
        match self.value(entry) {
            distance if distance <= most => Ok(distance),
            _ => Err("a deflate match reaches before the start of the data"),
        }
    }
}

impl Inflate {
    /// Decodes until the limit (false), the end of the block (true), or until more input must be
    /// read (false).
    pub(super) fn decode<const TRACK: bool>(&mut self, limit: usize) -> culvert::Result<bool> {
        let outcome = self.symbols::<TRACK>(limit);
        let Input { at, end, ended, .. } = self.input;
        // What was read past the end of the input are zeroes that are not there.
        if ended && at - (self.bits.count / 8) as usize > end {
            self.input.at = end;
            return Err(self.input.truncated("a deflate block"));
        }
        outcome.map_err(damaged)
    }

    fn symbols<const TRACK: bool>(&mut self, limit: usize) -> Result<bool, &'static str> {
        let Self {
            input,
            window,
            literals,
            distances,
            tracker,
            ..
        } = self;
        let (mut bits, mut from) = (self.bits, input.at);
        let (source, end) = (&input.buffer[..], input.end);
        let (begin, floor) = (window.at, window.floor);
        let buffer = &mut window.buffer[..limit + OVERSHOOT];
        let mut to = begin;
        let mut result = Ok(false);

        // Room for whole rounds on both sides.
        let fast_input = end.saturating_sub(FAST_INPUT);
        let fast_output = limit.saturating_sub(FAST_OUTPUT);
        while from <= fast_input && to < fast_output && !self.deflate64 {
            bits.refill(source, &mut from);
            let mut entry = literals.root(bits.bits);
            // Two literals take at most 22 of 56 bits, so a third code and a length's extra bits
            // are there as well.
            if entry & LITERAL != 0 {
                let Some(room) = buffer[to..].first_chunk_mut::<3>() else {
                    break;
                };
                bits.drop(entry);
                room[0] = (entry >> 16) as u8;
                entry = literals.root(bits.bits);
                to += 1;
                if entry & LITERAL != 0 {
                    bits.drop(entry);
                    room[1] = (entry >> 16) as u8;
                    entry = literals.root(bits.bits);
                    to += 1;
                    if entry & LITERAL != 0 {
                        bits.drop(entry);
                        room[2] = (entry >> 16) as u8;
                        to += 1;
                        continue;
                    }
                }
            }
            if entry & SPECIAL != 0 {
                if entry & END == 0 {
                    entry = bits.follow(literals, entry);
                    if entry & LITERAL != 0 {
                        bits.drop(entry);
                        buffer[to] = (entry >> 16) as u8;
                        to += 1;
                        continue;
                    }
                }
                if entry & SPECIAL != 0 {
                    result = at_end(&mut bits, entry);
                    break;
                }
            }
            let length = bits.value(entry);
            bits.refill(source, &mut from);
            let distance = match bits.distance(distances, to - floor) {
                Ok(distance) => distance,
                Err(cause) => {
                    result = Err(cause);
                    break;
                }
            };
            if TRACK && let Some(tracker) = tracker {
                tracker.mark(to - begin, distance, length);
            }
            copy_match(buffer, to, distance, length);
            to += length;
        }

        // One symbol at a time, near the ends of input or output.
        while matches!(result, Ok(false)) && to < limit && (from + 16 <= end || input.ended) {
            bits.refill(source, &mut from);
            let mut entry = literals.root(bits.bits);
            if entry & (LITERAL | SPECIAL | END) == SPECIAL {
                entry = bits.follow(literals, entry);
            }
            if entry & LITERAL != 0 {
                bits.drop(entry);
                buffer[to] = (entry >> 16) as u8;
                to += 1;
            } else if entry & SPECIAL != 0 {
                result = at_end(&mut bits, entry);
            } else {
                let length = bits.value(entry);
                bits.refill(source, &mut from);
                match bits.distance(distances, to - floor) {
                    Ok(distance) => {
                        let now = length.min(limit - to);
                        if TRACK && let Some(tracker) = tracker {
                            tracker.mark(to - begin, distance, now);
                        }
                        for i in to..to + now {
                            buffer[i] = buffer[i - distance];
                        }
                        to += now;
                        self.pending = (length - now, distance);
                    }
                    Err(cause) => result = Err(cause),
                }
            }
            if input.ended && from - (bits.count / 8) as usize > end {
                break;
            }
        }

        self.bits = bits;
        input.at = from;
        window.at = to;
        result
    }
}

/// What the `entry` of a literal table that is neither literal nor length means: the block's end.
#[inline(always)]
fn at_end(bits: &mut Bits, entry: u32) -> Result<bool, &'static str> {
    if entry & INVALID == INVALID {
        return Err("a deflate block has an invalid code");
    }
    bits.drop(entry);
    Ok(true)
}
