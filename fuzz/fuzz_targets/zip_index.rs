//! Any bytes as a zip archive, an end record put behind them that makes all of them the central
//! directory.
#![no_main]

#[path = "../../crates/culvert-drivers/tests/archive/explore.rs"]
mod explore;

use culvert_drivers::archive::Bytes;
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else {
        return;
    };
    let mut bytes = data.to_vec();
    if mode & 1 != 0 {
        let start = data
            .windows(4)
            .position(|four| four == b"PK\x01\x02")
            .unwrap_or(0);
        let count = data
            .windows(4)
            .filter(|four| *four == b"PK\x01\x02")
            .count() as u16;
        bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&((data.len() - start) as u32).to_le_bytes());
        bytes.extend_from_slice(&(start as u32).to_le_bytes());
        bytes.extend_from_slice(&[0, 0]);
    }
    let raw: Arc<dyn Bytes> = Arc::new(bytes);
    if let Some(image) = explore::index(&raw, false) {
        explore::explore(raw, image).expect("an index just made is good");
    }
});
