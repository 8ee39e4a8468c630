//! Packages of Debian and of RPM.

use crate::compare::{Keeps, same};
use crate::tools::{Scratch, node, open, paths, prepare, python, read, sh};
use culvert::Errno;
use std::fs;

/// Makes the packages `p.METHOD.deb` and `p.METHOD.rpm` of the directory `p`.
pub fn make(scratch: &Scratch) {
    sh(
        &scratch.0,
        r#"
mkdir -p p/DEBIAN p/usr/share/p; seq 1 20000 > p/usr/share/p/numbers; ln -s numbers p/usr/share/p/link
: > p/usr/share/p/empty; chmod 4755 p/usr/share/p/numbers
printf 'Package: p\nVersion: 1\nArchitecture: all\nMaintainer: m <m@example.org>\nDescription: d\n' > p/DEBIAN/control
printf '#!/bin/sh\nexit 0\n' > p/DEBIAN/postinst; chmod 755 p/DEBIAN/postinst
for method in gzip xz zstd none; do dpkg-deb --root-owner-group -Z$method -b p p.$method.deb > p.log; done
cp -a p q; rm -r q/DEBIAN; cd q; find . | sort | cpio -o -H newc -R 0:0 --quiet -F ../q.none
cd ..; gzip -k q.none; xz -k q.none; zstd -q -k q.none; bzip2 -k q.none; lzma -k q.none
"#,
    );
    // The headers as rpm(8) writes them: tags, then their data; that of the signature is padded.
    python(
        &scratch.0,
        r#"
import struct
def header(tags, data):
    return b'\x8e\xad\xe8\x01\0\0\0\0' + struct.pack('>II', len(tags) // 16, len(data)) + tags + data
lead = b'\xed\xab\xee\xdb\x03\x00\0\0\0\1' + b'p-1-1'.ljust(66, b'\0') + struct.pack('>HH', 1, 5) + b'\0' * 16
signature = header(struct.pack('>IIII', 1000, 4, 0, 1), b'\0\0\1\2\5')
main = header(struct.pack('>IIIIIIII', 1000, 6, 0, 1, 1001, 6, 2, 1), b'p\0' + b'1\0' + b'x' * 7)
start = lead + signature + b'\0' * (-len(lead + signature) % 8) + main
for method, end in [('none', 'none'), ('gzip', 'none.gz'), ('xz', 'none.xz'), ('zstd', 'none.zst'), ('bzip2', 'none.bz2'), ('lzma', 'none.lzma')]:
    open(f'p.{method}.rpm', 'wb').write(start + open(f'q.{end}', 'rb').read())
open('large.rpm', 'wb').write(start + b'\x5d\0\0\0\x80' + b'\xff' * 8 + b'\0' + b'x' * 100)
"#,
    );
}

#[test]
fn packages_of_debian_are_as_dpkg_unpacks_them() {
    let scratch = Scratch::new();
    make(&scratch);
    for method in ["gzip", "xz", "zstd", "none"] {
        let path = scratch.path(&format!("p.{method}.deb"));
        let unpacked = format!("unpacked.{method}");
        sh(
            &scratch.0,
            &format!("dpkg-deb -R p.{method}.deb {unpacked}"),
        );
        let (fs, prepared) = open(&path, &[]).unwrap();
        assert!(
            prepared.summary.starts_with("deb, "),
            "{}",
            prepared.summary
        );
        assert_eq!(prepared.warnings.total, 0, "{:?}", prepared.warnings.first);
        same(&*fs, &scratch.path(&unpacked), Keeps::SECONDS);
    }
}

#[test]
fn packages_of_rpm_are_their_payload() {
    let scratch = Scratch::new();
    make(&scratch);
    for method in ["none", "gzip", "xz", "zstd", "bzip2", "lzma"] {
        let (fs, prepared) = open(&scratch.path(&format!("p.{method}.rpm")), &[]).unwrap();
        assert!(
            prepared.summary.starts_with("rpm, "),
            "{}",
            prepared.summary
        );
        assert_eq!(prepared.warnings.total, 0, "{:?}", prepared.warnings.first);
        same(&*fs, &scratch.path("q"), Keeps::SECONDS);
        let numbers = node(&*fs, b"usr/share/p/numbers").unwrap();
        let content = fs::read(scratch.path("q/usr/share/p/numbers")).unwrap();
        assert!(read(&*fs, numbers, 4096).unwrap() == content);
    }
    let error = prepare(&scratch.path("large.rpm"), &[]).unwrap_err();
    assert_eq!(error.errno(), Errno::EOPNOTSUPP);
}

#[test]
fn packages_that_are_cut_say_so() {
    let scratch = Scratch::new();
    make(&scratch);
    for (name, bytes) in [
        ("p.xz.deb", 100),
        ("p.xz.deb", 8 + 60 + 4),
        ("p.none.deb", 900),
        ("p.gzip.rpm", 90),
        ("p.gzip.rpm", 130),
        ("p.gzip.rpm", 400),
        ("p.none.rpm", 1000),
    ] {
        sh(&scratch.0, &format!("head -c {bytes} {name} > cut"));
        let error = prepare(&scratch.path("cut"), &[]).unwrap_err();
        assert!(
            matches!(error.errno(), Errno::EIO | Errno::EOPNOTSUPP),
            "{name} {bytes}: {error}"
        );
    }
    // What is no package of Debian's is what it is.
    sh(&scratch.0, "cd p/DEBIAN; ar rcD ../../a.a control postinst");
    let (fs, _) = open(&scratch.path("a.a"), &[]).unwrap();
    assert_eq!(paths(&*fs), ["control", "postinst"]);
}
