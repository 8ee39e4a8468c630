//! The packing of the windows and chunks that the seek table keeps: LZ4 blocks, which cost little
//! to unpack.

use super::damaged;
use alloc::vec::Vec;
use culvert::Result;
use lz4_flex::block;

/// Longest input, bytes.
pub const LONGEST: usize = 64 << 10;

/// `plain`, at most [`LONGEST`] bytes, packed.
pub fn compress(plain: &[u8]) -> Vec<u8> {
    block::compress_prepend_size(plain)
}

/// The plain bytes of `packed`, at most `limit`.
pub fn decompress(packed: &[u8], limit: usize) -> Result<Vec<u8>> {
    match block::uncompressed_size(packed) {
        Ok((length, packed)) if length <= limit => block::decompress(packed, length).ok(),
        _ => None,
    }
    .ok_or_else(|| damaged("the index is damaged: a stored window does not unpack"))
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
            let packed = compress(&plain);
            assert_eq!(decompress(&packed, length).unwrap(), plain);
            assert!(length == 0 || decompress(&packed, length - 1).is_err());
        }
    }

    #[test]
    fn damage_is_an_error_or_other_bytes_never_a_panic() {
        let mut random = Random(8);
        let plain: Vec<u8> = (0..20_000u32).map(|i| (i * i / 1000) as u8).collect();
        let packed = compress(&plain);
        for _ in 0..3000 {
            let mut bad = packed.clone();
            let at = random.below(bad.len() as u64) as usize;
            bad[at] = random.below(256) as u8;
            let _ = decompress(&bad, plain.len());
            let _ = decompress(&packed[..at], plain.len());
        }
    }
}
