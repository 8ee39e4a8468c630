//! Tables and the tracker by themselves; whole streams are tested in `codec::tests`.

use super::tables::*;
use super::*;

#[test]
fn bases_end_where_deflate_ends() {
    assert_eq!(LITERALS[0][284], 227 << 16 | 5);
    assert_eq!(LITERALS[0][285], 258 << 16);
    assert_eq!(DISTANCES[0][29], 24577 << 16 | 13);
    assert_eq!(DISTANCES[1][31], 49153 << 16 | 14);
}

#[test]
fn code_lengths_are_checked() {
    let mut table = Table::<512>::new();
    let build = |table: &mut Table<512>, lengths: &[u8]| table.build(lengths, &DISTANCES[0]);
    assert!(build(&mut table, &[1, 1]).is_some());
    assert!(build(&mut table, &[1, 1, 1]).is_none(), "over-subscribed");
    assert!(build(&mut table, &[2, 2, 2]).is_none(), "incomplete");
    assert!(build(&mut table, &[0, 0]).is_some(), "no distances at all");
    assert_eq!(table.root(0), INVALID);
    assert!(build(&mut table, &[1]).is_some(), "one code of one bit");
    assert_eq!(table.root(1), INVALID);
    assert_eq!(table.root(0), 1 << 16 | 1 << 8 | 1);
}

#[test]
fn every_code_of_a_skewed_alphabet_is_found() {
    // Lengths 1, 2, ... 14, 15, 15: the deepest second level there is.
    let lengths: alloc::vec::Vec<u8> = (1..=15).chain([15]).collect();
    let mut table = Table::<512>::new();
    table.build(&lengths, &DISTANCES[0]).unwrap();
    for (symbol, &length) in lengths.iter().enumerate() {
        let bits = if symbol == 15 {
            0x7fff
        } else {
            (1 << symbol) - 1
        };
        let mut entry = table.root(bits);
        let mut taken = 0;
        if entry & SPECIAL != 0 {
            taken = entry & 0xff;
            entry = table.behind(entry, bits);
        }
        assert_eq!(taken + (entry >> 8 & 31), u32::from(length), "{symbol}");
        assert_eq!(entry >> 16, DISTANCES[0][symbol] >> 16);
    }
}

#[test]
fn a_tracker_keeps_what_is_referred_to() {
    let mut tracker = Tracker::new();
    tracker.mark(0, 5, 3); // bytes -5, -4, -3
    tracker.mark(10, 11, 40); // byte -1, then its own
    tracker.since = 100;
    tracker.mark(0, 100, 9);
    let mut window = [1; 8];
    tracker.thin(&mut window);
    assert_eq!(window, [0, 0, 0, 1, 1, 1, 0, 1]);
}
