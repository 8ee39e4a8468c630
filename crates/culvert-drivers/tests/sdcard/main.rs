//! The layer `sdcard`, and the type. What is derived of which path stands in a table beside the code
//! (`owners_and_modes_are_as_the_originals`); here is what can be done.

use culvert::testing::{Memory, RULES, caller, reading, writing};
use culvert::{
    Access, Caller, Errno, FileKind, FileSystem, Node, OpenFlags, Opened, RenameFlags, Result,
    SetAttributes, Timespec, mount::Mount,
};
use culvert_drivers::{Environment, sdcard};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

fn layered(below: Box<dyn FileSystem>, options: &[(&str, &str)]) -> Box<dyn FileSystem> {
    let options = options.iter();
    let options = options.map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()));
    let environment = Environment::default();
    let options = sdcard::prepare(options.collect(), &environment).unwrap();
    sdcard::open(&options, &environment, below).unwrap()
}

fn errno<T>(result: Result<T>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

fn node(fs: &dyn FileSystem, dir: Node, name: &str) -> Result<Node> {
    let found = fs.lookup(&caller(), dir, name.as_bytes())?;
    Ok(found.attributes.node)
}

/// Owner, group and mode of a path.
fn shown(fs: &dyn FileSystem, path: &str) -> (u32, u32, u32) {
    let mut at = fs.root();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = node(fs, at, name).unwrap();
    }
    let found = fs.attributes(&caller(), at).unwrap();
    (found.uid, found.gid, found.permissions)
}

fn mkdir(fs: &dyn FileSystem, dir: Node, name: &str) -> Node {
    let made = fs.mkdir(&caller(), dir, name.as_bytes(), 0o700);
    made.unwrap().attributes.node
}

fn make(fs: &dyn FileSystem, dir: Node, name: &str) -> (Node, Opened) {
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
    let made = fs.create(&caller(), dir, name.as_bytes(), flags, 0o600);
    let (entry, opened) = made.unwrap();
    (entry.attributes.node, opened)
}

/// A file that is removed when dropped.
struct List(PathBuf);

impl List {
    fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("culvert-packages-{}-{number}", std::process::id());
        let list = Self(Path::new("/dev/shm").join(name));
        list.write(text);
        list
    }

    /// As Android writes it: another file in its place.
    fn write(&self, text: &str) {
        let new = self.0.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &self.0).unwrap();
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Owners and modes cannot be set there, links not made, so these rules are broken, and no others.
#[test]
fn the_contract_is_kept_but_for_owners_modes_and_who_makes_a_file() {
    const BROKEN: &[&str] = &[
        "attributes-agree",
        "chmod",
        "chown",
        "create",
        "create-existing",
        "mkdir",
        "mknod",
        "ownership",
        "privileges-dropped",
    ];
    assert!(
        BROKEN
            .iter()
            .all(|rule| RULES.iter().any(|one| one.0 == *rule))
    );
    let report = writing(&|| {
        layered(
            Box::new(Memory::new()),
            &[("view", "write"), ("fullwrite", "")],
        )
    });
    let other: Vec<_> = report
        .failures
        .iter()
        .filter(|failure| !BROKEN.contains(&failure.rule))
        .collect();
    assert!(other.is_empty(), "{other:#?}");
    let fs = layered(Box::new(Memory::new()), &[]);
    mkdir(&*fs, fs.root(), "Pictures");
    let tree = culvert::testing::Tree::new().directory("Pictures");
    reading(&*fs, &tree).assert_ok();
}

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

#[test]
fn the_contract_is_kept_in_a_shared_directory() {
    // What is below a user's obb, as a tree of its own.
    let fs = layered(Box::new(Memory::new()), &[("multiuser", "")]);
    let android = mkdir(&*fs, mkdir(&*fs, fs.root(), "3"), "Android");
    let obb = mkdir(&*fs, android, "obb");
    let (a, b) = (mkdir(&*fs, obb, "a"), mkdir(&*fs, obb, "b"));
    let deep = mkdir(&*fs, a, "deep");
    let walked = fs.walk(&caller(), obb, b"a/deep").unwrap();
    assert_eq!(walked.entry.unwrap().attributes.node, deep);
    // A directory is valid while one below it is, whatever was forgotten.
    fs.forget(a, 100);
    fs.forget(obb, 100);
    assert_eq!(fs.parent(deep).unwrap(), a);
    assert_eq!(node(&*fs, a, "deep").unwrap(), deep);
    let (from, to) = ((a, &b"deep"[..]), (b, &b"deeper"[..]));
    fs.rename(&caller(), from, to, RenameFlags::default())
        .unwrap();
    fs.forget(b, 100);
    assert_eq!(fs.parent(deep).unwrap(), b);
    assert_eq!(node(&*fs, b, "deeper").unwrap(), deep);
    fs.hold(deep).unwrap();
    fs.forget(deep, 100);
    assert_eq!(fs.path_of(deep).unwrap(), b"3/Android/obb/b/deeper");
    fs.release(deep);
}

#[test]
fn groups_in_the_source_are_roots_to_give() {
    let environment = Environment::default();
    let options = vec![("derivegid".into(), Vec::new())];
    let said = sdcard::prepare(options, &environment).unwrap_err();
    assert_eq!(said.errno(), Errno::EPERM);
    assert!(said.to_string().contains("option sdcard.derivegid: "));
}
