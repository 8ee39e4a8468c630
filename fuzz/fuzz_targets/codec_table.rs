//! Any bytes as points and stored bytes of the seek table of a good gzip or xz file: whatever they
//! say, reading ends with bytes or an error.
#![no_main]

use culvert_drivers::archive::codec::{self, Checkpoints, Format, Options, Stream};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

struct Good {
    format: Format,
    raw: Arc<Vec<u8>>,
    table: Vec<u8>,
}

/// Two small files whose tables have points of every kind, made by the system's own tools.
static GOOD: LazyLock<[Good; 2]> = LazyLock::new(|| {
    let plain: Vec<u8> = (0..5_000_000u32).map(|i| (i / 7 ^ i >> 9) as u8).collect();
    let path = std::env::temp_dir().join(format!("codec_table.{}", std::process::id()));
    std::fs::write(&path, plain).unwrap();
    let good = [(Format::Gzip, "gzip"), (Format::Xz, "xz")].map(|(format, program)| {
        let output = std::process::Command::new(program)
            .arg("-c")
            .arg(&path)
            .output();
        let raw = output.unwrap().stdout;
        let options = Options { spool: 1 << 20 };
        let table = codec::build(format, &raw, &options, &mut |_| Ok(()), &mut |_| {});
        let table = table.unwrap().encode();
        Good {
            format,
            raw: Arc::new(raw),
            table,
        }
    });
    std::fs::remove_file(path).unwrap();
    good
});

fuzz_target!(|data: &[u8]| {
    let Some((&which, data)) = data.split_first() else {
        return;
    };
    let good = &GOOD[usize::from(which & 1)];
    let mut table = good.table.clone();
    // Behind the header, which has a checksum: a place of three bytes, from the end (where the
    // points are) or from the start, and a value.
    for change in data.chunks_exact(4) {
        let place = u32::from_le_bytes([change[0], change[1], change[2] & 0x7f, 0]) as usize;
        let at = match change[2] & 0x80 {
            0 => table.len() - 1 - place % (table.len() - 64),
            _ => 64 + place % (table.len() - 64),
        };
        table[at] = change[3];
    }
    let table = Checkpoints::decode(&table).unwrap();
    let length = table.plain_len();
    let stream = Stream::open(good.format, good.raw.clone(), table).unwrap();
    for at in [length / 3, length - 1000] {
        let _ = stream.read_at(at, &mut &mut [0; 3000][..]);
    }
});
