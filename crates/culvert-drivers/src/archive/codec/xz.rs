//! xz ("The .xz File Format" 1.2): streams of blocks, each decodable by itself. The build pass
//! takes the places of the blocks from the indexes at the streams' ends, and decodes the whole
//! file, block by block, which verifies them; long blocks are spooled (xz(1) before 5.6 makes a
//! single block of any file).

use super::{
    Format, Options,
    checkpoints::{Checkpoints, Point},
    damaged,
    decoder::Decoder,
    input::Input,
    lzma::Lzma,
    spool::Spooler,
};
use crate::archive::bytes::Bytes;
use alloc::{format, vec::Vec};
use culvert::{Error, Result};

/// Plain bytes handed out at once.
const PIECE: u64 = 128 << 10;
/// Blocks of at least so many plain bytes are spooled: decoding less takes up to 30 ms.
const SPOOL_FROM: u64 = 2 << 20;
/// Length of a stream's header, and of its footer, bytes.
const HEADER: usize = 12;

/// A block as the index has it.
struct Block {
    /// The header of its stream.
    stream: [u8; HEADER],
    /// Where its header starts in the archive, and where its check ends.
    start: u64,
    end: u64,
    /// Plain length, bytes.
    plain: u64,
}

fn broken(what: &str) -> Error {
    damaged(format!("the xz data is damaged or truncated: {what}"))
}

/// A variable-length integer: seven bits a byte, the lowest first, at most nine bytes.
fn number(input: &mut Input, raw: &dyn Bytes) -> Result<u64> {
    let mut value = 0;
    for shift in 0..9 {
        let [byte] = input.take(raw, "an xz index")?;
        value |= u64::from(byte & 0x7f) << (7 * shift);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(broken("an index has an invalid number"))
}

/// All blocks of the file, in order.
fn blocks(raw: &dyn Bytes) -> Result<Vec<Block>> {
    // Streams from the last to the first, the blocks of each from its last to its first.
    let (mut found, mut end) = (Vec::new(), raw.len());
    loop {
        end = skip_padding(raw, end)?;
        if end == 0 {
            break;
        }
        end = stream(raw, end, &mut found)?;
    }
    found.reverse();
    Ok(found)
}

/// Stream padding: zeroes, a multiple of four.
fn skip_padding(raw: &dyn Bytes, mut end: u64) -> Result<u64> {
    let mut buffer = [0; 4096];
    while end > 0 {
        let length = end.min(buffer.len() as u64);
        let piece = &mut buffer[..length as usize];
        raw.read_exact_at(end - length, piece)?;
        let words = piece.rchunks_exact(4);
        let zeroes = words.take_while(|word| *word == [0; 4]).count() as u64 * 4;
        end -= zeroes;
        if zeroes < length / 4 * 4 || zeroes == 0 {
            break;
        }
    }
    Ok(end)
}

/// Adds the blocks of the stream that ends at `end`; returns where it starts.
fn stream(raw: &dyn Bytes, end: u64, found: &mut Vec<Block>) -> Result<u64> {
    let footer_at = end
        .checked_sub(HEADER as u64)
        .ok_or_else(|| broken("it is too short"))?;
    let mut footer = [0; HEADER];
    raw.read_exact_at(footer_at, &mut footer)?;
    let [_, _, _, _, a, b, c, d, _, _, b'Y', b'Z'] = footer else {
        return Err(broken("it does not end with a stream footer"));
    };
    let index_length = (u64::from(u32::from_le_bytes([a, b, c, d])) + 1) * 4;
    let index_at = footer_at
        .checked_sub(index_length)
        .ok_or_else(|| broken("an index does not fit"))?;
    let mut input = Input::new(index_at, footer_at);
    if input.take::<1>(raw, "an xz index")? != [0] {
        return Err(broken("there is no index where it should be"));
    }
    let count = number(&mut input, raw)?;
    // Every block takes at least 12 bytes, so the number is bounded by what is there.
    if count > index_at / 12 {
        return Err(broken("an index has too many blocks"));
    }
    let (first, mut total) = (found.len(), 0u64);
    for _ in 0..count {
        let unpadded = number(&mut input, raw)?;
        // Relative to the first block until all are known.
        let start = total;
        total = unpadded
            .checked_next_multiple_of(4)
            .and_then(|padded| total.checked_add(padded))
            .filter(|&total| unpadded >= 5 && total <= index_at)
            .ok_or_else(|| broken("an index names more data than there is"))?;
        found.push(Block {
            stream: [0; HEADER],
            start,
            end: total,
            plain: number(&mut input, raw)?,
        });
    }
    // What the decoder verifies is the index that follows the blocks; this is to be the same.
    if (input.position() - index_at).next_multiple_of(4) + 4 != index_length {
        return Err(broken("an index has not the length that its stream says"));
    }
    let start = index_at
        .checked_sub(total + HEADER as u64)
        .ok_or_else(|| broken("an index names more data than there is"))?;
    let mut header = [0; HEADER];
    raw.read_exact_at(start, &mut header)?;
    for block in &mut found[first..] {
        block.stream = header;
        block.start += start + HEADER as u64;
        block.end += start + HEADER as u64;
    }
    found[first..].reverse();
    Ok(start)
}

/// The block at `point` of the table.
pub fn open(table: &Checkpoints, point: &Point) -> Result<Lzma> {
    let stored = table.stored(point)?;
    let (end, stream) = stored
        .split_first_chunk::<8>()
        .ok_or_else(|| damaged("the index is damaged: a point has no block"))?;
    Lzma::xz_block(point.raw, u64::from_le_bytes(*end), point.extra, stream)
}

/// One pass over the whole file: all plain bytes to `sink`, the seek table out.
pub fn build(
    raw: &dyn Bytes,
    options: &Options,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let blocks = blocks(raw)?;
    let mut xz = Lzma::xz(0, raw.len());
    let mut spooler = Spooler::new(SPOOL_FROM, options.spool);
    for block in blocks {
        let stored = [&block.end.to_le_bytes()[..], &block.stream].concat();
        spooler.begin(block.start, Some(block.plain), stored);
        xz.go_on(block.end, true);
        let mut left = block.plain;
        loop {
            let piece = xz.next(raw, PIECE as usize)?;
            if piece.is_empty() {
                break;
            }
            left = left
                .checked_sub(piece.len() as u64)
                .ok_or_else(|| broken("it is longer than its index says"))?;
            spooler.feed(piece);
            sink(piece)?;
            progress(xz.raw_position());
        }
        if left > 0 || xz.raw_position() != block.end {
            return Err(broken("it is shorter than its index says"));
        }
        spooler.end();
    }
    xz.go_on(raw.len(), false);
    if !xz.next(raw, 1)?.is_empty() {
        return Err(broken("it is longer than its index says"));
    }
    let plain = xz.position();
    spooler.finish().finish(Format::Xz, plain, raw.len())
}
