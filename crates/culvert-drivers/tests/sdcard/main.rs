//! The layer `sdcard`, and the type. What is derived of which path stands in a table beside the
//! code (`owners_and_modes_are_as_the_originals`); here is what can be done.

mod conformance;
mod obb;
mod rights;
mod tools;

use culvert::testing::{Memory, caller};
use culvert::{Errno, FileKind, FileSystem, OpenFlags, RenameFlags, mount::Mount};
use culvert_drivers::{Environment, sdcard};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};
use tools::{errno, layered, make, mkdir, node, shown};

#[test]
fn names_refused_at_the_root_are_eacces_for_everybody() {
    let fs = layered(Box::new(Memory::new()), &[]);
    let root = fs.root();
    make(&*fs, root, "fine");
    let below = mkdir(&*fs, root, "below");
    for name in [
        "autorun.inf",
        "AUTORUN.INF",
        ".android_secure",
        "Android_Secure",
    ] {
        let bytes = name.as_bytes();
        let (place, fine) = ((root, bytes), (root, &b"fine"[..]));
        let none = RenameFlags::default();
        for (what, got) in [
            ("lookup", errno(fs.lookup(&caller(), root, bytes))),
            (
                "create",
                errno(fs.create(&caller(), root, bytes, OpenFlags::READ_WRITE, 0o600)),
            ),
            ("mkdir", errno(fs.mkdir(&caller(), root, bytes, 0o700))),
            (
                "mknod",
                errno(fs.mknod(&caller(), root, bytes, 0o100600, 0)),
            ),
            ("unlink", errno(fs.unlink(&caller(), root, bytes))),
            ("rmdir", errno(fs.rmdir(&caller(), root, bytes))),
            ("rename to", errno(fs.rename(&caller(), fine, place, none))),
            (
                "rename from",
                errno(fs.rename(&caller(), place, fine, none)),
            ),
        ] {
            assert_eq!(got, Some(Errno::EACCES), "{what} {name}");
        }
        make(&*fs, below, name);
        fs.unlink(&caller(), below, bytes).unwrap();
    }
}

#[test]
fn what_the_original_has_not_is_refused() {
    let fs = layered(Box::new(Memory::new()), &[]);
    let root = fs.root();
    let (file, _) = make(&*fs, root, "file");
    let flags = RenameFlags(RenameFlags::NO_REPLACE);
    for (what, got, want) in [
        (
            "symlink",
            errno(fs.symlink(&caller(), root, b"s", b"t")),
            Errno::EPERM,
        ),
        (
            "link",
            errno(fs.link(&caller(), file, root, b"l")),
            Errno::EPERM,
        ),
        (
            "readlink of a file",
            errno(fs.readlink(&caller(), file)),
            Errno::EINVAL,
        ),
        (
            "getxattr",
            errno(fs.get_xattr(&caller(), file, b"user.a")),
            Errno::EOPNOTSUPP,
        ),
        (
            "setxattr",
            errno(fs.set_xattr(&caller(), file, b"user.a", b"", 0)),
            Errno::EOPNOTSUPP,
        ),
        (
            "removexattr",
            errno(fs.remove_xattr(&caller(), file, b"user.a")),
            Errno::EOPNOTSUPP,
        ),
        (
            "renameat2",
            errno(fs.rename(&caller(), (root, b"file"), (root, b"f"), flags)),
            Errno::EINVAL,
        ),
        (
            "O_TMPFILE",
            errno(fs.tmpfile(&caller(), root, OpenFlags::WRITE, 0o600)),
            Errno::EOPNOTSUPP,
        ),
    ] {
        assert_eq!(got, Some(want), "{what}");
    }
    // A link that the source has leads nowhere.
    let below = Memory::new();
    below
        .symlink(&caller(), below.root(), b"link", b"/etc")
        .unwrap();
    let fs = layered(Box::new(below), &[]);
    let link = fs.lookup(&caller(), fs.root(), b"LINK").unwrap().attributes;
    assert_eq!(link.kind, FileKind::Symlink);
    assert_eq!(
        errno(fs.readlink(&caller(), link.node)),
        Some(Errno::ENOSYS)
    );
}

#[test]
fn directories_for_data_of_apps_hold_no_media() {
    let fs = layered(Box::new(Memory::new()), &[]);
    let android = mkdir(&*fs, fs.root(), "ANDROID");
    for (name, want) in [
        ("Data", true),
        ("OBB", true),
        ("media", false),
        ("x", false),
    ] {
        let made = mkdir(&*fs, android, name);
        assert_eq!(node(&*fs, made, ".nomedia").is_ok(), want, "{name}");
    }
    let elsewhere = mkdir(&*fs, fs.root(), "data");
    assert!(node(&*fs, elsewhere, ".nomedia").is_err());
}

#[test]
fn as_a_type_it_serves_a_directory() {
    let base = format!("/dev/shm/culvert-sdcard-{}", std::process::id());
    fs::create_dir_all(format!("{base}/source/Pictures")).unwrap();
    fs::create_dir_all(format!("{base}/run")).unwrap();
    let mount = |options: &[(&str, &str)]| Mount {
        driver: "sdcard".into(),
        source: format!("{base}/source").into_bytes(),
        target: b"/sdcard".to_vec(),
        options: options
            .iter()
            .map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()))
            .collect(),
        branches: Vec::new(),
    };
    let run = format!("{base}/run");
    let environment = Environment {
        run_directory: Some(run.as_bytes()),
        ..Environment::default()
    };
    let prepare = |options: &[(&str, &str)]| {
        culvert_drivers::prepare(&mount(options), &environment, &mut |_| {})
    };
    for (options, want) in [
        (
            &[("view", "all")][..],
            "option view=all: default, read or write is needed",
        ),
        (&[("userid", "x")], "option userid=x: a number is needed"),
        (
            &[("packages", "list")],
            "option packages=list: an absolute path is needed",
        ),
        (
            &[("multiuser", "1")],
            "option multiuser=1: it takes no value",
        ),
        (&[("lock", "/x")], "option lock=/x: it is made for each run"),
        (&[("vew", "read")], "no option \"vew\"; did you mean view?"),
    ] {
        let said = prepare(options).unwrap_err().to_string();
        assert!(said.contains(want), "{said}");
    }
    let prepared = prepare(&[("view", "read"), ("layer", "fault")]).unwrap();
    let fs = culvert_drivers::open(&prepared.mount, &environment).unwrap();
    assert_eq!(shown(&*fs, "pictures"), (0, 9997, 0o755));
    let dir = node(&*fs, fs.root(), "PICTURES").unwrap();
    make(&*fs, dir, "New.jpg");
    let made = Path::new(&base).join("source/Pictures/New.jpg");
    let mode = fs::metadata(&made).unwrap().permissions().mode();
    assert_eq!(mode & 0o700, 0o600);
    let prepared = prepare(&[("ro", "")]).unwrap();
    let fs = culvert_drivers::open(&prepared.mount, &environment).unwrap();
    assert!(fs.capabilities().read_only);
    assert_eq!(
        errno(fs.symlink(&caller(), fs.root(), b"s", b"t")),
        Some(Errno::EROFS)
    );
    fs::remove_dir_all(&base).unwrap();
}

#[test]
fn groups_in_the_source_are_roots_to_give() {
    let environment = Environment::default();
    let options = vec![("derivegid".into(), Vec::new())];
    let said = sdcard::prepare(options, &environment).unwrap_err();
    assert_eq!(said.errno(), Errno::EPERM);
    assert!(said.to_string().contains("option sdcard.derivegid: "));
}
