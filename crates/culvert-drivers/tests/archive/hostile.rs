//! Archives that lie.

use crate::tools::{Scratch, node, open, paths, prepare, python, read, sh};
use culvert::{Caller, Errno};
use std::fs;

/// Python that can write any header: `raw(name, data, size=None, ...)`, `pax(records)`, `number(n)`
/// in base 256, `write(parts)`.
const RAW: &str = r#"
import tarfile
D, S, L, X = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.XHDTYPE
def fix(h):
    h = h[:148] + b' ' * 8 + h[156:]
    return h[:148] + b'%06o\0 ' % sum(h[:512]) + h[156:]
def raw(name, data=b'', size=None, field=None, **kw):
    i = tarfile.TarInfo('name'); i.size = len(data)
    for k, v in kw.items(): setattr(i, k, v)
    h = i.tobuf(tarfile.USTAR_FORMAT)
    n = name if isinstance(name, bytes) else name.encode()
    h = n[:100].ljust(100, b'\0') + h[100:]
    if size is not None: h = h[:124] + b'%011o\0' % size + h[136:]
    if field is not None: h = h[:124] + field + h[136:]
    return fix(h) + data + bytes(-len(data) % 512)
def pax(**records):
    b = b''
    for k, v in records.items():
        v = v if isinstance(v, bytes) else str(v).encode()
        k = k.replace('__', '.').encode(); n = len(k) + len(v) + 3; m = n + len(str(n)); m = n + len(str(m))
        b += b'%d %s=%s\n' % (m, k, v)
    return raw('pax', b, type=X)
def write(*parts): open('t.tar', 'wb').write(b''.join(parts) + bytes(1024))
"#;

fn made(script: &str) -> Scratch {
    let scratch = Scratch::new();
    python(&scratch.0, &format!("{RAW}{script}"));
    scratch
}

/// The paths of a tar with some members left out, and how many were.
fn left(script: &str) -> (Vec<String>, u64) {
    let scratch = made(script);
    let (fs, prepared) = open(&scratch.path("t.tar"), &[]).unwrap();
    (paths(&*fs), prepared.warnings.total)
}

fn refused(script: &str) -> (Errno, String) {
    let scratch = made(script);
    let error = prepare(&scratch.path("t.tar"), &[]).unwrap_err();
    (error.errno(), error.to_string())
}

#[test]
fn names_stay_inside() {
    let table = [
        (
            "raw('../up', b'x'), raw('a/../../b', b'x'), raw('ok/..', b'x'), raw('..', b'x')",
            vec!["ok"],
            4,
        ),
        (
            "raw('/etc/passwd', b'x'), raw('//x', b'x')",
            vec!["ok", "etc/", "etc/passwd", "x"],
            0,
        ),
        (
            "raw('out', type=S, linkname='/etc'), raw('out/passwd', b'x')",
            vec!["ok", "out"],
            1,
        ),
        (
            "raw('out', type=S, linkname='../..'), raw('out/passwd', b'x')",
            vec!["ok", "out"],
            1,
        ),
        (
            "raw('l', type=S, linkname='l'), raw('l/x', b'x')",
            vec!["ok", "l"],
            1,
        ),
        (
            "raw('l', type=S, linkname='m'), raw('m', type=S, linkname='l'), raw('l/x', b'x')",
            vec!["ok", "l", "m"],
            1,
        ),
        (
            "raw('n', type=S, linkname='none'), raw('n/x', b'x')",
            vec!["ok", "n"],
            1,
        ),
        ("raw('f', b'x'), raw('f/x', b'x')", vec!["ok", "f"], 1),
        (
            "pax(path=b'a\\0b'), raw('x', b'x'), pax(path=b'n' * 256), raw('y', b'y')",
            vec!["ok"],
            2,
        ),
        (
            "raw('', b'x'), raw('.', b'x'), raw('/', type=D)",
            vec!["ok"],
            2,
        ),
        ("pax(path='d/' * 3000 + 'f'), raw('x', b'x')", vec!["ok"], 1),
        (
            "pax(linkpath=b'x' * 5000), raw('s', type=S), raw('e', type=S, linkname='')",
            vec!["ok"],
            2,
        ),
    ];
    for (members, expected, warnings) in table {
        let (mut paths, total) = left(&format!("write(raw('ok', b'x'), {members})"));
        // Only the depth of the deep one is of interest.
        paths.retain(|path| !path.starts_with("d/"));
        let mut expected: Vec<String> = expected.into_iter().map(String::from).collect();
        expected.sort();
        assert_eq!(paths, expected, "{members}");
        assert_eq!(total, warnings, "{members}");
    }
}

#[test]
fn hard_links_to_nothing_and_in_circles() {
    let (paths, warnings) = left(
        "write(raw('a', type=L, linkname='b'), raw('b', type=L, linkname='a'), raw('c', type=L, \
        linkname='c'), raw('f', b'f'), raw('f', type=L, linkname='f'), \
         raw('d', type=D), raw('e', type=L, linkname='d'), raw('g', type=L, linkname='../f'), \
         raw('h', type=L, linkname='/f'))",
    );
    assert_eq!(paths, ["d/", "f", "h"]);
    assert_eq!(warnings, 5);
}

#[test]
fn sizes_that_are_only_claimed() {
    for field in [
        r"b'\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff'",
        r"b'\x80\0\0\0\x80\0\0\0\0\0\0\0'",
        r"b'\xff' * 12",
        r"b'77777777777\0'",
        r"b'not octal...'",
    ] {
        let (errno, cause) = refused(&format!(
            "write(raw('ok', b'x'), raw('big', field={field}))"
        ));
        assert_eq!(errno, Errno::EIO, "{field}");
        assert!(cause.contains("\"big\""), "{cause}");
    }
    let (errno, cause) = refused("write(pax(size=2**63), raw('big', b'x'))");
    assert_eq!(errno, Errno::EIO, "{cause}");
    let (errno, cause) = refused("write(raw('pax', size=7 << 30, type=X), raw('x', b'x'))");
    assert_eq!(errno, Errno::EIO);
    assert!(cause.contains("extended header"), "{cause}");
}

#[test]
fn sparse_maps_that_make_no_sense() {
    for map in [
        "0,10,5,10",
        "10,1,0,1",
        "99,2",
        "0,2",
        "18446744073709551615,2",
    ] {
        let (paths, warnings) = left(&format!(
            "write(pax(GNU__sparse__size=100, GNU__sparse__map='{map}'), raw('s', b'x'), \
            raw('ok', b'ok'))"
        ));
        assert_eq!((paths, warnings), (vec!["ok".to_string()], 1), "{map}");
    }
    for lines in ["9999999999999\\n", "1\\n-5\\n1\\n", "5\\n1\\n", "\\n", "a"] {
        let script = format!(
            "write(pax(GNU__sparse__major=1, GNU__sparse__minor=0, GNU__sparse__realsize=100), \
            raw('s', b'{lines}'), raw('ok', b'ok'))"
        );
        let (paths, warnings) = left(&script);
        assert_eq!((paths, warnings), (vec!["ok".to_string()], 1), "{lines}");
    }
}

#[test]
fn malformed_extended_headers_are_damage() {
    for header in [
        "pax(GNU__sparse__size=100, GNU__sparse__map='1')",
        "pax(GNU__sparse__size=100, GNU__sparse__map='x,y')",
        "raw('pax', b'99 path=a\\n', type=X)",
        "pax(size='-1')",
    ] {
        let scratch = made(&format!(
            "write(raw('first', b'1'), {header}, raw('s', b'x'), raw('ok', b'ok'))"
        ));
        let archive = scratch.path("t.tar");
        let error = prepare(&archive, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the extended header before byte 2048 is malformed",
            "{header}"
        );
        let (fs, prepared) = open(&archive, &[("damaged", "")]).unwrap();
        assert!(prepared.warnings.total > 0, "{header}");
        let ok = node(&*fs, b"ok").unwrap();
        assert_eq!(read(&*fs, ok, 10).unwrap(), b"ok", "{header}");
    }
    let (paths, warnings) = left("write(pax(uid='-2', mtime='never'), raw('odd', b'x'))");
    assert_eq!((paths, warnings), (vec!["odd".to_string()], 1));
}

#[test]
fn padding_may_be_left_out_but_not_cut() {
    let scratch = made("write(raw('a', b'a'))");
    let bytes = fs::read(scratch.path("t.tar")).unwrap();
    for (length, good) in [
        (512, false),
        (513, true),
        (514, false),
        (1023, false),
        (1024, true),
    ] {
        let path = scratch.archive(&bytes[..length]);
        assert_eq!(prepare(&path, &[]).is_ok(), good, "{length} bytes");
    }
}

#[test]
fn a_huge_hole_is_only_a_hole() {
    let scratch =
        made("write(pax(GNU__sparse__size=2**62, GNU__sparse__map='0,1'), raw('s', b'x'))");
    let (fs, _) = open(&scratch.path("t.tar"), &[]).unwrap();
    let s = node(&*fs, b"s").unwrap();
    assert_eq!(fs.attributes(&Caller::SYSTEM, s).unwrap().size, 1 << 62);
    let culvert::Opened::Driven(file) = fs
        .open(&crate::tools::CALLER, s, culvert::OpenFlags(0))
        .unwrap()
    else {
        panic!();
    };
    let mut buffer = [7; 10];
    assert_eq!(
        file.read_at((1 << 62) - 4, &mut &mut buffer[..]).unwrap(),
        4
    );
    assert_eq!(buffer, [0, 0, 0, 0, 7, 7, 7, 7, 7, 7]);
}

#[test]
fn truncated_archives_are_named_and_can_be_used_all_the_same() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "seq 1 100000 > n; echo first > a; tar -cf whole.tar a n; head -c 300000 whole.tar > \
        t.tar; gzip -c t.tar > t.tar.gz; gzip -c whole.tar | head -c 100000 > cut.tar.gz",
    );
    for name in ["t.tar", "t.tar.gz"] {
        let error = prepare(&scratch.path(name), &[]).unwrap_err();
        assert_eq!(error.errno(), Errno::EIO);
        assert_eq!(
            error.to_string(),
            "the archive is truncated: it ends at byte 300000 inside member \"n\"",
            "{name}"
        );
        let (fs, prepared) = open(&scratch.path(name), &[("damaged", "")]).unwrap();
        assert_eq!(prepared.warnings.total, 1);
        let a = node(&*fs, b"a").unwrap();
        assert_eq!(read(&*fs, a, 100).unwrap(), b"first\n");
        let n = node(&*fs, b"n").unwrap();
        assert_eq!(read(&*fs, n, 4096).unwrap_err().errno(), Errno::EIO);
        // Without the option it is refused, with the other's index in the cache too.
        assert!(prepare(&scratch.path(name), &[]).is_err());
    }
    let error = prepare(&scratch.path("cut.tar.gz"), &[]).unwrap_err();
    assert_eq!(error.errno(), Errno::EIO);
    assert!(error.to_string().contains("truncated"), "{error}");
}

#[test]
fn a_damaged_header_is_an_error_or_passed_over() {
    let scratch = made("write(raw('a', b'a'), raw('b', b'b'), raw('c', b'c'))");
    let mut bytes = fs::read(scratch.path("t.tar")).unwrap();
    bytes[1024 + 5] ^= 1;
    fs::write(scratch.path("t.tar"), bytes).unwrap();
    let error = prepare(&scratch.path("t.tar"), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the archive is damaged: there is no member header at byte 1024"
    );
    let (fs, prepared) = open(&scratch.path("t.tar"), &[("damaged", "")]).unwrap();
    assert_eq!(paths(&*fs), ["a", "c"]);
    assert_eq!(prepared.warnings.total, 2);
}

#[test]
fn what_is_no_archive_is_told() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "echo text > text; : > empty; echo text | gzip > text.gz; printf \
        '7z\\274\\257\\047\\034xxxx' > seven; head -c 5000 /dev/zero | tr '\\0' x > x; mkfifo \
        fifo; mkdir dir; head -c 500 /dev/zero > zeroes; printf 'Rar!\\032\\007\\000rest' > rar; \
        printf 'Rar!\\032\\007\\001\\000rest' > rar5",
    );
    let table = [
        ("text", Errno::EINVAL, "not an archive"),
        ("x", Errno::EINVAL, "not an archive"),
        ("zeroes", Errno::EINVAL, "not an archive"),
        ("empty", Errno::EINVAL, "empty file"),
        (
            "text.gz",
            Errno::EINVAL,
            "compressed with gzip, but there is no tar, cpio or ar archive inside",
        ),
        ("seven", Errno::EIO, "ends before"),
        (
            "rar",
            Errno::EINVAL,
            "a RAR archive, which is not supported",
        ),
        (
            "rar5",
            Errno::EINVAL,
            "a RAR archive, which is not supported",
        ),
        ("fifo", Errno::EINVAL, "not a regular file"),
        ("dir", Errno::EISDIR, ""),
        ("missing", Errno::ENOENT, ""),
    ];
    for (name, errno, cause) in table {
        let error = prepare(&scratch.path(name), &[]).unwrap_err();
        assert_eq!(error.errno(), errno, "{name}");
        assert!(error.to_string().contains(cause), "{name}: {error}");
        assert!(
            !scratch.path("cache").exists()
                || fs::read_dir(scratch.path("cache"))
                    .unwrap()
                    .next()
                    .is_none(),
            "{name}"
        );
    }
}

#[test]
fn a_bomb_costs_nothing_until_it_is_read() {
    let scratch = Scratch::new();
    python(
        &scratch.0,
        r#"
import zipfile
with zipfile.ZipFile('b.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('zeroes', bytes(200 << 20))
d = bytearray(open('b.zip', 'rb').read()); at = d.rindex(b'PK\1\2'); d[at + 24:at + 28] = (0xfffffff0).to_bytes(4, 'little')
open('lie.zip', 'wb').write(d)
"#,
    );
    for name in ["b.zip", "lie.zip"] {
        let (fs, _) = open(&scratch.path(name), &[]).unwrap();
        let node = node(&*fs, b"zeroes").unwrap();
        let culvert::Opened::Driven(file) = fs
            .open(&crate::tools::CALLER, node, culvert::OpenFlags(0))
            .unwrap()
        else {
            panic!();
        };
        let mut buffer = [7; 10];
        assert_eq!(file.read_at(1000, &mut &mut buffer[..]).unwrap(), 10);
        assert_eq!(buffer, [0; 10]);
    }
}
