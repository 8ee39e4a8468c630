//! Checksums: CRC-32 of gzip and zip (ISO 3309), CRC-32 of bzip2 (the same polynomial, most
//! significant bit first).

#[cfg(target_arch = "x86_64")]
mod carryless;

use crc::{CRC_32_ISO_HDLC, Crc, Table};

/// No [`Crc`]: that holds a pointer, for which each process would have to relocate a page.
static TABLES: [[u32; 256]; 16] = *Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC).table();

/// The CRC-32 of what had `crc` and is followed by `bytes`; of nothing it is 0.
pub fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= 256
        && let Some((crc, rest)) = carryless::crc32(crc, bytes)
    {
        return sliced32(crc, rest);
    }
    sliced32(crc, bytes)
}

/// That of bzip2's blocks.
pub fn bzip2(crc: u32, bytes: &[u8]) -> u32 {
    !sliced::<true>((!crc).reverse_bits(), bytes).reverse_bits()
}

fn sliced32(crc: u32, bytes: &[u8]) -> u32 {
    !sliced::<false>(!crc, bytes)
}

/// By tables, sixteen bytes a step; with the bits of each byte `MIRRORED`.
fn sliced<const MIRRORED: bool>(mut carried: u32, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<16>();
    for &block in blocks {
        let block = match MIRRORED {
            true => u128::from_be_bytes(block).reverse_bits(),
            false => u128::from_le_bytes(block),
        };
        let block = (block ^ u128::from(carried)).to_le_bytes();
        let parts = TABLES.iter().rev().zip(block);
        carried = parts.fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)]);
    }
    for &byte in rest {
        let byte = if MIRRORED { byte.reverse_bits() } else { byte };
        carried = TABLES[0][usize::from(carried as u8 ^ byte)] ^ (carried >> 8);
    }
    carried
}

#[cfg(test)]
mod tests {
    use super::*;
    use crc::CRC_32_BZIP2;

    #[test]
    fn check_values_of_the_crc_catalogue() {
        let check = b"123456789";
        assert_eq!(crc32(0, check), 0xcbf4_3926);
        assert_eq!(bzip2(0, check), 0xfc89_1918);
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let bytes: alloc::vec::Vec<u8> = (0..1000u32).map(|i| (i * 7 + i / 3) as u8).collect();
        for cut in [0, 1, 15, 16, 17, 255, 256, 500, 743, 744, 1000] {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(crc32(crc32(0, head), tail), sliced32(0, &bytes));
            let whole = Crc::<u32>::new(&CRC_32_BZIP2).checksum(&bytes);
            assert_eq!(bzip2(bzip2(0, head), tail), whole);
        }
        assert_eq!(
            crc32(0, &bytes),
            Crc::<u32>::new(&CRC_32_ISO_HDLC).checksum(&bytes)
        );
    }
}
