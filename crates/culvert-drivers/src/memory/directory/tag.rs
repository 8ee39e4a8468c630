//! Tags of names.

/// What a name is filed under: SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF",
/// 2012) with the file system's own key. Names come from anybody, and those of one tag have one
/// bucket: without the key nobody can choose names that fill it.
#[inline]
pub fn tag(seed: u64, name: &[u8]) -> u32 {
    // 64 bits of key are what the header keeps; the other half is of the same.
    let keys = (seed, seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15);
    let mut state = [
        keys.0 ^ 0x736f_6d65_7073_6575,
        keys.1 ^ 0x646f_7261_6e64_6f6d,
        keys.0 ^ 0x6c79_6765_6e65_7261,
        keys.1 ^ 0x7465_6462_7974_6573,
    ];
    let mut chunks = name.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        state[3] ^= word;
        sip_round(&mut state);
        state[0] ^= word;
    }
    let rest = chunks.remainder().len() as u32;
    let last = match name.last_chunk::<8>() {
        // The rest is the upper end of the last eight bytes.
        Some(last) if rest > 0 => u64::from_le_bytes(*last) >> (64 - 8 * rest),
        Some(_) => 0,
        None => {
            let bytes = name.iter().rev();
            bytes.fold(0, |word, &byte| word << 8 | u64::from(byte))
        }
    } | (name.len() as u64) << 56;
    state[3] ^= last;
    sip_round(&mut state);
    state[0] ^= last;
    state[2] ^= 0xff;
    for _ in 0..3 {
        sip_round(&mut state);
    }
    (state[0] ^ state[1] ^ state[2] ^ state[3]) as u32
}

#[inline(always)]
const fn sip_round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_names_do_not_share_a_tag() {
        let chosen = |bits: u32| {
            // Pairs of differences that cancel out in hashes that multiply and shift, whatever the
            // key.
            let mut name = alloc::vec![b'a'; 240];
            for pair in 0..15 {
                if bits >> pair & 1 != 0 {
                    let at = pair as usize * 16;
                    name[at + 7] ^= 0x80;
                    name[at + 15] ^= 0x80;
                    name[at + 11] ^= 0x80;
                }
            }
            name
        };
        let mut tags: alloc::vec::Vec<u32> = (0..1 << 15)
            .map(|bits| tag(0x1234_5678_9abc_def0, &chosen(bits)))
            .collect();
        tags.sort_unstable();
        tags.dedup();
        assert!(tags.len() > (1 << 15) - 16, "{} tags", tags.len());
    }
}
