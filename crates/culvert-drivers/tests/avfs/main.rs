//! The layer `avfs`, beside AVFS itself where that is installed.

mod beside;
mod tools;

use culvert::testing::{Memory, Tree, fill, reading, writing};
use culvert::{
    Caller, Errno, FileKind, Layer, Layered, OpenFlags, SetAttributes, Touches, Validity,
    testing::caller,
};
use std::fs;
use tools::{Place, errno, find, listing, names, text};

#[test]
fn the_contract_is_kept() {
    writing(&|| Place::over(Box::new(Memory::new()))).assert_ok();
    let tree = Tree::new()
        .directory("d#1")
        .file("d#1/x.tgz#", "a real one")
        .symlink("#soft", "d#1/x.tgz#");
    let fs = Place::over(Box::new(Memory::new()));
    fill(&*fs, &tree).unwrap();
    reading(&*fs, &tree).assert_ok();
}

#[test]
fn files_are_looked_into_by_content_and_by_name() {
    let place = Place::new();
    let fs = place.open();
    for (path, want) in [
        ("x.tgz#/d/n", "1 2 3\n"),
        ("x.tgz#ugz#utar/d/n", "1 2 3\n"),
        ("x.tgz#ugz#/d/n", "1 2 3\n"),
        ("without-an-ending#/d/n", "1 2 3\n"),
        ("x.tgz#=/d/n", "1 2 3\n"),
        ("link#/d/n", "1 2 3\n"),
        ("link#ugz#utar/d/l", "1 2 3\n"),
        ("n.gz#", "1 2 3\n"),
        ("n.bz2#ubz2", "1 2 3\n"),
        ("n.xz#uxz", "1 2 3\n"),
        ("n.lzma#uxz", "1 2 3\n"),
        ("n.lzma#", "1 2 3\n"),
        ("n.Z#", "1 2 3\n"),
        ("n.Z#uz", "1 2 3\n"),
        ("n.zst#", "1 2 3\n"),
        ("y.zip#/x.tgz#/d/n", "1 2 3\n"),
        ("w.zip#uzip/y.zip#/x.tgz#/d/l", "1 2 3\n"),
        ("c.cpio#ucpio/d/n", "1 2 3\n"),
        ("a.a#uar/n", "1 2 3\n"),
        ("a#b", "real\n"),
        ("a##b", "real\n"),
        ("a##b.tgz#/d/n", "1 2 3\n"),
        ("a#b.tgz#/d/n", "1 2 3\n"),
        ("real.tgz#", "real\n"),
        ("zeroes.gz#", &"\0".repeat(2000)),
    ] {
        assert_eq!(text(&*fs, path), Ok(want.into()), "{path}");
    }
    for (path, want) in [
        ("x.tgz#utar", Errno::ENOENT),
        ("x.tgz#nobody", Errno::ENOENT),
        ("n#", Errno::ENOENT),
        ("d#", Errno::ENOENT),
        ("missing#", Errno::ENOENT),
        ("#", Errno::ENOENT),
        ("##", Errno::ENOENT),
        ("x.tgz#+", Errno::EROFS),
        ("x.tgz#urar", Errno::EOPNOTSUPP),
        ("cut.tgz#", Errno::EIO),
        ("x.tgz#/d/#avfsstat", Errno::ENOENT),
    ] {
        assert_eq!(find(&*fs, path).map(drop), Err(want), "{path}");
    }
    assert_eq!(listing(&*fs, "y.zip#"), ["d", "x.tgz"]);
    // Nothing of it is listed.
    assert!(names(&*fs, fs.root()).iter().all(|name| name != "x.tgz#"));
    assert!(
        text(&*fs, "#avfsstat/modules")
            .unwrap()
            .contains("ugz:\t.gz")
    );
    assert_eq!(listing(&*fs, "#avfsstat").len(), 4);
}

#[test]
fn who_may_read_the_file_may_look_into_it() {
    let place = Place::new();
    let fs = place.open();
    for (path, want) in [("x.tgz#", 0o750), ("y.zip#", 0o755), ("n.gz#", 0o600)] {
        let (_, found) = find(&*fs, path).unwrap();
        assert_eq!(found.permissions, want, "{path}");
        let own = fs::metadata(place.path(path.trim_end_matches('#'))).unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!((found.uid, found.mtime.seconds), (own.uid(), own.mtime()));
    }
}

const OTHER: Caller<'static> = Caller {
    uid: 65_533,
    gid: 65_533,
    groups: &[],
    pid: 1,
    umask: 0,
    rights: None,
};

/// As reopening what was found by another user does (`/proc/self/fd/N` after setuid(2)).
#[test]
fn who_opens_is_judged_at_that_moment() {
    let place = Place::new();
    place.sh(
        "chmod 711 d; tar --format=pax --pax-option=SCHILY.xattr.user.a:=b -cf p.tar d
         chmod 600 p.tar; chmod 755 d",
    );
    let fs = place.open();
    let (secret, _) = find(&*fs, "n.gz#").unwrap();
    let refused = |found: Option<Errno>| assert_eq!(found, Some(Errno::EACCES));
    refused(errno(fs.open(&OTHER, secret, OpenFlags(0))));
    assert!(fs.open(&caller(), secret, OpenFlags(0)).is_ok());
    // Whoever had it open before keeps it.
    assert!(fs.restore(&OTHER, secret, OpenFlags(0), b"").is_ok());
    let (top, _) = find(&*fs, "p.tar#").unwrap();
    refused(errno(fs.lookup(&OTHER, top, b"d")));
    refused(errno(fs.walk(&OTHER, top, b"d/n")));
    let (dir, _) = find(&*fs, "p.tar#/d").unwrap();
    assert!(fs.lookup(&OTHER, dir, b"n").is_ok());
    assert_eq!(fs.get_xattr(&caller(), dir, b"user.a").unwrap(), b"b");
    refused(errno(fs.get_xattr(&OTHER, dir, b"user.a")));
}

#[test]
fn a_new_mode_of_the_file_is_seen() {
    let place = Place::new();
    let fs = place.open();
    assert_eq!(find(&*fs, "x.tgz#").unwrap().1.permissions, 0o750);
    place.sh("chmod 604 x.tgz");
    assert_eq!(find(&*fs, "x.tgz#").unwrap().1.permissions, 0o705);
}

/// A watched file tells of itself alone, not of the names that lead into it.
#[test]
fn names_that_lead_into_files_are_not_believed_for_long() {
    /// A driver that tells of all changes.
    struct Tells(Memory);
    impl Layer for Tells {
        type Inner = Memory;
        fn inner(&self) -> &Memory {
            &self.0
        }
        fn touches(&self) -> Touches {
            Touches::NO_DATA
        }
        fn validity(&self) -> Validity {
            Validity::FOREVER
        }
    }
    let place = Place::new();
    let fs = Place::over(Box::new(Layered(Tells(Memory::new()))));
    assert_eq!(fs.validity(), Validity::SECOND);
    // What is in an archive is what it is.
    assert_eq!(place.archive("w.zip").validity(), Validity::FOREVER);
}

#[test]
fn what_cannot_be_looked_into_leaves_nothing() {
    let place = Place::new();
    let fs = place.open();
    let links = || fs::read_dir(place.run().join("avfs.0")).unwrap().count();
    for path in ["n#", "n#ugz", "x.tgz#ubz2"] {
        assert_eq!(find(&*fs, path).map(drop), Err(Errno::ENOENT), "{path}");
    }
    assert_eq!(links(), 0);
    find(&*fs, "x.tgz#").unwrap();
    assert_eq!(links(), 1);
}

/// A file may be made to look like another where indexes compare.
#[test]
fn indexes_are_of_files_of_the_same_writers() {
    let place = Place::new();
    let count = || fs::read_dir(place.cache()).unwrap().count();
    place.sh("cp -p x.tgz y.tgz; chmod 644 x.tgz y.tgz");
    let fs = place.open();
    find(&*fs, "x.tgz#").unwrap();
    find(&*fs, "y.tgz#").unwrap();
    assert_eq!(count(), 1);
    place.sh("cp -p x.tgz z.tgz; chmod 666 z.tgz");
    find(&*fs, "z.tgz#").unwrap();
    assert_eq!(count(), 2);
}

#[test]
fn what_is_in_a_file_is_not_changed() {
    let place = Place::new();
    let fs = place.open();
    let me = &caller();
    let (top, _) = find(&*fs, "x.tgz#").unwrap();
    let (file, _) = find(&*fs, "x.tgz#/d/n").unwrap();
    let root = fs.root();
    let flags = OpenFlags::READ_WRITE;
    for refused in [
        errno(fs.create(me, top, b"new", flags, 0o644)),
        errno(fs.mkdir(me, top, b"new", 0o755)),
        errno(fs.unlink(me, top, b"d")),
        errno(fs.rename(me, (top, b"d"), (root, b"e"), Default::default())),
        errno(fs.rename(me, (root, b"n"), (top, b"e"), Default::default())),
        errno(fs.set_attributes(me, file, &SetAttributes::default())),
        errno(fs.set_xattr(me, file, b"user.a", b"b", 0)),
        errno(fs.open(me, file, flags)),
    ] {
        assert_eq!(refused, Some(Errno::EROFS));
    }
    assert_eq!(errno(fs.link(me, file, root, b"other")), Some(Errno::EXDEV));
    // Names with a sign are names like others.
    fs.mkdir(me, root, b"new#", 0o755).unwrap();
    assert!(place.path("new#").is_dir());
    fs.rmdir(me, root, b"new#").unwrap();
}

#[test]
fn paths_and_parents_lead_back() {
    let place = Place::new();
    let fs = place.open();
    let (dir, found) = find(&*fs, "w.zip#/y.zip#/x.tgz#/d").unwrap();
    assert_eq!(found.kind, FileKind::Directory);
    assert_eq!(fs.path_of(dir).unwrap(), b"w.zip#/y.zip#/x.tgz#/d");
    let mut up = dir;
    for want in ["w.zip#/y.zip#/x.tgz#", "w.zip#/y.zip#", "w.zip#", ""] {
        up = fs.parent(up).unwrap();
        assert_eq!(up, find(&*fs, want).unwrap().0, "{want}");
    }
    assert_eq!(up, fs.root());
}

/// As the next program has it, which knows nodes by their numbers.
#[test]
fn nodes_are_the_same_in_all_processes() {
    let place = Place::new();
    let one = place.open();
    let path = "w.zip#/y.zip#/x.tgz#/d/n";
    let (node, _) = find(&*one, path).unwrap();
    let other = place.open();
    let found = other.attributes(&caller(), node).unwrap();
    assert_eq!((found.node, found.size), (node, 6));
    assert_eq!(find(&*other, path).unwrap().0, node);
    assert_eq!(other.path_of(node).unwrap(), path.as_bytes());
    // What is looked into changes: those that have it keep it, others do not meet another.
    fs::copy(place.path("y.zip"), place.path("new")).unwrap();
    fs::rename(place.path("new"), place.path("w.zip")).unwrap();
    assert!(one.attributes(&caller(), node).is_ok());
    let late = place.open();
    let stale = late.attributes(&caller(), node).map(drop);
    assert_eq!(errno(stale), Some(Errno::ESTALE));
    assert_eq!(text(&*one, "w.zip#/x.tgz#/d/n"), Ok("1 2 3\n".into()));
    assert_eq!(find(&*one, path).map(drop), Err(Errno::ENOENT));
}

/// More archives than are kept open at a time.
#[test]
fn many_are_looked_into() {
    let place = Place::new();
    let bytes = fs::read(place.path("x.tgz")).unwrap();
    for number in 0..100 {
        fs::write(place.path(&format!("{number}.tgz")), &bytes).unwrap();
    }
    let fs = place.open();
    let each = (0..100).map(|number| format!("{number}.tgz#/d/n"));
    let nodes: Vec<_> = each.map(|path| find(&*fs, &path).unwrap().0).collect();
    for (number, node) in nodes.into_iter().enumerate() {
        let found = fs.attributes(&caller(), node).unwrap();
        assert_eq!(found.size, 6);
        assert_eq!(
            fs.path_of(node).unwrap(),
            format!("{number}.tgz#/d/n").as_bytes()
        );
    }
}

#[test]
fn bombs_and_deep_ones_end() {
    let place = Place::new();
    place.sh("head -c 20000000 /dev/zero | gzip -9 | gzip -9 > bomb.gz
         cp x.tgz 0
         python3 -c \"
import zipfile
for i in range(80):
    with zipfile.ZipFile(str(i + 1), 'w') as z: z.write(str(i))\"");
    let fs = place.open_with(&[("avfs.limit", "1000000")]);
    assert_eq!(find(&*fs, "bomb.gz#ugz").unwrap().1.kind, FileKind::Regular);
    for path in ["bomb.gz#ugz#ugz", "bomb.gz#ugz#"] {
        assert_eq!(find(&*fs, path).map(drop), Err(Errno::EFBIG), "{path}");
    }
    let down = |from: u32| {
        let names = (0..=from).rev().map(|number| format!("{number}#"));
        names.collect::<Vec<_>>().join("/")
    };
    let fs = place.open();
    assert_eq!(
        text(&*fs, &format!("{}/d/n", down(30))),
        Ok("1 2 3\n".into())
    );
    assert_eq!(find(&*fs, &down(80)).map(drop), Err(Errno::ELOOP));
}

#[test]
fn an_archive_says_so_by_an_option() {
    let place = Place::new();
    let fs = place.archive("w.zip");
    assert_eq!(text(&*fs, "y.zip#/x.tgz#/d/n"), Ok("1 2 3\n".into()));
    assert_eq!(listing(&*fs, ""), ["y.zip"]);
}

#[test]
fn what_is_made_for_each_run_is_not_said() {
    let place = Place::new();
    for name in ["avfs.table", "avfs.indexes"] {
        let refused = place.prepare("passthrough", "", &[("layer", "avfs"), (name, "/tmp")]);
        assert_eq!(errno(refused), Some(Errno::EINVAL), "{name}");
    }
}
