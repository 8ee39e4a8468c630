//! The data of zip members.

use super::*;

fn open(method: u16, packed: &[u8], plain: &[u8]) -> Result<Member> {
    // Not at the start of the archive, and not at its end.
    let raw = [b"before", packed, b"behind"].concat();
    let (packed, plain_len) = (packed.len() as u64, plain.len() as u64);
    Member::open(method, Arc::new(raw), 6, packed, plain_len, crc32(0, plain))
}

fn check_member(method: u16, packed: &[u8], plain: &[u8]) {
    let member = open(method, packed, plain).unwrap();
    let mut random = Random(60);
    let mut buffer = vec![0; 70_000];
    let mut compare = |at: usize, wanted: usize| {
        let count = member
            .read_at(at as u64, &mut &mut buffer[..wanted])
            .unwrap();
        let end = plain.len().min(at + wanted);
        assert!(
            buffer[..count] == plain[at.min(end)..end],
            "method {method}, {wanted} at {at}"
        );
        count
    };
    let mut at = 0;
    loop {
        match compare(at, 1 + random.below(60_000) as usize) {
            0 => break,
            count => at += count,
        }
    }
    for _ in 0..20 {
        compare(random.below(plain.len() as u64 + 5) as usize, 3000);
    }
}

const PYTHON: &str = "
import sys, zlib, bz2, lzma
data = sys.stdin.buffer.read()
out = sys.stdout.buffer
if sys.argv[1] == '8':
    c = zlib.compressobj(6, zlib.DEFLATED, -15)
    out.write(c.compress(data) + c.flush())
elif sys.argv[1] == '14':
    f = [{'id': lzma.FILTER_LZMA1, 'preset': 1}]
    p = lzma._encode_filter_properties(f[0])
    out.write(bytes([9, 4, len(p), 0]) + p)
    out.write(lzma.compress(data, lzma.FORMAT_RAW, filters=f))
";

#[test]
fn every_method() {
    let plain = sample(1_200_000, 61);
    check_member(0, &plain, &plain);
    check_member(8, &tool("python3", &["-c", PYTHON, "8"], &plain), &plain);
    check_member(12, &tool("bzip2", &["-c"], &plain), &plain);
    check_member(14, &tool("python3", &["-c", PYTHON, "14"], &plain), &plain);
    check_member(93, &tool("zstd", &["-qc"], &plain), &plain);
    check_member(
        95,
        &tool("xz", &["-c", "--block-size=400000"], &plain),
        &plain,
    );
}

#[test]
fn small_members() {
    for length in [0, 1, 10, 300, 5000, 65_536, 65_537] {
        let plain = sample(length, 62);
        check_member(8, &tool("python3", &["-c", PYTHON, "8"], &plain), &plain);
    }
}

/// A long member gets points while it is read; there are few however long it is, and after the
/// first pass going back is a matter of one interval.
#[test]
fn long_members_are_sought_in() {
    let plain: Vec<u8> = sample(9_000_000, 64);
    check_member(8, &tool("python3", &["-c", PYTHON, "8"], &plain), &plain);
    let zeroes = vec![0; 150 << 20];
    let packed = tool("python3", &["-c", PYTHON, "8"], &zeroes);
    let member = Arc::new(super::super::deflate::Deflated::new(
        (0, packed.len() as u64),
        zeroes.len() as u64,
        crc32(0, &zeroes),
        false,
    ));
    use super::super::{decoder::Decoder, deflate::Deflate};
    let mut decoder = Deflate::open(&member, &packed, 0).unwrap();
    while !decoder.next(&packed, 1 << 20).unwrap().is_empty() {}
    assert_eq!(decoder.position(), zeroes.len() as u64);
    for at in [3 << 20, 77 << 20, (150 << 20) - 1] {
        let found = member.find(at);
        assert!(found <= at && at - found < 5 << 20, "{found} for {at}");
        let mut decoder = Deflate::open(&member, &packed, at).unwrap();
        assert_eq!(decoder.position(), found);
        while !decoder.next(&packed, 1 << 20).unwrap().is_empty() {}
    }
}

/// Bits as deflate has them.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        for bit in 0..count {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= ((value >> bit & 1) as u8) << (self.count % 8);
            self.count += 1;
        }
    }

    fn code(&mut self, code: u32, length: u32) {
        self.put(code.reverse_bits() >> (32 - length), length);
    }
}

/// No free tool makes deflate64: a block of fixed codes by hand, with its longest length (code 285)
/// and distance (code 31).
#[test]
fn deflate64_lengths_and_distances() {
    let mut bits = Bits::default();
    let mut plain = Vec::new();
    bits.put(0b011, 3);
    let literal = |bits: &mut Bits, plain: &mut Vec<u8>, byte: u8| {
        plain.push(byte);
        match byte {
            0..144 => bits.code(0x30 + u32::from(byte), 8),
            _ => bits.code(0x190 + u32::from(byte) - 144, 9),
        }
    };
    for byte in 0..=255 {
        literal(&mut bits, &mut plain, byte);
    }
    let copy = |bits: &mut Bits, plain: &mut Vec<u8>, length: usize, distance: usize| {
        bits.code(0b1100_0101, 8); // 285
        bits.put(length as u32 - 3, 16);
        match distance {
            256 => {
                bits.code(15, 5); // 193 to 256
                bits.put(63, 6);
            }
            _ => {
                bits.code(31, 5); // 49153 to 65536
                bits.put(distance as u32 - 49_153, 14);
            }
        }
        for _ in 0..length {
            plain.push(plain[plain.len() - distance]);
        }
    };
    copy(&mut bits, &mut plain, 65_538, 256);
    literal(&mut bits, &mut plain, 200);
    copy(&mut bits, &mut plain, 3, 65_536);
    copy(&mut bits, &mut plain, 65_000, 50_000);
    bits.code(0, 7);
    check_member(9, &bits.bytes, &plain);
}

#[test]
fn what_does_not_fit_is_named() {
    let plain = sample(100_000, 63);
    let packed = tool("python3", &["-c", PYTHON, "8"], &plain);
    let read = |member: Member, at: u64| {
        let error = member.read_at(at, &mut &mut [0; 10][..]).unwrap_err();
        (error.errno(), String::from(error.cause().unwrap()))
    };
    let raw = Arc::new(packed.clone());
    let packed_len = packed.len() as u64;
    let member =
        |plain_len, crc| Member::open(8, raw.clone(), 0, packed_len, plain_len, crc).unwrap();
    let (length, crc) = (plain.len() as u64, crc32(0, &plain));
    assert_eq!(
        read(member(length, !crc), length - 5),
        (Errno::EIO, "the checksum differs".into())
    );
    let long = read(member(length + 5, crc), length - 5);
    assert!(long.1.contains("is not 100005 bytes long"), "{}", long.1);
    assert_eq!(
        read(member(length - 5, crc), length - 15).1,
        "the checksum differs"
    );
    let beyond = Member::open(8, raw.clone(), 10, packed_len, length, crc).map(|_| ());
    assert!(beyond.unwrap_err().cause().unwrap().contains("truncated"));
    for (method, name) in [(1, "shrink"), (6, "implode"), (98, "PPMd"), (7, "unknown")] {
        let error = Member::open(method, raw.clone(), 0, 1, 1, 0)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.errno(), Errno::EOPNOTSUPP);
        assert!(error.cause().unwrap().contains(name));
    }
}
