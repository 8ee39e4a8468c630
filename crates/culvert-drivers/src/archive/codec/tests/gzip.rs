use super::*;

const PYTHON: &str = "
import sys, zlib
level, strategy, memory, bits = map(int, sys.argv[1:])
c = zlib.compressobj(level, zlib.DEFLATED, bits, memory, strategy)
data = sys.stdin.buffer.read()
sys.stdout.buffer.write(c.compress(data[:len(data) // 3]) + c.flush(zlib.Z_FULL_FLUSH))
sys.stdout.buffer.write(c.compress(data[len(data) // 3:len(data) // 2]) + \
c.flush(zlib.Z_SYNC_FLUSH))
sys.stdout.buffer.write(c.compress(data[len(data) // 2:]) + c.flush())
";

fn gzip(plain: &[u8]) -> Vec<u8> {
    tool("gzip", &["-nc"], plain)
}

#[test]
fn what_gzip_makes() {
    for (length, level) in [
        (0, "-6"),
        (1, "-6"),
        (70_000, "-9"),
        (3_000_000, "-1"),
        (3_000_000, "-9"),
    ] {
        let plain = sample(length, 3);
        let table = check(
            Format::Gzip,
            tool("gzip", &["-c", level], &plain),
            &plain,
            &Options::default(),
        );
        let points = 1 + length as u64 / gzip_spacing();
        assert!(
            (points.saturating_sub(1)..=points).contains(&table.count()),
            "{}",
            table.count()
        );
    }
}

fn gzip_spacing() -> u64 {
    super::super::gzip::SPACING
}

/// Levels, strategies (filtered, Huffman only, run lengths, fixed codes), memory levels, window
/// sizes, flushes.
#[test]
fn what_zlib_makes() {
    let plain = sample(1_300_000, 4);
    for [level, strategy, memory, bits] in [
        ["0", "0", "8", "31"],
        ["1", "0", "1", "31"],
        ["6", "0", "9", "31"],
        ["9", "1", "8", "25"],
        ["9", "2", "8", "31"],
        ["6", "3", "8", "31"],
        ["6", "4", "8", "31"],
        ["4", "0", "4", "28"],
    ] {
        let packed = tool(
            "python3",
            &["-c", PYTHON, level, strategy, memory, bits],
            &plain,
        );
        check(Format::Gzip, packed, &plain, &Options::default());
    }
}

#[test]
fn members_padding_and_garbage() {
    let (a, b, c) = (sample(900_000, 5), sample(10, 6), sample(700_000, 7));
    let mut packed = [gzip(&a), gzip(&[]), gzip(&b), gzip(&c)].concat();
    let plain = [a, b, c].concat();
    let end = packed.len() as u64;
    for tail in [&[][..], &[0; 1000], b"garbage", &[0x1f], &[0x1f, 0x8b, 8]] {
        packed.truncate(end as usize);
        packed.extend_from_slice(tail);
        let table = check(Format::Gzip, packed.clone(), &plain, &Options::default());
        assert_eq!(table.raw_end(), end);
    }
}

/// BGZF: a member for every 64 KiB, its length in an extra field, and an empty one at the end. None
/// needs a window.
#[test]
fn blocked_gzip_needs_no_windows() {
    let plain = sample(2_000_000, 8);
    let mut packed = Vec::new();
    for block in plain.chunks(65_280).chain([&[][..]]) {
        let member = gzip(block);
        packed.extend_from_slice(&[0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 6, 0, b'B', b'C', 2, 0]);
        packed.extend_from_slice(&(member.len() as u16 + 7).to_le_bytes());
        packed.extend_from_slice(&member[10..]);
    }
    let table = check(Format::Gzip, packed, &plain, &Options::default());
    assert!(table.count() >= 10);
    let count = table.count();
    assert_eq!(table.encode().len() as u64, 64 + 40 * count);
}

#[test]
fn headers_with_every_field() {
    let plain = sample(1000, 9);
    let mut packed = vec![
        0x1f,
        0x8b,
        8,
        4 | 8 | 16 | 2,
        1,
        2,
        3,
        4,
        0,
        3,
        5,
        0,
        1,
        2,
        3,
        4,
        5,
    ];
    packed.extend_from_slice(b"name\0comment\0\xaa\xbb");
    packed.extend_from_slice(&gzip(&plain)[10..]);
    check(Format::Gzip, packed, &plain, &Options::default());
}

#[test]
fn damage_is_named() {
    let plain = sample(600_000, 10);
    let packed = gzip(&plain);
    let cut = |length: usize| cause(Format::Gzip, &packed[..length].to_vec());
    assert!(cut(5).contains("truncated"), "{}", cut(5));
    assert!(
        cut(packed.len() / 2).contains("truncated"),
        "{}",
        cut(packed.len() / 2)
    );
    assert!(
        cut(packed.len() - 3).contains("gzip trailer"),
        "{}",
        cut(packed.len() - 3)
    );
    for (from_end, what) in [(5, "the checksum differs"), (1, "the length differs")] {
        let mut bad = packed.clone();
        let at = bad.len() - from_end;
        bad[at] ^= 1;
        assert!(cause(Format::Gzip, &bad).contains(what));
    }
    assert!(cause(Format::Gzip, &b"this is no gzip file".to_vec()).contains("not a gzip"));
}

/// Zeroes 1:1000: the table must not grow with what is behind them, nor the memory of a decoder.
#[test]
fn a_bomb_has_a_small_table() {
    let member = gzip(&vec![0; 64 << 20]);
    let packed = [&member[..], &member].concat();
    let mut length = 0u64;
    let mut sink = |bytes: &[u8]| {
        assert!(bytes.len() <= 256 << 10);
        length += bytes.len() as u64;
        Ok(())
    };
    let table = build(
        Format::Gzip,
        &packed,
        &Options::default(),
        &mut sink,
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(length, 128 << 20);
    let whole = super::super::gzip::Gzip::new(&packed, false);
    assert!(decoder::Decoder::memory(&whole) < 1 << 20);
    let size = table.encode().len();
    assert!(size < 64 << 10, "{size}");
}

#[test]
fn threads_read_the_same_bytes() {
    let plain = sample(4_000_000, 11);
    let packed = gzip(&plain);
    let (_, table) = decode(Format::Gzip, &packed, &Options::default()).unwrap();
    let stream = Stream::open(Format::Gzip, Arc::new(packed), table).unwrap();
    let (stream, plain) = (&stream, &plain[..]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                let mut random = Random(thread + 100);
                let mut at = 0;
                for round in 0..150 {
                    if round % 7 == 0 {
                        at = random.below(plain.len() as u64) as usize;
                    }
                    let mut buffer = [0; 9000];
                    let count = stream.read_at(at as u64, &mut &mut buffer[..]).unwrap();
                    assert!(buffer[..count] == plain[at..(at + 9000).min(plain.len())]);
                    at += count;
                }
            });
        }
    });
}

#[test]
fn a_sink_that_refuses_ends_the_build() {
    let packed = gzip(&sample(400_000, 12));
    let refuse = &mut |_: &[u8]| Err(Errno::ENOSPC.into());
    let error = build(
        Format::Gzip,
        &packed,
        &Options::default(),
        refuse,
        &mut |_| {},
    )
    .map(|_| ())
    .unwrap_err();
    assert_eq!(error.errno(), Errno::ENOSPC);
}
