//! Maps of sparse files.

use super::number;
use alloc::vec::Vec;

/// Most parts that a map may have: more than a file system gives a file in practice, and bounded.
const PARTS_MAX: u64 = 1 << 24;

/// Whether `parts` make sense for a file of `size` bytes with `stored` bytes in the archive:
/// sorted, apart, inside. Drops empty parts and joins adjacent ones.
pub fn check(parts: &mut Vec<(u64, u64)>, size: u64, stored: u64) -> bool {
    let (mut end, mut sum) = (0u64, 0u64);
    for &(offset, length) in &*parts {
        let Some(behind) = offset.checked_add(length) else {
            return false;
        };
        if behind > size || (length > 0 && offset < end) {
            return false;
        }
        if length > 0 {
            end = behind;
        }
        // No overflow: the parts are apart and inside the file.
        sum += length;
    }
    parts.retain(|&(_, length)| length > 0);
    parts.dedup_by(|next, last| {
        let adjacent = last.0 + last.1 == next.0;
        if adjacent {
            last.1 += next.1;
        }
        adjacent
    });
    sum <= stored
}

/// The map of format 1.0, which stands before the data: lines of decimal numbers, first how many
/// parts, then offset and length of each.
#[derive(Default)]
pub struct LineMap {
    line: Vec<u8>,
    count: Option<u64>,
    offset: Option<u64>,
    /// The parts so far.
    pub parts: Vec<(u64, u64)>,
}

impl LineMap {
    /// Takes the next block; none when it makes no sense, else whether the map is complete.
    pub fn block(&mut self, block: &[u8]) -> Option<bool> {
        for &byte in block {
            if byte != b'\n' {
                if self.line.len() >= 20 {
                    return None;
                }
                self.line.push(byte);
                continue;
            }
            let number = number::decimal(&self.line)?;
            self.line.clear();
            match (self.count, self.offset.take()) {
                (None, _) if number > PARTS_MAX => return None,
                (None, _) => self.count = Some(number),
                (Some(_), None) => self.offset = Some(number),
                (Some(_), Some(offset)) => self.parts.push((offset, number)),
            }
            if self.count == Some(self.parts.len() as u64) && self.offset.is_none() {
                return Some(true);
            }
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn maps_must_be_sorted_apart_and_inside() {
        let table: [(&[(u64, u64)], bool); 8] = [
            (&[], true),
            (&[(0, 10)], true),
            (&[(0, 5), (5, 5)], true),
            (&[(2, 3), (8, 2), (10, 0)], true),
            (&[(2, 3), (4, 1)], false),
            (&[(8, 1), (2, 1)], false),
            (&[(8, 3)], false),
            (&[(u64::MAX, 2)], false),
        ];
        for (parts, good) in table {
            assert_eq!(check(&mut parts.to_vec(), 10, 10), good, "{parts:?}");
        }
        assert!(!check(&mut vec![(0, 5)], 10, 4));
        let mut parts = vec![(0, 5), (5, 0), (5, 2), (9, 1)];
        assert!(check(&mut parts, 10, 10));
        assert_eq!(parts, [(0, 7), (9, 1)]);
    }

    #[test]
    fn line_maps() {
        let mut map = LineMap::default();
        assert_eq!(map.block(b"2\n0\n5\n1"), Some(false));
        assert_eq!(map.block(b"0\n7\n\0\0"), Some(true));
        assert_eq!(map.parts, [(0, 5), (10, 7)]);
        assert_eq!(LineMap::default().block(b"0\n\0"), Some(true));
        for bad in [
            &b"\n"[..],
            b"x\n",
            b"99999999999999\n",
            b"111111111111111111111111",
        ] {
            assert_eq!(LineMap::default().block(bad), None, "{bad:?}");
        }
    }
}
