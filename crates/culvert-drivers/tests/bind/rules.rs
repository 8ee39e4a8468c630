//! What the options do.

use crate::tools::{Scratch, find, names, root, user};
use culvert::{
    Errno, FileKind, FileSystem, OpenFlags, Opened, RenameFlags, SetAttributes, Validity,
    testing::caller,
};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn errno<T>(answer: culvert::Result<T>) -> Option<Errno> {
    answer.err().map(|error| error.errno())
}

#[test]
fn each_user_has_an_answer_of_its_own() {
    let scratch = Scratch::new();
    scratch.write("source/file", "text");
    let fs = scratch
        .open("bind", &["mirror=1:2", "perms=0640"], false)
        .unwrap();
    assert_eq!(fs.validity(), Validity::NONE);
    // Asked of one user after the other, there and back.
    for uid in [1, 2, 3, 2, 1] {
        let shown = find(&*fs, &user(uid), "file").unwrap().attributes;
        let own = std::fs::metadata(scratch.0.join("source/file")).unwrap();
        let want = if uid == 3 { own.uid() } else { uid };
        assert_eq!((shown.uid, shown.permissions), (want, 0o640));
        let again = fs.attributes(&user(uid), shown.node).unwrap();
        assert_eq!(again, shown);
    }
}

#[test]
fn who_is_not_mirrored_gets_nowhere() {
    let scratch = Scratch::new();
    scratch.write("source/file", "text");
    let fs = scratch.open("bind", &["mirror-only=1"], false).unwrap();
    let file = find(&*fs, &user(1), "file").unwrap().attributes;
    assert_eq!((file.uid, file.permissions), (1, 0o666));
    let other = user(2);
    assert_eq!(
        fs.attributes(&other, fs.root()).unwrap().permissions & 0o777,
        0
    );
    assert_eq!(
        fs.attributes(&other, file.node).unwrap().permissions & 0o777,
        0
    );
    assert_eq!(
        errno(fs.lookup(&other, fs.root(), b"file")),
        Some(Errno::EACCES)
    );
    assert_eq!(
        errno(fs.open(&other, file.node, OpenFlags::READ)),
        Some(Errno::EACCES)
    );
    let mut sink = |_: culvert::DirectoryEntry<'_>| true;
    let listed = fs.read_directory(&other, fs.root(), 0, &mut sink);
    assert_eq!(errno(listed), Some(Errno::EACCES));
    for refused in [
        errno(fs.get_xattr(&other, file.node, b"user.a")),
        errno(fs.list_xattr(&other, file.node)),
        errno(fs.set_xattr(&other, file.node, b"user.a", b"1", 0)),
        errno(fs.remove_xattr(&other, file.node, b"user.a")),
        errno(fs.readlink(&other, file.node)),
    ] {
        assert_eq!(refused, Some(Errno::EACCES));
    }
    assert!(find(&*fs, &caller(), "file").is_ok());
}

#[test]
fn what_is_excluded_is_not_there() {
    for driver in ["bind", "memory"] {
        let scratch = Scratch::new();
        let plain = scratch.open(driver, &[], false).unwrap();
        if driver == "bind" {
            let dir = plain.mkdir(&caller(), plain.root(), b"dir", 0o755).unwrap();
            for name in [&b"secret"[..], b"open"] {
                let mode = 0o100644;
                plain
                    .mknod(&caller(), dir.attributes.node, name, mode, 0)
                    .unwrap();
            }
        }
        let fs = scratch
            .open(driver, &["exclude=*.key", "exclude=/dir/secret"], false)
            .unwrap();
        let (me, top) = (caller(), fs.root());
        if driver == "memory" {
            fs.mkdir(&me, top, b"dir", 0o755).unwrap();
            let dir = find(&*fs, &me, "dir").unwrap().attributes.node;
            fs.mknod(&me, dir, b"open", 0o100644, 0).unwrap();
        }
        let dir = find(&*fs, &me, "dir").unwrap().attributes.node;
        assert_eq!(names(&*fs), ["dir"]);
        assert_eq!(errno(find(&*fs, &me, "dir/secret")), Some(Errno::ENOENT));
        assert!(find(&*fs, &me, "dir/open").is_ok());
        assert_eq!(
            errno(fs.walk(&me, top, b"dir/secret").map(|walked| {
                let left = &b"dir/secret"[walked.consumed..];
                assert_eq!(left, b"/secret");
            })),
            None
        );
        for answer in [
            errno(fs.create(&me, top, b"a.key", OpenFlags::WRITE, 0o644)),
            errno(fs.mkdir(&me, dir, b"secret", 0o755)),
            errno(fs.symlink(&me, dir, b"secret", b"x")),
            errno(fs.mknod(&me, dir, b"a.key", 0o100644, 0)),
            errno(fs.rename(&me, (dir, b"open"), (dir, b"secret"), RenameFlags(0))),
        ] {
            assert_eq!(answer, Some(Errno::EPERM));
        }
        assert_eq!(errno(fs.unlink(&me, dir, b"secret")), Some(Errno::ENOENT));
        let moved = fs.rename(&me, (dir, b"secret"), (dir, b"shown"), RenameFlags(0));
        assert_eq!(errno(moved), Some(Errno::ENOENT));
        // Under another name nothing in it would be hidden.
        let moved = fs.rename(&me, (top, b"dir"), (top, b"other"), RenameFlags(0));
        assert_eq!(errno(moved), Some(Errno::EXDEV));
        fs.mkdir(&me, top, b"third", 0o755).unwrap();
        fs.rename(&me, (top, b"third"), (top, b"fourth"), RenameFlags(0))
            .unwrap();
    }
}

#[test]
fn options_of_a_path_hold_there_and_below() {
    let scratch = Scratch::new();
    scratch.write("source/up/in/file", "text");
    scratch.write("source/file", "text");
    scratch.write("source/run.sh", "text");
    let options = [
        "perms=a-w",
        "delete-deny",
        "path=/up",
        "perms=u+w",
        "path=*.sh",
        "perms=0755",
        "chmod-deny",
    ];
    let fs = scratch.open("bind", &options, false).unwrap();
    let mode = |path: &str| find(&*fs, &caller(), path).unwrap().attributes.permissions;
    assert_eq!(mode("file"), 0o444);
    assert_eq!(mode("up/in/file"), 0o666);
    assert_eq!(mode("run.sh"), 0o755);
    let change = SetAttributes {
        permissions: Some(0o600),
        ..SetAttributes::default()
    };
    let node = |path: &str| find(&*fs, &caller(), path).unwrap().attributes.node;
    let denied = fs.set_attributes(&caller(), node("run.sh"), &change);
    assert_eq!(errno(denied), Some(Errno::EPERM));
    let shown = fs
        .set_attributes(&caller(), node("up/in/file"), &change)
        .unwrap();
    assert_eq!(shown.permissions, 0o600);
    assert_eq!(
        errno(fs.unlink(&caller(), node("up/in"), b"file")),
        Some(Errno::EPERM)
    );
}

/// What a whole path leads to at once, as programs in a run look, has the rules of that path; what
/// another name has, too, those of the name that the file system below tells.
#[test]
fn what_a_path_reaches_has_the_rules_of_the_path() {
    let scratch = Scratch::new();
    let (old, later) = (std::time::UNIX_EPOCH, std::time::Duration::from_secs(1));
    for path in ["up/in/file", "up/in/twice", "file"] {
        scratch.write(&format!("source/{path}"), "text");
        let file = std::fs::File::options();
        let file = file
            .clone()
            .write(true)
            .open(scratch.0.join("source").join(path));
        file.unwrap().set_modified(old + later).unwrap();
    }
    let at = |path: &str| scratch.0.join("source").join(path);
    std::fs::hard_link(at("up/in/twice"), at("up/in/second")).unwrap();
    let options = [
        "path=/up",
        "ctime-from-mtime",
        "chmod-deny",
        "hide-hard-links",
    ];
    let fs = scratch.open("bind", &options, false).unwrap();
    let (me, root) = (caller(), fs.root());
    let reach = |path: &str| {
        let reached = fs.reach(&me, root, path.as_bytes()).expect("at once");
        reached.unwrap().entry.unwrap().attributes
    };
    let change = SetAttributes {
        permissions: Some(0o600),
        ..SetAttributes::default()
    };
    for (path, ruled) in [("up/in/file", true), ("up/in/twice", true), ("file", false)] {
        let (found, looked) = (reach(path), find(&*fs, &me, path).unwrap().attributes);
        assert_eq!(
            (found.ctime, found.links),
            (looked.ctime, looked.links),
            "{path}"
        );
        assert_eq!(found.ctime == found.mtime, ruled, "{path}");
        assert_eq!(found.links, 1, "{path}");
        let changed = fs.set_attributes(&me, found.node, &change);
        assert_eq!(errno(changed), ruled.then_some(Errno::EPERM), "{path}");
    }
    assert_eq!(
        errno(fs.reach(&me, root, b"up/none/file").unwrap()),
        Some(Errno::ENOENT)
    );
    let missing = fs.reach(&me, root, b"up/in/none").unwrap().unwrap();
    assert!(missing.entry.is_none());
    // Where what is shown decides, nobody is led past a directory unasked.
    let fs = scratch.open("bind", &["perms=a-x"], false).unwrap();
    assert!(fs.reach(&me, fs.root(), b"up/in/file").is_none());
}

/// mv(1) copies then, by the rules of both places.
#[test]
fn a_name_of_other_rules_is_another_device() {
    let scratch = Scratch::new();
    for file in ["a.key", "a.txt", "dir/keep/file", "other/file"] {
        scratch.write(&format!("source/{file}"), "text");
    }
    let options = ["path=*.key", "perms=0", "path=/dir/keep", "rename-deny"];
    let fs = scratch.open("bind", &options, false).unwrap();
    let (me, top) = (caller(), fs.root());
    let rename = |from: &str, to: &str| {
        let (from, to) = ((top, from.as_bytes()), (top, to.as_bytes()));
        errno(fs.rename(&me, from, to, RenameFlags(0)))
    };
    assert_eq!(rename("a.key", "b.txt"), Some(Errno::EXDEV));
    assert_eq!(rename("a.txt", "b.key"), Some(Errno::EXDEV));
    assert_eq!(rename("none.key", "b.txt"), Some(Errno::ENOENT));
    assert_eq!(rename("dir", "moved"), Some(Errno::EXDEV));
    assert_eq!(rename("other", "dir"), Some(Errno::EXDEV));
    let exchange = RenameFlags(RenameFlags::EXCHANGE);
    let exchanged = fs.rename(&me, (top, b"a.txt"), (top, b"dir"), exchange);
    assert_eq!(errno(exchanged), Some(Errno::EXDEV));
    for (from, to) in [("a.key", "b.key"), ("a.txt", "b.txt"), ("other", "moved")] {
        assert_eq!(rename(from, to), None, "{from}");
    }
    let file = find(&*fs, &me, "b.key").unwrap().attributes.node;
    assert_eq!(errno(fs.link(&me, file, top, b"c.txt")), Some(Errno::EXDEV));
    assert_eq!(errno(fs.link(&me, file, top, b"c.key")), None);
}

#[test]
fn an_access_list_changes_no_mode_that_chmod_may_not() {
    let scratch = Scratch::new();
    scratch.write("source/file", "text");
    for (option, want) in [
        ("chmod-deny", Errno::EPERM),
        ("chmod-ignore", Errno::EOPNOTSUPP),
        ("chmod-filter=o-rwx", Errno::EOPNOTSUPP),
    ] {
        let fs = scratch.open("bind", &[option], false).unwrap();
        let (me, file) = (caller(), find(&*fs, &caller(), "file").unwrap());
        let (node, name) = (file.attributes.node, b"system.posix_acl_access");
        assert_eq!(errno(fs.set_xattr(&me, node, name, b"", 0)), Some(want));
        assert_eq!(errno(fs.remove_xattr(&me, node, name)), Some(want));
    }
}

/// What a server of root's does for another leaves no set-user-ID, as where he did it himself.
#[test]
fn set_user_id_goes_with_what_others_change() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("source/file", "text");
    scratch.write("source/from", "other");
    let path = scratch.0.join("source/file");
    let mode = || std::fs::metadata(&path).unwrap().mode() & 0o7777;
    let fs = scratch
        .open("bind", &["perms=a+rw", "create-as-mounter"], true)
        .unwrap();
    let open = |caller, name| {
        let node = find(&*fs, &caller, name).unwrap().attributes.node;
        match fs.open(&caller, node, OpenFlags::READ_WRITE).unwrap() {
            Opened::Driven(file) => file,
            Opened::Backed(_) => panic!("the layer touches it"),
        }
    };
    for (who, want) in [(user(7), 0o777), (caller(), 0o4777)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4777)).unwrap();
        open(who, "file").allocate(0, 0, 100).unwrap();
        assert_eq!(mode(), want);
    }
    let (from, to) = (open(user(7), "from"), open(user(7), "file"));
    assert_eq!(errno(from.copy_range(0, &*to, 0, 5)), Some(Errno::EXDEV));
    let top = fs.root();
    fs.mknod(&user(7), top, b"made", 0o104755, 0).unwrap();
    let made = std::fs::metadata(scratch.0.join("source/made")).unwrap();
    assert_eq!((made.uid(), made.mode() & 0o7777), (0, 0o755));
}

/// A server of root's makes files for others: nobody finds one that is not given away yet.
#[test]
fn what_is_made_is_the_makers_from_the_first_look_on() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    std::fs::set_permissions(
        scratch.0.join("source"),
        std::fs::Permissions::from_mode(0o777),
    )
    .unwrap();
    let fs = scratch
        .open("bind", &["perms=a+r", "create-with-perms=0600"], true)
        .unwrap();
    let fs: &dyn FileSystem = &*fs;
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = || {
            let mut seen = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                for number in 0..200 {
                    let name = format!("{number}");
                    let Ok(found) = fs.lookup(&user(9), fs.root(), name.as_bytes()) else {
                        continue;
                    };
                    seen += 1;
                    let found = found.attributes;
                    assert_eq!((found.uid, found.gid, found.permissions), (7, 7, 0o644));
                    fs.forget(found.node, 1);
                }
            }
            seen
        };
        let looks = [scope.spawn(look), scope.spawn(look)];
        for number in 0..200 {
            let name = format!("{number}");
            fs.create(
                &user(7),
                fs.root(),
                name.as_bytes(),
                OpenFlags::WRITE,
                0o644,
            )
            .unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for look in looks {
            look.join().unwrap();
        }
    });
    let made = std::fs::metadata(scratch.0.join("source/5")).unwrap();
    assert_eq!((made.uid(), made.mode() & 0o7777), (7, 0o600));
}

#[test]
fn an_existing_file_keeps_its_owner_and_is_opened_by_who_may() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("source/file", "text");
    let fs = scratch
        .open("bind", &["perms=0600", "create-for-user=5"], true)
        .unwrap();
    let opened = fs.create(&user(7), fs.root(), b"file", OpenFlags::WRITE, 0o644);
    assert_eq!(errno(opened), Some(Errno::EACCES));
    let (entry, _) = fs
        .create(&caller(), fs.root(), b"file", OpenFlags::WRITE, 0o644)
        .unwrap();
    assert_eq!(entry.attributes.uid, 0);
    let exclusive = OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE);
    let opened = fs.create(&caller(), fs.root(), b"file", exclusive, 0o644);
    assert_eq!(errno(opened), Some(Errno::EEXIST));
    let (entry, _) = fs
        .create(&user(7), fs.root(), b"new", OpenFlags::WRITE, 0o644)
        .unwrap();
    assert_eq!(entry.attributes.uid, 5);
}

#[test]
fn memory_is_given_to_whom_it_is_made_for() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    let options = ["create-for-user=5", "create-for-group=6", "map=5/50"];
    let fs = scratch.open("memory", &options, true).unwrap();
    let made = fs
        .mkdir(&user(7), fs.root(), b"dir", 0o755)
        .unwrap()
        .attributes;
    assert_eq!(
        (made.kind, made.uid, made.gid),
        (FileKind::Directory, 50, 6)
    );
}

#[test]
fn what_takes_roots_rights_is_refused_in_a_run() {
    let scratch = Scratch::new();
    for options in [
        "map=1/2",
        "map-passwd=/etc/passwd",
        "map-group-rev=/etc/group",
        "uid-offset=5",
        "gid-offset=5",
        "create-for-user=1",
        "create-for-group=1",
    ] {
        for driver in ["bind", "passthrough"] {
            let Err(error) = scratch.open(driver, &[options], false) else {
                panic!("{options} is accepted")
            };
            let said = error.to_string();
            assert!(said.contains("needs root's rights"), "{said}");
        }
    }
}

#[test]
fn what_there_is_not_is_refused_with_a_reason() {
    let scratch = Scratch::new();
    for (option, alone, want) in [
        ("forward-odirect=512", true, "not handed on"),
        ("enable-lock-forwarding", true, "--with posix-locks"),
        ("mirror=nobody-here", false, "there is no such user"),
        ("force-group=nobody-here", false, "there is no such group"),
        ("perms=9", false, "no octal number"),
    ] {
        let Err(error) = scratch.open("bind", &[option], alone) else {
            panic!("{option} is accepted")
        };
        assert!(error.to_string().contains(want), "{error}");
    }
    assert!(
        scratch
            .open("bind", &["enable-lock-forwarding"], false)
            .is_ok()
    );
}
