//! Nodes: what they are, while others rename and remove what they name.

use crate::tools::{Scratch, caller, find, mount, open, root};
use culvert::{Caller, Errno, FileSystem, Node};
use culvert_drivers::Environment;
use culvert_sys::{nr, syscall};
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, os::unix::fs::MetadataExt, thread};

fn errno<T>(result: culvert::Result<T>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

fn path(driver: &dyn FileSystem, node: Node) -> String {
    String::from_utf8(driver.path_of(node).unwrap()).unwrap()
}

#[test]
fn nodes_follow_what_others_rename() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&[]);
    scratch.sh("mkdir -p in/a/b out; echo 1 > in/a/b/f");
    let source = scratch.0.join("in");
    let driver_in = open(&source, &[]).unwrap();
    let (b, file) = (
        find(&*driver, "in/a/b").node,
        find(&*driver, "in/a/b/f").node,
    );
    let inner = find(&*driver_in, "a/b").node;
    fs::rename(source.join("a"), source.join("c")).unwrap();
    fs::create_dir_all(source.join("a/b")).unwrap();
    assert_eq!(path(&*driver, b), "in/c/b");
    assert_eq!(path(&*driver, file), "in/c/b/f");
    assert_eq!(
        driver.lookup(&caller(), b, b"f").unwrap().attributes.node,
        file
    );
    assert_eq!(driver.parent(b).unwrap(), find(&*driver, "in/c").node);
    // Out of the source of the second driver, but not of the first.
    fs::rename(source.join("c/b"), scratch.0.join("out/b")).unwrap();
    assert_eq!(path(&*driver, b), "out/b");
    assert_eq!(errno(driver_in.path_of(inner)), Some(Errno::ENOENT));
    assert_eq!(errno(driver_in.parent(inner)), Some(Errno::ENOENT));
    assert_eq!(driver.parent(driver.root()).unwrap(), driver.root());
}

#[test]
fn what_is_removed_stays_what_it_was() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&[]);
    scratch.sh("mkdir -p d/e; echo 1 > d/f; echo 2 > 'd/f (deleted)'");
    let (e, f) = (find(&*driver, "d/e").node, find(&*driver, "d/f").node);
    let marked = find(&*driver, "d/f (deleted)").node;
    assert_eq!(path(&*driver, marked), "d/f (deleted)");
    scratch.sh("rmdir d/e; rm d/f");
    assert_eq!(driver.attributes(&Caller::SYSTEM, f).unwrap().links, 0);
    assert_eq!(errno(driver.path_of(f)), Some(Errno::ENOENT));
    assert_eq!(
        errno(driver.mkdir(&caller(), e, b"x", 0o700)),
        Some(Errno::ENOENT)
    );
    // `..` of a removed directory is still there.
    assert_eq!(driver.parent(e).unwrap(), find(&*driver, "d").node);
    scratch.sh("echo 3 > d/f");
    assert_ne!(
        driver
            .lookup(&caller(), find(&*driver, "d").node, b"f")
            .unwrap()
            .attributes
            .node,
        f
    );
}

#[test]
fn what_nobody_keeps_is_closed() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&[]);
    scratch.sh("mkdir -p a/b; : > a/b/f");
    let held = || {
        let all = fs::read_dir("/proc/self/fd").unwrap();
        let links = all.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        links.filter(|link| link.starts_with(&scratch.0)).count()
    };
    assert_eq!(held(), 1);
    let steps = ["a", "a/b", "a/b/f"].map(|path| find(&*driver, path).node);
    let references = held();
    assert!(references >= 4, "{references}");
    for (count, node) in [(2, steps[0]), (1, steps[1])] {
        driver.forget(node, count + 5);
    }
    // The file keeps the directories above it.
    assert_eq!(driver.parent(steps[1]).unwrap(), steps[0]);
    assert_eq!(held(), references);
    driver.forget(steps[2], 99);
    assert_eq!(held(), 1);
}

#[test]
fn another_process_finds_a_node_by_its_number() {
    let scratch = Scratch::tmpfs();
    scratch.sh("mkdir -p a/b/c x/y; : > a/b/c/f; : > a/b/gone");
    let (first, second) = (scratch.open(&[]), scratch.open(&[]));
    for name in ["a/b/c", "a/b/c/f", "x"] {
        let known = find(&*first, name);
        assert_eq!(
            second.attributes(&Caller::SYSTEM, known.node).unwrap(),
            known
        );
        assert_eq!(path(&*second, known.node), name);
    }
    let gone = find(&*first, "a/b/gone").node;
    fs::remove_file(scratch.0.join("a/b/gone")).unwrap();
    assert_eq!(
        errno(second.attributes(&Caller::SYSTEM, gone)),
        Some(Errno::ESTALE)
    );
    assert_eq!(first.attributes(&Caller::SYSTEM, gone).unwrap().links, 0);
}

/// What may be read but not searched is listed all the same (path_resolution(7)).
#[test]
fn a_directory_without_search_permission_is_listed() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&[]);
    scratch.sh("mkdir -p d/e; chmod 600 d");
    let dir = find(&*driver, "d").node;
    let mut names = Vec::new();
    let mut sink = |entry: culvert::DirectoryEntry<'_>| {
        names.push(entry.name.to_vec());
        true
    };
    driver
        .read_directory(&Caller::SYSTEM, dir, 0, &mut sink)
        .unwrap();
    assert_eq!(names, [b"e"]);
    if !root() {
        assert_eq!(
            errno(driver.lookup(&caller(), dir, b"e")),
            Some(Errno::EACCES)
        );
    }
    scratch.sh("chmod 700 d");
}

#[test]
fn names_are_bytes() {
    let scratch = Scratch::tmpfs();
    let driver = scratch.open(&[]);
    let (who, root) = (caller(), driver.root());
    for name in [&b"\xff\xfe"[..], b"a\nb", &[b'n'; 255]] {
        let made = driver
            .mkdir(&who, root, name, 0o700)
            .unwrap()
            .attributes
            .node;
        let native = fs::metadata(scratch.0.join(OsStr::from_bytes(name))).unwrap();
        assert_eq!(native.ino(), made.0);
        assert_eq!(driver.path_of(made).unwrap(), name);
    }
    let long = driver.mkdir(&who, root, &[b'n'; 256], 0o700);
    assert_eq!(errno(long), Some(Errno::ENAMETOOLONG));
    for bad in [&b"."[..], b"..", b"a/b", b"a\0", b""] {
        assert_eq!(errno(driver.lookup(&who, root, bad)), Some(Errno::EINVAL));
    }
}

/// A tmpfs mounted below the source: where the disk's numbers come again.
#[test]
fn other_devices_below_have_numbers_of_their_own_as_root() {
    if !root() {
        return;
    }
    let scratch = Scratch::tmpfs();
    scratch.sh("mkdir one two; : > f");
    let scratch = &scratch;
    thread::scope(|scope| {
        // A mount namespace of this thread's own, which ends with it.
        scope.spawn(move || {
            const CLONE_NEWNS: usize = 0x2_0000;
            // SAFETY: changes what this thread sees mounted.
            unsafe { syscall::call(nr::UNSHARE, [CLONE_NEWNS]) }.unwrap();
            mount_tmpfs(&scratch.0.join("one"));
            mount_tmpfs(&scratch.0.join("two"));
            for name in ["one", "two"] {
                fs::write(scratch.0.join(name).join("f"), name).unwrap();
            }
            let driver = scratch.open(&[]);
            let (one, two) = (find(&*driver, "one/f"), find(&*driver, "two/f"));
            // The same inode number on both.
            let native = |name: &str| fs::metadata(scratch.0.join(name)).unwrap().ino();
            assert_eq!(native("one/f"), native("two/f"));
            assert_ne!(one.node, two.node);
            assert_ne!(one.inode, two.inode);
            let mut listed = Vec::new();
            let dir = find(&*driver, "one").node;
            let mut sink = |entry: culvert::DirectoryEntry<'_>| {
                listed.push((entry.name.to_vec(), entry.inode));
                true
            };
            driver
                .read_directory(&Caller::SYSTEM, dir, 0, &mut sink)
                .unwrap();
            assert_eq!(listed, [(b"f".to_vec(), one.inode)]);
            assert_eq!(
                scratch
                    .open(&[])
                    .attributes(&Caller::SYSTEM, two.node)
                    .unwrap(),
                two
            );
            assert_eq!(driver.parent(dir).unwrap(), driver.root());
            let moved = driver.rename(
                &caller(),
                (dir, b"f"),
                (driver.root(), b"g"),
                Default::default(),
            );
            assert_eq!(errno(moved), Some(Errno::EXDEV));
        });
    });
}

fn mount_tmpfs(target: &std::path::Path) {
    const MS_PRIVATE_REC: usize = 1 << 18 | 1 << 14;
    let target = [target.as_os_str().as_bytes(), b"\0"].concat();
    // SAFETY: all strings end in NUL.
    unsafe {
        let root = c"/".as_ptr() as usize;
        syscall::call(nr::MOUNT, [0, root, 0, MS_PRIVATE_REC, 0]).unwrap();
        let kind = c"tmpfs".as_ptr() as usize;
        syscall::call(nr::MOUNT, [kind, target.as_ptr() as usize, kind, 0, 0]).unwrap();
    }
}

#[test]
fn bad_sources_are_refused() {
    let scratch = Scratch::tmpfs();
    scratch.sh("mkdir closed real; : > file; ln -s real link; chmod 0 closed");
    let refused = |name: &str| errno(open(&scratch.0.join(name), &[]));
    assert_eq!(refused("file"), Some(Errno::ENOTDIR));
    assert_eq!(refused("missing"), Some(Errno::ENOENT));
    // The launcher has resolved links: one that is there now was put there since.
    assert_eq!(refused("link"), Some(Errno::ELOOP));
    if !root() {
        assert_eq!(refused("closed"), Some(Errno::EACCES));
    }
}

#[test]
fn a_source_that_was_exchanged_is_not_served() {
    let scratch = Scratch::tmpfs();
    let source = scratch.0.join("d");
    fs::create_dir(&source).unwrap();
    let environment = Environment::default();
    let prepared = culvert_drivers::prepare(&mount(&source, &[]), &environment, &mut |_| {});
    let prepared = prepared.unwrap();
    culvert_drivers::open(&prepared.mount, &environment).unwrap();
    fs::rename(&source, scratch.0.join("other")).unwrap();
    fs::create_dir(&source).unwrap();
    let error = culvert_drivers::open(&prepared.mount, &environment)
        .err()
        .unwrap();
    assert_eq!(error.errno(), Errno::ESTALE);
    assert!(error.cause().unwrap().contains("another directory"));
}
