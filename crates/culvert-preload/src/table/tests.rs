//! The table is whole.

use super::*;
use alloc::vec::Vec;

/// Numbers 335 to 423 were never given out on x86-64.
#[test]
fn every_number_has_a_row() {
    let newest = TABLE.last().map_or(0, |row| row.0);
    assert!(newest >= __NR_file_setattr);
    let numbers: Vec<u32> = TABLE.iter().map(|row| row.0).collect();
    let all: Vec<u32> = (0..=334).chain(424..=newest).collect();
    assert_eq!(numbers, all);
}
