//! Directories that many calls have used are believed to be what they are: until others change
//! what is above them.

use super::tools::{Scratch, me, root};
use culvert::{Access, Caller, Errno, FileSystem, Node, OpenFlags, Rights, SetAttributes};
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
    // The first to be asked, which says the same where it says anything.
    let at_once = union.attributes_at(caller, union.root(), path.as_bytes(), None);
    let reached = union.reach(caller, union.root(), path.as_bytes());
    let reached = reached
        .expect("no link is on the way")
        .map_err(|error| error.errno());
    let reached = match reached {
        Err(Errno::ENOENT) => return Ok(None),
        reached => reached?,
    };
    let found = reached.entry.map(|entry| entry.attributes);
    if let Some(at_once) = at_once {
        let at_once = match at_once {
            Err(error) if error.errno() == Errno::ENOENT => None,
            found => Some(found.unwrap()),
        };
        assert_eq!(at_once, found, "{path}");
    }
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

/// Without a lookup: where one branch has the directory, as often as it is believed.
#[test]
fn a_change_without_a_lookup_goes_to_what_is_there() {
    let scratch = Scratch::new();
    for number in 0..9 {
        scratch.write(&format!("one/d/f{number}"), "1");
    }
    scratch.sh("mkdir one/d/e && ln -s f0 one/d/link && mkfifo one/d/fifo");
    let union = scratch.open(&BRANCHES, &["category.create=ff"]);
    let union = &*union;
    let (me, root) = (me(), union.root());
    let changes = SetAttributes {
        permissions: Some(0o640),
        ..SetAttributes::default()
    };
    let permit = |path: &str| union.change_at(&me, root, path.as_bytes(), &changes);
    let rename = |old: &str, new: &str| {
        let done = union.rename_at(&me, root, old.as_bytes(), new.as_bytes());
        done.map(|done| done.map(|_| ()).map_err(|error| error.errno()))
    };
    let unlink = |path: &str| {
        let done = union.unlink_at(&me, root, path.as_bytes());
        done.map(|done| done.map(|_| ()).map_err(|error| error.errno()))
    };
    assert!(permit("d/f0").is_none(), "nothing is believed yet");
    used(union, "d/f0");
    permit("d/f0").expect("it is believed").unwrap();
    let found = fs::metadata(scratch.0.join("one/d/f0")).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o640);
    assert_eq!(rename("d/f1", "d/new"), Some(Ok(())));
    assert_eq!(rename("d/f2", "d/f3"), Some(Ok(())));
    assert_eq!(rename("d/f2", "d/f4"), Some(Err(Errno::ENOENT)));
    assert_eq!(unlink("d/f4"), Some(Ok(())));
    assert_eq!(unlink("d/f4"), Some(Err(Errno::ENOENT)));
    let left = ["f0", "f1", "f2", "f3", "f4", "new"].map(|name| size(union, &format!("d/{name}")));
    assert_eq!(left, [Some(1), None, None, Some(1), None, Some(1)]);
    // What is no file, and what has no one directory, is looked up.
    for name in ["d/e", "d/link", "d/fifo"] {
        assert_eq!(unlink(name), None, "{name}");
        assert_eq!(rename(name, "d/other"), None, "{name}");
        let found = union.attributes_at(&me, root, name.as_bytes(), None);
        assert!(found.is_none(), "{name}");
    }
    assert!(permit("d/link").is_none());
    assert_eq!(rename("d/f5", "d/e"), None);
    assert_eq!(rename("d/f5", "f5"), None);
    // Another branch gets the directory: the next change is for both.
    used(union, "d/f0");
    scratch.write("two/d/f0", "2");
    assert!(permit("d/f0").is_none());
    assert_eq!(unlink("d/f0"), None);
    used(union, "d/f0");
    assert!(permit("d/f0").is_none());
    assert_eq!(unlink("d/f0"), None);
}

/// To whom it would be right to write: what refuses that is the branch, not the kernel.
#[test]
fn a_branch_that_is_not_written_to_is_asked_itself() {
    let scratch = Scratch::new();
    scratch.write("one/f", "1");
    scratch.write("two/g", "1");
    let mut mount = scratch.prepare(&BRANCHES, &[]).unwrap();
    mount.branches[1].options.push(("ro".into(), Vec::new()));
    let union = scratch.open_again(&mount);
    let (me, root) = (me(), union.root());
    let asked = |path: &str, access| union.attributes_at(&me, root, path.as_bytes(), Some(access));
    for path in ["f", "g"] {
        asked(path, Access::READ)
            .expect("it is in the root")
            .unwrap();
    }
    asked("f", Access::WRITE)
        .expect("it is in the root")
        .unwrap();
    assert!(asked("g", Access::WRITE).is_none());
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

/// Makes the file `path` as open(2) with `O_CREAT` and `O_EXCL` does: the errno, if any.
fn make(union: &dyn FileSystem, path: &str) -> Option<Errno> {
    let reached = union.reach_new(&me(), union.root(), path.as_bytes());
    let reached = reached
        .expect("no link is on the way")
        .expect("a directory");
    let made = match reached.entry {
        Some(entry) => {
            union.forget(entry.attributes.node, 1);
            Some(Errno::EEXIST)
        }
        None => {
            let name = path.rsplit('/').next().unwrap_or_default().as_bytes();
            let made = union.create(&me(), reached.parent, name, OpenFlags(NEW), 0o600);
            match made {
                Ok((entry, _)) => {
                    union.forget(entry.attributes.node, 1);
                    None
                }
                Err(error) => Some(error.errno()),
            }
        }
    };
    if reached.parent != union.root() {
        union.forget(reached.parent, 1);
    }
    made
}

#[test]
fn what_is_there_is_not_made_again() {
    for (options, modes) in [
        (&["category.create=ff"][..], None),
        (&["category.create=epff"], None),
        (&["category.create=ff"], Some("modes=RW:RO:RW")),
        (&["category.create=ff", "minfreespace=1000000T"], None),
        (&["category.create=epff", "ro"], None),
    ] {
        let scratch = Scratch::new();
        scratch.write("two/d/f", "12");
        let all: Vec<_> = options.iter().copied().chain(modes).collect();
        let union = scratch.open(&BRANCHES, &all);
        let union = &*union;
        used(union, "d/f");
        assert_eq!(make(union, "d/f"), Some(Errno::EEXIST), "{all:?}");
        assert_eq!(size(union, "d/f"), Some(2), "{all:?}");
        let is_full = all.iter().any(|one| one.starts_with("minfree"));
        let is_ro = all.contains(&"ro");
        let want = match (is_full, is_ro) {
            (true, _) => Some(Errno::ENOSPC),
            (_, true) => Some(Errno::EROFS),
            _ => None,
        };
        assert_eq!(make(union, "d/new"), want, "{all:?}");
        used(union, "d/f");
        if want.is_none() {
            assert_eq!(make(union, "d/new"), Some(Errno::EEXIST), "{all:?}");
            assert_eq!(scratch.on(&BRANCHES, "d/new").len(), 1, "{all:?}");
            fs::remove_file(scratch.0.join(BRANCHES[1]).join("d/f")).unwrap();
            used(union, "d/new");
            assert_eq!(make(union, "d/f"), None, "{all:?}");
        }
    }
}

/// Nor where the branch does not judge by itself, and nothing may be made beside it.
#[test]
fn in_memory_what_is_there_is_not_made_again() {
    let scratch = Scratch::new();
    let union = scratch.open(&["memory"], &[]);
    let union = &*union;
    let (root, flags) = (union.root(), OpenFlags(NEW));
    let (entry, _) = union.create(&me(), root, b"f", flags, 0o644).unwrap();
    union.forget(entry.attributes.node, 1);
    let changes = SetAttributes {
        permissions: Some(0o555),
        ..SetAttributes::default()
    };
    union.change_attributes(&me(), root, &changes).unwrap();
    let other = Caller {
        uid: 65534,
        gid: 65534,
        rights: Some(Rights::NONE),
        ..me()
    };
    // Of a union that does not know, the way is walked.
    let found = match union.reach_new(&other, root, b"f") {
        Some(reached) => reached.unwrap().entry,
        None => union.walk(&other, root, b"f").unwrap().entry,
    };
    let node = found.expect("it is there").attributes.node;
    union.forget(node, 1);
}

/// Where file after file is made on one branch, the others' names are known; until one is made
/// there.
#[test]
fn what_others_make_beside_new_files_is_not_made_again() {
    for above in ["", "d/"] {
        for options in [&["category.create=ff"][..], &["category.create=epmfs"]] {
            let scratch = Scratch::new();
            for branch in BRANCHES {
                scratch.write(&format!("{branch}/{above}own-{branch}"), "1");
            }
            let union = scratch.open(&BRANCHES, options);
            let union = &*union;
            used(union, &format!("{above}own-one"));
            let many = |stem: &str| {
                for number in 0..MANY {
                    assert_eq!(make(union, &format!("{above}{stem}{number}")), None);
                }
            };
            many("f");
            assert!(lists() > 0, "nothing is watched");
            for branch in BRANCHES {
                let path = format!("{above}own-{branch}");
                assert_eq!(make(union, &path), Some(Errno::EEXIST), "{path}");
                let upper = format!("{above}OWN-{branch}");
                assert_eq!(make(union, &upper), None, "{upper}");
            }
            for branch in BRANCHES {
                scratch.write(&format!("{branch}/{above}new-{branch}"), "1");
                let path = format!("{above}new-{branch}");
                assert_eq!(make(union, &path), Some(Errno::EEXIST), "{path}");
                many(branch);
            }
            scratch.sh(&format!(
                "mkdir three/{above}new && ln -s x two/{above}link"
            ));
            for name in ["new", "link"] {
                assert_eq!(make(union, &format!("{above}{name}")), Some(Errno::EEXIST));
            }
            many("g");
            scratch.sh(&format!("mv three/{above}own-three three/{above}moved"));
            assert_eq!(make(union, &format!("{above}moved")), Some(Errno::EEXIST));
            assert_eq!(make(union, &format!("{above}own-three")), None);
        }
    }
}
