//! xz: streams of blocks, each decodable by itself. The build pass takes the blocks from the
//! indexes at the streams' ends; long ones are spooled (xz(1) before 5.6 makes a single block of
//! any file).

mod index;
mod sha256;

use super::{
    Format, Options,
    checkpoints::{Checkpoints, Point},
    crc::{crc32, crc64},
    damaged,
    decoder::Decoder,
    input::Input,
    spool::{STRETCH, Spooler},
};
use crate::archive::bytes::Bytes;
use alloc::{boxed::Box, format, vec, vec::Vec};
use culvert::{Errno, Error, Result};
use index::{BlockPosition, number};
use lzma_rust2::{Action, FilterConfig, Lzma2Stream, Status};
use sha256::Sha256;

/// Plain bytes handed out at once.
const PIECE: usize = 128 << 10;
/// Blocks of at least so many plain bytes are spooled: decoding less takes up to 30 ms.
const SPOOL_FROM: u64 = 2 << 20;
/// Largest dictionary, KiB: four times that of `xz -9`.
const LARGEST_DICTIONARY: u32 = 256 << 10;

/// What lzma-rust2 says, as ours.
pub fn explain(error: lzma_rust2::Error) -> Error {
    use lzma_rust2::Error as E;
    match error {
        E::OutOfMemory(_) => Error::because(
            Errno::EOPNOTSUPP,
            format!(
                "the LZMA data needs a dictionary of more than {} MiB",
                LARGEST_DICTIONARY >> 10
            ),
        ),
        E::InvalidData(cause)
        | E::InvalidInput(cause)
        | E::Other(cause)
        | E::Unsupported(cause) => damaged(cause),
        _ => damaged("the LZMA data is damaged"),
    }
}

/// The check at the end of a block.
enum Check {
    Crc32(u32),
    Crc64(u64),
    Sha256(Box<Sha256>),
    /// None, or one that nobody knows.
    Other,
}

/// Decodes one block.
pub struct Block {
    input: Input,
    stream: Box<Lzma2Stream>,
    check: Check,
    /// Length of the check, bytes.
    check_length: u64,
    /// Where the block starts in the archive.
    start: u64,
    plain: u64,
    ended: bool,
    out: Vec<u8>,
    memory: usize,
}

impl Block {
    /// The block whose header is at `start`, its first byte plain byte `plain`.
    fn new(raw: &dyn Bytes, start: u64, plain: u64, check: u8) -> Result<Self> {
        let mut input = Input::new(start, raw.len());
        input.fill(raw, 1024)?;
        let length = match input.available().first() {
            Some(&size) if size > 0 => (usize::from(size) + 1) * 4,
            _ => return Err(damaged("an xz block is not where it should be")),
        };
        let Some((header, crc)) = input
            .available()
            .get(..length)
            .and_then(|header| header.split_last_chunk::<4>())
        else {
            return Err(input.truncated("an xz block header"));
        };
        if crc32(0, header) != u32::from_le_bytes(*crc) {
            return Err(damaged("the checksum of an xz block header differs"));
        }
        let (dictionary, filters) = filters(header)?;
        input.consume(length);
        let mut stream = Lzma2Stream::new_mem_limit(dictionary, LARGEST_DICTIONARY + 1024);
        stream.set_filters(&filters).map_err(explain)?;
        Ok(Self {
            input,
            stream: Box::new(stream),
            check: match check {
                1 => Check::Crc32(0),
                4 => Check::Crc64(0),
                10 => Check::Sha256(Box::new(Sha256::new())),
                _ => Check::Other,
            },
            // Section 2.1.1.2: none, then five groups of three lengths.
            check_length: match check {
                0 => 0,
                id => 4 << ((u32::from(id) - 1) / 3).min(4),
            },
            start,
            plain,
            ended: false,
            out: vec![0; PIECE],
            memory: dictionary as usize,
        })
    }

    /// From `point` of the table.
    pub fn open(raw: &dyn Bytes, point: &Point) -> Result<Self> {
        Self::new(raw, point.raw, point.extra, (point.kind >> 8) as u8)
    }

    fn finish(&mut self, raw: &dyn Bytes) -> Result<()> {
        self.ended = true;
        while !(self.input.position() - self.start).is_multiple_of(4) {
            if self.input.take::<1>(raw, "an xz block")? != [0] {
                return Err(damaged("the padding of an xz block is not zero"));
            }
        }
        let fits = match core::mem::replace(&mut self.check, Check::Other) {
            Check::Crc32(crc) => self.input.take::<4>(raw, "an xz block")? == crc.to_le_bytes(),
            Check::Crc64(crc) => self.input.take::<8>(raw, "an xz block")? == crc.to_le_bytes(),
            Check::Sha256(hash) => self.input.take::<32>(raw, "an xz block")? == hash.finish(),
            Check::Other => {
                for _ in 0..self.check_length {
                    self.input.take::<1>(raw, "an xz block")?;
                }
                true
            }
        };
        match fits {
            true => Ok(()),
            false => Err(damaged("the checksum of an xz block differs")),
        }
    }

    /// Length of header, data and check, once all is decoded.
    fn unpadded(&self) -> u64 {
        let padding = (self.stream.total_in().wrapping_neg()) & 3;
        self.input.position() - self.start - padding
    }
}

/// Dictionary size and filter before LZMA2 of a block header (sections 3.1.2 to 3.1.6 and 5.3).
fn filters(header: &[u8]) -> Result<(u32, Vec<FilterConfig>)> {
    let invalid = || damaged("an xz block header is invalid");
    let unknown = |id: u64| {
        let cause = format!("xz filter {id:#x} is not supported");
        Error::because(Errno::EOPNOTSUPP, cause)
    };
    let mut rest = &header[2..];
    let flags = header[1];
    if flags & 0x3c != 0 {
        return Err(invalid());
    }
    for present in [0x40, 0x80] {
        if flags & present != 0 {
            number(&mut rest).ok_or_else(invalid)?;
        }
    }
    let count = usize::from(flags & 3) + 1;
    if count > 2 {
        return Err(Error::because(
            Errno::EOPNOTSUPP,
            "chains of more than two xz filters are not supported",
        ));
    }
    let mut before = Vec::new();
    for last in (0..count).rev().map(|left| left == 0) {
        let id = number(&mut rest).ok_or_else(invalid)?;
        let length = number(&mut rest).and_then(|n| usize::try_from(n).ok());
        let properties = length
            .and_then(|length| rest.split_off(..length))
            .ok_or_else(invalid)?;
        match (id, last) {
            (0x21, true) => {
                let &[bits @ 0..=40] = properties else {
                    return Err(invalid());
                };
                let size = match bits {
                    40 => u32::MAX,
                    bits => (2 | u32::from(bits & 1)) << (bits / 2 + 11),
                };
                return Ok((size, before));
            }
            (3..=11, false) => before.push(filter(id, properties).ok_or_else(invalid)?),
            _ => return Err(unknown(id)),
        }
    }
    Err(invalid())
}

fn filter(id: u64, properties: &[u8]) -> Option<FilterConfig> {
    if id == 3 {
        let &[distance] = properties else { return None };
        return Some(FilterConfig::new_delta(u32::from(distance) + 1));
    }
    let start = match properties {
        [] => 0,
        bytes => u32::from_le_bytes(bytes.try_into().ok()?),
    };
    Some(match id {
        4 => FilterConfig::new_bcj_x86(start),
        5 => FilterConfig::new_bcj_ppc(start),
        6 => FilterConfig::new_bcj_ia64(start),
        7 => FilterConfig::new_bcj_arm(start),
        8 => FilterConfig::new_bcj_arm_thumb(start),
        9 => FilterConfig::new_bcj_sparc(start),
        10 => FilterConfig::new_bcj_arm64(start),
        11 => FilterConfig::new_bcj_risc_v(start),
        _ => return None,
    })
}

impl Decoder for Block {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let wanted = wanted.clamp(1, PIECE);
        while !self.ended {
            self.input.fill(raw, 4096)?;
            let action = match self.input.ended {
                true => Action::Finish,
                false => Action::Run,
            };
            let step = self
                .stream
                .process(self.input.available(), &mut self.out[..wanted], action)
                .map_err(
                    |error| match self.input.ended && self.input.available().len() < 16 {
                        true => self.input.truncated("an xz block"),
                        false => explain(error),
                    },
                )?;
            self.input.consume(step.bytes_consumed);
            let count = step.bytes_produced;
            if count > 0 {
                self.plain += count as u64;
                match &mut self.check {
                    Check::Crc32(crc) => *crc = crc32(*crc, &self.out[..count]),
                    Check::Crc64(crc) => *crc = crc64(*crc, &self.out[..count]),
                    Check::Sha256(hash) => hash.update(&self.out[..count]),
                    Check::Other => {}
                }
            }
            if step.status == Status::StreamEnd {
                self.finish(raw)?;
            } else if count == 0 && step.bytes_consumed == 0 {
                return Err(self.input.truncated("an xz block"));
            }
            if count > 0 {
                return Ok(&self.out[..count]);
            }
        }
        Ok(&[])
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn memory(&self) -> usize {
        self.input.memory() + self.out.len() + self.memory
    }
}

/// Decodes all blocks of a file, from the first on.
pub struct Xz {
    blocks: Vec<BlockPosition>,
    next: usize,
    block: Option<Block>,
    plain: u64,
    memory: usize,
}

impl Xz {
    /// The file at `start..end` of the archive.
    pub fn new(raw: &dyn Bytes, start: u64, end: u64) -> Result<Self> {
        Ok(Self {
            blocks: index::blocks(raw, start, end)?,
            next: 0,
            block: None,
            plain: 0,
            memory: 0,
        })
    }

    /// Goes into the next block.
    fn begin(&mut self, raw: &dyn Bytes) -> Result<Option<BlockPosition>> {
        let Some(&place) = self.blocks.get(self.next) else {
            return Ok(None);
        };
        let block = Block::new(raw, place.start, self.plain, place.check)
            .map_err(|error| error.within(&format!("xz block {}", self.next + 1)))?;
        self.memory = self.memory.max(block.memory());
        self.block = Some(block);
        Ok(Some(place))
    }

    /// Decodes up to `wanted` bytes of the present block; none at its end.
    fn inside(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let (Some(block), Some(place)) = (&mut self.block, self.blocks.get(self.next)) else {
            return Ok(&[]);
        };
        let name = || format!("xz block {}", self.next + 1);
        let count = block
            .next(raw, wanted)
            .map_err(|error| error.within(&name()))?
            .len();
        let length = block.plain - self.plain;
        if length > place.plain || (block.ended && length < place.plain) {
            return Err(damaged("its plain length differs from the index").within(&name()));
        }
        if block.ended && block.unpadded() != place.unpadded {
            return Err(damaged("its length differs from the index").within(&name()));
        }
        Ok(&block.out[..count])
    }

    fn end(&mut self) {
        self.plain = self.position();
        self.block = None;
        self.next += 1;
    }
}

impl Decoder for Xz {
    fn position(&self) -> u64 {
        self.block.as_ref().map_or(self.plain, |block| block.plain)
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let mut count = 0;
        while count == 0 {
            match self.block.as_ref().map(|block| block.ended) {
                Some(true) => self.end(),
                Some(false) => count = self.inside(raw, wanted)?.len(),
                None if self.begin(raw)?.is_none() => break,
                None => {}
            }
        }
        Ok(self.block.as_ref().map_or(&[], |block| &block.out[..count]))
    }

    fn memory(&self) -> usize {
        self.memory + self.blocks.len() * size_of::<BlockPosition>()
    }
}

/// One pass over the whole file: all plain bytes to `sink`, the seek table out.
pub fn build(
    raw: &dyn Bytes,
    options: &Options,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let mut xz = Xz::new(raw, 0, raw.len())?;
    let mut spooler = Spooler::new(SPOOL_FROM, options.spool);
    while let Some(place) = xz.begin(raw)? {
        let kind = STRETCH | u32::from(place.check) << 8;
        spooler.begin(kind, place.start, Some(place.plain));
        loop {
            let piece = xz.inside(raw, PIECE)?;
            if piece.is_empty() {
                break;
            }
            spooler.feed(piece);
            sink(piece)?;
            if let Some(block) = &xz.block {
                progress(block.input.position());
            }
        }
        spooler.end();
        xz.end();
    }
    spooler
        .finish()
        .finish(Format::Xz, xz.plain, raw.len(), xz.memory)
}
