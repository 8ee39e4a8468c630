//! Damaged data and damaged tables: an error or the right bytes, never a panic, never a hang.

use super::*;

/// One to four changes: a flipped bit, a byte, a stretch of one byte, a cut, or a piece moved.
fn harm(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let length = bytes.len() as u64;
        if length < 2 {
            return;
        }
        // Half of all changes near the start, where headers are.
        let at = match random.below(2) {
            0 => random.below(length.min(100)),
            _ => random.below(length),
        } as usize;
        let end = (at + 1 + random.below(30) as usize).min(bytes.len());
        match random.below(6) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.next() as u8,
            3 => bytes[at..end].fill(random.next() as u8),
            4 if random.below(4) == 0 => bytes.truncate(at.max(1)),
            _ => {
                let to = random.below(length) as usize;
                let count = (end - at).min(bytes.len() - to);
                bytes.copy_within(at..at + count, to);
            }
        }
    }
}

fn seeds() -> Vec<(Format, Vec<u8>)> {
    let plain = sample(60_000, 70);
    let two = |mut a: Vec<u8>| {
        a.extend_from_within(..);
        a
    };
    vec![
        (Format::Gzip, two(tool("gzip", &["-nc"], &plain))),
        (Format::Gzip, tool("gzip", &["-nc1"], &plain[..3000])),
        (Format::Bzip2, two(tool("bzip2", &["-c"], &plain[..20_000]))),
        (
            Format::Xz,
            two(tool(
                "xz",
                &["-c", "--block-size=20000", "--check=none"],
                &plain,
            )),
        ),
        (
            Format::Xz,
            tool("xz", &["-c", "--x86", "--lzma2=preset=0"], &plain[..9000]),
        ),
        (
            Format::Zstd,
            two(tool("zstd", &["-qc", "--no-check"], &plain)),
        ),
        (Format::Zstd, tool("zstd", &["-qc", "-19"], &plain[..5000])),
        (Format::Lzip, two(tool("lzip", &["-c"], &plain[..20_000]))),
        (Format::Lzma, tool("lzma", &["-c"], &plain[..20_000])),
        (Format::Compress, tool("compress", &["-c"], &plain)),
        (
            Format::Compress,
            tool("compress", &["-cf", "-b10"], &plain[..20_000]),
        ),
    ]
}

#[test]
fn damaged_data_is_an_error_or_the_right_bytes() {
    let mut random = Random(71);
    for (format, good) in seeds() {
        let (plain, table) = decode(format, &good, &Options::default()).unwrap();
        let rounds = if format == Format::Bzip2 { 60 } else { 250 };
        for _ in 0..rounds {
            let mut bad = good.clone();
            harm(&mut bad, &mut random);
            let outcome = decode(format, &bad, &Options::default());
            if let (Format::Gzip | Format::Bzip2, Ok((found, _))) = (format, &outcome) {
                // With a checksum all that can pass is the loss of whole members.
                assert!(plain.starts_with(found), "{format:?}");
            }
            if let Err(error) = outcome {
                assert!(error.cause().is_some());
            }
            // The archive was damaged after its table was made.
            let stream = Stream::open(format, Arc::new(bad), table.clone()).unwrap();
            for _ in 0..3 {
                let at = random.below(plain.len() as u64);
                let _ = stream.read_at(at, &mut &mut [0; 500][..]);
            }
        }
    }
}

#[test]
fn damaged_members_are_errors_or_the_right_bytes() {
    let mut random = Random(72);
    let plain = sample(9000, 73);
    let packed = tool("gzip", &["-nc"], &plain)[10..].to_vec();
    for method in [8, 9, 12, 14, 93, 95] {
        for _ in 0..200 {
            let mut bad = packed.clone();
            harm(&mut bad, &mut random);
            let (length, claimed) = (bad.len() as u64, random.below(20_000));
            let crc = crc32(0, &plain);
            let member = Member::open(method, Arc::new(bad), 0, length, claimed, crc).unwrap();
            let mut buffer = [0; 20_000];
            if let Ok(count) = member.read_at(0, &mut &mut buffer[..])
                && count as u64 == claimed
                && claimed > 0
            {
                assert!(buffer[..count] == plain);
            }
        }
    }
}

#[test]
fn damaged_tables_are_errors_or_harmless() {
    let mut random = Random(74);
    let plain = sample(1_500_000, 75);
    for (format, program) in [
        (Format::Gzip, "gzip"),
        (Format::Xz, "xz"),
        (Format::Lzip, "lzip"),
        (Format::Lzma, "lzma"),
        (Format::Compress, "compress"),
    ] {
        let level = if program == "compress" { "-c" } else { "-c1" };
        let packed = Arc::new(tool(program, &[level], &plain));
        let (_, table) = decode(format, &packed, &Options { spool: u64::MAX }).unwrap();
        let points = 40 * table.count() as usize;
        let good = table.encode();
        for round in 0..300 {
            let mut bad = good.clone();
            match round % 3 {
                // The header has a checksum: behind it, in the stored bytes and in the points, is
                // where damage comes through.
                which @ (0 | 1) => {
                    let behind = [64, bad.len() - points][which];
                    let mut tail = bad.split_off(behind);
                    let length = tail.len();
                    harm(&mut tail, &mut random);
                    tail.resize(length, 0);
                    bad.append(&mut tail);
                }
                _ => harm(&mut bad, &mut random),
            }
            let Ok(table) = Checkpoints::decode(&bad) else {
                continue;
            };
            let stream = Stream::open(format, packed.clone(), table).unwrap();
            for _ in 0..2 {
                let at = random.below(plain.len() as u64);
                let _ = stream.read_at(at, &mut &mut [0; 500][..]);
            }
        }
    }
}

#[test]
fn an_archive_that_was_cut_after_indexing_is_an_error() {
    let plain = sample(2_000_000, 76);
    let mut packed = tool("gzip", &["-c"], &plain);
    let (_, table) = decode(Format::Gzip, &packed, &Options::default()).unwrap();
    packed.truncate(packed.len() / 2);
    let stream = Stream::open(Format::Gzip, Arc::new(packed), table).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(stream.read_at(500, &mut &mut buffer[..]).unwrap(), 100);
    assert!(buffer == plain[500..600]);
    let error = stream.read_at(1_900_000, &mut &mut buffer[..]).unwrap_err();
    assert_eq!(error.errno(), Errno::EIO);
    assert!(error.cause().unwrap().contains("truncated"), "{error:?}");
}

/// Found by fuzzing: behind the last stored chunk the table led back to that chunk.
#[test]
fn a_table_that_leads_in_circles_is_an_error() {
    let plain = sample(5_000_000, 77);
    let packed = tool("xz", &["-c0"], &plain);
    let (_, table) = decode(Format::Xz, &packed, &Options { spool: 1 << 20 }).unwrap();
    let mut bytes = table.encode();
    // The last point: what the budget did not cover. Its plain offset becomes 8 GiB more.
    let at = bytes.len() - 40 + 4;
    bytes[at] = 2;
    let table = Checkpoints::decode(&bytes).unwrap();
    let stream = Stream::open(Format::Xz, Arc::new(packed), table).unwrap();
    let error = stream
        .read_at(4_999_000, &mut &mut [0; 10][..])
        .unwrap_err();
    assert_eq!(error.errno(), Errno::EIO);
}
