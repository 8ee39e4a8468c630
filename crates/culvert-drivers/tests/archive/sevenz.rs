//! 7z archives.

use crate::compare::{Keeps, same};
use crate::tools::{Scratch, node, open, paths, prepare, python, read, sh};
use culvert::Errno;
use std::fs;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        r#"
mkdir -p t/d/e; seq 1 700000 > t/numbers; echo hello > t/d/f; : > t/d/empty; cp /bin/ls t/d/program
chmod 4755 t/d/program; chmod 640 t/d/f; ln -s ../numbers t/d/link; echo x > "t/d/e/ä name"
head -c 3000000 /dev/urandom > t/random; find t | xargs -d '\n' touch -h -d '2001-02-03 04:05:06.7'
7z a -bd -snl lzma2.7z ./t/* > log; 7z a -bd -snl -m0=lzma -mf=off lzma.7z ./t/* > log
7z a -bd -snl -m0=bzip2 -mf=off bzip2.7z ./t/* > log; 7z a -bd -snl -m0=copy -mf=off copy.7z ./t/* > log
7z a -bd -snl -mf=bcj -ms=off each.7z ./t/* > log; 7z a -bd -snl -mhc=off -mf=off plain.7z ./t/* > log
7z a -bd -snl -mf=delta:4 delta.7z ./t/* > log
7z a -bd -m0=ppmd ppmd.7z t/d/f > log; 7z a -bd -psecret -mhe=on secret.7z t/d/f > log
7z a -bd -psecret hidden.7z t/d/f > log; mkdir nothing; 7z a -bd nothing.7z ./nothing/ > log || :
"#,
    );
    scratch
}

#[test]
fn archives_of_7z_are_as_7z_unpacks_them() {
    let scratch = scratch();
    for name in ["lzma2", "lzma", "bzip2", "copy", "each", "plain", "delta"] {
        let path = scratch.path(&format!("{name}.7z"));
        let (fs, prepared) = open(&path, &[]).unwrap();
        assert!(prepared.summary.starts_with("7z, "), "{}", prepared.summary);
        assert_eq!(prepared.warnings.total, 0, "{:?}", prepared.warnings.first);
        let keeps = Keeps {
            time_unit: 100,
            owners: false,
            hard_links: false,
        };
        same(&*fs, &scratch.path("t"), keeps);
        // Backwards, too.
        let numbers = node(&*fs, b"numbers").unwrap();
        let content = fs::read(scratch.path("t/numbers")).unwrap();
        assert!(read(&*fs, numbers, 4095).unwrap() == content, "{name}");
        let program = node(&*fs, b"d/program").unwrap();
        let content = fs::read(scratch.path("t/d/program")).unwrap();
        assert!(read(&*fs, program, 100_000).unwrap() == content, "{name}");
    }
}

#[test]
fn what_is_not_read_in_a_7z_archive_is_refused() {
    let scratch = scratch();
    for (name, errno) in [
        ("ppmd", Errno::EOPNOTSUPP),
        ("secret", Errno::EACCES),
        ("hidden", Errno::EACCES),
    ] {
        let refused = prepare(&scratch.path(&format!("{name}.7z")), &[]).unwrap_err();
        assert_eq!(refused.errno(), errno, "{name}: {refused}");
    }
    let whole = fs::read(scratch.path("lzma2.7z")).unwrap();
    let mut wrong = whole.clone();
    wrong[whole.len() / 2] ^= 1;
    for bytes in [&wrong[..], &whole[..whole.len() - 9], &whole[..40]] {
        let refused = prepare(&scratch.archive(bytes), &[]).unwrap_err();
        assert_eq!(refused.errno(), Errno::EIO, "{refused}");
    }
    let mut empty = b"7z\xbc\xaf\x27\x1c\0\x04".to_vec();
    empty.extend_from_slice(&[0x8d, 0x9b, 0xd5, 0x0f]);
    empty.extend_from_slice(&[0; 20]);
    let (fs, _) = open(&scratch.archive(&empty), &[]).unwrap();
    assert!(paths(&*fs).is_empty());
}

/// Archives whose header is packed as the script says.
const PACKED: &str = r#"
import lzma, os, struct, zlib

def number(value):
    return b'\xff' + struct.pack('<Q', value)

def archive(name, header, coders, sizes, filters):
    packed = lzma.compress(header, format=lzma.FORMAT_RAW, filters=filters)
    own = (b'\x17\x06' + number(0) + number(1) + b'\x09' + number(len(packed)) + b'\0'
        + b'\x07\x0b\x01\0' + coders + b'\x0c' + b''.join(map(number, sizes)) + b'\0\0')
    start = struct.pack('<QQI', len(packed), len(own), zlib.crc32(own))
    with open(name, 'wb') as out:
        out.write(b'7z\xbc\xaf\x27\x1c\0\x04' + struct.pack('<I', zlib.crc32(start)) + start)
        out.write(packed + own)

def files(name, count):
    names = b'\0' + name * count
    empty = b'\xff' * ((count + 7) // 8)
    return (b'\x01\x05' + number(count) + b'\x0e' + number(len(empty)) + empty
        + b'\x11' + number(len(names)) + names + b'\0\0')

LZMA2 = b'\x21\x21\x01\x18'
filters = [{'id': lzma.FILTER_LZMA2, 'dict_size': 1 << 24}]
def packed(name, header):
    archive(name, header, b'\x01' + LZMA2, [len(header)], filters)
packed('one', files(b'a\0\0\0', 1))
packed('many', files(b'a\0\0\0', 1 << 20))
def crowd(count, random):
    header = files(b'a\0\0\0', count)[:-1]
    return header + b'\x19' + number(random) + os.urandom(random) + b'\0'
packed('crowd', crowd(5 << 20, 6 << 20))
packed('claims', crowd(1 << 20, 1 << 18))
packed('long', files(b'a\0' * (10 << 20) + b'\0\0', 1))

# The first coder unpacks, the second is its filter.
header = files(b'a\0\0\0', 1)
delta = [{'id': lzma.FILTER_DELTA, 'dist': 1}] + filters
both = b'\x02' + LZMA2 + b'\x21\x03\x01\0' + b'\x01\0'
archive('swapped', header, both, [7, len(header)], delta)
"#;

#[test]
fn packed_headers_are_no_bombs() {
    let scratch = Scratch::new();
    python(&scratch.0, PACKED);
    for name in ["one", "swapped"] {
        let (fs, _) = open(&scratch.path(name), &[]).unwrap();
        assert_eq!(paths(&*fs).len(), 1, "{name}");
    }
    for (name, errno, why) in [
        ("many", Errno::EIO, "more than its header has"),
        ("claims", Errno::EIO, "more than its header has"),
        ("crowd", Errno::EFBIG, "more than 4194304 files"),
        ("long", Errno::EFBIG, "more than 16777216 bytes"),
    ] {
        let refused = prepare(&scratch.path(name), &[]).map(drop).unwrap_err();
        assert_eq!(refused.errno(), errno, "{name}: {refused}");
        assert!(format!("{refused}").contains(why), "{name}: {refused}");
    }
}
