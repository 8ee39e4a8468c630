//! cpio and ar, plain and compressed.

use crate::compare::{Keeps, same};
use crate::tools::{Scratch, node, open, paths, prepare, python, read, sh};
use culvert::Errno;
use std::fs;

const TREE: &str = r#"
mkdir -p tree/a/b tree/empty; cd tree
printf 'hello\n' > a/hello; : > a/nothing; seq 1 30000 > a/b/numbers; printf odd > a/odd
ln -s hello a/link; ln -s ../nowhere a/b/dangling; ln a/hello a/b/same; ln a/hello zsame; ln a/nothing none
chmod 4755 a/hello; chmod 1777 a/b; chmod 0 a/nothing; mkfifo fifo
touch -d '1999-12-31 23:59:59' a/b/numbers; touch -h -d '2001-02-03 04:05:06' a/link
printf x > "$(printf 'raw\377\001name')"; printf y > 'sp ace'; touch -d '2010-01-01' a empty
mknod null c 1 3 2>/dev/null || true
"#;

const FORMATS: [&str; 5] = ["newc", "crc", "odc", "bin", "hpbin"];

/// The archive `name` of the directory `tree` is that directory.
fn is_the_tree(scratch: &Scratch, name: &str, kind: &str) {
    let (fs, prepared) = open(&scratch.path(name), &[("subdir", "tree")]).unwrap();
    assert_eq!(prepared.warnings.total, 0, "{:?}", prepared.warnings.first);
    assert!(
        prepared.summary.starts_with(&format!("{kind}, ")),
        "{}",
        prepared.summary
    );
    same(&*fs, &scratch.path("tree"), Keeps::SECONDS);
}

#[test]
fn every_format_of_cpio() {
    let scratch = Scratch::new();
    sh(&scratch.0, TREE);
    for format in FORMATS {
        sh(
            &scratch.0,
            &format!(
                "find tree -print0 | sort -z | cpio -0 -o -H {format} --quiet -F {format}.cpio"
            ),
        );
        is_the_tree(&scratch, &format!("{format}.cpio"), "cpio");
    }
}

#[test]
fn compressed_as_a_whole() {
    let scratch = Scratch::new();
    sh(&scratch.0, TREE);
    sh(
        &scratch.0,
        "find tree -print0 | sort -z | cpio -0 -o -H newc --quiet -F t.cpio
         gzip -k t.cpio; zstd -q -k t.cpio; xz -k t.cpio; bzip2 -k t.cpio; lzip -k t.cpio
         xz -k --format=lzma t.cpio; compress -c t.cpio > t.cpio.Z
         ar rcD t.a tree/a/hello tree/a/odd; gzip -k t.a; printf short | gzip > short.gz",
    );
    for (end, name) in [
        ("gz", "gzip"),
        ("zst", "zstd"),
        ("xz", "xz"),
        ("bz2", "bzip2"),
        ("lz", "lzip"),
        ("lzma", "lzma"),
        ("Z", "compress"),
    ] {
        is_the_tree(&scratch, &format!("t.cpio.{end}"), &format!("cpio, {name}"));
    }
    let (fs, _) = open(&scratch.path("t.a.gz"), &[]).unwrap();
    assert_eq!(paths(&*fs), ["hello", "odd"]);
    let error = prepare(&scratch.path("short.gz"), &[]).unwrap_err();
    assert_eq!(error.errno(), Errno::EINVAL);
    assert!(
        error
            .to_string()
            .contains("no tar, cpio or ar archive inside")
    );
}

#[test]
fn the_data_of_links_come_with_the_last_name() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "printf linked > a; ln a b; ln a c; printf '%s\\n' a b c | cpio -o -H newc --quiet -F \
        t.cpio",
    );
    let (fs, _) = open(&scratch.path("t.cpio"), &[]).unwrap();
    let found: Vec<_> = [b"a", b"b", b"c"]
        .map(|name| node(&*fs, name).unwrap())
        .into();
    assert_eq!(found[0], found[1]);
    assert_eq!(found[1], found[2]);
    assert_eq!(read(&*fs, found[0], 100).unwrap(), b"linked");
}

#[test]
fn archives_behind_each_other_are_one_as_in_an_initramfs() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "echo 1 > one; echo 2 > two
         echo one | cpio -o -H newc --quiet -F t.cpio; echo two | cpio -o -H newc --quiet >> t.cpio
         cp t.cpio more; gzip < t.cpio >> more",
    );
    let (fs, prepared) = open(&scratch.path("t.cpio"), &[]).unwrap();
    assert_eq!(prepared.warnings.total, 0);
    assert_eq!(paths(&*fs), ["one", "two"]);
    let (fs, prepared) = open(&scratch.path("more"), &[]).unwrap();
    assert_eq!(prepared.warnings.total, 1);
    assert!(prepared.warnings.first[0].text.contains("no cpio archive"));
    assert_eq!(paths(&*fs), ["one", "two"]);
}

#[test]
fn what_is_cut_off_is_an_error_and_a_warning_where_damage_is_allowed() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "seq 1 3000 > one; seq 1 3000 > two; printf '%s\\n' one two | cpio -o -H newc --quiet -F \
        whole
         ar rc t.a one two; head -c 20000 whole > t.cpio; head -c 20000 t.a > cut.a
         head -c $((8 + 60 + $(stat -c %s one) + $(stat -c %s one) % 2 + 30)) t.a > header.a",
    );
    for name in ["t.cpio", "cut.a", "header.a"] {
        let error = prepare(&scratch.path(name), &[]).unwrap_err();
        assert_eq!(error.errno(), Errno::EIO, "{name}");
        assert!(error.to_string().contains("truncated"), "{name}: {error}");
        let (fs, prepared) = open(&scratch.path(name), &[("damaged", "")]).unwrap();
        assert_eq!(prepared.warnings.total, 1, "{name}");
        let one = node(&*fs, b"one").unwrap();
        let content = fs::read(scratch.path("one")).unwrap();
        assert!(read(&*fs, one, 4096).unwrap() == content, "{name}");
    }
}

#[test]
fn libraries_and_the_names_of_ar() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        r#"
long=a_name_that_is_longer_than_sixteen_bytes.o
echo 'int f(void) { return 1; }' > f.c; cc -c f.c -o short.o; cp short.o $long; printf odd > odd
ar rc lib.a short.o $long odd
"#,
    );
    let (fs, prepared) = open(&scratch.path("lib.a"), &[]).unwrap();
    assert!(prepared.summary.starts_with("ar, "), "{}", prepared.summary);
    let long = "a_name_that_is_longer_than_sixteen_bytes.o";
    assert_eq!(paths(&*fs), [long, "odd", "short.o"]);
    for name in [long, "odd", "short.o"] {
        let member = node(&*fs, name.as_bytes()).unwrap();
        let content = fs::read(scratch.path(name)).unwrap();
        assert!(read(&*fs, member, 4096).unwrap() == content, "{name}");
    }
}

#[test]
fn names_as_bsd_writes_them() {
    let scratch = Scratch::new();
    python(
        &scratch.0,
        r#"
def member(name, data):
    return b'%-16s%-12d%-6d%-6d%-8s%-10d`\n' % (name, 1000000000, 1, 2, b'100640', len(data)) + data + b'\n' * (len(data) % 2)
open('t.a', 'wb').write(b'!<arch>\n' + member(b'#1/20', b'__.SYMDEF SORTED\0\0\0\0' + b'table')
    + member(b'#1/20', b'a name with space\0\0\0' + b'content') + member(b'plain', b'x'))
open('thin.a', 'wb').write(b'!<thin>\n')
"#,
    );
    let (fs, _) = open(&scratch.path("t.a"), &[]).unwrap();
    assert_eq!(paths(&*fs), ["a name with space", "plain"]);
    let member = node(&*fs, b"a name with space").unwrap();
    assert_eq!(read(&*fs, member, 3).unwrap(), b"content");
    let attributes = fs.attributes(&crate::tools::CALLER, member).unwrap();
    assert_eq!(
        (attributes.permissions, attributes.uid, attributes.gid),
        (0o640, 1, 2)
    );
    let error = prepare(&scratch.path("thin.a"), &[]).unwrap_err();
    assert!(error.to_string().contains("thin"), "{error}");
}
