//! bzip2: blocks of up to 900 kB, each decodable by itself; they start at any bit. The seek table
//! has their places.

mod bits;
mod block;

use super::{
    Format,
    checkpoints::{Builder, Checkpoints, Point},
    crc, damaged,
    decoder::Decoder,
    input::Input,
};
use crate::archive::bytes::Bytes;
use alloc::{format, vec::Vec};
use bits::Bits;
use block::Block;
use culvert::Result;

/// Plain bytes handed out at once.
const PIECE: usize = 128 << 10;
/// Least plain bytes between two points.
const SPACING: u64 = 64 << 10;
/// Starts a block: the first digits of pi.
const BLOCK: u64 = 0x3141_5926_5359;
/// Ends a stream: the first digits of the square root of pi.
const END: u64 = 0x1772_4538_5090;

/// Whether a block or the stream's end starts with `bytes`.
pub fn is_block(bytes: &[u8]) -> bool {
    [BLOCK, END]
        .iter()
        .any(|magic| bytes.starts_with(&magic.to_be_bytes()[2..]))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Stream,
    Block,
    Walk,
    End,
}

/// Decodes streams from a point on.
pub struct Bzip2 {
    bits: Bits,
    block: Block,
    out: Vec<u8>,
    stage: Stage,
    /// Block size of the stream, 100 kB.
    level: usize,
    streams: u64,
    /// CRC of the block's bytes so far, and what its header says.
    crc: (u32, u32),
    /// CRC over the stream's blocks, unless it was entered behind its start.
    combined: Option<u32>,
    /// The last byte and how often it came in a row: after four a count follows.
    run: (u8, u32),
    plain: u64,
    raw_end: u64,
    /// Where the block that `next` began last starts, bits and plain bytes.
    begun: Option<(u64, u64)>,
}

impl Bzip2 {
    /// From the start of a stream at `start`; the data ends at `end`.
    pub fn new(start: u64, end: u64) -> Self {
        Self {
            bits: Bits::new(Input::new(start, end)),
            block: Block::new(),
            out: Vec::new(),
            stage: Stage::Stream,
            level: 0,
            streams: 0,
            crc: (0, 0),
            combined: None,
            run: (0, 0),
            plain: 0,
            raw_end: start,
            begun: None,
        }
    }

    /// From `point` of the table.
    pub fn open(raw: &dyn Bytes, point: &Point) -> Result<Self> {
        let mut bzip2 = Self::new(0, raw.len());
        if !(1..=9).contains(&point.kind) {
            return Ok(bzip2);
        }
        bzip2.bits.seek(point.raw, raw)?;
        bzip2.level = point.kind as usize;
        bzip2.plain = point.plain;
        bzip2.streams = 1;
        bzip2.stage = Stage::Block;
        Ok(bzip2)
    }

    fn begin_stream(&mut self, raw: &dyn Bytes) -> Result<()> {
        self.bits.input.fill(raw, 4)?;
        match self.bits.input.available() {
            &[b'B', b'Z', b'h', level @ b'1'..=b'9', ..] => {
                self.bits.input.consume(4);
                self.level = usize::from(level - b'0');
                self.combined = Some(0);
                self.stage = Stage::Block;
            }
            short if self.streams == 0 && short.len() < 4 => {
                return Err(self.bits.input.truncated("the bzip2 header"));
            }
            _ if self.streams == 0 => return Err(damaged("not a bzip2 file")),
            // As bzip2(1) does: garbage behind a stream is ignored.
            _ => self.stage = Stage::End,
        }
        Ok(())
    }

    fn begin_block(&mut self, raw: &dyn Bytes) -> Result<()> {
        let Self { bits, block, .. } = self;
        let start = bits.position();
        let magic = bits.get(48, raw)?;
        let stated = bits.get(32, raw)? as u32;
        match magic {
            BLOCK => {
                block.read(self.level * 100_000, bits, raw)?;
                self.crc = (0, stated);
                self.run = (0, 0);
                self.combined = self.combined.map(|all| all.rotate_left(1) ^ stated);
                self.begun = Some((start, self.plain));
                self.stage = Stage::Walk;
            }
            END => {
                bits.align();
                self.streams += 1;
                self.raw_end = bits.input.position();
                if self.combined.is_some_and(|all| all != stated) {
                    return Err(damaged("the checksum of a bzip2 stream differs"));
                }
                self.stage = Stage::Stream;
            }
            _ => {
                return Err(damaged(format!(
                    "no bzip2 block where one should start (byte {})",
                    start / 8
                )));
            }
        }
        Ok(())
    }

    /// Undoes the run-length coding of the block's bytes: after four alike comes a count of more.
    fn walk(&mut self, wanted: usize) -> Result<()> {
        let (mut last, mut run) = self.run;
        while self.block.left > 0 && self.out.len() < wanted {
            let byte = self.block.step();
            if run == 4 {
                run = 0;
                self.out.resize(self.out.len() + usize::from(byte), last);
                continue;
            }
            run = if byte == last { run + 1 } else { 1 };
            last = byte;
            self.out.push(byte);
        }
        self.run = (last, run);
        self.crc.0 = crc::bzip2(self.crc.0, &self.out);
        if self.block.left == 0 {
            self.stage = Stage::Block;
            if self.crc.0 != self.crc.1 {
                return Err(damaged("the checksum of a bzip2 block differs"));
            }
        }
        Ok(())
    }
}

impl Decoder for Bzip2 {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        self.out.clear();
        while self.out.is_empty() && self.stage != Stage::End {
            match self.stage {
                Stage::Stream => self.begin_stream(raw)?,
                Stage::Block => self.begin_block(raw).map_err(|error| {
                    error.within(&format!(
                        "bzip2 stream {}, plain byte {}",
                        self.streams + 1,
                        self.plain
                    ))
                })?,
                Stage::Walk => self.walk(wanted.clamp(1, PIECE))?,
                Stage::End => {}
            }
        }
        self.plain += self.out.len() as u64;
        Ok(&self.out)
    }

    fn memory(&self) -> usize {
        self.bits.input.memory() + self.block.memory() + self.out.capacity()
    }
}

/// One pass over the whole file: all plain bytes to `sink`, the seek table out.
pub fn build(
    raw: &dyn Bytes,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let mut bzip2 = Bzip2::new(0, raw.len());
    let mut builder = Builder::new();
    loop {
        let piece = bzip2.next(raw, PIECE)?;
        if piece.is_empty() {
            break;
        }
        sink(piece)?;
        progress(bzip2.bits.input.position());
        if let Some((start, plain)) = bzip2.begun.take()
            && builder.last().is_none_or(|last| plain - last >= SPACING)
        {
            let point = Point {
                plain,
                raw: start,
                kind: bzip2.level as u32,
                ..Point::default()
            };
            builder.add(point, &[]);
        }
    }
    builder.finish(Format::Bzip2, bzip2.plain, bzip2.raw_end)
}
