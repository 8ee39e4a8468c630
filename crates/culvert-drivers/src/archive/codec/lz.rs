//! A small, fast LZ77 for the windows and chunks that the seek table keeps: byte-aligned, no
//! entropy coding, one pass, safe on hostile input.
//!
//! A sequence is a token (upper four bits: number of literals, lower: match length - 4; 15 means
//! that a varint with the rest follows), the literals, and a distance of two bytes. The last
//! sequence has no match.

use super::damaged;
use alloc::{vec, vec::Vec};
use culvert::Result;

/// Longest input, bytes: distances have 16 bits.
pub const LONGEST: usize = 64 << 10;
const SHORTEST_MATCH: usize = 4;
const HASH_BITS: u32 = 14;

fn varint(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn sequence(literals: &[u8], found: Option<(usize, usize)>, out: &mut Vec<u8>) {
    let extra = found.map_or(0, |(length, _)| length - SHORTEST_MATCH);
    out.push((literals.len().min(15) << 4 | extra.min(15)) as u8);
    if literals.len() >= 15 {
        varint(literals.len() - 15, out);
    }
    out.extend_from_slice(literals);
    if let Some((_, distance)) = found {
        out.extend_from_slice(&(distance as u16).to_le_bytes());
        if extra >= 15 {
            varint(extra - 15, out);
        }
    }
}

/// How many bytes are the same from the start of both on.
fn alike(a: &[u8], b: &[u8]) -> usize {
    let ((a_words, _), (b_words, _)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (i, (x, y)) in a_words.iter().zip(b_words).enumerate() {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return i * 8 + differ.trailing_zeros() as usize / 8;
        }
    }
    let done = a_words.len().min(b_words.len()) * 8;
    let rest = a[done..].iter().zip(&b[done..]);
    done + rest.take_while(|(x, y)| x == y).count()
}

/// Appends `plain`, at most [`LONGEST`] bytes, compressed, to `out`.
pub fn compress(plain: &[u8], out: &mut Vec<u8>) {
    assert!(plain.len() <= LONGEST);
    let word = |at: usize| Some(u32::from_le_bytes(*plain.get(at..at + 4)?.first_chunk()?));
    let mut heads = vec![0u16; 1 << HASH_BITS];
    let (mut at, mut anchor) = (0, 0);
    while let Some(here) = word(at) {
        let slot = (here.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize;
        let candidate = usize::from(core::mem::replace(&mut heads[slot], at as u16));
        if candidate >= at || at - candidate > 0xffff || word(candidate) != Some(here) {
            // The longer nothing matches, the wider the steps.
            at += 1 + ((at - anchor) >> 6);
            continue;
        }
        let length = 4 + alike(&plain[at + 4..], &plain[candidate + 4..]);
        sequence(&plain[anchor..at], Some((length, at - candidate)), out);
        at += length;
        anchor = at;
    }
    sequence(&plain[anchor..], None, out);
}

/// The plain bytes of `packed`, which must be exactly `length`.
pub fn decompress(packed: &[u8], length: usize) -> Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(length.min(LONGEST));
    match expand(packed, length.min(LONGEST), &mut plain) {
        Some(()) if plain.len() == length => Ok(plain),
        _ => Err(damaged(
            "the index is damaged: a stored window does not unpack",
        )),
    }
}

fn expand(mut packed: &[u8], limit: usize, plain: &mut Vec<u8>) -> Option<()> {
    fn number(packed: &mut &[u8]) -> Option<usize> {
        let mut value = 0;
        for shift in [0, 7, 14] {
            let byte = *packed.split_off_first()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
    while let Some(&token) = packed.split_off_first() {
        let mut literals = usize::from(token >> 4);
        if literals == 15 {
            literals += number(&mut packed)?;
        }
        let bytes = packed.split_off(..literals)?;
        if plain.len() + literals > limit {
            return None;
        }
        plain.extend_from_slice(bytes);
        if packed.is_empty() {
            break;
        }
        let distance = usize::from(u16::from_le_bytes([
            *packed.split_off_first()?,
            *packed.split_off_first()?,
        ]));
        let mut length = usize::from(token & 15) + SHORTEST_MATCH;
        if token & 15 == 15 {
            length += number(&mut packed)?;
        }
        if distance == 0 || distance > plain.len() || plain.len() + length > limit {
            return None;
        }
        let start = plain.len() - distance;
        if distance >= length {
            plain.extend_from_within(start..start + length);
        } else {
            for at in start..start + length {
                plain.push(plain[at]);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::*;

    #[test]
    fn what_is_packed_unpacks_to_the_same() {
        let mut random = Random(7);
        for round in 0..300 {
            let length = random.below(LONGEST as u64 + 1) as usize >> (round % 14);
            let spread = 1 + random.below(255);
            let plain: Vec<u8> = (0..length)
                .map(|i| match round % 3 {
                    0 => random.below(spread) as u8,
                    1 => (i / 100) as u8,
                    _ => 0,
                })
                .collect();
            let mut packed = Vec::new();
            compress(&plain, &mut packed);
            assert_eq!(decompress(&packed, length).unwrap(), plain);
            assert!(decompress(&packed, length + 1).is_err());
        }
    }

    #[test]
    fn damage_is_an_error_or_other_bytes_never_a_panic() {
        let mut random = Random(8);
        let plain: Vec<u8> = (0..20_000u32).map(|i| (i * i / 1000) as u8).collect();
        let mut packed = Vec::new();
        compress(&plain, &mut packed);
        for _ in 0..3000 {
            let mut bad = packed.clone();
            let at = random.below(bad.len() as u64) as usize;
            bad[at] = random.below(256) as u8;
            let _ = decompress(&bad, plain.len());
            let _ = decompress(&packed[..at], plain.len());
        }
    }
}
