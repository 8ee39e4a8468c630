//! The inner loop: symbols to bytes.

use super::{
    Inflate,
    tables::{END, INVALID, LITERAL, SPECIAL},
    window::{OVERSHOOT, Window, copy_match},
};
use crate::archive::codec::{damaged, input::Input};
use culvert::Result;

/// Input that one round of the fast loop may load: two refills of at most seven bytes, each loading
/// eight.
const FAST_INPUT: usize = 7 + 7 + 8;
/// Output that one round may write: three literals and the longest match of deflate.
const FAST_OUTPUT: usize = 3 + 258;

macro_rules! refill {
    ($bits:ident, $count:ident, $buffer:ident, $at:ident) => {
        // Loads eight bytes and counts those that fit; the bits of the next one stand above `count`
        // and are loaded again, alike.
        let word = match $buffer[$at..].first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => 0,
        };
        $bits |= word << $count;
        $at += ((63 - $count) >> 3) as usize;
        $count |= 56;
    };
}

impl Inflate {
    /// Decodes until the limit (false), the end of the block (true), or until more input must be
    /// read (false).
    pub(super) fn decode<const TRACK: bool>(
        &mut self,
        input: &mut Input,
        window: &mut Window,
        limit: usize,
    ) -> Result<bool> {
        let (mut bits, mut count) = (self.bits, self.count);
        let Input {
            buffer: source,
            at,
            end,
            ended,
            ..
        } = input;
        let (mut from, end, ended) = (*at, *end, *ended);
        let source = &source[..];
        let floor = window.floor;
        let begin = window.at;
        let mut to = begin;
        let buffer = &mut window.buffer[..limit + OVERSHOOT];
        let mut result = Ok(false);

        // Room for whole rounds on both sides.
        let fast_input = end.saturating_sub(FAST_INPUT);
        let fast_output = limit.saturating_sub(FAST_OUTPUT);
        'fast: while from <= fast_input && to < fast_output && !self.deflate64 {
            refill!(bits, count, source, from);
            let mut entry = self.literals.root(bits);
            // Two literals take at most 22 of 56 bits, so a third code and a length's extra bits
            // are there as well.
            if entry & LITERAL != 0 {
                let Some(room) = buffer[to..].first_chunk_mut::<3>() else {
                    break;
                };
                bits >>= entry & 0xff;
                count -= entry & 0xff;
                room[0] = (entry >> 16) as u8;
                entry = self.literals.root(bits);
                to += 1;
                if entry & LITERAL != 0 {
                    bits >>= entry & 0xff;
                    count -= entry & 0xff;
                    room[1] = (entry >> 16) as u8;
                    entry = self.literals.root(bits);
                    to += 1;
                    if entry & LITERAL != 0 {
                        bits >>= entry & 0xff;
                        count -= entry & 0xff;
                        room[2] = (entry >> 16) as u8;
                        to += 1;
                        continue;
                    }
                }
            }
            if entry & SPECIAL != 0 {
                if entry & END == 0 {
                    let pointed = self.literals.behind(entry, bits);
                    bits >>= entry & 0xff;
                    count -= entry & 0xff;
                    entry = pointed;
                    if entry & LITERAL != 0 {
                        bits >>= entry & 0xff;
                        count -= entry & 0xff;
                        buffer[to] = (entry >> 16) as u8;
                        to += 1;
                        continue;
                    }
                }
                if entry & SPECIAL != 0 {
                    if entry & INVALID == INVALID {
                        result = Err("a deflate block has an invalid code");
                    } else {
                        bits >>= entry & 0xff;
                        count -= entry & 0xff;
                        result = Ok(true);
                    }
                    break 'fast;
                }
            }
            let length = (entry >> 16) as usize + extra(bits, entry);
            bits >>= entry & 0xff;
            count -= entry & 0xff;

            refill!(bits, count, source, from);
            let mut entry = self.distances.root(bits);
            if entry & SPECIAL != 0 {
                if entry & END == 0 {
                    let pointed = self.distances.behind(entry, bits);
                    bits >>= entry & 0xff;
                    count -= entry & 0xff;
                    entry = pointed;
                }
                if entry & SPECIAL != 0 {
                    result = Err("a deflate block has an invalid distance code");
                    break 'fast;
                }
            }
            let distance = (entry >> 16) as usize + extra(bits, entry);
            bits >>= entry & 0xff;
            count -= entry & 0xff;
            if distance > to - floor {
                result = Err("a deflate match reaches before the start of the data");
                break 'fast;
            }
            if TRACK && let Some(tracker) = &mut self.tracker {
                tracker.mark(to - begin, distance, length);
            }
            copy_match(buffer, to, distance, length);
            to += length;
        }

        // One symbol at a time, near the ends of input or output.
        while let Ok(false) = result {
            if to >= limit || (end.saturating_sub(from) < 16 && !ended) {
                break;
            }
            refill!(bits, count, source, from);
            let mut entry = self.literals.root(bits);
            if entry & (LITERAL | SPECIAL | END) == SPECIAL {
                let pointed = self.literals.behind(entry, bits);
                bits >>= entry & 0xff;
                count -= entry & 0xff;
                entry = pointed;
            }
            if entry & LITERAL == 0 && entry & INVALID == INVALID {
                result = Err("a deflate block has an invalid code");
                break;
            }
            let value = (entry >> 16) as usize;
            let length = value + extra(bits, entry);
            bits >>= entry & 0xff;
            count -= entry & 0xff;
            if entry & LITERAL != 0 {
                buffer[to] = value as u8;
                to += 1;
            } else if entry & SPECIAL != 0 {
                result = Ok(true);
            } else {
                refill!(bits, count, source, from);
                let mut entry = self.distances.root(bits);
                if entry & (SPECIAL | END) == SPECIAL {
                    let pointed = self.distances.behind(entry, bits);
                    bits >>= entry & 0xff;
                    count -= entry & 0xff;
                    entry = pointed;
                }
                if entry & SPECIAL != 0 {
                    result = Err("a deflate block has an invalid distance code");
                    break;
                }
                let distance = (entry >> 16) as usize + extra(bits, entry);
                bits >>= entry & 0xff;
                count -= entry & 0xff;
                if distance > to - floor {
                    result = Err("a deflate match reaches before the start of the data");
                    break;
                }
                let now = length.min(limit - to);
                if TRACK && let Some(tracker) = &mut self.tracker {
                    tracker.mark(to - begin, distance, now);
                }
                for i in to..to + now {
                    buffer[i] = buffer[i - distance];
                }
                to += now;
                self.pending = (length - now, distance);
            }
            // What was read past the end of the input are zeroes that are not there.
            if ended && from - (count / 8) as usize > end {
                result = Err("");
                break;
            }
        }

        self.bits = bits;
        self.count = count;
        *at = from;
        window.at = to;
        match result {
            Ok(ended) => Ok(ended),
            Err("") => {
                *at = end;
                Err(input.truncated("a deflate block"))
            }
            Err(cause) => Err(damaged(cause)),
        }
    }
}

/// The extra bits of `entry`, which follow its code.
#[inline(always)]
fn extra(bits: u64, entry: u32) -> usize {
    ((bits & ((1u64 << (entry & 0xff)) - 1)) >> (entry >> 8 & 0x1f)) as usize
}
