//! Checksums: CRC-32 of gzip and zip (ISO 3309), CRC-64 of xz (ECMA-182), CRC-32 of bzip2 (the same
//! polynomial, most significant bit first).

#[cfg(target_arch = "x86_64")]
mod carryless;

const fn reflected32() -> [[u32; 256]; 16] {
    let mut tables = [[0; 256]; 16];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut t = 1;
    while t < 16 {
        let mut i = 0;
        while i < 256 {
            let before = tables[t - 1][i];
            tables[t][i] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            i += 1;
        }
        t += 1;
    }
    tables
}

const fn reflected64() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0xc96c_5795_d787_0f42 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut t = 1;
    while t < 8 {
        let mut i = 0;
        while i < 256 {
            let before = tables[t - 1][i];
            tables[t][i] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            i += 1;
        }
        t += 1;
    }
    tables
}

const fn forward32() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ (0x04c1_1db7 & (crc >> 31).wrapping_neg());
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static CRC32: [[u32; 256]; 16] = reflected32();
static CRC64: [[u64; 256]; 8] = reflected64();
static FORWARD: [u32; 256] = forward32();

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

/// Sixteen bytes a step (slicing; Kounavis and Berry, 2005).
fn sliced32(crc: u32, bytes: &[u8]) -> u32 {
    let mut crc = !crc;
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        crc = step32(crc, block);
    }
    for &byte in rest {
        crc = (crc >> 8) ^ CRC32[0][(crc as u8 ^ byte) as usize];
    }
    !crc
}

fn step32(crc: u32, block: &[u8; 16]) -> u32 {
    let head = u32::from_le_bytes([block[0], block[1], block[2], block[3]]) ^ crc;
    let head = head.to_le_bytes();
    let mut next = 0;
    for i in 0..4 {
        next ^= CRC32[15 - i][head[i] as usize];
    }
    for i in 4..16 {
        next ^= CRC32[15 - i][block[i] as usize];
    }
    next
}

/// The CRC-64 of what had `crc` and is followed by `bytes`; of nothing it is 0.
pub fn crc64(crc: u64, bytes: &[u8]) -> u64 {
    let mut crc = !crc;
    let (blocks, rest) = bytes.as_chunks::<8>();
    for block in blocks {
        let word = (u64::from_le_bytes(*block) ^ crc).to_le_bytes();
        crc = 0;
        for i in 0..8 {
            crc ^= CRC64[7 - i][word[i] as usize];
        }
    }
    for &byte in rest {
        crc = (crc >> 8) ^ CRC64[0][(crc as u8 ^ byte) as usize];
    }
    !crc
}

/// bzip2's block CRC after one more byte; starts at `!0` and is inverted at the end.
#[inline(always)]
pub fn bzip2_step(crc: u32, byte: u8) -> u32 {
    (crc << 8) ^ FORWARD[((crc >> 24) as u8 ^ byte) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_crc_catalogue() {
        let check = b"123456789";
        assert_eq!(crc32(0, check), 0xcbf4_3926);
        assert_eq!(crc64(0, check), 0x995d_c9bb_df19_39fa);
        assert_eq!(
            !check.iter().fold(!0, |c, &b| bzip2_step(c, b)),
            0xfc89_1918
        );
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let bytes: alloc::vec::Vec<u8> = (0..1000u32).map(|i| (i * 7 + i / 3) as u8).collect();
        for cut in [0, 1, 15, 16, 17, 255, 256, 500, 743, 744, 1000] {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(crc32(crc32(0, head), tail), sliced32(0, &bytes));
            assert_eq!(crc64(crc64(0, head), tail), crc64(0, &bytes));
        }
    }
}
