//! One bzip2 block: prefix codes, move-to-front, and the inverse Burrows-Wheeler transform.

use super::bits::Bits;
use crate::archive::{bytes::Bytes, codec::damaged};
use alloc::{boxed::Box, vec::Vec};
use culvert::Result;

/// Longest code, bits.
const LONGEST: usize = 20;
/// Bits looked up at once.
const ROOT: u32 = 10;
/// Symbols per selector.
const GROUP: usize = 50;
/// Most selectors that a block can use: more are read and ignored, as bzip2 1.0.8 does.
const SELECTORS: usize = 18_002;
/// Most symbols: 256 bytes, one run symbol more than they have places, end of block.
const SYMBOLS: usize = 258;

/// One of the up to six prefix codes of a block.
struct Code {
    /// By the next [`ROOT`] bits: symbol and length, or 0 when the code is longer.
    root: Box<[u16; 1 << ROOT]>,
    /// For each length: the first code behind those of the length, left-aligned in 32 bits.
    limits: [u64; LONGEST + 1],
    /// For each length: index in `symbols` of its first code, less that code.
    offsets: [i32; LONGEST + 1],
    symbols: [u16; SYMBOLS],
}

impl Code {
    fn new() -> Self {
        Self {
            root: Box::new([0; 1 << ROOT]),
            limits: [0; LONGEST + 1],
            offsets: [0; LONGEST + 1],
            symbols: [0; SYMBOLS],
        }
    }

    /// None when the lengths are over-subscribed. Incomplete codes are met when a code is used that
    /// is none.
    fn build(&mut self, lengths: &[u8]) -> Option<()> {
        self.root.fill(0);
        let (mut code, mut index) = (0u32, 0);
        for length in 1..=LONGEST {
            code <<= 1;
            self.offsets[length] = index as i32 - code as i32;
            for (symbol, _) in lengths
                .iter()
                .enumerate()
                .filter(|&(_, &l)| usize::from(l) == length)
            {
                if code >> length != 0 {
                    return None;
                }
                self.symbols[index] = symbol as u16;
                if let Some(spread) = ROOT.checked_sub(length as u32) {
                    let first = (code << spread) as usize;
                    self.root[first..first + (1 << spread)].fill((symbol << 5 | length) as u16);
                }
                index += 1;
                code += 1;
            }
            self.limits[length] = u64::from(code) << (32 - length);
        }
        Some(())
    }

    #[inline(always)]
    fn decode(&self, bits: &mut Bits, raw: &dyn Bytes) -> Result<usize> {
        let next = bits.peek(raw)?;
        let entry = self.root[(next >> (32 - ROOT)) as usize];
        if entry != 0 {
            bits.drop(u32::from(entry & 31));
            return Ok(usize::from(entry >> 5));
        }
        for length in ROOT as usize + 1..=LONGEST {
            if u64::from(next) < self.limits[length] {
                bits.drop(length as u32);
                let index = (next >> (32 - length)) as i32 + self.offsets[length];
                if let Some(&symbol) = self.symbols.get(index as usize) {
                    return Ok(symbol.into());
                }
            }
        }
        Err(damaged("a bzip2 block has an invalid code"))
    }
}

/// The transformed bytes of a block, and how far they were walked.
pub struct Block {
    /// Per position: the byte there in 0..8, and above it the position that follows.
    links: Vec<u32>,
    codes: Vec<Code>,
    selectors: Vec<u8>,
    /// What is left of the walk: the present link and the number of bytes to come.
    link: u32,
    pub left: usize,
}

impl Block {
    pub fn new() -> Self {
        Self {
            links: Vec::new(),
            codes: Vec::new(),
            selectors: Vec::new(),
            link: 0,
            left: 0,
        }
    }

    /// Heap held when all is in use, bytes.
    pub fn memory(&self) -> usize {
        self.links.capacity() * 4 + self.codes.len() * 3000 + self.selectors.len()
    }

    /// The next byte of the walk; `left` must not be 0.
    #[inline(always)]
    pub fn step(&mut self) -> u8 {
        self.left -= 1;
        self.link = self.links[(self.link >> 8) as usize];
        self.link as u8
    }

    /// Reads the block that starts, behind its magic and CRC, at the next bit, and holds at most
    /// `limit` bytes.
    pub fn read(&mut self, limit: usize, bits: &mut Bits, raw: &dyn Bytes) -> Result<()> {
        if bits.get(1, raw)? == 1 {
            return Err(damaged("a bzip2 block is randomised (bzip2 before 0.9.5)"));
        }
        let origin = bits.get(24, raw)? as usize;
        // Which bytes occur: sixteen ranges, then sixteen bits for each that is there.
        let mut used = [0u8; 256];
        let mut distinct = 0;
        let ranges = bits.get(16, raw)?;
        for range in (0..16).filter(|r| ranges >> (15 - r) & 1 == 1) {
            let map = bits.get(16, raw)?;
            for byte in (0..16).filter(|b| map >> (15 - b) & 1 == 1) {
                used[distinct] = (range * 16 + byte) as u8;
                distinct += 1;
            }
        }
        if distinct == 0 {
            return Err(damaged("a bzip2 block has no bytes"));
        }
        self.read_codes(distinct + 2, bits, raw)?;
        self.read_symbols(&mut used, distinct, limit, bits, raw)?;
        self.invert(origin)
    }

    fn read_codes(&mut self, symbols: usize, bits: &mut Bits, raw: &dyn Bytes) -> Result<()> {
        let groups = bits.get(3, raw)? as usize;
        let selectors = bits.get(15, raw)? as usize;
        if !(2..=6).contains(&groups) || selectors == 0 {
            return Err(damaged("a bzip2 block has an invalid number of codes"));
        }
        self.selectors.clear();
        let mut order = [0, 1, 2, 3, 4, 5];
        for _ in 0..selectors {
            let mut index = 0;
            while bits.get(1, raw)? == 1 {
                index += 1;
                if index == groups {
                    return Err(damaged("a bzip2 block has an invalid selector"));
                }
            }
            order[..=index].rotate_right(1);
            if self.selectors.len() < SELECTORS {
                self.selectors.push(order[0]);
            }
        }
        while self.codes.len() < groups {
            self.codes.push(Code::new());
        }
        for code in &mut self.codes[..groups] {
            let mut lengths = [0; SYMBOLS];
            let mut length = bits.get(5, raw)? as usize;
            for slot in &mut lengths[..symbols] {
                loop {
                    if !(1..=LONGEST).contains(&length) {
                        return Err(damaged("a bzip2 block has an invalid code length"));
                    }
                    if bits.get(1, raw)? == 0 {
                        break;
                    }
                    match bits.get(1, raw)? {
                        0 => length += 1,
                        _ => length -= 1,
                    }
                }
                *slot = length as u8;
            }
            code.build(&lengths[..symbols])
                .ok_or_else(|| damaged("a bzip2 block has invalid code lengths"))?;
        }
        Ok(())
    }

    fn read_symbols(
        &mut self,
        front: &mut [u8; 256],
        distinct: usize,
        limit: usize,
        bits: &mut Bits,
        raw: &dyn Bytes,
    ) -> Result<()> {
        let long = || damaged("a bzip2 block is longer than its level allows");
        self.links.clear();
        self.links.reserve_exact(limit);
        // A run in the making: its length and the weight of the next digit (bijective base 2).
        let (mut run, mut weight) = (0usize, 1usize);
        for &selector in &self.selectors {
            let code = &self.codes[usize::from(selector)];
            for _ in 0..GROUP {
                let symbol = code.decode(bits, raw)?;
                if symbol < 2 {
                    run += weight << symbol;
                    weight <<= 1;
                    if run > limit - self.links.len() {
                        return Err(long());
                    }
                    continue;
                }
                if run > 0 {
                    let byte = u32::from(front[0]);
                    self.links.resize(self.links.len() + run, byte);
                    (run, weight) = (0, 1);
                }
                if symbol == distinct + 1 {
                    return Ok(());
                }
                if self.links.len() == limit {
                    return Err(long());
                }
                let byte = front[symbol - 1];
                front.copy_within(..symbol - 1, 1);
                front[0] = byte;
                self.links.push(byte.into());
            }
        }
        Err(damaged("a bzip2 block has too few selectors"))
    }

    /// Links every position to the one that follows it in the plain text.
    fn invert(&mut self, origin: usize) -> Result<()> {
        let mut next = [0u32; 256];
        for &byte in &self.links {
            next[byte as usize & 255] += 1;
        }
        let mut sum = 0;
        for slot in &mut next {
            sum += core::mem::replace(slot, sum);
        }
        for position in 0..self.links.len() {
            let slot = &mut next[self.links[position] as usize & 255];
            self.links[*slot as usize] |= (position as u32) << 8;
            *slot += 1;
        }
        match self.links.get(origin) {
            Some(&link) => self.link = link,
            None if self.links.is_empty() => {}
            None => return Err(damaged("a bzip2 block has an invalid origin")),
        }
        self.left = self.links.len();
        Ok(())
    }
}
