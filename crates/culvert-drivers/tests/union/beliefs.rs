//! Directories that many calls have used are believed to be what they are: until others change
//! what is above them.

use super::tools::{Scratch, me, root};
use culvert::{Caller, Errno, FileSystem, Node, OpenFlags, Rights, SetAttributes};
use std::{fs, os::unix::fs::PermissionsExt};

const BRANCHES: [&str; 3] = ["one", "two", "three"];

/// More calls than are needed before a directory is believed.
const MANY: usize = 200;

/// `O_WRONLY`, `O_CREAT` and `O_EXCL`.
const NEW: u32 = 0o1 | 0o100 | 0o200;

/// The size and the number of the file `path`; none: there is nothing.
fn find_as(
    union: &dyn FileSystem,
    caller: &Caller<'_>,
    path: &str,
) -> Result<Option<(u64, Node)>, Errno> {
    let reached = union.reach(caller, union.root(), path.as_bytes());
    let reached = reached
        .expect("no link is on the way")
        .map_err(|error| error.errno());
    let reached = match reached {
        Err(Errno::ENOENT) => return Ok(None),
        reached => reached?,
    };
    let found = reached.entry.map(|entry| entry.attributes);
    for node in [Some(reached.parent), found.map(|found| found.node)] {
        if let Some(node) = node.filter(|node| *node != union.root()) {
            union.forget(node, 1);
        }
    }
    Ok(found.map(|found| (found.size, found.node)))
}

fn size(union: &dyn FileSystem, path: &str) -> Option<u64> {
    find_as(union, &me(), path).unwrap().map(|found| found.0)
}

/// `path` was used often.
fn used(union: &dyn FileSystem, path: &str) {
    for _ in 0..MANY {
        size(union, path);
    }
}

/// How many lists of watches this process has.
fn lists() -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap();
    let to = |link: fs::DirEntry| fs::read_link(link.path());
    let links = all.filter_map(|link| to(link.ok()?).ok());
    links
        .filter(|link| link.to_string_lossy().contains("inotify"))
        .count()
}

#[test]
fn what_others_make_on_another_branch_is_seen() {
    let scratch = Scratch::new();
    scratch.write("two/d/f", "12");
    let union = scratch.open(&BRANCHES, &["category.create=ff"]);
    let union = &*union;
    used(union, "d/f");
    assert!(lists() > 0, "nothing is watched");
    assert_eq!((size(union, "d/f"), size(union, "d/g")), (Some(2), None));
    scratch.write("three/d/g", "1");
    assert_eq!(size(union, "d/g"), Some(1));
    used(union, "d/f");
    // Which hides the other.
    scratch.write("one/d/f", "123");
    assert_eq!(size(union, "d/f"), Some(3));
    used(union, "d/f");
    fs::remove_dir_all(scratch.0.join("one/d")).unwrap();
    assert_eq!(size(union, "d/f"), Some(2));
    used(union, "d/f");
    scratch.sh("rm -r two/d; mkdir -p two/d; echo 12345 > two/d/f");
    assert_eq!(size(union, "d/f"), Some(6));
}

#[test]
fn what_others_move_above_is_seen() {
    let scratch = Scratch::new();
    scratch.write("two/a/b/d/f", "12");
    let union = scratch.open(&BRANCHES, &[]);
    let union = &*union;
    let path = "a/b/d/f";
    for (script, after) in [
        ("mv two/a two/z", None),
        ("mv two/z two/a", Some(2)),
        ("mv two/a/b two/b; mkdir -p one/a", None),
        ("mv two/b two/a/b", Some(2)),
        ("mkdir -p one/a/b/d; echo 1234 > one/a/b/d/f", Some(5)),
        ("mv one/a/b one/c", Some(2)),
        ("mv two/a/b/d two/a/b/e; mv one/c/d two/a/b/d", Some(5)),
    ] {
        used(union, path);
        scratch.sh(script);
        assert_eq!(size(union, path), after, "{script}");
    }
}

#[test]
fn a_change_goes_to_what_others_have_made() {
    let scratch = Scratch::new();
    scratch.write("one/d/f", "1");
    let union = scratch.open(&BRANCHES, &["category.create=ff"]);
    let union = &*union;
    let changes = SetAttributes {
        permissions: Some(0o640),
        ..SetAttributes::default()
    };
    let mode = |path: &str| {
        let found = fs::metadata(scratch.0.join(path)).unwrap();
        found.permissions().mode() & 0o777
    };
    used(union, "d/f");
    scratch.write("three/d/f", "3");
    let reached = union.reach(&me(), union.root(), b"d/f");
    let reached = reached.unwrap().unwrap();
    let node = reached.entry.unwrap().attributes.node;
    union.change_attributes(&me(), node, &changes).unwrap();
    assert_eq!((mode("one/d/f"), mode("three/d/f")), (0o640, 0o640));
    union.forget(node, 1);
    union.forget(reached.parent, 1);
    used(union, "d/f");
    scratch.write("two/d/new", "2");
    let reached = union.reach(&me(), union.root(), b"d/new");
    let found = reached.unwrap().unwrap();
    assert!(found.entry.is_some());
    let flags = OpenFlags(NEW);
    let made = union.create(&me(), found.parent, b"new", flags, 0o600);
    assert_eq!(made.map(drop).unwrap_err().errno(), Errno::EEXIST);
    union.unlink(&me(), found.parent, b"f").unwrap();
    assert_eq!(scratch.on(&BRANCHES, "d/f"), Vec::<usize>::new());
}

#[test]
fn who_may_not_search_what_is_above_finds_nothing_below() {
    let scratch = Scratch::new();
    scratch.write("two/a/d/f", "12");
    let union = scratch.open(&BRANCHES, &[]);
    let union = &*union;
    used(union, "a/d/f");
    // What another one is believed to find is his alone.
    let other = Caller {
        uid: me().uid + 1,
        rights: Some(Rights::NONE),
        ..me()
    };
    let found = find_as(union, &other, "a/d/f").unwrap();
    assert_eq!(found.map(|found| found.0), Some(2));
    if root() {
        return;
    }
    for (script, after) in [
        ("chmod 0 two/a", Err(Errno::EACCES)),
        ("chmod 755 two/a", Ok(Some(2))),
        ("chmod 0 two", Err(Errno::EACCES)),
        ("chmod 755 two", Ok(Some(2))),
        // It may hide what others show.
        ("chmod 0 one", Err(Errno::EACCES)),
        ("chmod 755 one", Ok(Some(2))),
    ] {
        used_anyhow(union, "a/d/f");
        scratch.sh(script);
        let found = find_as(union, &me(), "a/d/f");
        assert_eq!(
            found.map(|found| found.map(|found| found.0)),
            after,
            "{script}"
        );
    }
}

fn used_anyhow(union: &dyn FileSystem, path: &str) {
    for _ in 0..MANY {
        let _ = find_as(union, &me(), path);
    }
}

/// Where much happens above, nothing is believed, and all is right.
#[test]
fn what_changes_all_the_time_is_seen_each_time() {
    let scratch = Scratch::new();
    scratch.write("three/d/f", "1");
    let union = scratch.open(&BRANCHES, &[]);
    let union = &*union;
    used(union, "d/f");
    for round in 0..300 {
        let branch = ["one", "two"][round % 2];
        scratch.write(&format!("{branch}/d/f"), "12");
        assert_eq!(size(union, "d/f"), Some(2));
        fs::remove_dir_all(scratch.0.join(branch).join("d")).unwrap();
        for _ in 0..9 {
            assert_eq!(size(union, "d/f"), Some(1));
        }
    }
}

/// The child of a fork is told of nothing by the list of its parent.
#[test]
fn what_a_process_watches_its_child_does_not() {
    let scratch = Scratch::new();
    scratch.write("two/d/f", "12");
    let union = scratch.open(&BRANCHES, &[]);
    let union = &*union;
    used(union, "d/f");
    union.forked(false);
    assert_eq!(size(union, "d/f"), Some(2));
    scratch.write("one/d/f", "123");
    assert_eq!(size(union, "d/f"), Some(3));
}
