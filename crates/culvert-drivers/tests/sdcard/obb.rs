//! `Android/obb`, which several users share.

use crate::tools::{List, errno, layered, layered_in, make, mkdir, node, shown};
use culvert::testing::{Memory, caller};
use culvert::{Errno, OpenFlags, Opened, RenameFlags};
use culvert_drivers::{Environment, Keeper};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// In a source with several users.
#[test]
fn one_obb_directory_is_of_all_users() {
    let list = List::new("com.one 10001 0 / default none\n");
    let path = list.0.to_str().unwrap();
    let fs = layered(
        Box::new(Memory::new()),
        &[("packages", path), ("multiuser", "")],
    );
    let root = fs.root();
    let at = |path: &str| {
        let names = path.split('/');
        names.fold(root, |dir, name| node(&*fs, dir, name).unwrap())
    };
    // It is there from the start; the users' own are made by whoever wants them.
    let shared = node(&*fs, root, "obb").unwrap();
    for user in ["0", "10", "11"] {
        let android = mkdir(&*fs, mkdir(&*fs, root, user), "Android");
        assert_eq!(
            errno(node(&*fs, android, "obb")),
            Some(Errno::ENOENT),
            "{user}"
        );
        if user != "11" {
            mkdir(&*fs, android, "OBB");
        }
    }
    assert!(node(&*fs, shared, ".nomedia").is_ok());
    let (first, second) = (at("0/Android/obb"), at("10/Android/obb"));
    assert!(first != second && first != shared && second != shared);
    let one = mkdir(&*fs, first, "com.one");
    let (file, opened) = make(&*fs, one, "main.obb");
    assert_eq!(shown(&*fs, "0/Android/obb/com.one/main.obb").0, 10_001);
    assert_eq!(shown(&*fs, "10/Android/obb/Com.One/MAIN.obb").0, 1_010_001);
    assert_eq!(shown(&*fs, "obb/com.one/main.obb").0, 0);
    // One file, with a node and a path for each user.
    let other = at("10/Android/obb/com.one/main.obb");
    let attributes = |node| fs.attributes(&caller(), node).unwrap();
    assert!(other != file && attributes(other).inode == attributes(file).inode);
    assert_eq!(
        (attributes(other).node, attributes(file).node),
        (other, file)
    );
    for (node, path) in [
        (file, "0/Android/OBB/com.one/main.obb"),
        (other, "10/Android/OBB/com.one/main.obb"),
        (second, "10/Android/OBB"),
    ] {
        assert_eq!(fs.path_of(node).unwrap(), path.as_bytes());
    }
    let Opened::Driven(opened) = opened else {
        panic!("of memory");
    };
    let of_file = opened.attributes(&caller()).unwrap();
    assert_eq!((of_file.node, of_file.uid), (file, 10_001));
    assert_eq!(opened.write_at(0, &mut &b"bytes"[..]).unwrap(), 5);
    assert_eq!(attributes(other).size, 5);
    // Upwards each user's way leads back.
    let dir = at("10/Android/obb/com.one");
    assert_eq!(fs.parent(dir).unwrap(), second);
    assert_eq!(fs.parent(second).unwrap(), at("10/Android"));
    assert_eq!(fs.parent(first).unwrap(), at("0/Android"));
    // Changes of one are seen by all.
    let (from, to) = ((dir, &b"main.obb"[..]), (dir, &b"Patch.obb"[..]));
    fs.rename(&caller(), from, to, RenameFlags::default())
        .unwrap();
    assert_eq!(
        fs.path_of(file).unwrap(),
        b"0/Android/OBB/com.one/Patch.obb"
    );
    let mut names = Vec::new();
    fs.read_directory(&caller(), at("0/Android"), 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.inode));
        true
    })
    .unwrap();
    names.retain(|(name, _)| !name.starts_with(b"."));
    assert_eq!(names, [(b"OBB".to_vec(), attributes(first).inode)]);
    // What is moved out is of its new place, also for who has it open.
    let (from, to) = ((one, &b"patch.obb"[..]), (at("10"), &b"p"[..]));
    fs.rename(&caller(), from, to, RenameFlags::default())
        .unwrap();
    assert_eq!(fs.path_of(file).unwrap(), b"10/p");
    assert_eq!(opened.attributes(&caller()).unwrap().uid, 0);
    // A user's own goes alone.
    fs.rmdir(&caller(), at("10/Android"), b"obb").unwrap();
    assert_eq!(
        errno(node(&*fs, at("10/Android"), "obb")),
        Some(Errno::ENOENT)
    );
    assert!(node(&*fs, first, "com.one").is_ok());
    // Nobody keeps a number for what nobody refers to.
    for (node, times) in [
        (file, 1),
        (one, 100),
        (first, 100),
        (dir, 100),
        (second, 100),
    ] {
        fs.forget(node, times);
    }
    drop(opened);
    assert!(errno(fs.path_of(other)).is_none());
    fs.forget(other, 100);
    assert!(fs.attributes(&caller(), other).is_err());
}

#[test]
fn obb_directories_are_each_users_own_where_that_is_said_or_there_is_one_user() {
    for (options, users) in [
        (&[("multiuser", ""), ("ownobb", "")][..], &["0/", "10/"][..]),
        (&[], &[""]),
    ] {
        let fs = layered(Box::new(Memory::new()), options);
        for user in users {
            let mut dir = fs.root();
            if !user.is_empty() {
                dir = mkdir(&*fs, dir, user.trim_end_matches('/'));
            }
            let obb = mkdir(&*fs, mkdir(&*fs, dir, "Android"), "obb");
            make(&*fs, obb, &format!("of{}", user.len()));
            assert!(node(&*fs, obb, ".nomedia").is_ok());
            assert_eq!(
                fs.path_of(obb).unwrap(),
                format!("{user}Android/obb").as_bytes()
            );
        }
        assert!(node(&*fs, fs.root(), "obb").is_err());
    }
}

/// A child of vfork(2) has its parent's memory, but a table of descriptors of its own.
#[test]
fn what_a_child_of_vfork_has_opened_its_parent_closes() {
    static TABLE: AtomicUsize = AtomicUsize::new(0);
    let environment = Environment {
        keeper: Keeper {
            table: Some(|| TABLE.load(Relaxed)),
            ..Keeper::default()
        },
        ..Environment::default()
    };
    let fs = layered_in(&environment, Box::new(Memory::new()), &[("multiuser", "")]);
    let obb = mkdir(
        &*fs,
        mkdir(&*fs, mkdir(&*fs, fs.root(), "0"), "Android"),
        "obb",
    );
    let (file, opened) = make(&*fs, obb, "f");
    fs.forget(file, 1);
    TABLE.store(1, Relaxed);
    assert_eq!(node(&*fs, obb, "f").unwrap(), file);
    let of_child = fs.open(&caller(), file, OpenFlags::READ).unwrap();
    TABLE.store(0, Relaxed);
    drop(of_child);
    // The parent's own is open still.
    assert_eq!(fs.path_of(file).unwrap(), b"0/Android/obb/f");
    TABLE.store(1, Relaxed);
    fs.forget(file, 1);
    drop(opened);
    TABLE.store(0, Relaxed);
    assert!(fs.path_of(file).is_err());
}
