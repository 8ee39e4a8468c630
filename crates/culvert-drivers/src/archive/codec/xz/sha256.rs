//! SHA-256 (FIPS 180-4), which an xz block may end with.

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes, and of the
/// square roots of the first eight.
const fn roots<const N: usize>(cube: bool) -> [u32; N] {
    let mut table = [0; N];
    let (mut found, mut candidate) = (0, 2u128);
    while found < N {
        let mut divisor = 2;
        while divisor * divisor <= candidate && candidate % divisor != 0 {
            divisor += 1;
        }
        if divisor * divisor > candidate {
            // The root times 2^32 by bisection: at most 17.6, so 37 bits.
            let (mut low, mut high) = (0u128, 1 << 37);
            while high - low > 1 {
                let middle = (low + high) / 2;
                let fits = match cube {
                    // (middle / 2^32)^3 <= candidate; the cube of 37 bits fits.
                    true => middle * middle * middle <= candidate << 96,
                    false => middle * middle <= candidate << 64,
                };
                if fits {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            table[found] = low as u32;
            found += 1;
        }
        candidate += 1;
    }
    table
}

static K: [u32; 64] = roots(true);
const START: [u32; 8] = roots(false);

/// A hash in the making.
pub struct Sha256 {
    state: [u32; 8],
    block: [u8; 64],
    length: u64,
}

impl Sha256 {
    pub const fn new() -> Self {
        Self {
            state: START,
            block: [0; 64],
            length: 0,
        }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        let held = (self.length % 64) as usize;
        self.length += bytes.len() as u64;
        if held > 0 {
            let part = bytes.split_off(..bytes.len().min(64 - held)).unwrap_or(&[]);
            self.block[held..held + part.len()].copy_from_slice(part);
            if held + part.len() < 64 {
                return;
            }
            compress(&mut self.state, &self.block);
        }
        let (blocks, rest) = bytes.as_chunks::<64>();
        for block in blocks {
            compress(&mut self.state, block);
        }
        self.block[..rest.len()].copy_from_slice(rest);
    }

    pub fn finish(mut self) -> [u8; 32] {
        let bits = self.length * 8;
        let zeroes = 63 - ((self.length + 8) % 64) as usize;
        self.update(&[0x80]);
        self.update(&[0; 64][..zeroes]);
        self.update(&bits.to_be_bytes());
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        digest
    }
}

fn compress(state: &mut [u32; 8], block: &[u8; 64]) {
    let mut w = [0u32; 64];
    for (word, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for i in 16..64 {
        let (x, y) = (w[i - 15], w[i - 2]);
        let s0 = x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3);
        let s1 = y.rotate_right(17) ^ y.rotate_right(19) ^ (y >> 10);
        w[i] = w[i - 16]
            .wrapping_add(s0)
            .wrapping_add(w[i - 7])
            .wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for i in 0..64 {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let one = h
            .wrapping_add(s1)
            .wrapping_add((e & f) ^ (!e & g))
            .wrapping_add(K[i])
            .wrapping_add(w[i]);
        let two = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(one), c, b, a, one.wrapping_add(two));
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *old = old.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-4's examples; the lengths around a block's end are compared with sha256sum(1)'s.
    #[test]
    fn known_digests() {
        assert_eq!((K[0], K[63]), (0x428a_2f98, 0xc671_78f2));
        let start = |bytes: &[u8]| {
            let mut hash = Sha256::new();
            for piece in bytes.chunks(37) {
                hash.update(piece);
            }
            let digest = hash.finish();
            u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
        };
        assert_eq!(start(b""), 0xe3b0_c442);
        assert_eq!(start(b"abc"), 0xba78_16bf);
        assert_eq!(start(&[b'a'; 55]), 0x9f4390f8);
        assert_eq!(start(&[b'a'; 56]), 0xb35439a4);
        assert_eq!(start(&[b'a'; 64]), 0xffe054fe);
        assert_eq!(start(&[b'a'; 1_000]), 0x41edece4);
    }
}
