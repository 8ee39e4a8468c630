//! Bits, most significant first.

use crate::archive::{bytes::Bytes, codec::input::Input};
use culvert::Result;

/// Bits read ahead of an [`Input`].
pub struct Bits {
    /// The next bits, from the top; those behind `count` repeat what follows in the input.
    bits: u64,
    count: u32,
}

impl Bits {
    /// Starts at bit `position` of the archive.
    pub fn seek(position: u64, input: &mut Input, raw: &dyn Bytes) -> Result<Self> {
        input.seek(position / 8);
        let mut bits = Self { bits: 0, count: 0 };
        bits.get((position % 8) as u32, input, raw)?;
        Ok(bits)
    }

    /// Bit position in the archive.
    pub fn position(&self, input: &Input) -> u64 {
        input.position() * 8 - u64::from(self.count)
    }

    /// Makes 56 bits ready, zeroes behind the end of the input.
    #[inline(always)]
    fn refill(&mut self, input: &mut Input, raw: &dyn Bytes) -> Result<()> {
        if input.end.saturating_sub(input.at) < 8 {
            input.fill(raw, 1024)?;
        }
        let word = match input
            .buffer
            .get(input.at..)
            .and_then(|b| b.first_chunk::<8>())
        {
            Some(word) => u64::from_be_bytes(*word),
            None => 0,
        };
        self.bits |= word >> self.count;
        input.at += ((63 - self.count) >> 3) as usize;
        self.count |= 56;
        if input.ended && input.at - (self.count / 8) as usize > input.end {
            input.at = input.end;
            return Err(input.truncated("a bzip2 block"));
        }
        Ok(())
    }

    /// The next 20 bits, at the top of 32, to look a code up with; then [`Bits::drop`].
    #[inline(always)]
    pub fn peek(&mut self, input: &mut Input, raw: &dyn Bytes) -> Result<u32> {
        if self.count < 20 {
            self.refill(input, raw)?;
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
    pub fn get(&mut self, count: u32, input: &mut Input, raw: &dyn Bytes) -> Result<u64> {
        if count == 0 {
            return Ok(0);
        }
        if self.count < count {
            self.refill(input, raw)?;
        }
        let value = self.bits >> (64 - count);
        self.drop(count);
        Ok(value)
    }

    /// Goes to the next whole byte, gives back to the input what was read ahead.
    pub fn align(&mut self, input: &mut Input) {
        input.at -= (self.count / 8) as usize;
        self.bits = 0;
        self.count = 0;
    }
}
