//! Any bytes as a 7z archive, its checksums made right: an error, or a tree of which everything can
//! be used.
#![no_main]

#[path = "../../crates/culvert-drivers/tests/archive/explore.rs"]
mod explore;

use culvert_drivers::archive::Bytes;
use culvert_drivers::archive::codec::crc32;
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

/// The packed bytes come first, then the header: `data` without the first 32 bytes of an archive.
fn archive(packed: usize, data: &[u8]) -> Vec<u8> {
    let packed = packed.min(data.len());
    let header = &data[packed..];
    let mut rest = Vec::new();
    rest.extend_from_slice(&(packed as u64).to_le_bytes());
    rest.extend_from_slice(&(header.len() as u64).to_le_bytes());
    rest.extend_from_slice(&crc32(0, header).to_le_bytes());
    let mut bytes = b"7z\xbc\xaf\x27\x1c\0\x04".to_vec();
    bytes.extend_from_slice(&crc32(0, &rest).to_le_bytes());
    bytes.extend_from_slice(&rest);
    bytes.extend_from_slice(data);
    bytes
}

fuzz_target!(|data: &[u8]| {
    let Some((&packed, data)) = data.split_first() else {
        return;
    };
    let raw: Arc<dyn Bytes> = Arc::new(archive(packed.into(), data));
    if let Some(image) = explore::index(&raw, false) {
        explore::explore(raw, image).expect("an index just made is good");
    }
});
