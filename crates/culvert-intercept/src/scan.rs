//! Two passes over all bytes of the code, at 16 bytes a step: a first hint where system calls may
//! be, and where jumps may lead.
//!
//! Both say too much, never too little, as they know nothing of instruction boundaries: decoding
//! decides afterwards.

use alloc::vec::Vec;
use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
    _mm_set1_epi8,
};

#[target_feature(enable = "sse2")]
fn load(bytes: &[u8; 16]) -> __m128i {
    let value = u128::from_le_bytes(*bytes);
    _mm_set_epi64x((value >> 64) as i64, value as i64)
}

/// Calls `each` with all positions at which `wanted`, given 16 bytes and the 16 that follow one
/// later, sets bits. Never with the last position.
#[target_feature(enable = "sse2")]
fn positions(
    text: &[u8],
    wanted: impl Fn(__m128i, __m128i) -> __m128i,
    mut each: impl FnMut(usize),
) {
    let mut start = 0;
    while let Some(window) = text.get(start..start + 17) {
        let (Some(here), Some(next)) = (window.first_chunk(), window.last_chunk()) else {
            break;
        };
        let mut bits = _mm_movemask_epi8(wanted(load(here), load(next)));
        while bits != 0 {
            each(start + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
        start += 16;
    }
    let rest = text.get(start..).unwrap_or_default();
    let mut padded = [0; 17];
    padded[..rest.len()].copy_from_slice(rest);
    if let (Some(here), Some(next)) = (padded.first_chunk(), padded.last_chunk()) {
        let bits = _mm_movemask_epi8(wanted(load(here), load(next)));
        (0..rest.len().saturating_sub(1))
            .filter(|bit| bits & (1 << bit) != 0)
            .for_each(|bit| each(start + bit));
    }
}

/// The offsets of all byte pairs 0f 05.
pub fn pairs(text: &[u8]) -> Vec<usize> {
    #[target_feature(enable = "sse2")]
    fn scan(text: &[u8], each: impl FnMut(usize)) {
        let wanted = |here, next| {
            _mm_and_si128(
                _mm_cmpeq_epi8(here, _mm_set1_epi8(0x0f)),
                _mm_cmpeq_epi8(next, _mm_set1_epi8(0x05)),
            )
        };
        positions(text, wanted, each);
    }
    let mut found = Vec::new();
    // SAFETY: SSE2 is part of x86-64.
    unsafe { scan(text, |offset| found.push(offset)) };
    found
}

/// Where jumps and calls with a 4-byte displacement may lead: e8 (call), e9 (jmp), 0f 80 to 0f 8f
/// (jcc). Calls `each` with the offset in `text`, which may lie outside.
pub fn branches(text: &[u8], mut each: impl FnMut(i64)) {
    #[target_feature(enable = "sse2")]
    fn scan(text: &[u8], each: impl FnMut(usize)) {
        let wanted = |here, next| {
            let long = _mm_cmpeq_epi8(
                _mm_and_si128(here, _mm_set1_epi8(!1)),
                _mm_set1_epi8(0xe8_u8 as i8),
            );
            let two = _mm_cmpeq_epi8(
                _mm_and_si128(next, _mm_set1_epi8(0xf0_u8 as i8)),
                _mm_set1_epi8(0x80_u8 as i8),
            );
            _mm_or_si128(
                long,
                _mm_and_si128(_mm_cmpeq_epi8(here, _mm_set1_epi8(0x0f)), two),
            )
        };
        positions(text, wanted, each);
    }
    let at = |offset| {
        let field = if text.get(offset) == Some(&0x0f) {
            offset + 2
        } else {
            offset + 1
        };
        if let Some(displacement) = crate::elf::word(text, field) {
            each((field + 4) as i64 + i64::from(displacement as i32));
        }
    };
    // SAFETY: SSE2 is part of x86-64.
    unsafe { scan(text, at) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn pairs_are_found_at_every_place() {
        for length in 0..70 {
            for place in 0..length {
                let mut text = std::vec![0x90; length];
                text[place] = 0x0f;
                let expected: Vec<usize> = match text.get_mut(place + 1) {
                    Some(next) => {
                        *next = 0x05;
                        [place].into()
                    }
                    None => [].into(),
                };
                assert_eq!(pairs(&text), expected, "{length} bytes");
            }
        }
    }

    #[test]
    fn branches_of_all_three_forms_are_followed() {
        for place in 0..40 {
            for (form, end) in [
                (&[0xe8, 4, 0, 0, 0][..], 5),
                (&[0xe9, 4, 0, 0, 0], 5),
                (&[0x0f, 0x87, 4, 0, 0, 0], 6),
            ] {
                let mut text = std::vec![0x90; place];
                text.extend_from_slice(form);
                let mut found = Vec::new();
                branches(&text, |target| found.push(target));
                assert_eq!(found, [place as i64 + end + 4]);
            }
        }
    }
}
