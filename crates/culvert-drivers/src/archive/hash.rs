//! Hashes for look-up tables and for telling contents apart. Not for secrets: nothing rests on them
//! but speed and the notice of accidents.

/// Odd constants with evenly spread bits (digits of the golden ratio and of the square roots of 2,
/// 3 and 5).
const KEYS: [u64; 4] = [
    0x9e37_79b9_7f4a_7c15,
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
];

/// Both halves of the 128-bit product, folded together.
const fn fold(left: u64, right: u64) -> u64 {
    let product = left as u128 * right as u128;
    product as u64 ^ (product >> 64) as u64
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Hash of a short string; `seed` keeps those who choose the strings from choosing collisions.
pub fn of_name(seed: u64, bytes: &[u8]) -> u64 {
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(KEYS[0]);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        state = fold(state ^ word(chunk), KEYS[1]);
    }
    state = fold(state ^ word(chunks.remainder()), KEYS[2]);
    fold(state, KEYS[3])
}

/// Checksum of many bytes: four independent lanes, so that the multiplications overlap.
pub fn of_content(bytes: &[u8]) -> u64 {
    let mut lanes = KEYS;
    let mut chunks = bytes.chunks_exact(32);
    for chunk in &mut chunks {
        for (lane, part) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            *lane = (*lane ^ word(part)).wrapping_mul(KEYS[0]).rotate_left(29);
        }
    }
    let mut state = bytes.len() as u64;
    for lane in lanes {
        state = fold(state ^ lane, KEYS[1]);
    }
    of_name(state, chunks.remainder())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        for length in [0usize, 1, 7, 8, 9, 31, 32, 33, 100] {
            let plain = std::vec![7u8; length];
            let (name, content) = (of_name(1, &plain), of_content(&plain));
            for at in 0..length {
                let mut other = plain.clone();
                other[at] ^= 1;
                assert_ne!(of_name(1, &other), name, "byte {at} of {length}");
                assert_ne!(of_content(&other), content, "byte {at} of {length}");
            }
            let mut longer = plain.clone();
            longer.push(0);
            assert_ne!(of_name(1, &longer), name);
            assert_ne!(of_content(&longer), content);
            assert_ne!(of_name(2, &plain), name);
        }
    }
}
