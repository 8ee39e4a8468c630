//! CRC-32 by carry-less multiplication (Gopal and others, "Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ", 2009): ten times the speed of tables. Only with the legacy
//! encodings, which leave the upper halves of the vector registers alone.

use super::sliced32;
use core::{
    arch::x86_64::*,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// x^n modulo the polynomial, bit-reflected and shifted by one as the product of two reflected
/// numbers needs it.
const fn power(n: u32) -> i64 {
    let mut value = 0x8000_0000_u32;
    let mut i = 0;
    while i < n {
        value = (value >> 1) ^ (0xedb8_8320 & (value & 1).wrapping_neg());
        i += 1;
    }
    (value as i64) << 1
}

/// Factors that carry 128 bits over a distance of 512 bits, and of 128: for the lower and the upper
/// half.
const OVER_512: [i64; 2] = [power(512 + 32), power(512 - 32)];
const OVER_128: [i64; 2] = [power(128 + 32), power(128 - 32)];

/// 0: not asked yet, 1: the processor cannot, 2: it can.
static CAN: AtomicU8 = AtomicU8::new(0);

fn can() -> bool {
    match CAN.load(Relaxed) {
        0 => {
            // CPUID leaf 1, ecx bit 1: PCLMULQDQ (Intel SDM, volume 2A).
            let can = __cpuid(1).ecx & 2 != 0;
            CAN.store(1 + u8::from(can), Relaxed);
            can
        }
        known => known == 2,
    }
}

/// The CRC over all whole blocks of 16 bytes of `bytes`, at least 64, and the rest; none when the
/// processor cannot.
pub fn crc32(crc: u32, bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (blocks, rest) = bytes.as_chunks::<16>();
    let (first, blocks) = blocks.split_first_chunk::<4>()?;
    if !can() {
        return None;
    }
    // SAFETY: the processor has PCLMULQDQ, as just asked, and SSE2 is part of x86-64.
    let folded = unsafe { fold(!crc, first, blocks) };
    // The carried value takes the place of all that came before.
    Some((sliced32(!0, &folded), rest))
}

/// Sixteen bytes whose CRC, from 0 and without the final inversion, is that of `first` and `blocks`
/// from `crc`.
#[target_feature(enable = "pclmulqdq,sse2")]
fn fold(crc: u32, first: &[[u8; 16]; 4], blocks: &[[u8; 16]]) -> [u8; 16] {
    let factors = |[low, high]: [i64; 2]| _mm_set_epi64x(high, low);
    let carry = |value: __m128i, factors: __m128i, next: __m128i| {
        let low = _mm_clmulepi64_si128::<0x00>(value, factors);
        let high = _mm_clmulepi64_si128::<0x11>(value, factors);
        _mm_xor_si128(_mm_xor_si128(low, high), next)
    };
    let mut lanes = first.map(|block| load(block));
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(crc as i32));
    let (fours, rest) = blocks.as_chunks::<4>();
    let over = factors(OVER_512);
    for four in fours {
        for i in 0..4 {
            lanes[i] = carry(lanes[i], over, load(four[i]));
        }
    }
    let over = factors(OVER_128);
    let mut value = lanes[0];
    for &lane in &lanes[1..] {
        value = carry(value, over, lane);
    }
    for &block in rest {
        value = carry(value, over, load(block));
    }
    let halves = [value, _mm_unpackhi_epi64(value, value)].map(|half| _mm_cvtsi128_si64(half));
    (halves[0] as u64 as u128 | (halves[1] as u64 as u128) << 64).to_le_bytes()
}

#[inline]
#[target_feature(enable = "sse2")]
fn load(block: [u8; 16]) -> __m128i {
    let value = u128::from_le_bytes(block);
    _mm_set_epi64x((value >> 64) as i64, value as i64)
}
