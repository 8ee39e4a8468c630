//! Any bytes as a compressed file: the build pass gives an error or a table, and with a table a
//! read anywhere gives what the build pass gave.
#![no_main]

use culvert_drivers::archive::codec::{self, Checkpoints, Options, Stream};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    let Some(format) = codec::detect(data) else {
        return;
    };
    let raw = data.to_vec();
    let mut plain = Vec::new();
    let mut sink = |bytes: &[u8]| {
        plain.extend_from_slice(bytes);
        match plain.len() < 8 << 20 {
            true => Ok(()),
            false => Err(culvert::Errno::EFBIG.into()),
        }
    };
    let options = Options { spool: 1 << 20 };
    let Ok(table) = codec::build(format, &raw, &options, &mut sink, &mut |_| {}) else {
        return;
    };
    let table = Checkpoints::decode(&table.encode()).unwrap();
    let stream = Stream::open(format, Arc::new(raw), table).unwrap();
    for at in [0, 1, plain.len() / 2, plain.len().saturating_sub(7)] {
        let mut buffer = [0; 3000];
        let count = stream.read_at(at as u64, &mut &mut buffer[..]).unwrap();
        assert_eq!(
            buffer[..count],
            plain[at.min(plain.len())..plain.len().min(at + 3000)]
        );
    }
});
