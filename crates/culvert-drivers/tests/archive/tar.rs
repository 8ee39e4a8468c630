//! Tar in all its forms.

use crate::compare::{Keeps, same};
use crate::tools::{Scratch, node, open, paths, python, read, sh};
use culvert::{Caller, OpenFlags, Opened, Whence};
use std::fs;

/// A tree with everything that a format may keep. Names short enough for v7.
const SMALL: &str = r#"
mkdir -p tree/a/b tree/empty; cd tree
printf 'hello\n' > a/hello; : > a/nothing; seq 1 30000 > a/b/numbers
head -c 512 /dev/zero > a/block; head -c 513 /dev/urandom > a/block1
ln -s hello a/link; ln -s ../nowhere a/b/dangling; ln a/hello a/b/same; ln a/hello zsame
chmod 4755 a/hello; chmod 1777 a/b; chmod 0 a/nothing; mkfifo fifo
touch -d '1999-12-31 23:59:59.123456789' a/b/numbers
touch -h -d '2001-02-03 04:05:06.5' a/link
printf x > "$(printf 'raw\377\001name')"; printf y > 'sp ace'
touch -d '2010-01-01 00:00:00.25' a empty
"#;

/// What only newer formats keep: long names, long targets, other times.
const LONG: &str = r#"
cd tree
long=$(printf 'n%.0s' $(seq 1 200))
mkdir -p $long/$long/$long; echo deep > $long/$long/$long/$long
ln -s $long/$long/$long/$long/$long longlink; ln $long/$long/$long/$long longhard
touch -d '1950-06-07 08:09:10.75' old; touch -d '2300-01-01 00:00:00' future
"#;

fn unpack_and_compare(scratch: &Scratch, archive: &str, keeps: Keeps) {
    sh(
        &scratch.0,
        &format!("rm -rf out; mkdir out; tar -C out --same-permissions --xattrs -xf {archive}"),
    );
    let (fs, prepared) = open(&scratch.path(archive), &[]).unwrap();
    assert_eq!(prepared.warnings.total, 0, "{:?}", prepared.warnings.first);
    // The root has no entry in the archive unless it is "./".
    same(&*fs, &scratch.path("out"), keeps);
}

#[test]
fn every_format_of_gnu_tar() {
    let scratch = Scratch::new();
    sh(&scratch.0, SMALL);
    for format in ["v7", "ustar", "oldgnu", "gnu", "posix"] {
        let keeps = if format == "posix" {
            Keeps::ALL
        } else {
            Keeps::SECONDS
        };
        let fifo = if format == "v7" { "--exclude=fifo" } else { "" };
        sh(
            &scratch.0,
            &format!("tar --format={format} {fifo} -cf {format}.tar tree"),
        );
        unpack_and_compare(&scratch, &format!("{format}.tar"), keeps);
    }
}

#[test]
fn long_names_and_far_times() {
    let scratch = Scratch::new();
    sh(&scratch.0, SMALL);
    sh(&scratch.0, LONG);
    for format in ["oldgnu", "gnu", "posix"] {
        let keeps = if format == "posix" {
            Keeps::ALL
        } else {
            Keeps::SECONDS
        };
        sh(
            &scratch.0,
            &format!("tar --format={format} -cf {format}.tar tree"),
        );
        unpack_and_compare(&scratch, &format!("{format}.tar"), keeps);
    }
}

#[test]
fn ustar_prefixes() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        r#"d=tree/$(printf 'd%.0s' $(seq 1 90)); mkdir -p $d; echo a > $d/$(printf 'f%.0s' $(seq 1 90)); tar --format=ustar -cf t.tar tree"#,
    );
    unpack_and_compare(&scratch, "t.tar", Keeps::SECONDS);
}

#[test]
fn sparse_files_in_every_format() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        r#"
mkdir tree; cd tree
truncate -s 10M hole; printf start > begin; truncate -s 3M begin; printf end >> begin
truncate -s 1M all
python3 - <<'E'
with open('many', 'wb') as f:
    for i in range(100):
        f.seek(i * 65536 + 4096); f.write(bytes([i]) * 4096)
    f.truncate(100 * 65536 + 12345)
E
echo after > zafter
"#,
    );
    for (name, flags) in [
        ("oldgnu", "--format=oldgnu"),
        ("gnu", "--format=gnu"),
        ("p00", "--format=posix --sparse-version=0.0"),
        ("p01", "--format=posix --sparse-version=0.1"),
        ("p10", "--format=posix --sparse-version=1.0"),
    ] {
        sh(
            &scratch.0,
            &format!("tar {flags} --sparse -cf {name}.tar tree"),
        );
        assert!(
            fs::metadata(scratch.path(&format!("{name}.tar")))
                .unwrap()
                .len()
                < 2_000_000
        );
        let keeps = if name.starts_with('p') {
            Keeps::ALL
        } else {
            Keeps::SECONDS
        };
        unpack_and_compare(&scratch, &format!("{name}.tar"), keeps);
        let (fs, _) = open(&scratch.path(&format!("{name}.tar")), &[]).unwrap();
        let many = node(&*fs, b"tree/many").unwrap();
        let Opened::Driven(file) = fs.open(&crate::tools::CALLER, many, OpenFlags(0)).unwrap()
        else {
            panic!();
        };
        assert_eq!(file.seek(0, Whence::Data).unwrap(), 4096, "{name}");
        assert_eq!(file.seek(4096, Whence::Hole).unwrap(), 8192, "{name}");
        assert_eq!(file.seek(5000, Whence::Data).unwrap(), 5000, "{name}");
        assert!(file.seek(100 * 65536, Whence::Data).is_err(), "{name}");
        assert_eq!(
            file.attributes(&Caller::SYSTEM).unwrap().blocks,
            100 * 8,
            "{name}"
        );
    }
}

#[test]
fn every_compression() {
    let scratch = Scratch::new();
    sh(&scratch.0, SMALL);
    sh(
        &scratch.0,
        "head -c 3000000 /dev/urandom | base64 > tree/big; tar --format=posix -cf t.tar tree",
    );
    for (program, name) in [
        ("gzip", "gz"),
        ("zstd -q", "zst"),
        ("xz -T1", "xz"),
        ("bzip2", "bz2"),
    ] {
        sh(&scratch.0, &format!("{program} < t.tar > t.{name}"));
        unpack_and_compare(&scratch, &format!("t.{name}"), Keeps::ALL);
    }
}

#[test]
fn extended_attributes() {
    let scratch = Scratch::new();
    python(
        &scratch.0,
        r#"
import tarfile, io
with tarfile.open('t.tar', 'w', format=tarfile.PAX_FORMAT) as t:
    i = tarfile.TarInfo('f'); i.size = 1
    i.pax_headers = {'SCHILY.xattr.user.colour': 'blue\ngreen', 'SCHILY.xattr.user.empty': ''}
    t.addfile(i, io.BytesIO(b'x'))
    t.addfile(tarfile.TarInfo('g'))
"#,
    );
    let (fs, _) = open(&scratch.path("t.tar"), &[]).unwrap();
    let f = node(&*fs, b"f").unwrap();
    assert_eq!(
        fs.get_xattr(&Caller::SYSTEM, f, b"user.colour").unwrap(),
        b"blue\ngreen"
    );
    assert_eq!(
        fs.get_xattr(&Caller::SYSTEM, f, b"user.empty").unwrap(),
        b""
    );
    assert_eq!(
        fs.list_xattr(&Caller::SYSTEM, f).unwrap(),
        b"user.colour\0user.empty\0"
    );
    assert_eq!(
        fs.get_xattr(&Caller::SYSTEM, f, b"user.none")
            .unwrap_err()
            .errno(),
        culvert::Errno::ENODATA
    );
    assert_eq!(
        fs.get_xattr(&Caller::SYSTEM, f, b"nonsense")
            .unwrap_err()
            .errno(),
        culvert::Errno::EOPNOTSUPP
    );
    let g = node(&*fs, b"g").unwrap();
    assert_eq!(fs.list_xattr(&Caller::SYSTEM, g).unwrap(), b"");
}

#[test]
fn large_numbers_and_global_headers() {
    let scratch = Scratch::new();
    python(
        &scratch.0,
        r#"
import tarfile, io
for name, format in ('gnu', tarfile.GNU_FORMAT), ('pax', tarfile.PAX_FORMAT):
    with tarfile.open(name + '.tar', 'w', format=format, pax_headers={'comment': 'c', 'uid': '7'} if name == 'pax' else None) as t:
        i = tarfile.TarInfo('f'); i.uid = 3000000000; i.gid = 2999999999; i.mtime = -5; t.addfile(i)
        i = tarfile.TarInfo('g'); i.uid = 5; t.addfile(i)
"#,
    );
    for name in ["gnu.tar", "pax.tar"] {
        let (fs, _) = open(&scratch.path(name), &[]).unwrap();
        let f = fs
            .attributes(&Caller::SYSTEM, node(&*fs, b"f").unwrap())
            .unwrap();
        assert_eq!(
            (f.uid, f.gid, f.mtime.seconds),
            (3_000_000_000, 2_999_999_999, -5),
            "{name}"
        );
        let g = fs
            .attributes(&Caller::SYSTEM, node(&*fs, b"g").unwrap())
            .unwrap();
        assert_eq!(g.uid, if name == "pax.tar" { 7 } else { 5 }, "{name}");
    }
}

#[test]
fn later_members_replace_earlier_ones() {
    let scratch = Scratch::new();
    python(
        &scratch.0,
        r#"
import tarfile, io
with tarfile.open('t.tar', 'w') as t:
    def f(name, data=b'', **kw):
        i = tarfile.TarInfo(name); i.size = len(data)
        for k, v in kw.items(): setattr(i, k, v)
        t.addfile(i, io.BytesIO(data))
    D, S, L = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
    f('a', b'one'); f('a', b'second')                       # file by file
    f('h1', b'old'); f('h2', type=L, linkname='h1'); f('h1', b'new')  # the link keeps the old node
    f('d', b'file'); f('d', type=D, mode=0o700); f('d/x', b'x')     # file by directory
    f('e', type=D); f('e', b'now a file')                   # empty directory by file
    f('full/x', b'x'); f('full', b'refused')                # directory that is not empty
    f('imp/y', b'y'); f('imp', type=D, mode=0o711)          # described later
    f('real/z', b'z'); f('via', type=S, linkname='real'); f('via/w', b'w')  # through a link
    f('up/link', type=S, linkname='../real'); f('up/link/v', b'v')
    f('./dot/./p', b'p'); f('//abs//q', b'q')
"#,
    );
    let (fs, prepared) = open(&scratch.path("t.tar"), &[]).unwrap();
    assert_eq!(
        paths(&*fs),
        [
            "a", "abs/", "abs/q", "d/", "d/x", "dot/", "dot/p", "e", "full/", "full/x", "h1", "h2",
            "imp/", "imp/y", "real/", "real/v", "real/w", "real/z", "up/", "up/link", "via"
        ]
    );
    for (path, content) in [
        ("a", "second"),
        ("h1", "new"),
        ("h2", "old"),
        ("e", "now a file"),
        ("real/w", "w"),
        ("abs/q", "q"),
    ] {
        let node = node(&*fs, path.as_bytes()).unwrap();
        assert_eq!(
            read(&*fs, node, 4096).unwrap(),
            content.as_bytes(),
            "{path}"
        );
    }
    let links = |path: &[u8]| {
        fs.attributes(&Caller::SYSTEM, node(&*fs, path).unwrap())
            .unwrap()
            .links
    };
    assert_eq!((links(b"h1"), links(b"h2"), links(b"a")), (1, 1, 1));
    let imp = fs
        .attributes(&Caller::SYSTEM, node(&*fs, b"imp").unwrap())
        .unwrap();
    assert_eq!(imp.permissions, 0o711);
    assert_eq!(prepared.warnings.total, 1);
    assert_eq!(prepared.warnings.first[0].member, b"full");
}

#[test]
fn concatenated_archives_and_no_end_mark() {
    let scratch = Scratch::new();
    sh(
        &scratch.0,
        "echo a > a; echo b > b; tar -cf a.tar a; tar -cf b.tar b; cat a.tar b.tar > ab.tar; head \
        -c 1024 a.tar > cut.tar; tar -cf none.tar -T /dev/null; (cat a.tar; echo rests of a tape) \
        > junk.tar; tar -b1 -cf one.tar a; head -c 1536 one.tar > onezero.tar",
    );
    for (name, expected) in [
        ("ab.tar", &["a", "b"][..]),
        ("cut.tar", &["a"]),
        ("none.tar", &[]),
        ("junk.tar", &["a"]),
        ("onezero.tar", &["a"]),
    ] {
        let (fs, prepared) = open(&scratch.path(name), &[]).unwrap();
        assert_eq!(paths(&*fs), expected, "{name}");
        assert_eq!(
            prepared.warnings.total,
            u64::from(name == "ab.tar"),
            "{name}"
        );
    }
}

#[test]
fn old_directories_with_a_slash_and_links_with_data() {
    let scratch = Scratch::new();
    python(
        &scratch.0,
        r#"
import tarfile, io
def raw(name, data=b'', size=None, **kw):
    i = tarfile.TarInfo(name); i.size = len(data) if size is None else size
    for k, v in kw.items(): setattr(i, k, v)
    return i.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)
b  = raw('old/', type=tarfile.AREGTYPE) + raw('old/f', b'f')
b += raw('link', b'f', type=tarfile.LNKTYPE, linkname='old/f')      # data behind a hard link
b += raw('dir', type=tarfile.DIRTYPE, size=4096)                    # a size without data
b += raw('last', b'l') + bytes(1024)
open('t.tar', 'wb').write(b)
"#,
    );
    let (fs, prepared) = open(&scratch.path("t.tar"), &[]).unwrap();
    assert_eq!(paths(&*fs), ["dir/", "last", "link", "old/", "old/f"]);
    assert_eq!(prepared.warnings.total, 0, "{:?}", prepared.warnings.first);
    let attributes = |path: &[u8]| {
        fs.attributes(&Caller::SYSTEM, node(&*fs, path).unwrap())
            .unwrap()
    };
    assert_eq!(attributes(b"link").inode, attributes(b"old/f").inode);
    assert_eq!(attributes(b"link").links, 2);
}

#[test]
fn random_trees() {
    // Seeded: the same trees every time.
    let scratch = Scratch::new();
    for seed in 0..6 {
        python(
            &scratch.0,
            &format!(
                r#"
import os, random, shutil
r = random.Random({seed}); shutil.rmtree('tree', True); os.mkdir('tree')
dirs, files = ['tree'], []
for n in range(150):
    d = r.choice(dirs)
    name = bytes(r.choice(b'abc\xc3\xa4\xff .-+%') for _ in range(r.choice([1, 3, 20, 90, 120]))) + b'%d' % n
    p = os.path.join(os.fsencode(d), name.lstrip(b'-'))
    what = r.random()
    if what < .2: os.mkdir(p); dirs.append(os.fsdecode(p))
    elif what < .3: os.symlink(bytes(r.choice(b'abc/.') for _ in range(r.choice([1, 10, 150]))), p)
    elif what < .4 and files: os.link(r.choice(files), p)
    else:
        open(p, 'wb').write(r.randbytes(r.choice([0, 1, 511, 512, 513, 5000, 70000]))); files.append(p)
        os.chmod(p, r.randrange(0o1000) | 0o400)
        os.utime(p, ns=(0, r.randrange(-10**18, 4 * 10**18)))
"#
            ),
        );
        let (format, filter) = [("gnu", "cat"), ("posix", "gzip -1"), ("posix", "cat")][seed % 3];
        sh(
            &scratch.0,
            &format!("tar --format={format} -cf - tree | {filter} > t{seed}.tar"),
        );
        let keeps = if format == "posix" {
            Keeps::ALL
        } else {
            Keeps::SECONDS
        };
        unpack_and_compare(&scratch, &format!("t{seed}.tar"), keeps);
    }
}
