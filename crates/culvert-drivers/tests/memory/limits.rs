//! Full: by the limits of the mount, and by the place that it lies in.

use crate::{processes::remove_all, tools::Run};
use culvert::{Caller, Errno, FileSystem, OpenFlags, Opened, testing::caller};
use std::process::Command;

/// Fills the file system with files, then tries everything that needs room.
pub fn fill_and_empty(fs: &dyn FileSystem) {
    let me = caller();
    let root = fs.root();
    let bytes = vec![9; 70_000];
    let mut number = 0;
    'full: loop {
        let name = format!("file {number}");
        number += 1;
        assert!(number < 100_000, "never full");
        match fs.create(&me, root, name.as_bytes(), OpenFlags::READ_WRITE, 0o644) {
            Ok((_, Opened::Driven(file))) => {
                let size = if number < 800 { bytes.len() } else { 1 };
                let mut from = &bytes[..size];
                loop {
                    match file.append(&mut from) {
                        Ok((_, 0)) => break,
                        Ok(_) if from.is_empty() => break,
                        Ok(_) => {}
                        Err(error) => {
                            assert_eq!(error.errno(), Errno::ENOSPC);
                            if number > 800 {
                                break 'full;
                            }
                            break;
                        }
                    }
                }
            }
            Ok(_) => panic!("backed"),
            Err(error) => {
                assert_eq!(error.errno(), Errno::ENOSPC);
                break;
            }
        }
    }
    let dir = b"a directory";
    let mut refused = 0;
    for attempt in 0..3000 {
        let name = format!("{attempt:0>250}");
        if let Err(error) = fs.symlink(&me, root, name.as_bytes(), b"x") {
            assert_eq!(error.errno(), Errno::ENOSPC);
            refused += 1;
        }
    }
    assert!(refused > 0);
    let _ = fs.mkdir(&me, root, dir, 0o755);
    remove_all(fs, root);
    let (_, opened) = fs
        .create(&me, root, b"after", OpenFlags::READ_WRITE, 0o644)
        .unwrap();
    let Opened::Driven(file) = opened else {
        panic!()
    };
    assert_eq!(file.write_at(0, &mut &bytes[..]).unwrap(), bytes.len());
}

#[test]
fn at_the_size_limit_everything_says_so_and_works_again() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[("size", "12m")]);
    fill_and_empty(&*fs);
    drop(fs);
    run.assert_consistent(&mount);
}

#[test]
fn at_the_inode_limit_everything_says_so() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[("inodes", "10")]);
    let make = |number: u32| {
        let name = format!("{number}");
        fs.mkdir(&caller(), fs.root(), name.as_bytes(), 0o755)
            .map(drop)
    };
    assert!((1..10).all(|number| make(number).is_ok()));
    assert_eq!(make(11).unwrap_err().errno(), Errno::ENOSPC);
    fs.rmdir(&caller(), fs.root(), b"3").unwrap();
    make(11).unwrap();
    assert_eq!(fs.statfs().unwrap().files_free, 0);
    drop(fs);
    run.assert_consistent(&mount);
}

/// Whoever is in a removed directory may give it attributes, as natively; they go with the
/// directory's number, when that is used again.
#[test]
fn what_a_removed_directory_is_given_is_not_lost() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[]);
    let (me, root) = (caller(), fs.root());
    let value = vec![7; 60_000];
    let removed = |name: &[u8]| {
        let made = fs.mkdir(&me, root, name, 0o755).unwrap();
        fs.rmdir(&me, root, name).unwrap();
        made.attributes.node
    };
    let gone = removed(b"gone");
    fs.set_xattr(&me, gone, b"user.a", &value, 0).unwrap();
    assert_eq!(
        fs.get_xattr(&Caller::SYSTEM, gone, b"user.a").unwrap(),
        value
    );
    run.assert_consistent(&mount);
    // Numbers come again when a thousand others are free.
    for _ in 0..1100 {
        removed(b"another");
    }
    let free = fs
        .get_xattr(&Caller::SYSTEM, gone, b"user.a")
        .map_err(|error| error.errno());
    assert_eq!(free, Err(Errno::ESTALE));
    drop(fs);
    run.assert_consistent(&mount);
}

/// On a tmpfs of 64 MB, where this may be mounted.
#[test]
fn a_full_place_is_no_space_and_no_crash() {
    let run = Run::new();
    let place = run.directory();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs"])
        .arg(&place)
        .stderr(std::process::Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        return;
    }
    let (mount, fs) = run.fresh(&[("size", "1g")]);
    fill_and_empty(&*fs);
    drop(fs);
    run.assert_consistent(&mount);
    let _ = Command::new("umount").arg("-l").arg(&place).status();
}

/// As many names as a program may put into one directory, whatever they look like.
#[test]
fn a_directory_holds_a_hundred_thousand_names() {
    let run = Run::new();
    let (mount, fs) = run.fresh(&[]);
    let me = caller();
    let make = |dir, name: &str| {
        let made = fs.mknod(&me, dir, name.as_bytes(), 0o100600, 0);
        made.unwrap_or_else(|error| panic!("{name}: {error:?}"))
    };
    for form in 0..3 {
        let name = format!("directory {form}");
        let dir = fs.mkdir(&me, fs.root(), name.as_bytes(), 0o755).unwrap();
        let dir = dir.attributes.node;
        for number in 0..100_000 {
            match form {
                0 => make(dir, &format!("some-file-{number}")),
                1 => make(dir, &format!("{number:05}")),
                _ => make(
                    dir,
                    &format!("{number:08x}-and-the-same-end-for-all-of-them.txt"),
                ),
            };
        }
        let mut count = 0;
        fs.read_directory(&Caller::SYSTEM, dir, 0, &mut |_| {
            count += 1;
            true
        })
        .unwrap();
        assert_eq!(count, 100_000);
    }
    run.assert_consistent(&mount);
}
