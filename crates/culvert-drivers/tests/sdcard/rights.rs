//! Owners, modes, and who may do what.

use crate::tools::{List, layered, make, mkdir, shown};
use culvert::testing::{Memory, caller};
use culvert::{Access, Caller, OpenFlags, Opened, RenameFlags, SetAttributes, Timespec};
use std::fs;

#[test]
fn modes_and_owners_stay_as_derived_and_sizes_and_times_change() {
    let fs = layered(Box::new(Memory::new()), &[]);
    let root = fs.root();
    let (file, opened) = make(&*fs, root, "a");
    assert_eq!(shown(&*fs, "a"), (0, 1015, 0o660));
    assert_eq!(shown(&*fs, ""), (0, 1015, 0o771));
    mkdir(&*fs, root, "d");
    assert_eq!(shown(&*fs, "d"), (0, 1015, 0o771));
    let time = Timespec {
        seconds: 12,
        nanoseconds: 34,
    };
    let all = SetAttributes {
        permissions: Some(0o4777),
        uid: Some(5),
        gid: Some(5),
        size: Some(100),
        mtime: Some(time),
        ..SetAttributes::default()
    };
    let after = fs.set_attributes(&caller(), file, &all).unwrap();
    assert_eq!((after.uid, after.gid, after.permissions), (0, 1015, 0o660));
    assert_eq!((after.size, after.mtime), (100, time));
    let Opened::Driven(opened) = opened else {
        panic!("of memory");
    };
    let some = SetAttributes {
        size: Some(7),
        permissions: Some(0),
        ..SetAttributes::default()
    };
    let after = opened.set_attributes(&caller(), &some).unwrap();
    assert_eq!((after.permissions, after.size), (0o660, 7));
    assert_eq!(opened.attributes(&caller()).unwrap().gid, 1015);
    let nothing = SetAttributes {
        uid: Some(7),
        ..SetAttributes::default()
    };
    assert_eq!(opened.set_attributes(&caller(), &nothing).unwrap().uid, 0);
}

#[test]
fn owners_of_packages_change_with_the_list_and_with_renames() {
    let list = List::new("com.one 10001 0 /data/data/com.one default none\n");
    let path = list.0.to_str().unwrap();
    let fs = layered(Box::new(Memory::new()), &[("packages", path)]);
    let android = mkdir(&*fs, fs.root(), "Android");
    let data = mkdir(&*fs, android, "data");
    let one = mkdir(&*fs, data, "com.one");
    mkdir(&*fs, data, "COM.TWO");
    let (cached, opened) = make(&*fs, one, "cached");
    assert_eq!(shown(&*fs, "Android/data/com.one").0, 10001);
    assert_eq!(shown(&*fs, "android/DATA/Com.One/Cached").0, 10001);
    assert_eq!(shown(&*fs, "Android/data/com.two").0, 0);
    list.write("com.two 10002 0 /data/data/com.two default none\ncom.one 10009 0 / default none\n");
    assert_eq!(shown(&*fs, "Android/data/com.one").0, 10009);
    assert_eq!(shown(&*fs, "Android/data/com.two").0, 10002);
    let (from, to) = ((one, &b"cached"[..]), (fs.root(), &b"Moved"[..]));
    fs.rename(&caller(), from, to, RenameFlags::default())
        .unwrap();
    assert_eq!(fs.attributes(&caller(), cached).unwrap().uid, 0);
    let Opened::Driven(opened) = opened else {
        panic!("of memory");
    };
    assert_eq!(opened.attributes(&caller()).unwrap().uid, 0);
    // A directory, and all below it.
    let (from, to) = ((data, &b"com.one"[..]), (data, &b"com.two.b"[..]));
    fs.rename(&caller(), from, to, RenameFlags::default())
        .unwrap();
    assert_eq!(shown(&*fs, "Android/data/com.two.b").0, 0);
    fs::remove_file(&list.0).unwrap();
    assert_eq!(shown(&*fs, "Android/data/com.two").0, 0);
}

/// What an app may: the first column is its user and its groups.
#[test]
fn apps_may_what_their_view_shows() {
    let list = List::new("com.one 10001 0 / default none\ncom.two 10002 0 / default none\n");
    let path = list.0.to_str().unwrap();
    let (read, write, both) = (Access::READ, Access::WRITE, Access(6));
    const RW: &[u32] = &[1015];
    const EVERYBODY: &[u32] = &[9997];
    let data = "Android/data/com.one";
    for (what, uid, groups, view, full, path_of, access, want) in [
        (
            "its own data",
            10001,
            &[][..],
            "default",
            false,
            data,
            both,
            true,
        ),
        (
            "another's data",
            10002,
            &[],
            "default",
            false,
            data,
            read,
            false,
        ),
        (
            "another's, with sdcard_rw",
            10002,
            RW,
            "default",
            false,
            data,
            both,
            true,
        ),
        (
            "pictures",
            10001,
            &[],
            "default",
            false,
            "Pictures",
            read,
            false,
        ),
        (
            "pictures, with sdcard_rw",
            10001,
            RW,
            "default",
            false,
            "Pictures",
            both,
            true,
        ),
        (
            "pictures, read",
            10001,
            EVERYBODY,
            "read",
            false,
            "Pictures",
            read,
            true,
        ),
        (
            "pictures, read, to write",
            10001,
            EVERYBODY,
            "read",
            false,
            "Pictures",
            write,
            false,
        ),
        (
            "pictures, write",
            10001,
            EVERYBODY,
            "write",
            false,
            "Pictures",
            write,
            false,
        ),
        (
            "pictures, write, -w",
            10001,
            EVERYBODY,
            "write",
            true,
            "Pictures",
            both,
            true,
        ),
        (
            "another's, read",
            10002,
            EVERYBODY,
            "read",
            true,
            data,
            read,
            true,
        ),
        (
            "another's, read, to write",
            10002,
            EVERYBODY,
            "read",
            true,
            data,
            write,
            false,
        ),
        (
            "a stranger, read, -w",
            10002,
            &[],
            "read",
            true,
            "Pictures",
            read,
            false,
        ),
    ] {
        let mut options = vec![("packages", path), ("view", view)];
        if full {
            options.push(("fullwrite", ""));
        }
        let fs = layered(Box::new(Memory::new()), &options);
        let mut at = fs.root();
        for name in path_of.split('/') {
            at = mkdir(&*fs, at, name);
        }
        let app = Caller {
            uid,
            gid: uid,
            groups,
            pid: 1,
            umask: 0,
            rights: None,
        };
        let may = fs.access(&app, at, access).is_ok();
        assert_eq!(may, want, "{what}");
        // O_CREAT of what is there asks the same.
        let (file, _) = make(&*fs, at, "file");
        fs.forget(file, 1);
        let flags = match access.write() {
            true => OpenFlags::READ_WRITE,
            false => OpenFlags::READ,
        };
        let opened = fs.create(&app, at, b"FILE", flags, 0o600);
        let expected = want;
        assert_eq!(opened.is_ok(), expected, "{what}: open with O_CREAT");
    }
}
