//! Bits, most significant first.

use crate::archive::{bytes::Bytes, codec::input::Input};
use culvert::Result;

/// An input of bits.
pub struct Bits {
    pub input: Input,
    /// The next bits, from the top; those behind `count` repeat what follows in the input.
    bits: u64,
    count: u32,
}

impl Bits {
    /// Starts where `input` stands.
    pub fn new(input: Input) -> Self {
        Self {
            input,
            bits: 0,
            count: 0,
        }
    }

    /// Goes on at bit `position` of the archive.
    pub fn seek(&mut self, position: u64, raw: &dyn Bytes) -> Result<()> {
        self.input.seek(position / 8);
        (self.bits, self.count) = (0, 0);
        self.get((position % 8) as u32, raw).map(drop)
    }

    /// Bit position in the archive.
    pub fn position(&self) -> u64 {
        self.input.position() * 8 - u64::from(self.count)
    }

    /// Makes 56 bits ready, zeroes behind the end of the input.
    #[inline(always)]
    fn refill(&mut self, raw: &dyn Bytes) -> Result<()> {
        if self.input.end.saturating_sub(self.input.at) < 8 {
            self.input.fill(raw, 1024)?;
        }
        let rest = self.input.buffer.get(self.input.at..);
        let word = rest.and_then(|rest| rest.first_chunk::<8>());
        self.bits |= word.map_or(0, |word| u64::from_be_bytes(*word)) >> self.count;
        self.input.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
        if self.input.ended && self.input.at - (self.count / 8) as usize > self.input.end {
            self.input.at = self.input.end;
            return Err(self.input.truncated("a bzip2 block"));
        }
        Ok(())
    }

    /// The next 20 bits, at the top of 32, to look a code up with; then [`Bits::drop`].
    #[inline(always)]
    pub fn peek(&mut self, raw: &dyn Bytes) -> Result<u32> {
        if self.count < 20 {
            self.refill(raw)?;
        }
        Ok((self.bits >> 32) as u32)
    }

    /// Drops `count` bits that were looked at.
    #[inline(always)]
    pub fn drop(&mut self, count: u32) {
        self.bits <<= count;
        self.count -= count;
    }

    /// The next `count` bits, at most 48.
    pub fn get(&mut self, count: u32, raw: &dyn Bytes) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        if self.count < count {
            self.refill(raw)?;
        }
        let value = self.bits >> (64 - count);
        self.drop(count);
        Ok(value)
    }

    /// Goes to the next whole byte, gives back to the input what was read ahead.
    pub fn align(&mut self) {
        self.input.at -= (self.count / 8) as usize;
        self.bits = 0;
        self.count = 0;
    }
}
