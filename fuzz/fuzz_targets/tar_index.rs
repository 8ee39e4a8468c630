//! Any bytes as a tar archive, plain or compressed: an error, or a tree of which everything can be
//! used.
#![no_main]

#[path = "../../crates/culvert-drivers/tests/archive/explore.rs"]
mod explore;

use culvert_drivers::archive::Bytes;
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

/// Makes the checksums of headers right: else hardly any input gets further.
fn mend(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512) {
        if block[257..262] == *b"ustar" {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&mode, data)) = data.split_first() else {
        return;
    };
    let mut bytes = data.to_vec();
    if mode & 2 != 0 {
        mend(&mut bytes);
    }
    let raw: Arc<dyn Bytes> = Arc::new(bytes);
    if let Some(image) = explore::index(&raw, mode & 1 != 0) {
        explore::explore(raw, image).expect("an index just made is good");
    }
});
