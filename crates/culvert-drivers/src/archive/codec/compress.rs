//! What compress(1) makes: LZW (Welch, "A Technique for High-Performance Data Compression", 1984)
//! with codes of 9 to 16 bits, as ncompress writes and reads it.
//!
//! Three bytes, the last of which says the longest code and whether code 256 clears the table; then
//! codes, lowest bit first, in groups of eight of the same length. Where the length changes, or the
//! table is cleared, the rest of the group is left out. There is neither a length nor a checksum:
//! of a file that was cut nothing is seen, but that codes are missing.
//!
//! It is decoded from its start, and spooled.

use super::{
    Format, Options, checkpoints::Checkpoints, damaged, decoder::Decoder, input::Input,
    spool::Spooler,
};
use crate::archive::bytes::Bytes;
use alloc::{vec, vec::Vec};
use culvert::{Error, Result};

/// Plain bytes handed out at once.
const PIECE: usize = 128 << 10;
/// A file of at least so many plain bytes is spooled.
const SPOOL_FROM: u64 = 2 << 20;
/// What a file begins with.
const MAGIC: [u8; 2] = [0x1f, 0x9d];
/// Bits of the third byte: code 256 clears the table; the longest code; bits that mean nothing yet.
const BLOCKS: u8 = 0x80;
const LONGEST: u8 = 0x1f;
const RESERVED: u8 = 0x60;
/// Shortest code, bits.
const SHORTEST: u32 = 9;
/// The code that clears the table.
const CLEAR: u32 = 256;

/// Whether a file that starts with `prefix` is one.
pub fn detect(prefix: &[u8]) -> bool {
    match prefix {
        [a, b, flags, ..] => {
            [*a, *b] == MAGIC && flags & RESERVED == 0 && matches!(flags & LONGEST, 9..=16)
        }
        _ => false,
    }
}

fn broken(what: &str) -> Error {
    damaged(alloc::format!("the data of compress is damaged: {what}"))
}

/// Decodes from the start of a file.
pub struct Compress {
    input: Input,
    /// Bits of the next byte that are used up.
    bit: u32,
    /// Codes read of the present group.
    read: u32,
    /// Bits of a code now, and at most.
    width: u32,
    longest: u32,
    blocks: bool,
    /// Of each code from 256 on: the code of what comes before its last byte, and that byte.
    before: Vec<u16>,
    last: Vec<u8>,
    /// The next code that gets a meaning.
    free: u32,
    /// The code before, and the first byte of what it stands for.
    previous: Option<(u32, u8)>,
    plain: u64,
    out: Vec<u8>,
    /// How much of `out` is given out.
    given: usize,
}

impl Compress {
    /// Starts at the first byte of `raw`.
    pub fn open(raw: &dyn Bytes) -> Result<Self> {
        let mut head = [0; 3];
        raw.read_exact_at(0, &mut head)?;
        if !detect(&head) {
            return Err(broken("its header is invalid"));
        }
        let blocks = head[2] & BLOCKS != 0;
        let longest = u32::from(head[2] & LONGEST);
        Ok(Self {
            input: Input::new(head.len() as u64, raw.len()),
            bit: 0,
            read: 0,
            width: SHORTEST,
            longest,
            blocks,
            before: vec![0; 1 << longest],
            last: vec![0; 1 << longest],
            free: CLEAR + u32::from(blocks),
            previous: None,
            plain: 0,
            out: Vec::new(),
            given: 0,
        })
    }

    fn available_bits(&self) -> u64 {
        (self.input.available().len() as u64 * 8).saturating_sub(self.bit.into())
    }

    /// The next code, or none at the end: bits that are too few for one are padding.
    fn code(&mut self, raw: &dyn Bytes) -> Result<Option<u32>> {
        if self.available_bits() < self.width.into() {
            self.input.fill(raw, 4096)?;
            if self.available_bits() < self.width.into() {
                return Ok(None);
            }
        }
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(self.input.available().iter().take(3)) {
            *to = *from;
        }
        let code = u32::from_le_bytes(word) >> self.bit & ((1 << self.width) - 1);
        self.pass(self.width);
        self.read = (self.read + 1) % 8;
        Ok(Some(code))
    }

    /// Passes over `bits`, or what is left of the input.
    fn pass(&mut self, bits: u32) {
        let bits = self.bit + bits;
        let (bytes, left) = ((bits / 8) as usize, self.input.available().len());
        self.bit = if bytes < left { bits % 8 } else { 0 };
        self.input.consume(bytes.min(left));
    }

    /// Passes over the rest of a group; codes have `width` bits from here on.
    fn regroup(&mut self, raw: &dyn Bytes, width: u32) -> Result<()> {
        self.input.fill(raw, 4096)?;
        self.pass((8 - self.read) % 8 * self.width);
        (self.read, self.width) = (0, width);
        Ok(())
    }

    /// Decodes one code into `out`; `false` at the end.
    fn step(&mut self, raw: &dyn Bytes) -> Result<bool> {
        // Longer codes than the longest there are not: the table is full by then.
        if self.free >= 1 << self.width && self.width < self.longest {
            self.regroup(raw, self.width + 1)?;
        }
        let Some(code) = self.code(raw)? else {
            return Ok(false);
        };
        if code == CLEAR && self.blocks {
            self.regroup(raw, SHORTEST)?;
            (self.free, self.previous) = (CLEAR + 1, None);
            return Ok(true);
        }
        let start = self.out.len();
        let mut at = match self.previous {
            _ if code < self.free && (code < 256 || self.previous.is_some()) => code,
            // What was before, and its first byte once more.
            Some((previous, first)) if code == self.free && code < 1 << self.longest => {
                self.out.push(first);
                previous
            }
            _ => return Err(broken("a code that means nothing")),
        };
        // Each code but the first 256 leads to a smaller one.
        while at >= 256 {
            self.out.push(self.last[at as usize]);
            at = self.before[at as usize].into();
        }
        let first = at as u8;
        self.out.push(first);
        self.out[start..].reverse();
        if let Some((previous, _)) = self.previous
            && self.free < 1 << self.longest
        {
            self.before[self.free as usize] = previous as u16;
            self.last[self.free as usize] = first;
            self.free += 1;
        }
        self.previous = Some((code, first));
        Ok(true)
    }

    fn raw_position(&self) -> u64 {
        self.input.position()
    }
}

impl Decoder for Compress {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let wanted = wanted.clamp(1, PIECE);
        self.out.drain(..self.given);
        self.given = 0;
        while self.out.len() < wanted && self.step(raw)? {}
        self.given = self.out.len().min(wanted);
        self.plain += self.given as u64;
        Ok(&self.out[..self.given])
    }

    fn memory(&self) -> usize {
        self.input.memory() + self.before.len() * 3 + self.out.capacity()
    }
}

/// One pass over the whole file: all plain bytes to `sink`, the seek table out.
pub fn build(
    raw: &dyn Bytes,
    options: &Options,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let mut decoder = Compress::open(raw)?;
    let mut spooler = Spooler::new(SPOOL_FROM, options.spool);
    spooler.begin(0, None, Vec::new());
    let decoding = (&mut decoder, Compress::raw_position as fn(&Compress) -> u64);
    let plain = spooler.feed_all(raw, decoding, sink, progress)?;
    spooler.end();
    spooler.finish().finish(Format::Compress, plain, raw.len())
}
