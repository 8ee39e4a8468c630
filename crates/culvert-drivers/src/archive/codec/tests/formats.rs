//! bzip2, lzip, lzma, compress, xz and zstd.

use super::*;

fn defaults() -> Options {
    Options::default()
}

#[test]
fn what_bzip2_makes() {
    for (length, level) in [(0, "-9"), (1, "-9"), (1_500_000, "-1"), (2_500_000, "-9")] {
        let plain = sample(length, 20);
        let table = check(
            Format::Bzip2,
            tool("bzip2", &["-c", level], &plain),
            &plain,
            &defaults(),
        );
        assert!(table.count() >= length as u64 / 950_000);
    }
}

#[test]
fn bzip2_runs_streams_and_garbage() {
    let runs: Vec<u8> = (0..3000u32)
        .flat_map(|i| vec![i as u8; (i % 600) as usize])
        .collect();
    let (a, b) = (sample(300_000, 21), sample(100_000, 22));
    let bzip2 = |plain: &[u8]| tool("bzip2", &["-c1"], plain);
    let mut packed = [bzip2(&a), bzip2(&[]), bzip2(&runs), bzip2(&b)].concat();
    let end = packed.len() as u64;
    packed.extend_from_slice(b"garbage");
    let table = check(Format::Bzip2, packed, &[a, runs, b].concat(), &defaults());
    assert_eq!(table.raw_end(), end);
}

#[test]
fn what_lzip_makes() {
    let plain = sample(3_000_000, 29);
    for arguments in [
        &["-c"][..],
        &["-c", "-0"],
        &["-c", "-9", "--member-size=100000"],
        &["-c", "--dictionary-size=4096"],
    ] {
        let packed = tool("lzip", arguments, &plain);
        check(Format::Lzip, packed, &plain, &defaults());
    }
    let parts = [sample(10, 30), sample(2_200_000, 31), sample(300_000, 32)];
    let packed: Vec<Vec<u8>> = parts
        .iter()
        .map(|part| tool("lzip", &["-c"], part))
        .collect();
    check(Format::Lzip, packed.concat(), &parts.concat(), &defaults());
    let none = tool("lzip", &["-c"], &[]);
    check(
        Format::Lzip,
        [&none[..], &packed[0], &none].concat(),
        &parts[0],
        &Options { spool: 0 },
    );
}

#[test]
fn what_lzma_makes() {
    let plain = sample(3_000_000, 33);
    for (program, arguments) in [
        ("lzma", &["-c"][..]),
        ("xz", &["--format=lzma", "-c0"]),
        ("xz", &["--format=lzma", "-c", "--lzma1=dict=96KiB"]),
    ] {
        let packed = tool(program, arguments, &plain);
        check(Format::Lzma, packed.clone(), &plain, &defaults());
        check(Format::Lzma, packed, &plain, &Options { spool: 1 << 20 });
    }
    for length in [0, 1, 70_000] {
        let packed = tool("lzma", &["-c"], &plain[..length]);
        check(Format::Lzma, packed, &plain[..length], &defaults());
    }
}

/// As the LZMA SDK writes it: no marker behind the data.
#[test]
fn lzma_with_a_length() {
    let plain = sample(500_000, 34);
    // Packed data of 7z are such, behind 32 bytes, and the header behind them.
    let place = std::env::temp_dir().join(std::format!("culvert-lzma-{}.7z", std::process::id()));
    let place = place.to_str().unwrap();
    let arguments = ["a", "-sia", "-m0=lzma:d=64k", "-mhc=off", "-t7z", place];
    tool("7z", &arguments, &plain);
    let archive = std::fs::read(place).unwrap();
    std::fs::remove_file(place).unwrap();
    let end = u64::from_le_bytes(*archive[12..].first_chunk().unwrap());
    let data = &archive[32..32 + end as usize];
    let with = |length: u64, data: &[u8]| {
        let mut packed = vec![93];
        packed.extend_from_slice(&(64u32 << 10).to_le_bytes());
        packed.extend_from_slice(&length.to_le_bytes());
        packed.extend_from_slice(data);
        packed
    };
    let whole = with(plain.len() as u64, data);
    check(Format::Lzma, whole, &plain, &defaults());
    check(Format::Lzma, with(0, &[0; 5]), &[], &defaults());
    let cut = with(plain.len() as u64, &data[..data.len() / 2]);
    assert!(cause(Format::Lzma, &cut).contains("truncated"));
    let mut more = tool("lzma", &["-c"], &plain);
    more.extend_from_slice(b"garbage");
    check(Format::Lzma, more, &plain, &defaults());
}

#[test]
fn what_compress_makes() {
    let plain = sample(3_000_000, 35);
    for bits in ["10", "12", "13", "16"] {
        let packed = tool("compress", &["-cf", "-b", bits], &plain);
        check(Format::Compress, packed, &plain, &defaults());
        let short = &plain[..300_000];
        let packed = tool("compress", &["-cf", "-b", bits], short);
        check(Format::Compress, packed, short, &Options { spool: 0 });
    }
    // What compresses well, then badly: the table is cleared again and again.
    let mut random = Random(36);
    let mixed: Vec<u8> = (0..40)
        .flat_map(|round| {
            let noise: Vec<u8> = (0..20_000).map(|_| random.next() as u8).collect();
            [
                vec![round; 30_000],
                noise,
                sample(30_000, 40 + u64::from(round)),
            ]
            .concat()
        })
        .collect();
    let packed = tool("compress", &["-c", "-b", "12", "-f"], &mixed);
    check(Format::Compress, packed, &mixed, &defaults());
    // One byte again and again: each code means one more of it.
    let ones = vec![b'a'; 5_000_000];
    let packed = tool("compress", &["-c"], &ones);
    assert!(packed.len() < 10_000);
    check(Format::Compress, packed, &ones, &defaults());
    for length in [1, 2, 3, 255, 256, 257, 511, 2049] {
        let packed = tool("compress", &["-cf"], &plain[..length]);
        check(Format::Compress, packed, &plain[..length], &defaults());
    }
}

/// As old programs wrote it (compress -C): code 256 is one like the others, and the first groups
/// are not whole.
#[test]
fn compress_without_blocks() {
    /// Codes for each byte alone, as long as they must be: nothing is compressed.
    fn pack(plain: &[u8], longest: u32) -> Vec<u8> {
        let mut packed = vec![0x1f, 0x9d, longest as u8];
        let (mut free, mut width, mut group) = (256u32, 9u32, Vec::<u32>::new());
        let flush = |group: &mut Vec<u32>, width: u32, whole: bool, packed: &mut Vec<u8>| {
            let mut bits: u128 = 0;
            for (n, code) in group.iter().enumerate() {
                bits |= u128::from(*code) << (n as u32 * width);
            }
            let used = if whole { 8 } else { group.len() as u32 };
            let bytes = (used * width).div_ceil(8) as usize;
            packed.extend_from_slice(&bits.to_le_bytes()[..bytes]);
            group.clear();
        };
        for (n, byte) in plain.iter().enumerate() {
            if free >= 1 << width && width < longest {
                if !group.is_empty() {
                    flush(&mut group, width, true, &mut packed);
                }
                width += 1;
            }
            group.push((*byte).into());
            if group.len() == 8 {
                flush(&mut group, width, true, &mut packed);
            }
            if n > 0 && free < 1 << longest {
                free += 1;
            }
        }
        flush(&mut group, width, false, &mut packed);
        packed
    }
    let plain = sample(100_000, 37);
    for longest in [9, 10, 14, 16] {
        let packed = pack(&plain, longest);
        if longest > 9 {
            // ncompress loses its way with codes of 9 bits alone.
            assert!(tool("gzip", &["-dc"], &packed) == plain, "{longest}");
        }
        check(Format::Compress, packed, &plain, &defaults());
    }
}

#[test]
fn what_xz_makes() {
    let plain = sample(1_500_000, 23);
    for arguments in [
        &["-c"][..],
        &["-c", "-0", "--check=crc32"],
        &["-c", "--block-size=100000", "--check=none"],
        &["-c", "-9", "--block-size=300000", "--check=sha256", "-T2"],
        &["-c", "--x86", "--lzma2=preset=1"],
        &[
            "-c",
            "--delta=dist=4",
            "--lzma2=dict=4KiB,lc=0,lp=2,pb=0",
            "--block-size=500000",
        ],
    ] {
        let table = check(
            Format::Xz,
            tool("xz", arguments, &plain),
            &plain,
            &defaults(),
        );
        let blocks = arguments
            .iter()
            .find_map(|a| a.strip_prefix("--block-size="));
        let blocks = blocks.map_or(1, |size| plain.len().div_ceil(size.parse().unwrap()));
        assert_eq!(table.count(), blocks as u64, "{arguments:?}");
    }
    check(Format::Xz, tool("xz", &["-c"], &[]), &[], &defaults());
}

#[test]
fn xz_streams_and_padding() {
    let xz = |plain: &[u8]| tool("xz", &["-c", "--block-size=90000"], plain);
    let (a, b) = (sample(400_000, 24), sample(200_000, 25));
    let pad = vec![0; 4096 * 2 + 8];
    let packed = [xz(&a), pad.clone(), xz(&[]), xz(&b), pad].concat();
    check(Format::Xz, packed, &[a, b].concat(), &defaults());
}

/// A long block is stored once more; a small budget ends in its middle, none leaves the block
/// alone. Between stored and short blocks chunks are joined.
#[test]
fn long_xz_blocks_are_spooled() {
    let (a, b, c) = (
        sample(300_001, 26),
        sample(5_000_003, 27),
        sample(400_007, 28),
    );
    let xz = |plain: &[u8]| tool("xz", &["-c0"], plain);
    let packed = [xz(&a), xz(&b), xz(&c)].concat();
    let plain = [a, b, c].concat();
    let spool = |spool: u64| check(Format::Xz, packed.clone(), &plain, &Options { spool });
    let (none, some, all) = (spool(0), spool(1 << 20), spool(u64::MAX));
    assert_eq!(none.count(), 3);
    assert!(some.count() > none.count() && all.count() > some.count());
    assert!(some.encode().len() < (1 << 20) + 1000);
}

#[test]
fn xz_limits_and_damage_are_named() {
    let plain = sample(200_000, 29);
    let packed = tool("xz", &["-c"], &plain);
    assert!(cause(Format::Xz, &packed[..packed.len() - 100].to_vec()).contains("truncated"));
    let mut bad = packed.clone();
    bad[packed.len() / 2] ^= 0x10;
    assert!(!cause(Format::Xz, &bad).is_empty());
    for check in ["--check=crc32", "--check=crc64", "--check=sha256"] {
        let mut bad = tool("xz", &["-c", check], b"a stored check");
        // Before the index (8 bytes) and the footer (12).
        let at = bad.len() - 21;
        bad[at] ^= 1;
        assert!(
            cause(Format::Xz, &bad).contains("block checksum mismatch"),
            "{check}"
        );
    }
    let filters = ["-c", "--x86", "--delta", "--lzma2"];
    let chain = decode(Format::Xz, &tool("xz", &filters, &plain), &defaults()).map(drop);
    assert_eq!(chain.unwrap_err().errno(), Errno::EOPNOTSUPP);
    // A dictionary of 1.5 GiB, the header's checksum put right.
    let mut large = tool("xz", &["-c", "-T1"], &plain);
    assert_eq!(large[12..16], [2, 0, 0x21, 1]);
    large[16] = 37;
    let sum = crc32(0, &large[12..20]).to_le_bytes();
    large[20..24].copy_from_slice(&sum);
    assert!(cause(Format::Xz, &large).contains("dictionary of more than 256 MiB"));
}

#[test]
fn what_zstd_makes() {
    let plain = sample(2_500_000, 30);
    for arguments in [
        &["-qc"][..],
        &["-qc", "--fast=5", "--no-check"],
        &["-qc", "-19"],
        &["-qc", "--long=27", "-15"],
        &["-qc", "-1", "--stream-size=2500000"],
    ] {
        check(
            Format::Zstd,
            tool("zstd", arguments, &plain),
            &plain,
            &defaults(),
        );
    }
    check(Format::Zstd, tool("zstd", &["-qc"], &[]), &[], &defaults());
}

#[test]
fn zstd_frames_and_skippable_frames() {
    let zstd = |plain: &[u8]| tool("zstd", &["-qc"], plain);
    let pieces: Vec<Vec<u8>> = (0..9)
        .map(|i| sample(100_000 * i + 7, 31 + i as u64))
        .collect();
    let mut packed = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        packed.extend_from_slice(&[0x50 + i as u8, 0x2a, 0x4d, 0x18, i as u8, 0, 0, 0]);
        packed.resize(packed.len() + i, 0xee);
        packed.append(&mut zstd(piece));
    }
    let table = check(Format::Zstd, packed.clone(), &pieces.concat(), &defaults());
    assert_eq!(table.count(), 9);
    packed.extend_from_slice(b"garbage");
    assert!(cause(Format::Zstd, &packed).contains("no zstd frame"));
}

/// A frame of more than 8 MiB whose length is not known beforehand.
#[test]
fn long_zstd_frames_are_spooled() {
    let plain: Vec<u8> = sample(1_700_000, 50)
        .into_iter()
        .cycle()
        .take(10 << 20)
        .collect();
    let packed = [
        tool("zstd", &["-qc1"], &plain),
        tool("zstd", &["-qc1"], b"more"),
    ]
    .concat();
    let plain = [&plain[..], b"more"].concat();
    let (found, table) = decode(Format::Zstd, &packed, &defaults()).unwrap();
    assert!(found == plain);
    assert!(table.count() > 150);
    let stream = Stream::open(Format::Zstd, Arc::new(packed), table).unwrap();
    let mut random = Random(51);
    for _ in 0..300 {
        let at = random.below(plain.len() as u64) as usize;
        let mut buffer = [0; 3000];
        let count = stream.read_at(at as u64, &mut &mut buffer[..]).unwrap();
        assert!(buffer[..count] == plain[at..(at + 3000).min(plain.len())]);
    }
    let mut buffer = [0; 100];
    let at = plain.len() as u64 - 20;
    assert_eq!(stream.read_at(at, &mut &mut buffer[..]).unwrap(), 20);
    assert!(buffer.starts_with(&plain[plain.len() - 20..]));
}

#[test]
fn zstd_limits_and_damage_are_named() {
    let packed = tool("zstd", &["-qc"], &sample(300_000, 52));
    let cut = cause(Format::Zstd, &packed[..packed.len() / 2].to_vec());
    assert!(cut.contains("truncated"), "{cut}");
    let mut bad = packed.clone();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    assert!(cause(Format::Zstd, &bad).contains("checksum"));
    // Window descriptor: 2 GiB.
    let window = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0];
    assert!(cause(Format::Zstd, &window).contains("window of 2048 MiB"));
    let dictionary = vec![0x28, 0xb5, 0x2f, 0xfd, 0x21, 7, 0, 1, 0, 0];
    assert!(cause(Format::Zstd, &dictionary).contains("dictionary"));
}

/// The stream's footer leads to an index within the data, whose only block is not the file's.
#[test]
fn an_xz_index_that_is_not_at_the_end_of_the_blocks_is_refused() {
    let sum = |bytes: &[u8]| crc32(0, bytes).to_le_bytes();
    let headed = |bytes: &[u8]| [bytes, &sum(bytes)].concat();
    let stream = |plain: &[u8], shift: u32| {
        let flags = [0, 0];
        let header = [&b"\xfd7zXZ\0"[..], &flags, &sum(&flags)].concat();
        let mut block = headed(&[2, 0, 0x21, 1, 0, 0, 0, 0]);
        let chunk = (plain.len() - 1) as u16;
        block.push(1);
        block.extend_from_slice(&chunk.to_be_bytes());
        block.extend_from_slice(plain);
        block.push(0);
        let unpadded = block.len() as u8;
        block.resize(block.len().next_multiple_of(4), 0);
        let mut index = vec![0, 1, unpadded, plain.len() as u8];
        index.resize(index.len().next_multiple_of(4), 0);
        let index = headed(&index);
        let backward = index.len() as u32 / 4 - 1 + shift;
        let rest = [&backward.to_le_bytes()[..], &flags].concat();
        let footer = [&sum(&rest), &rest[..], b"YZ"].concat();
        [header, block, index, footer].concat()
    };
    // Where it stands, a block of 16 bytes would end: its header, three bytes, and the first of
    // these.
    let plain = [
        7, 0, 1, 16, 21, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
    ];
    check(Format::Xz, stream(&plain, 0), &plain, &defaults());
    let honest = stream(&plain, 0).len();
    let words = (honest - 12 - 8 - (12 + 12 + 3 + 1)) / 4;
    let cause = cause(Format::Xz, &stream(&plain, words as u32));
    assert!(cause.contains("has not the length"), "{cause}");
}
