//! Decoding tables of deflate's prefix codes (RFC 1951, 3.2).
//!
//! An entry tells in one 32-bit word what the next bits mean:
//!
//! ```text
//! literal   31: 1   16..24: the byte     8..15: length of code   0..8: length of the code
//! base      15: 0   16..32: base value   8..15: length of code   0..8: length of code and extra bits
//! pointer   15: 1   16..31: start in `longer`   8..12: its index bits   0..8: root bits
//! end       15: 1, 14: 1                                         0..8: length of the code
//! invalid   15: 1, 14: 1, 8: 1
//! ```
//!
//! (Bases of lengths are below 0x8000, so bit 31 tells them from literals; a table of distances has
//! no literals.) Codes longer than the root index go on in a second table (`longer`).

/// In a table of literals: the entry is a literal byte.
pub const LITERAL: u32 = 1 << 31;
/// The entry is neither literal nor base: a pointer, or with [`END`] the end of the block or an
/// error.
pub const SPECIAL: u32 = 1 << 15;
/// With [`SPECIAL`]: end of the block, or, with bit 8, a code that must not occur.
pub const END: u32 = 1 << 14;
/// A code that must not occur.
pub const INVALID: u32 = SPECIAL | END | 0x100;

/// Longest code, bits.
const LONGEST: usize = 15;

/// Bits of the root index of literal and length codes.
pub const LITERAL_BITS: u32 = 11;
/// Bits of the root index of distance codes.
pub const DISTANCE_BITS: u32 = 9;

/// The tables of one alphabet: a root of `1 << BITS` entries and second-level tables.
pub struct Table<const ROOT: usize> {
    /// Indexed by the next bits.
    pub root: [u32; ROOT],
    /// Second-level tables. A complete code of 288 symbols needs at most 57 tables of 16; one of 32
    /// at most 4 of 64.
    longer: [u32; 1024],
}

impl<const ROOT: usize> Table<ROOT> {
    const BITS: u32 = ROOT.trailing_zeros();

    pub const fn new() -> Self {
        Self {
            root: [INVALID; ROOT],
            longer: [INVALID; 1024],
        }
    }

    /// The entry for the next bits.
    #[inline(always)]
    pub fn root(&self, bits: u64) -> u32 {
        self.root[bits as usize & (ROOT - 1)]
    }

    /// The entry behind a pointer.
    #[inline(always)]
    pub fn behind(&self, pointer: u32, bits: u64) -> u32 {
        let index = (bits >> Self::BITS) as usize & ((1 << (pointer >> 8 & 15)) - 1);
        self.longer[((pointer >> 16) as usize + index) & 1023]
    }

    /// Builds the tables for code `lengths` (0: unused); `meaning[symbol]` is an entry without
    /// lengths, its extra bits in 0..8. None when the lengths are no prefix code. Incomplete codes
    /// are refused as zlib does: but for one code of one bit, and none at all.
    pub fn build(&mut self, lengths: &[u8], meaning: &[u32]) -> Option<()> {
        let mut counts = [0u16; LONGEST + 1];
        for &length in lengths {
            counts[length as usize & 15] += 1;
        }
        counts[0] = 0;
        let mut left = 1i32;
        let mut longest = 0;
        let mut starts = [0u16; LONGEST + 2];
        for length in 1..=LONGEST {
            left = (left << 1) - i32::from(counts[length]);
            if left < 0 {
                return None;
            }
            if counts[length] != 0 {
                longest = length;
            }
            starts[length + 1] = starts[length] + counts[length];
        }
        if left > 0 {
            if longest > 1 {
                return None;
            }
            self.root.fill(INVALID);
        }
        let used = usize::from(starts[LONGEST + 1]);
        let mut sorted = [0u16; 320];
        for (symbol, &length) in lengths.iter().enumerate() {
            if length != 0 {
                let slot = &mut starts[length as usize & 15];
                sorted[usize::from(*slot)] = symbol as u16;
                *slot += 1;
            }
        }
        // Codes in order of length and symbol; `code` is kept bit-reversed, as the stream has it.
        let mut code = 0usize;
        let mut free = 0usize;
        let (mut prefix, mut start, mut width) = (usize::MAX, 0usize, 0u32);
        let mut index = 0;
        for length in 1..=longest as u32 {
            for _ in 0..counts[length as usize] {
                debug_assert!(index < used);
                let symbol = usize::from(sorted[index]);
                index += 1;
                let plain = meaning[symbol];
                let entry = |length: u32| {
                    if plain & SPECIAL != 0 {
                        plain | length
                    } else {
                        plain + (length << 8) + length
                    }
                };
                if length <= Self::BITS {
                    let entry = entry(length);
                    let mut slot = code;
                    while slot < ROOT {
                        self.root[slot] = entry;
                        slot += 1 << length;
                    }
                } else {
                    if code & (ROOT - 1) != prefix {
                        prefix = code & (ROOT - 1);
                        start = free;
                        width = length - Self::BITS;
                        // As many codes as remain of each length, until the second level is full.
                        let mut room = (1i32 << width)
                            - (i32::from(starts[length as usize]) - index as i32 + 1);
                        while room > 0 && (width + Self::BITS) < longest as u32 {
                            width += 1;
                            room = (room << 1) - i32::from(counts[(width + Self::BITS) as usize]);
                        }
                        free += 1 << width;
                        if free > self.longer.len() {
                            return None;
                        }
                        self.root[prefix] =
                            SPECIAL | (start as u32) << 16 | width << 8 | Self::BITS;
                    }
                    // The root bits are consumed by the pointer, the rest by the entry.
                    let entry = entry(length - Self::BITS);
                    let mut slot = code >> Self::BITS;
                    while slot < 1 << width {
                        self.longer[start + slot] = entry;
                        slot += 1 << (length - Self::BITS);
                    }
                }
                // Next code: add one to the bit-reversed number of `length` bits.
                let mut bit = 1usize << (length - 1);
                while code & bit != 0 {
                    code ^= bit;
                    bit >>= 1;
                }
                code |= bit;
            }
        }
        Some(())
    }
}

const fn base(value: u32, extra: u32) -> u32 {
    value << 16 | extra
}

const fn literals(deflate64: bool) -> [u32; 288] {
    let mut table = [INVALID; 288];
    let mut i = 0;
    while i < 256 {
        table[i] = LITERAL | (i as u32) << 16;
        i += 1;
    }
    table[256] = SPECIAL | END;
    // Lengths 3 to 10 by themselves, then four codes for each number of extra bits (RFC 1951,
    // 3.2.5).
    let mut value = 3;
    let mut symbol = 257;
    while symbol < 285 {
        let extra = if symbol < 265 { 0 } else { (symbol - 261) / 4 };
        table[symbol] = base(value, extra as u32);
        value += 1 << extra;
        symbol += 1;
    }
    table[285] = if deflate64 { base(3, 16) } else { base(258, 0) };
    table
}

const fn distances(deflate64: bool) -> [u32; 32] {
    let mut table = [INVALID; 32];
    let mut value = 1;
    let mut symbol = 0;
    while symbol < if deflate64 { 32 } else { 30 } {
        let extra = if symbol < 4 { 0 } else { symbol / 2 - 1 };
        table[symbol] = base(value, extra as u32);
        value += 1 << extra;
        symbol += 1;
    }
    table
}

/// Literals, end of block and lengths of deflate, and of deflate64, whose code 285 has 16 extra
/// bits on base 3.
pub static LITERALS: [[u32; 288]; 2] = [literals(false), literals(true)];
/// Distances of deflate (30 codes) and deflate64 (32).
pub static DISTANCES: [[u32; 32]; 2] = [distances(false), distances(true)];

/// What the codes of the code-length alphabet mean: the symbol as base.
pub static PLAIN: [u32; 19] = {
    let mut table = [0; 19];
    let mut i = 0;
    while i < 19 {
        table[i] = (i as u32) << 16;
        i += 1;
    }
    table
};
