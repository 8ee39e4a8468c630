//! Zip.

use crate::compare::{Keeps, same};
use crate::tools::{CALLER, Scratch, node, open, paths, prepare, python, read, sh};
use culvert::{Caller, Errno, OpenFlags};
use std::fs;

const KEEPS: Keeps = Keeps {
    hard_links: false,
    ..Keeps::SECONDS
};

const TREE: &str = r#"
mkdir -p tree/a/b tree/empty; cd tree
printf 'hello\n' > a/hello; : > a/nothing; seq 1 100000 > a/b/numbers; head -c 70000 /dev/urandom > a/noise
ln -s hello a/link; ln -s ../nowhere a/b/dangling
chmod 4755 a/hello; chmod 1777 a/b; chmod 400 a/nothing
touch -d '1999-12-31 23:59:59' a/b/numbers; printf x > "$(printf 'raw\377name')"; printf y > 'sp ace'
"#;

#[test]
fn info_zip_with_every_method() {
    let scratch = Scratch::new();
    sh(&scratch.0, TREE);
    for (name, flags) in [
        ("deflated", "-9"),
        ("stored", "-0"),
        ("bzip2", "-Z bzip2"),
        ("zip64", "-fz"),
    ] {
        sh(&scratch.0, &format!("zip -q -y -r {flags} {name}.zip tree"));
        let (fs, prepared) = open(
            &scratch.path(&format!("{name}.zip")),
            &[("subdir", "/tree/")],
        )
        .unwrap();
        assert_eq!(prepared.warnings.total, 0, "{:?}", prepared.warnings.first);
        same(&*fs, &scratch.path("tree"), KEEPS);
    }
}

#[test]
fn streamed_with_data_descriptors() {
    let scratch = Scratch::new();
    sh(&scratch.0, TREE);
    python(
        &scratch.0,
        r#"
import os, zipfile
class Pipe:
    def __init__(self): self.f = open('t.zip', 'wb')
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
with zipfile.ZipFile(Pipe(), 'w', zipfile.ZIP_DEFLATED) as z:
    for n in 'a/hello', 'a/nothing', 'a/b/numbers', 'a/noise': z.write('tree/' + n, n)
"#,
    );
    let (fs, _) = open(&scratch.path("t.zip"), &[]).unwrap();
    for name in ["a/hello", "a/nothing", "a/b/numbers", "a/noise"] {
        let content = fs::read(scratch.path("tree").join(name)).unwrap();
        let node = node(&*fs, name.as_bytes()).unwrap();
        assert!(read(&*fs, node, 5000).unwrap() == content, "{name}");
    }
}

#[test]
fn junk_in_front_comment_behind() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "echo a > a; zip -q t.zip a; (head -c 5000 /dev/urandom; cat t.zip) > sfx; cp t.zip \
        c.zip; echo comment | zip -q -z c.zip; (cat t.zip; printf junk) > behind.zip; zip -q -fz \
        z.zip a; (echo '#!/bin/sh'; cat z.zip) > sfx64",
    );
    for name in ["sfx", "c.zip", "behind.zip", "sfx64"] {
        let (fs, _) = open(&scratch.path(name), &[]).unwrap();
        let a = node(&*fs, b"a").unwrap();
        assert_eq!(read(&*fs, a, 4096).unwrap(), b"a\n", "{name}");
    }
}

#[test]
fn odd_ones_of_python() {
    let scratch = Scratch::new();
    python(
        &scratch.0,
        r#"
import zipfile
with zipfile.ZipFile('t.zip', 'w') as z:
    z.writestr('plain', b'no type bits')
    i = zipfile.ZipInfo('umlaut-\u00e4', (2020, 2, 29, 12, 34, 56)); z.writestr(i, b'u')
    i = zipfile.ZipInfo('dos\\dir\\file'.replace('\\', '\x00')); i.filename = 'dos\\dir\\file'; i.create_system = 0; z.writestr(i, b'd')
    i = zipfile.ZipInfo('readonly'); i.create_system = 0; i.external_attr = 1; z.writestr(i, b'r')
    i = zipfile.ZipInfo('dosdir'); i.create_system = 0; i.external_attr = 0x10; z.writestr(i, b'')
    z.writestr('twice', b'1'); z.writestr('twice', b'22')
    z.writestr('/abs', b'a'); z.writestr('x/../../up', b'u')
    z.writestr('xz', b'x' * 100000, zipfile.ZIP_LZMA)
with zipfile.ZipFile('empty.zip', 'w'): pass
"#,
    );
    let (fs, prepared) = open(&scratch.path("t.zip"), &[]).unwrap();
    assert_eq!(
        paths(&*fs),
        [
            "abs",
            "dos/",
            "dos/dir/",
            "dos/dir/file",
            "dosdir/",
            "plain",
            "readonly",
            "twice",
            "umlaut-ä",
            "xz"
        ]
    );
    assert_eq!(prepared.warnings.total, 1);
    assert_eq!(prepared.warnings.first[0].member, b"x/../../up");
    let attributes = |path: &str| {
        fs.attributes(&Caller::SYSTEM, node(&*fs, path.as_bytes()).unwrap())
            .unwrap()
    };
    assert_eq!(attributes("plain").mode(), 0o100600);
    assert_eq!(attributes("readonly").mode(), 0o100444);
    assert_eq!(attributes("umlaut-ä").mtime.seconds, 1_582_979_696);
    assert_eq!(read(&*fs, attributes("twice").node, 9).unwrap(), b"22");
    let (fs, _) = open(&scratch.path("empty.zip"), &[]).unwrap();
    assert!(paths(&*fs).is_empty());
}

#[test]
fn encrypted_members_are_listed_and_refused() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "echo secret > s; echo open > o; zip -q -P pass t.zip s; zip -q t.zip o",
    );
    let (fs, _) = open(&scratch.path("t.zip"), &[]).unwrap();
    assert_eq!(paths(&*fs), ["o", "s"]);
    let Err(error) = fs.open(&CALLER, node(&*fs, b"s").unwrap(), OpenFlags(0)) else {
        panic!("opened");
    };
    assert_eq!(error.errno(), Errno::EACCES);
    assert_eq!(
        error.cause().unwrap(),
        "member \"s\": encrypted; no password is asked for"
    );
}

#[test]
fn volumes_and_truncation_are_refused() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "head -c 300000 /dev/urandom > r; zip -q -s 100k t.zip r; zip -q whole.zip r; head -c \
        250000 whole.zip > cut.zip; tail -c +1000 whole.zip > tail.zip",
    );
    let cause = |name: &str| {
        let error = prepare(&scratch.path(name), &[]).unwrap_err();
        error.cause().unwrap().to_string()
    };
    assert!(
        cause("t.zip").contains("several volumes"),
        "{}",
        cause("t.zip")
    );
    assert!(
        cause("cut.zip").contains("truncated"),
        "{}",
        cause("cut.zip")
    );
    assert!(
        cause("tail.zip").contains("start of the archive missing"),
        "{}",
        cause("tail.zip")
    );
}

#[test]
fn a_wrong_checksum_is_an_error() {
    let scratch = Scratch::new();
    sh(&scratch.0, "seq 1 5000 > n; zip -q t.zip n");
    let mut bytes = fs::read(scratch.path("t.zip")).unwrap();
    let directory = bytes
        .windows(4)
        .position(|four| four == b"PK\x01\x02")
        .unwrap();
    bytes[directory + 16] ^= 1;
    let path = scratch.archive(&bytes);
    let (fs, _) = open(&path, &[]).unwrap();
    let n = node(&*fs, b"n").unwrap();
    assert_eq!(read(&*fs, n, 1 << 20).unwrap_err().errno(), Errno::EIO);
}
