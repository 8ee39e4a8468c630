//! Checksums: CRC-32 of gzip and zip (ISO 3309), CRC-32 of bzip2 (the same polynomial, most
//! significant bit first).

#[cfg(target_arch = "x86_64")]
mod carryless;

use crc::{CRC_32_BZIP2, CRC_32_ISO_HDLC, Crc, Table};

static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// That of bzip2's blocks.
pub static BZIP2: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);

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

/// By tables, sixteen bytes a step.
fn sliced32(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = CRC32.digest_with_initial((!crc).reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_crc_catalogue() {
        let check = b"123456789";
        assert_eq!(crc32(0, check), 0xcbf4_3926);
        assert_eq!(BZIP2.checksum(check), 0xfc89_1918);
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let bytes: alloc::vec::Vec<u8> = (0..1000u32).map(|i| (i * 7 + i / 3) as u8).collect();
        for cut in [0, 1, 15, 16, 17, 255, 256, 500, 743, 744, 1000] {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(crc32(crc32(0, head), tail), sliced32(0, &bytes));
        }
    }
}
