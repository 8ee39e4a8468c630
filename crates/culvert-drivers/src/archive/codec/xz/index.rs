//! Where the blocks of an xz file lie, from its indexes, read from the end ("The .xz File Format",
//! sections 2 and 4).

use crate::archive::{
    bytes::Bytes,
    codec::{crc::crc32, damaged, input::Input},
};
use alloc::{format, vec::Vec};
use culvert::{Error, Result};

/// Length of a stream's header, and of its footer, bytes.
const HEADER: u64 = 12;
const HEADER_MAGIC: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// A block as the index has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPosition {
    /// Where its header starts in the archive.
    pub start: u64,
    /// Length of header, data and check, without padding, bytes.
    pub unpadded: u64,
    /// Plain length, bytes.
    pub plain: u64,
    /// Its integrity check: 0 none, 1 CRC-32, 4 CRC-64, 10 SHA-256.
    pub check: u8,
}

fn broken(what: &str) -> Error {
    damaged(format!("the xz data is damaged or truncated: {what}"))
}

/// A variable-length integer: seven bits a byte, the lowest first, at most nine bytes.
pub fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in 0..9 {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << (7 * shift);
        if byte < 0x80 {
            return (byte != 0 || shift == 0).then_some(value);
        }
    }
    None
}

fn read_number(input: &mut Input, raw: &dyn Bytes) -> Result<(u64, usize)> {
    input.fill(raw, 9)?;
    let mut rest = input.available();
    let before = rest.len();
    let value = number(&mut rest).ok_or_else(|| broken("an index has an invalid number"))?;
    let count = before - rest.len();
    input.consume(count);
    Ok((value, count))
}

/// All blocks of the streams in `start..end`, in order.
pub fn blocks(raw: &dyn Bytes, start: u64, end: u64) -> Result<Vec<BlockPosition>> {
    let mut end = end;
    // Streams from the last to the first, the blocks of each from its last to its first.
    let mut found = Vec::new();
    while end > start {
        end = skip_padding(raw, start, end)?;
        if end == start {
            break;
        }
        end = stream(raw, start, end, &mut found)?;
    }
    found.reverse();
    Ok(found)
}

/// Stream padding: zeroes, a multiple of four.
fn skip_padding(raw: &dyn Bytes, start: u64, mut end: u64) -> Result<u64> {
    let mut buffer = [0; 4096];
    while end > start {
        let length = (end - start).min(buffer.len() as u64);
        let piece = &mut buffer[..length as usize];
        raw.read_exact_at(end - length, piece)?;
        let zeroes = piece
            .rchunks_exact(4)
            .take_while(|word| *word == [0; 4])
            .count() as u64
            * 4;
        end -= zeroes;
        if zeroes < length / 4 * 4 || zeroes == 0 {
            break;
        }
    }
    Ok(end)
}

/// Adds the blocks of the stream that ends at `end`; returns where it starts.
fn stream(raw: &dyn Bytes, start: u64, end: u64, found: &mut Vec<BlockPosition>) -> Result<u64> {
    if end - start < 2 * HEADER + 8 {
        return Err(broken("it is too short"));
    }
    let mut footer = [0; HEADER as usize];
    raw.read_exact_at(end - HEADER, &mut footer)?;
    let [a, b, c, d, fields @ .., b'Y', b'Z'] = &footer else {
        return Err(broken("it does not end with a stream footer"));
    };
    if u32::from_le_bytes([*a, *b, *c, *d]) != crc32(0, fields) {
        return Err(broken("the checksum of a stream footer differs"));
    }
    let &[e, f, g, h, 0, check] = fields else {
        return Err(broken("a stream footer has unknown flags"));
    };
    let index_length = (u64::from(u32::from_le_bytes([e, f, g, h])) + 1) * 4;
    let index_start = (end - HEADER)
        .checked_sub(index_length)
        .filter(|&at| at >= start + HEADER)
        .ok_or_else(|| broken("an index does not fit"))?;

    let mut input = Input::new(index_start, end - HEADER);
    if input.take::<1>(raw, "an xz index")? != [0] {
        return Err(broken("there is no index where it should be"));
    }
    let (count, mut length) = read_number(&mut input, raw)?;
    length += 1;
    // Every block takes at least 12 bytes, so the number is bounded by what is there.
    if count > (index_start - start) / 12 {
        return Err(broken("an index has too many blocks"));
    }
    let (first, mut total) = (found.len(), 0u64);
    for _ in 0..count {
        let (unpadded, a) = read_number(&mut input, raw)?;
        let (plain, b) = read_number(&mut input, raw)?;
        length += a + b;
        // `start` is relative to the first block until all are known.
        found.push(BlockPosition {
            start: total,
            unpadded,
            plain,
            check,
        });
        total = unpadded
            .checked_next_multiple_of(4)
            .and_then(|padded| total.checked_add(padded))
            .filter(|&total| unpadded >= 5 && total <= index_start - start)
            .ok_or_else(|| broken("an index names more data than there is"))?;
    }
    input.fill(raw, 8)?;
    let padding = length.wrapping_neg() & 3;
    if length as u64 + padding as u64 + 4 != index_length {
        return Err(broken("the length of an index differs"));
    }
    check_index(raw, index_start, index_length)?;
    let header = index_start
        .checked_sub(total + HEADER)
        .filter(|&at| at >= start)
        .ok_or_else(|| broken("an index names more data than there is"))?;
    let mut bytes = [0; HEADER as usize];
    raw.read_exact_at(header, &mut bytes)?;
    if !bytes.starts_with(HEADER_MAGIC)
        || bytes[6..8] != [0, check]
        || bytes[8..] != crc32(0, &bytes[6..8]).to_le_bytes()
    {
        return Err(broken("a stream header is not where it should be"));
    }
    for place in &mut found[first..] {
        place.start += header + HEADER;
    }
    found[first..].reverse();
    Ok(header)
}

fn check_index(raw: &dyn Bytes, start: u64, length: u64) -> Result<()> {
    let mut input = Input::new(start, start + length);
    let (mut left, mut crc) = (length - 4, 0);
    while left > 0 {
        input.fill(raw, 1)?;
        let piece = input.available();
        let count = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 {
            return Err(input.truncated("an xz index"));
        }
        crc = crc32(crc, &piece[..count]);
        input.consume(count);
        left -= count as u64;
    }
    if u32::from_le_bytes(input.take::<4>(raw, "an xz index")?) != crc {
        return Err(broken("the checksum of an index differs"));
    }
    Ok(())
}
