//! Any bytes as the data of a zip member, by every method.
#![no_main]

use culvert_drivers::archive::codec::Member;
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    let [method, length @ .., _] = data.first_chunk::<6>().copied().unwrap_or_default();
    let data = data.get(6..).unwrap_or_default().to_vec();
    let method = [0, 8, 9, 12, 14, 93, 95, 1][usize::from(method & 7)];
    let plain = u64::from(u32::from_le_bytes(length)) & 0xff_ffff;
    let packed = data.len() as u64;
    if let Ok(member) = Member::open(method, Arc::new(data), 0, packed, plain, 0) {
        for at in [0, plain / 2] {
            let _ = member.read_at(at, &mut &mut [0; 3000][..]);
        }
    }
});
