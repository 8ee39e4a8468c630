//! The codecs against the tools that everybody uses: gzip, bzip2, xz, zstd, and Python's zlib for
//! what those do not make.

extern crate std;

mod damage;
mod formats;
mod gzip;
mod members;

use super::*;
use alloc::{sync::Arc, vec, vec::Vec};
use std::{
    io::Write,
    process::{Command, Stdio},
    string::String,
};

/// xorshift64*: the same numbers every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// 0 to `limit - 1`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// `length` bytes that compress like a source tree: words, numbers, runs, repeats from near and
/// far, and noise.
pub fn sample(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes: Vec<u8> = Vec::with_capacity(length + 5000);
    while bytes.len() < length {
        match random.below(10) {
            0 => {
                let count = random.below(3000);
                bytes.extend((0..count).map(|_| random.next() as u8));
            }
            1 => bytes.resize(
                bytes.len() + random.below(4000) as usize,
                random.next() as u8,
            ),
            2..5 if bytes.len() > 10 => {
                let reach = bytes.len().min(if random.below(2) == 0 {
                    40_000
                } else {
                    2_000_000
                });
                let from = bytes.len() - 1 - random.below(reach as u64 - 1) as usize;
                let to = bytes.len().min(from + random.below(600) as usize);
                bytes.extend_from_within(from..to);
            }
            _ => {
                let words = [
                    "struct ", "inode", "\n\t", "return ", "0x", "the ", "= ", "();\n",
                ];
                for _ in 0..random.below(60) {
                    let word = words[random.below(8) as usize];
                    bytes.extend_from_slice(word.as_bytes());
                    bytes.push(b'a' + random.below(26) as u8);
                }
            }
        }
    }
    bytes.truncate(length);
    bytes
}

/// What `program` makes of `input`.
pub fn tool(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}");
        output.stdout
    })
}

/// All plain bytes, and the table.
pub fn decode(
    format: Format,
    packed: &Vec<u8>,
    options: &Options,
) -> Result<(Vec<u8>, Checkpoints)> {
    let mut plain = Vec::new();
    let mut told = 0;
    let table = build(
        format,
        packed,
        options,
        &mut |bytes| {
            plain.extend_from_slice(bytes);
            Ok(())
        },
        &mut |done| {
            assert!(
                done >= told && done <= packed.len() as u64,
                "progress goes backwards"
            );
            told = done;
        },
    )?;
    assert_eq!(table.plain_len(), plain.len() as u64);
    Ok((plain, table))
}

/// The cause of the error that decoding `packed` ends with.
pub fn cause(format: Format, packed: &Vec<u8>) -> String {
    let error = decode(format, packed, &Options::default())
        .map(|_| ())
        .unwrap_err();
    String::from(error.cause().unwrap())
}

/// Builds, compares, and reads at random, forwards and backwards, through a table that was encoded
/// and decoded.
pub fn check(format: Format, packed: Vec<u8>, plain: &[u8], options: &Options) -> Checkpoints {
    assert_eq!(detect(&packed[..packed.len().min(16)]), Some(format));
    let (found, table) = decode(format, &packed, options).unwrap();
    assert!(found == plain, "the build pass gives other bytes");
    let copy = Checkpoints::decode(&table.clone().encode()).unwrap();
    let stream = Stream::open(format, Arc::new(packed), copy).unwrap();
    let length = plain.len() as u64;
    let mut random = Random(length + 1);
    let expect = |at: u64, wanted: usize| {
        let at = (at as usize).min(plain.len());
        &plain[at..(at + wanted).min(plain.len())]
    };
    let mut buffer = vec![0; 200_000];
    let mut compare = |at: u64, wanted: usize| {
        let count = stream.read_at(at, &mut &mut buffer[..wanted]).unwrap();
        assert!(
            buffer[..count] == *expect(at, wanted),
            "{wanted} bytes at {at}"
        );
        count as u64
    };
    for round in 0..600 {
        let wanted = 1 + random.below(if round % 20 == 0 { 150_000 } else { 5000 }) as usize;
        compare(random.below(length + 10), wanted);
    }
    let mut at = 0;
    while at < length {
        at += compare(at, 1 + random.below(100_000) as usize);
    }
    while at > 0 {
        let step = random.below(90_000).min(at);
        at -= step;
        compare(at, step as usize);
        at = at.saturating_sub(1);
    }
    compare(u64::MAX - 3, 10);
    table
}

#[test]
fn formats_are_recognised_by_their_first_bytes() {
    for (prefix, format) in [
        (&b"\x1f\x8b\x08\x00"[..], Some(Format::Gzip)),
        (b"\x1f\x8b\x08\xff", None),
        (b"\x28\xb5\x2f\xfd", Some(Format::Zstd)),
        (b"\x52\x2a\x4d\x18", Some(Format::Zstd)),
        (b"\xfd7zXZ\0", Some(Format::Xz)),
        (b"LZIP\x01\x0c", Some(Format::Lzip)),
        (b"LZIP\x00\x0c", None),
        (
            b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0",
            Some(Format::Lzma),
        ),
        (b"\x5d\0\0\x18\0\x05\0\0\0\0\0\0\0\0", Some(Format::Lzma)),
        (b"\x5d\0\0\x90\0\x05\0\0\0\0\0\0\0\0", None),
        (b"\x5d\0\0\x80\0\x05\0\0\0\0\0\0\x01\0", None),
        (b"\x5d\0\0\x80\0\x05\0\0\0\0\0\0\0\x01", None),
        (b"]\0\0\0\0\0\0\0\0\0\0\0\0\0", None),
        (b"\x1f\x9d\x90", Some(Format::Compress)),
        (b"\x1f\x9d\x0c", Some(Format::Compress)),
        (b"\x1f\x9d\x91", None),
        (b"\x1f\x9d\x88", None),
        (b"\x1f\x9d\xb0", None),
        (b"BZh91AY&SY", Some(Format::Bzip2)),
        (b"BZh0......", None),
        (b"BZh9 is a text", None),
        (b"PK\x03\x04", None),
        (b"", None),
    ] {
        assert_eq!(detect(prefix), format, "{prefix:?}");
    }
}

/// Hooks run on a stack of 256 KiB, which others use too.
#[test]
fn reading_takes_little_stack() {
    let plain = sample(700_000, 80);
    for (format, arguments) in [
        (Format::Gzip, "-c"),
        (Format::Bzip2, "-c"),
        (Format::Xz, "-c9"),
        (Format::Lzip, "-c9"),
        (Format::Lzma, "-c9"),
        (Format::Compress, "-c"),
        (Format::Zstd, "-qc19"),
    ] {
        let packed = tool(format.name(), &[arguments], &plain);
        let (_, table) = decode(format, &packed, &Options::default()).unwrap();
        let expected = plain[600_000..600_100].to_vec();
        let read = move || {
            let stream = Stream::open(format, Arc::new(packed), table).unwrap();
            let mut buffer = [0; 100];
            assert_eq!(stream.read_at(600_000, &mut &mut buffer[..]).unwrap(), 100);
            assert!(buffer == expected[..]);
        };
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn(read).unwrap().join().unwrap();
    }
}

/// Bytes, of which the thread itself takes some.
const STACK: usize = 64 << 10;
