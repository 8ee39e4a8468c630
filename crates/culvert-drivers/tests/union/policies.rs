//! What is done on which branch.

use crate::tools::{Scratch, me, root};
use culvert::{
    Attributes, Caller, Errno, FileSystem, Node, OpenFlags, Opened, RenameFlags, Result,
    SetAttributes,
};
use culvert_drivers::Environment;
use std::fs;

const THREE: &[&str] = &["a", "b", "c"];

fn find(union: &dyn FileSystem, path: &str) -> Result<Attributes> {
    let mut node = union.root();
    let mut found = union.attributes(&me(), node)?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        found = union.lookup(&me(), node, name.as_bytes())?.attributes;
        node = found.node;
    }
    Ok(found)
}

/// The directory of `path`, and its last name.
fn at<'a>(union: &dyn FileSystem, path: &'a str) -> (Node, &'a [u8]) {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    (find(union, dir).unwrap().node, name.as_bytes())
}

fn create(union: &dyn FileSystem, path: &str) -> Result<()> {
    let (dir, name) = at(union, path);
    let flags = OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE);
    union.create(&me(), dir, name, flags, 0o644).map(drop)
}

fn rename(union: &dyn FileSystem, from: &str, to: &str) -> Result<()> {
    let (from, to) = (at(union, from), at(union, to));
    union.rename(&me(), from, to, RenameFlags::default())
}

#[track_caller]
fn refused<T>(result: Result<T>, errno: Errno) {
    match result {
        Ok(_) => panic!("works, should fail with {errno:?}"),
        Err(error) => assert_eq!(error.errno(), errno, "{error}"),
    }
}

fn bytes(union: &dyn FileSystem, path: &str) -> String {
    let node = find(union, path).unwrap().node;
    let Opened::Driven(file) = union.open(&me(), node, OpenFlags::READ).unwrap() else {
        panic!("backed");
    };
    let mut out = vec![0; 100];
    let read = file.read_at(0, &mut out.as_mut_slice()).unwrap();
    out.truncate(read);
    String::from_utf8(out).unwrap()
}

#[test]
fn something_new_is_made_where_the_policy_says() {
    for (policy, want) in [
        ("ff", &[0][..]),
        ("epff", &[1]),
        ("epall", &[1]),
        ("eprand", &[1, 2]),
        ("newest", &[2]),
        ("all", &[0]),
        ("erofs", &[]),
    ] {
        let scratch = Scratch::new();
        scratch.write("b/dir/x", "");
        scratch.write("c/dir/y", "");
        scratch.sh("touch -d '1 hour ago' b/dir");
        let union = scratch.open(THREE, &[&format!("category.create={policy}")]);
        let made = create(&*union, "dir/new");
        match want.is_empty() {
            true => refused(made, Errno::EROFS),
            false => made.unwrap(),
        }
        let on = scratch.on(THREE, "dir/new");
        assert!(on.len() == want.len().min(1), "{policy} {on:?}");
        assert!(on.iter().all(|at| want.contains(at)), "{policy} {on:?}");
        let (dir, name) = at(&*union, "dir/made");
        let made = union.mkdir(&me(), dir, name, 0o755);
        let on = scratch.on(THREE, "dir/made");
        match policy {
            "epall" => assert_eq!(on, [1, 2]),
            "all" => assert_eq!(on, [0, 1, 2]),
            "erofs" => refused(made, Errno::EROFS),
            _ => assert!(on.len() == 1 && want.contains(&on[0]), "{policy} {on:?}"),
        }
    }
}

#[test]
fn modes_and_space_say_where_nothing_is_made() {
    for (branches, options, want) in [
        (&["a=RO", "b"][..], &[][..], Ok(1)),
        (&["a=NC", "b"], &[], Ok(1)),
        (&["a=RO", "b=NC"], &[], Err(Errno::EROFS)),
        (&["a", "b"], &["minfreespace=1000T"], Err(Errno::ENOSPC)),
        (&["a", "b=RW,0"], &["minfreespace=1000T"], Ok(1)),
        (&["a=RO", "b"], &["minfreespace=1000T"], Err(Errno::ENOSPC)),
    ] {
        let scratch = Scratch::new();
        let options = [&["category.create=ff"], options].concat();
        let union = scratch.open(branches, &options);
        match want {
            Ok(at) => {
                create(&*union, "new").unwrap();
                assert_eq!(scratch.on(&["a", "b"], "new"), [at]);
            }
            Err(errno) => refused(create(&*union, "new"), errno),
        }
    }
}

#[test]
fn paths_that_are_missing_are_made_as_they_are_elsewhere() {
    let scratch = Scratch::new();
    scratch.sh(
        "mkdir -p a b/one/two c; chmod 750 b/one; chmod 2711 b/one/two; touch -d \
        2001-01-01 b/one/two",
    );
    let union = scratch.open(THREE, &["category.create=ff"]);
    let before = find(&*union, "one/two").unwrap();
    let (dir, name) = at(&*union, "one/two/link");
    union.symlink(&me(), dir, name, b"target").unwrap();
    assert_eq!(scratch.on(THREE, "one/two/link"), [0]);
    assert_eq!(scratch.sh("stat -c %a a/one a/one/two"), "750\n2711\n");
    // It is the directory that it was.
    let after = find(&*union, "one/two").unwrap();
    assert_eq!((before.node, before.inode), (after.node, after.inode));
    let (dir, name) = at(&*union, "one");
    let to = (dir, &b"other"[..]);
    union
        .rename(&me(), (dir, name), to, RenameFlags::default())
        .unwrap();
    assert_eq!(scratch.on(THREE, "other/two"), [0, 1]);
    assert_eq!(find(&*union, "other/two").unwrap().node, before.node);
}

#[test]
fn changes_are_made_everywhere_or_where_the_policy_says() {
    for (policy, want) in [
        ("epall", "600 600\n"),
        ("epff", "600 644\n"),
        ("newest", "644 600\n"),
    ] {
        let scratch = Scratch::new();
        scratch.sh(
            "mkdir a b; echo 1 > a/f; echo 2 > b/f; chmod 644 a/f b/f; touch -d '1 hour ago' a/f",
        );
        let union = scratch.open(&["a", "b"], &[&format!("category.action={policy}")]);
        let node = find(&*union, "f").unwrap().node;
        let changes = SetAttributes {
            permissions: Some(0o600),
            ..SetAttributes::default()
        };
        union.set_attributes(&me(), node, &changes).unwrap();
        assert_eq!(scratch.sh("echo $(stat -c %a a/f b/f)"), want, "{policy}");
    }
    let scratch = Scratch::new();
    scratch.write("a/f", "");
    scratch.write("b/f", "");
    let union = scratch.open(&["a=RO", "b"], &[]);
    union.unlink(&me(), union.root(), b"f").unwrap();
    assert_eq!(scratch.on(THREE, "f"), [0]);
    refused(union.unlink(&me(), union.root(), b"f"), Errno::EROFS);
}

#[test]
fn what_is_asked_for_is_found_where_the_policy_says() {
    let scratch = Scratch::new();
    scratch.write("a/f", "old");
    scratch.write("b/f", "newer");
    scratch.sh("touch -d '1 hour ago' a/f");
    assert_eq!(bytes(&*scratch.open(&["a", "b"], &[]), "f"), "old");
    let newest = scratch.open(&["a", "b"], &["category.search=newest"]);
    assert_eq!(
        (
            bytes(&*newest, "f").as_str(),
            find(&*newest, "f").unwrap().size
        ),
        ("newer", 5)
    );
    let opens = scratch.open(&["a", "b"], &["func.open=newest"]);
    assert_eq!(
        (
            bytes(&*opens, "f").as_str(),
            find(&*opens, "f").unwrap().size
        ),
        ("newer", 3)
    );
}

#[test]
fn a_rename_replaces_what_another_branch_has() {
    for (old, new) in [("a", "b"), ("b", "a")] {
        let scratch = Scratch::new();
        scratch.sh("mkdir a b");
        scratch.write(&format!("{old}/old"), "moved");
        scratch.write(&format!("{new}/new"), "replaced");
        let union = scratch.open(&["a", "b"], &["category.create=ff"]);
        let node = find(&*union, "old").unwrap().node;
        rename(&*union, "old", "new").unwrap();
        assert_eq!(bytes(&*union, "new"), "moved");
        assert_eq!(find(&*union, "new").unwrap().node, node);
        assert_eq!(scratch.on(&["a", "b"], "old"), []);
        assert_eq!(scratch.on(&["a", "b"], "new").len(), 1);
    }
}

#[test]
fn a_rename_that_would_stay_hidden_is_refused() {
    let scratch = Scratch::new();
    scratch.write("a/new", "shown");
    scratch.write("b/old", "moved");
    let union = scratch.open(&["a=RO", "b"], &["category.create=ff"]);
    refused(rename(&*union, "old", "new"), Errno::EROFS);
    assert_eq!(bytes(&*union, "old") + &bytes(&*union, "new"), "movedshown");
}

#[test]
fn paths_are_kept_where_the_policy_creates_so() {
    let scratch = Scratch::new();
    scratch.write("a/old", "");
    scratch.write("b/dir/x", "");
    let keeps = scratch.open(&["a", "b"], &["category.create=epff"]);
    refused(rename(&*keeps, "old", "dir/old"), Errno::EXDEV);
    let (dir, name) = at(&*keeps, "dir/old");
    let node = find(&*keeps, "old").unwrap().node;
    refused(keeps.link(&me(), node, dir, name), Errno::EXDEV);
    let moves = scratch.open(&["a", "b"], &["category.create=epff", "ignorepponrename"]);
    rename(&*moves, "old", "dir/old").unwrap();
    assert_eq!(scratch.on(&["a", "b"], "dir/old"), [0]);
    let node = find(&*moves, "dir/old").unwrap().node;
    let (dir, name) = at(&*moves, "linked");
    let linked = moves.link(&me(), node, dir, name).unwrap().attributes;
    assert_eq!((linked.node, linked.links), (node, 2));
}

#[test]
fn numbers_are_the_same_in_every_process() {
    let scratch = Scratch::new();
    scratch.write("b/dir/f", "");
    let mount = scratch.prepare(THREE, &["category.create=rand"]).unwrap();
    let (one, other) = (scratch.open_again(&mount), scratch.open_again(&mount));
    for number in 0..20 {
        create(&*one, &format!("dir/{number}")).unwrap();
    }
    for path in ["dir", "dir/f", "dir/3", "dir/7"] {
        let numbers = |union: &dyn FileSystem| {
            let found = find(union, path).unwrap();
            (found.node, found.inode)
        };
        assert_eq!(numbers(&*one), numbers(&*other), "{path}");
    }
    // What another process makes on a branch more is in the directory that this one has.
    let dir = find(&*other, "dir").unwrap().node;
    fs::create_dir_all(scratch.0.join("c/dir")).unwrap();
    scratch.write("c/dir/late", "");
    assert!(other.lookup(&me(), dir, b"late").is_ok());
}

#[test]
fn a_directory_that_others_have_moved_is_not_mixed_with_the_next_of_its_name() {
    let scratch = Scratch::new();
    scratch.write("b/dir/f", "");
    let union = scratch.open(THREE, &[]);
    let dir = find(&*union, "dir").unwrap().node;
    scratch.sh("mv b/dir b/moved; mkdir a/dir; touch a/dir/stranger");
    refused(union.lookup(&me(), dir, b"stranger"), Errno::ENOENT);
    assert!(union.lookup(&me(), dir, b"f").is_ok());
    scratch.sh("mkdir c/moved; touch c/moved/new");
    assert!(union.lookup(&me(), dir, b"new").is_ok());
    assert_eq!(union.path_of(dir).unwrap(), b"moved");
}

/// As the one before, where what the lookup of a call has found is believed by its change.
#[test]
fn a_change_in_a_directory_that_others_have_moved_is_none_in_the_next_of_its_name() {
    type Change = fn(&dyn FileSystem, Node, Node);
    let changes: [Change; 4] = [
        |union, dir, _| union.unlink(&me(), dir, b"f").unwrap(),
        |union, dir, _| {
            let flags = RenameFlags::default();
            let to = (union.root(), &b"g"[..]);
            union.rename(&me(), (dir, b"f"), to, flags).unwrap();
        },
        |union, _, file| {
            let change = SetAttributes {
                permissions: Some(0o600),
                ..SetAttributes::default()
            };
            union.set_attributes(&me(), file, &change).unwrap();
        },
        |union, _, file| {
            let change = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            union.set_attributes(&me(), file, &change).unwrap();
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let scratch = Scratch::new();
        scratch.write("a/d/f", "mine");
        let mount = scratch.prepare(&["a=NC", "b"], &[]).unwrap();
        let (one, other) = (scratch.open_again(&mount), scratch.open_again(&mount));
        let dir = find(&*one, "d").unwrap().node;
        rename(&*other, "d", "e").unwrap();
        other.mkdir(&me(), other.root(), b"d", 0o755).unwrap();
        assert_eq!(scratch.on(&["a", "b"], "d"), [1]);
        scratch.write("b/d/f", "precious");
        let modes = scratch.sh("stat -c '%a %h' b/d/f");

        // A path from the working directory.
        let found = one.reach(&me(), dir, b"f").unwrap().unwrap().entry.unwrap();
        let file = found.attributes.node;
        change(&*one, dir, file);
        let text = fs::read_to_string(scratch.0.join("b/d/f")).unwrap();
        assert_eq!(text, "precious", "{number}");
        assert_eq!(scratch.sh("stat -c '%a %h' b/d/f; ls b/d"), modes + "f\n");
        let want = ["", "g 666 4\n", "e/f 600 4\n", "e/f 666 0\n"][number];
        let is = scratch.sh("cd a; stat -c '%n %a %s' e/* g 2> /dev/null || :");
        assert_eq!(is, want);
    }
}

#[test]
fn where_a_file_lies_is_told() {
    let scratch = Scratch::new();
    scratch.write("a/d/f", "");
    scratch.write("b/d/f", "");
    let union = scratch.open(&["a", "b"], &[]);
    let node = find(&*union, "d/f").unwrap().node;
    let get = |word: &str| {
        let value = union.get_xattr(&me(), node, format!("user.mergerfs.{word}").as_bytes());
        String::from_utf8(value.unwrap()).unwrap()
    };
    let base = scratch.0.to_str().unwrap();
    assert_eq!(get("basepath"), format!("{base}/a"));
    assert_eq!(get("relpath"), "/d/f");
    assert_eq!(get("fullpath"), format!("{base}/a/d/f"));
    assert_eq!(get("allpaths"), format!("{base}/a/d/f\0{base}/b/d/f"));
}

/// A server that acts for others acts as they on directories, and by itself in memory.
#[test]
fn root_serves_no_mixture_to_others() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    for (branches, works) in [(&["a", "memory"][..], false), (&["a", "b"], true)] {
        let mount = scratch.prepare(branches, &[]).unwrap();
        let environment = Environment {
            alone: true,
            ..Environment::default()
        };
        assert_eq!(culvert_drivers::open(&mount, &environment).is_ok(), works);
        assert!(!scratch.open_again(&mount).capabilities().read_only);
    }
}

/// What shows other owners judges nothing by itself. The front end judges by what a directory
/// shows, the first part; the others are judged by what they show.
#[test]
fn what_is_not_shown_is_judged_too() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.sh("mkdir -p bind1/d bind2/d; echo s > bind2/d/f; echo x > bind2/f; echo y > bind2/g");
    scratch.sh("chmod 777 bind1; chmod 755 bind2 bind1/d; chmod 700 bind2/d; chown 1234 bind1/d");
    let union = scratch.open(&["bind1=NC", "bind2"], &["category.create=ff"]);
    let other = Caller {
        uid: 1234,
        gid: 1234,
        groups: &[],
        pid: u32::MAX,
        umask: 0,
        rights: None,
    };
    let (root, flags) = (union.root(), OpenFlags::WRITE);
    let dir = find(&*union, "d").unwrap().node;
    let made = union.create(&other, root, b"x", flags, 0o644).map(drop);
    refused(made, Errno::EACCES);
    refused(union.mkdir(&other, root, b"x", 0o755), Errno::EACCES);
    refused(union.symlink(&other, root, b"x", b"y"), Errno::EACCES);
    refused(union.unlink(&other, root, b"f"), Errno::EACCES);
    refused(union.rmdir(&other, root, b"d"), Errno::EACCES);
    for flags in [0, RenameFlags::EXCHANGE] {
        let moved = union.rename(&other, (root, b"f"), (root, b"g"), RenameFlags(flags));
        refused(moved, Errno::EACCES);
    }
    refused(union.lookup(&other, dir, b"f"), Errno::EACCES);
    let listed = union.open_directory(&other, dir, OpenFlags::READ).map(drop);
    refused(listed, Errno::EACCES);
    let changes = SetAttributes {
        permissions: Some(0o777),
        ..SetAttributes::default()
    };
    // Of the part that is shown the front end judges.
    union.change_attributes(&other, dir, &changes).unwrap();
    let modes = "stat -c %a bind1/d bind2/d; ls bind2";
    assert_eq!(scratch.sh(modes), "777\n700\nd\nf\ng\n");
    scratch.sh("chmod 1777 bind2");
    refused(union.unlink(&other, root, b"f"), Errno::EPERM);
    union.create(&other, root, b"x", flags, 0o644).unwrap();
    create(&*union, "y").unwrap();
    assert_eq!(bytes(&*union, "d/f"), "s\n");
    assert_eq!(scratch.on(&["bind1", "bind2"], "x"), [1]);
}

/// What the union writes down of a rename nobody else writes, nor sees in a list.
#[test]
fn the_unions_own_attribute_is_nobody_elses() {
    let scratch = Scratch::new();
    let union = scratch.open(&["a", "b"], &[]);
    let (root, name) = (union.root(), b"user.culvert.rename");
    refused(union.set_xattr(&me(), root, name, b"1", 0), Errno::EPERM);
    refused(union.remove_xattr(&me(), root, name), Errno::EPERM);
}

#[test]
fn bad_unions_are_refused() {
    let scratch = Scratch::new();
    for (branches, options, want) in [
        (&["a", "a"][..], &[][..], "is given twice"),
        (&["a=rw"], &[], "not RW, RO or NC"),
        (&["a"], &["modes=RW:RO"], "one for each of the 1 branches"),
        (
            &["a"],
            &["category.creat=ff"],
            "did you mean category.create?",
        ),
    ] {
        let error = scratch.prepare(branches, options).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}
