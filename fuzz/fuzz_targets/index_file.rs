//! Any bytes behind the good header of an index, with sections wherever the input says.
#![no_main]

#[path = "../../crates/culvert-drivers/tests/archive/explore.rs"]
mod explore;

use culvert_drivers::archive::Bytes;
use culvert_drivers::archive::format::{HEADER, Header, Identity, SECTIONS};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    let Some((head, body)) = data.split_at_checked(2 + 4 * SECTIONS) else {
        return;
    };
    let length = (HEADER + body.len()) as u64;
    let mut sections = [(0, 0); SECTIONS];
    for (section, four) in sections.iter_mut().zip(head[2..].chunks_exact(4)) {
        let [start, size] =
            [0, 2].map(|at| u64::from(u16::from_le_bytes([four[at], four[at + 1]])));
        *section = (start % length, size.min(length - start % length));
    }
    let header = Header {
        length,
        body: 0,
        archive: Identity {
            size: 4096,
            mtime: Default::default(),
            content: 0,
        },
        container: head[0] & 1,
        compression: head[1] % 5,
        damaged: false,
        plain: 4096,
        content: 0,
        seed: 0,
        sections,
    };
    let image = [&header.encode()[..], body].concat();
    let raw: Arc<dyn Bytes> = Arc::new(body.to_vec());
    explore::explore(raw, image);
});
