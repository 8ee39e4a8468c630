//! The table is whole, and its page is what it says.

use super::*;
use crate::dispatch::row;

/// Numbers 335 to 423 were never given out on x86-64.
#[test]
fn every_number_has_a_row() {
    let newest = culvert_sys::raw::general::__NR_file_setattr as usize;
    for number in (0..=334).chain(424..=newest) {
        assert!(
            row(number).is_some_and(|row| row.number == number),
            "no row for system call {number}"
        );
    }
    assert_eq!(TABLE.len(), 335 + newest - 423);
}

#[test]
fn the_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/system-calls.md");
    if std::env::var_os("CULVERT_BLESS").is_some() {
        std::fs::write(path, document()).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap_or_default(),
        document(),
        "run CULVERT_BLESS=1 cargo test -p culvert-preload the_page"
    );
}
