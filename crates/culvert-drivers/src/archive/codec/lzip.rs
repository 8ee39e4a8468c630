//! lzip (draft-diaz-lzip, "File format"): members of LZMA data, each with its lengths behind it, so
//! that their places are found from the end. The build pass decodes and verifies all of them; long
//! ones are spooled, as blocks of xz are.

use super::{
    Format, Options,
    checkpoints::{Checkpoints, Point},
    crc::crc32,
    damaged,
    decoder::Decoder,
    lzma::Lzma,
    spool::Spooler,
};
use crate::archive::bytes::{Bytes, u32_at, u64_at};
use alloc::{format, vec::Vec};
use culvert::{Error, Result};

/// Plain bytes handed out at once.
const PIECE: u64 = 128 << 10;
/// Members of at least so many plain bytes are spooled.
const SPOOL_FROM: u64 = 2 << 20;
/// Bytes of a member's header: the name of the format, its version, the dictionary's size.
const HEADER: usize = 6;
/// Bytes of its trailer: CRC-32 and length of the plain data, length of the member.
const TRAILER: usize = 20;
const MAGIC: [u8; 5] = *b"LZIP\x01";

/// A member, as its header and trailer have it.
struct Member {
    start: u64,
    end: u64,
    plain: u64,
    crc: u32,
}

fn broken(what: &str) -> Error {
    damaged(format!("the lzip data is damaged or truncated: {what}"))
}

/// Whether a file that starts with `prefix` is one.
pub fn detect(prefix: &[u8]) -> bool {
    prefix.starts_with(&MAGIC)
}

/// The members of the file, in order.
fn members(raw: &dyn Bytes) -> Result<Vec<Member>> {
    let (mut found, mut end) = (Vec::new(), raw.len());
    while end > 0 {
        let mut trailer = [0; TRAILER];
        let at = end
            .checked_sub(TRAILER as u64)
            .ok_or_else(|| broken("it is too short"))?;
        raw.read_exact_at(at, &mut trailer)?;
        let length = u64_at(&trailer, 12);
        let start = end
            .checked_sub(length)
            .filter(|_| length > (HEADER + TRAILER) as u64)
            .ok_or_else(|| broken("a member has an impossible length"))?;
        let mut header = [0; HEADER];
        raw.read_exact_at(start, &mut header)?;
        if !detect(&header) {
            return Err(broken("there is no member where one should be"));
        }
        found.push(Member {
            start,
            end,
            plain: u64_at(&trailer, 4),
            crc: u32_at(&trailer, 0),
        });
        end = start;
    }
    found.reverse();
    Ok(found)
}

/// The size of the dictionary that a header's last byte says, bytes: a power of two, less some
/// sixteenths of it.
fn dictionary(coded: u8) -> Result<u32> {
    let size = 1u32.checked_shl(u32::from(coded & 0x1f)).unwrap_or(0);
    let size = size - size / 16 * u32::from(coded >> 5);
    match size {
        0x1000..=0x2000_0000 => Ok(size),
        _ => Err(broken("a member has an impossible dictionary")),
    }
}

fn decoder(raw: &dyn Bytes, start: u64, end: u64, plain: u64, length: u64) -> Result<Lzma> {
    let mut header = [0; HEADER];
    raw.read_exact_at(start, &mut header)?;
    let data = (start + HEADER as u64, end.saturating_sub(TRAILER as u64));
    Lzma::raw(data, dictionary(header[5])?, plain, length)
}

/// The member at `point` of the table.
pub fn open(raw: &dyn Bytes, table: &Checkpoints, point: &Point) -> Result<Lzma> {
    let stored = table.stored(point)?;
    let Some(stored) = stored.first_chunk::<16>() else {
        return Err(damaged("the index is damaged: a point has no member"));
    };
    let (end, length) = (u64_at(stored, 0), u64_at(stored, 8));
    decoder(raw, point.raw, end, point.extra, length)
}

/// One pass over the whole file: all plain bytes to `sink`, the seek table out.
pub fn build(
    raw: &dyn Bytes,
    options: &Options,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let mut spooler = Spooler::new(SPOOL_FROM, options.spool);
    let mut plain = 0;
    for member in members(raw)? {
        // A point of no bytes would be a second one at the same place; a table has one at least.
        let counts = member.plain > 0 || member.end == raw.len() && plain == 0;
        if counts {
            let stored = [member.end.to_le_bytes(), member.plain.to_le_bytes()].concat();
            spooler.begin(member.start, Some(member.plain), stored);
        }
        let mut decoder = decoder(raw, member.start, member.end, plain, member.plain)?;
        let (mut crc, mut done) = (0, 0);
        while done < member.plain {
            let piece = decoder.next(raw, PIECE as usize)?;
            if piece.is_empty() {
                return Err(broken("a member is shorter than it says"));
            }
            done += piece.len() as u64;
            crc = crc32(crc, piece);
            spooler.feed(piece);
            sink(piece)?;
            progress(decoder.raw_position());
        }
        if done > member.plain {
            return Err(broken("a member is longer than it says"));
        }
        if crc != member.crc {
            return Err(broken("the checksum of a member differs"));
        }
        if counts {
            spooler.end();
        }
        plain = plain
            .checked_add(done)
            .ok_or_else(|| broken("its members are too long"))?;
    }
    spooler.finish().finish(Format::Lzip, plain, raw.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_are_powers_of_two_less_sixteenths() {
        assert_eq!(dictionary(0xd3).unwrap(), 320 << 10);
        assert_eq!(dictionary(12).unwrap(), 4096);
        assert_eq!(dictionary(29).unwrap(), 512 << 20);
        for bad in [11, 30, 31, 0xec, 0] {
            assert!(dictionary(bad).is_err(), "{bad}");
        }
    }
}
