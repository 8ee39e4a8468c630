//! Any bytes as the list that a script of extfs prints: members with names, or lines that are not
//! understood.
#![no_main]

use culvert_drivers::archive::listing::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let listing = parse(data, 1_709_251_200);
    let lines = data.split(|&byte| byte == b'\n').count();
    assert!(listing.members.len() + listing.strange.len() <= lines);
    for member in listing.members {
        assert!(!member.path.is_empty() && !member.path.contains(&0) && member.path[0] != b'/');
    }
});
