//! Names, and who may do what with them.

use crate::groups::{by, is_root};
use crate::tools::{Scratch, create_file, open, open_for, read_all, write_at};
use culvert::{
    Access, Caller, Errno, FileKind, FileSystem, Node, OpenFlags, RenameFlags, Rights,
    SetAttributes, Timespec, testing::caller,
};
use culvert_sys::process::unshare;
use culvert_sys::raw::general::CLONE_FS;
use std::os::unix::fs::MetadataExt;

fn rename(fs: &dyn FileSystem, from: (Node, &str), to: (Node, &str)) {
    let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
    fs.rename(&caller(), from, to, RenameFlags(0)).unwrap();
}

fn mkdir(fs: &dyn FileSystem, dir: Node, name: &str) -> Node {
    let made = fs.mkdir(&caller(), dir, name.as_bytes(), 0o755);
    made.unwrap().attributes.node
}

fn permissions(mode: u32) -> SetAttributes {
    SetAttributes {
        permissions: Some(mode),
        ..SetAttributes::default()
    }
}

/// Each process has a file system of its own.
#[test]
fn what_another_process_renames_is_found_where_it_is() {
    for backends in [1, 3] {
        let scratch = Scratch::new(backends);
        let mount = scratch.prepared(&[]);
        let (one, other) = (open(&mount), open(&mount));
        let root = one.root();
        let above = mkdir(&*one, root, "d");
        let dir = mkdir(&*one, above, "e");
        let made = one.create(&caller(), dir, b"f", OpenFlags::READ_WRITE, 0o644);
        let file = made.unwrap().0.attributes.node;

        let walked = other.walk(&caller(), root, b"d/e/f").unwrap();
        let theirs = walked.parent;
        rename(&*other, (theirs, "f"), (theirs, "g"));
        rename(&*other, (other.parent(theirs).unwrap(), "e"), (root, "x"));
        rename(&*other, (root, "x"), (root, "y"));
        mkdir(&*other, root, "x");
        assert_eq!(one.path_of(dir).unwrap(), b"y");
        assert_eq!(one.attributes(&caller(), file).unwrap().node, file);
        assert_eq!(one.path_of(file).unwrap(), b"y/g");
        one.set_attributes(&caller(), file, &permissions(0o600))
            .unwrap();
        assert_eq!(one.parent(dir).unwrap(), root);
        mkdir(&*one, dir, "new");
        assert!(scratch.backends[0].join("y/new").is_dir());

        // Below one that was renamed, for who has the lower one alone.
        rename(&*other, (root, "d"), (root, "z"));
        let over = other.lookup(&caller(), root, b"z").unwrap();
        assert_eq!(over.attributes.node, above);
        rename(&*other, (root, "y"), (above, "w"));
        assert_eq!(one.path_of(dir).unwrap(), b"z/w");
        rename(&*other, (root, "z"), (root, "a"));
        assert_eq!(one.path_of(dir).unwrap(), b"a/w");
        let entry = one.lookup(&caller(), dir, b"g").unwrap();
        assert_eq!(entry.attributes.node, file);
        // The next program of a process knows the number alone.
        let next = open(&mount);
        assert_eq!(next.path_of(file).unwrap(), b"a/w/g");

        // What was removed is nowhere.
        let all = other.walk(&caller(), root, b"a/w/g").unwrap();
        other.unlink(&caller(), all.parent, b"g").unwrap();
        other.rmdir(&caller(), all.parent, b"new").unwrap();
        other.rmdir(&caller(), above, b"w").unwrap();
        let gone = |result: culvert::Result<()>| {
            assert_eq!(result.unwrap_err().errno(), Errno::ENOENT);
        };
        gone(one.path_of(dir).map(drop));
        gone(one.lookup(&caller(), dir, b"g").map(drop));
        gone(one.mkdir(&caller(), dir, b"n", 0o755).map(drop));
        // A directory that was worked in stays an empty one.
        let left = one.attributes(&caller(), dir).unwrap();
        assert_eq!((left.kind, left.links), (FileKind::Directory, 0));
        let opened = one.open_directory(&caller(), dir, OpenFlags::READ);
        assert!(opened.is_ok());
        // Who may do what there, its mode says.
        let may = |uid, rights| {
            let (gid, groups) = (uid, &[][..]);
            let who = Caller {
                uid,
                gid,
                groups,
                rights: Some(rights),
                ..caller()
            };
            one.access(&who, dir, Access::WRITE)
                .map_err(|error| error.errno())
        };
        assert_eq!(may(left.uid, Rights::NONE), Ok(()));
        assert_eq!(may(left.uid + 1, Rights::NONE), Err(Errno::EACCES));
    }
}

#[test]
fn a_directory_that_is_not_empty_stays_the_same() {
    let scratch = Scratch::new(3);
    let fs = scratch.open(&[]);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let dir = mkdir(&*fs, fs.root(), "d");
        let places: Vec<_> = scratch.backends.iter().map(|back| back.join("d")).collect();
        let mode = permissions(0o750);
        fs.set_attributes(&caller(), dir, &mode).unwrap();
        drop(fs.create(&caller(), dir, name.as_bytes(), OpenFlags::READ, 0o644));
        let refused = fs.rmdir(&caller(), fs.root(), b"d");
        assert_eq!(refused.unwrap_err().errno(), Errno::ENOTEMPTY, "{name}");
        let found = fs.lookup(&caller(), fs.root(), b"d").unwrap();
        assert_eq!(found.attributes.node, dir, "{name}");
        let modes = places.iter().map(|place| place.metadata().unwrap().mode());
        assert!(modes.into_iter().all(|mode| mode & 0o7777 == 0o750));
        fs.unlink(&caller(), dir, name.as_bytes()).unwrap();
        fs.rmdir(&caller(), fs.root(), b"d").unwrap();
        assert!(places.iter().all(|place| !place.exists()), "{name}");
    }
}

#[test]
fn mknod_makes_plain_files_alone() {
    for workload in ["shared_file", "file_per_proc", "small_file"] {
        let scratch = Scratch::new(1);
        let fs = scratch.open(&[&format!("workload={workload}")]);
        let mknod = |name: &[u8], mode| fs.mknod(&caller(), fs.root(), name, mode, 0);
        for (name, mode) in [("f", 0o100_644), ("g", 0o644)] {
            let made = mknod(name.as_bytes(), mode).unwrap();
            assert_eq!(made.attributes.kind, FileKind::Regular, "{workload}");
            let file = open_for(&*fs, name, OpenFlags::READ_WRITE).unwrap();
            write_at(&*file, 0, b"text");
            assert_eq!(read_all(&*file).unwrap(), b"text", "{workload}");
        }
        assert_eq!(
            mknod(b"f", 0o100_644).unwrap_err().errno(),
            Errno::EEXIST,
            "{workload}"
        );
        for mode in [0o010_644, 0o140_644, 0o020_644] {
            assert_eq!(mknod(b"p", mode).unwrap_err().errno(), Errno::EPERM);
        }
    }
}

/// Who writes changes the content, and has not read it.
#[test]
fn writing_leaves_the_time_of_access() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&[]);
    // The container's first open is not for writing.
    drop(create_file(&*fs, "f"));
    let _reader = open_for(&*fs, "f", OpenFlags::READ).unwrap();
    for name in ["f", "g"] {
        let file = match name {
            "f" => open_for(&*fs, name, OpenFlags::READ_WRITE).unwrap(),
            _ => create_file(&*fs, name),
        };
        let long_ago = Timespec {
            seconds: 1_000_000_000,
            nanoseconds: 5,
        };
        let changes = SetAttributes {
            atime: Some(long_ago),
            mtime: Some(long_ago),
            ..SetAttributes::default()
        };
        let times = || {
            let found = file.attributes(&caller()).unwrap();
            (found.atime, found.mtime.seconds > 1_700_000_000)
        };
        let set = || file.set_attributes(&caller(), &changes).map(drop).unwrap();
        set();
        write_at(&*file, 0, b"text");
        assert_eq!(times(), (long_ago, true), "{name}");
        set();
        crate::tools::truncate(&*file, 2).unwrap();
        assert_eq!(times(), (long_ago, true), "{name}");
    }
}

#[test]
fn both_flags_of_setxattr_are_always_refused() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&[]);
    drop(create_file(&*fs, "f"));
    let node = fs.lookup(&caller(), fs.root(), b"f").unwrap();
    let node = node.attributes.node;
    let set = |name: &[u8], flags| {
        let set = fs.set_xattr(&caller(), node, name, b"value", flags);
        set.map_err(|error| error.errno())
    };
    assert_eq!(set(b"user.a", 3), Err(Errno::ENODATA));
    assert_eq!(set(b"user.a", 1), Ok(()));
    assert_eq!(set(b"user.a", 3), Err(Errno::EEXIST));
    assert_eq!(set(b"user.a", 4), Err(Errno::EINVAL));
    assert_eq!(set(b"user.", 0), Err(Errno::EINVAL));
    assert_eq!(set(b"other", 0), Err(Errno::EOPNOTSUPP));
}

/// For what an ordinary user does in a process of its own: with `umask`, on `backends` back ends.
fn as_a_user(
    backends: usize,
    umask: u32,
    work: impl Fn(&Scratch, &dyn FileSystem, Caller<'_>) + Sync,
) {
    // Only root can be several users.
    if !is_root() {
        return;
    }
    let scratch = Scratch::new(backends);
    for directory in scratch.backends.iter().chain([&scratch.root]) {
        std::os::unix::fs::chown(directory, Some(64_001), Some(64_001)).unwrap();
    }
    let mount = scratch.prepared(&[]);
    by(64_001, false, || {
        // The thread's own umask from here on.
        unshare(CLONE_FS).unwrap();
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
        let fs = open(&mount);
        work(&scratch, &*fs, Caller { umask, ..caller() });
    });
}

#[test]
fn a_umask_does_not_keep_the_owner_out() {
    for backends in [1, 3] {
        for umask in [0o177, 0o777] {
            as_a_user(backends, umask, |scratch, fs, who| {
                let flags = OpenFlags::READ_WRITE;
                for name in ["a", "b", "c", "d"] {
                    let made = fs.create(&who, fs.root(), name.as_bytes(), flags, 0o644);
                    let (entry, file) = made.unwrap();
                    let culvert::Opened::Driven(file) = file else {
                        panic!("a file of the kernel's");
                    };
                    write_at(&*file, 0, b"text");
                    assert_eq!(read_all(&*file).unwrap(), b"text", "{umask:o}");
                    assert_eq!(entry.attributes.permissions, 0o644 & !umask);
                    let node = entry.attributes.node;
                    fs.set_attributes(&who, node, &permissions(0o600)).unwrap();
                    fs.set_xattr(&who, node, b"user.a", b"value", 0).unwrap();
                    assert_eq!(fs.get_xattr(&who, node, b"user.a").unwrap(), b"value");
                    drop(file);
                    let next = scratch.open(&[]);
                    let file = open_for(&*next, name, OpenFlags::READ).unwrap();
                    assert_eq!(read_all(&*file).unwrap(), b"text", "{umask:o}");
                }
            });
        }
    }
}

#[test]
fn a_directory_that_may_be_read_alone_shows_its_names() {
    as_a_user(1, 0o022, |scratch, fs, who| {
        let root = fs.root();
        mkdir(fs, root, "e");
        fs.create(&who, root, b"f", OpenFlags::READ_WRITE, 0o644)
            .unwrap();
        // The root of the mount itself, which is not to be searched any more.
        fs.set_attributes(&who, root, &permissions(0o600)).unwrap();
        assert_eq!(fs.attributes(&who, root).unwrap().permissions, 0o600);
        let mut names = Vec::new();
        fs.read_directory(&who, root, 0, &mut |entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        })
        .unwrap();
        names.sort();
        assert_eq!(names, ["e", "f"]);
        let looked_up = fs.lookup(&who, root, b"e").map(drop);
        assert_eq!(looked_up.unwrap_err().errno(), Errno::EACCES);
        fs.set_attributes(&who, root, &permissions(0o300)).unwrap();
        let listed = fs.read_directory(&who, root, 0, &mut |_| true);
        assert_eq!(listed.unwrap_err().errno(), Errno::EACCES);
        fs.set_attributes(&who, root, &permissions(0o700)).unwrap();
        assert_eq!(
            scratch.backends[0].metadata().unwrap().mode() & 0o777,
            0o700
        );
    });
}

#[test]
fn attributes_are_for_those_who_may_read_and_write() {
    as_a_user(1, 0o022, |_, fs, who| {
        let made = fs.create(&who, fs.root(), b"f", OpenFlags::READ_WRITE, 0o644);
        let node = made.unwrap().0.attributes.node;
        fs.set_xattr(&who, node, b"user.a", b"value", 0).unwrap();
        let errno = |result: culvert::Result<()>| result.map_err(|error| error.errno());
        for (mode, read, write) in [
            (0o400, true, false),
            (0o200, false, true),
            (0o600, true, true),
        ] {
            fs.set_attributes(&who, node, &permissions(mode)).unwrap();
            let wanted = |may: bool| if may { Ok(()) } else { Err(Errno::EACCES) };
            let got = fs.get_xattr(&who, node, b"user.a").map(drop);
            assert_eq!(errno(got), wanted(read), "{mode:o}");
            let set = fs.set_xattr(&who, node, b"user.a", b"other", 0);
            assert_eq!(errno(set), wanted(write), "{mode:o}");
            let removed = fs.remove_xattr(&who, node, b"user.b");
            let none = if write { Errno::ENODATA } else { Errno::EACCES };
            assert_eq!(errno(removed), Err(none), "{mode:o}");
            // Nor is a file cut by its owner who may not write it.
            let size = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            let cut = fs.set_attributes(&who, node, &size).map(drop);
            assert_eq!(errno(cut), wanted(write), "{mode:o}");
        }
    });
}

#[test]
fn times_stay_as_they_are_at_the_last_close() {
    let scratch = Scratch::new(1);
    let fs = scratch.open(&[]);
    let file = create_file(&*fs, "f");
    for at in 0..50 {
        write_at(&*file, at, b"x");
    }
    let open = file.attributes(&caller()).unwrap();
    drop(file);
    let closed = fs.attributes(&caller(), open.node).unwrap();
    assert_eq!((closed.mtime, closed.ctime), (open.mtime, open.ctime));
    assert_eq!(closed.size, 50);
}
