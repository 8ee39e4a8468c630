//! Links that are more, or less, than links; options at run time.

use crate::tools::{Scratch, me};
use culvert::{Errno, FileKind, FileSystem, Node, OpenFlags, RenameFlags, Result};

pub fn walk(union: &dyn FileSystem, path: &str) -> Result<culvert::Attributes> {
    let mut node = union.root();
    let mut found = union.attributes(&me(), node)?;
    for name in path.split('/') {
        found = union.lookup(&me(), node, name.as_bytes())?.attributes;
        node = found.node;
    }
    Ok(found)
}

fn kind(union: &dyn FileSystem, path: &str) -> FileKind {
    walk(union, path).unwrap().kind
}

fn at<'a>(union: &dyn FileSystem, path: &'a str) -> (Node, &'a [u8]) {
    match path.rsplit_once('/') {
        Some((dir, name)) => (walk(union, dir).unwrap().node, name.as_bytes()),
        None => (union.root(), path.as_bytes()),
    }
}

#[test]
fn a_file_whose_new_name_another_branch_had_has_a_path() {
    let scratch = Scratch::new();
    scratch.write("a/d/new", "hides");
    let union = scratch.open(&["a=NC", "b"], &["category.create=ff"]);
    let dir = walk(&*union, "d").unwrap().node;
    let flags = OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE);
    let made = union.create(&me(), dir, b"old", flags, 0o644).unwrap();
    let node = made.0.attributes.node;
    assert_eq!(union.path_of(node).unwrap(), b"d/old");
    let flags = RenameFlags::default();
    union
        .rename(&me(), (dir, b"old"), (dir, b"new"), flags)
        .unwrap();
    assert_eq!(scratch.on(&["a", "b"], "d/new"), [1]);
    assert_eq!(union.path_of(node).unwrap(), b"d/new");
    union.unlink(&me(), dir, b"new").unwrap();
    assert_eq!(union.path_of(node).unwrap_err().errno(), Errno::ENOENT);
}

#[test]
fn links_are_followed_in_the_union_and_not_outside() {
    let scratch = Scratch::new();
    scratch.write("a/d/f", "text");
    scratch.write("b/e/g", "text");
    scratch.write("outside/f", "");
    let outside = scratch.0.join("outside");
    scratch.sh(&format!(
        "ln -s ../e/g a/d/over; ln -s e b/dir; ln -s {0} a/out; ln -s ../../outside/f a/d/up; \
         ln -s nothing a/dangling; ln -s loop a/loop; ln -s dir/../d/f a/long; ln -s {1}/b/e \
         a/based",
        outside.display(),
        scratch.0.display()
    ));
    use FileKind::{Directory, Regular, Symlink};
    for (option, over, dir, based) in [
        ("never", Symlink, Symlink, Symlink),
        ("regular", Regular, Symlink, Symlink),
        ("directory", Symlink, Directory, Directory),
        ("all", Regular, Directory, Directory),
    ] {
        let option = format!("follow-symlinks={option}");
        let union = scratch.open(&["a", "b"], &[&option]);
        assert_eq!(kind(&*union, "d/over"), over, "{option}");
        assert_eq!(kind(&*union, "long"), over, "{option}");
        assert_eq!(kind(&*union, "dir"), dir, "{option}");
        assert_eq!(kind(&*union, "based"), based, "{option}");
        for name in ["out", "d/up", "dangling", "loop"] {
            assert_eq!(kind(&*union, name), Symlink, "{option} {name}");
        }
        if dir == Directory {
            assert_eq!(kind(&*union, "dir/g"), Regular);
        }
    }
    // What is removed is the link.
    let union = scratch.open(&["a", "b"], &["follow-symlinks=all"]);
    let (dir, name) = at(&*union, "d/over");
    union.unlink(&me(), dir, name).unwrap();
    assert_eq!(scratch.on(&["a", "b"], "e/g"), [1]);
    assert_eq!(scratch.on(&["a", "b"], "d/over"), []);
}

#[test]
fn files_that_nobody_writes_are_shown_as_links() {
    let scratch = Scratch::new();
    scratch.write("b/d/old", "old");
    scratch.write("b/d/own", "own");
    scratch.sh("chmod 444 b/d/old; touch -d @1 b/d/old b/d/own");
    // Its ctime is now.
    let union = scratch.open(&["a", "b"], &["symlinkify"]);
    assert_eq!(kind(&*union, "d/old"), FileKind::Regular);
    let options = ["symlinkify", "symlinkify_timeout=0"];
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let union = scratch.open(&["a", "b"], &options);
    let found = walk(&*union, "d/old").unwrap();
    assert_eq!(found.kind, FileKind::Symlink);
    let target = union.readlink(&me(), found.node).unwrap();
    let want = scratch.0.join("b/d/old");
    assert_eq!(target, want.to_str().unwrap().as_bytes());
    assert_eq!(found.size, target.len() as u64);
    assert_eq!(kind(&*union, "d/own"), FileKind::Regular);
}

#[test]
fn what_paths_keep_from_a_branch_becomes_a_link() {
    let scratch = Scratch::new();
    let read = |path: &str| scratch.sh(&format!("readlink {path}"));
    scratch.write("a/one/deep/f", "text");
    scratch.sh("mkdir -p b/two/deep; mkdir a/one/dir; mkdir -m 700 a/one/shut; touch a/one/shut/f");
    let keeps = "category.create=epff";
    for (option, want) in [
        ("link-exdev=rel-symlink", "../../one/deep/f\n".to_owned()),
        (
            "link-exdev=abs-pool-symlink",
            "/mnt/one/deep/f\n".to_owned(),
        ),
        (
            "link-exdev=abs-base-symlink",
            format!("{}/a/one/deep/f\n", scratch.0.display()),
        ),
    ] {
        let union = scratch.open(&["a", "b"], &[keeps, option]);
        let node = walk(&*union, "one/deep/f").unwrap().node;
        let (dir, name) = at(&*union, "two/deep/l");
        let made = union.link(&me(), node, dir, name).unwrap();
        assert_eq!(made.attributes.node, node, "{option}");
        assert_eq!(read("b/two/deep/l"), want);
        scratch.sh("rm b/two/deep/l");
    }
    let rename = |option: &str, from: &str, to: &str| {
        let union = scratch.open(&["a", "b"], &[keeps, option]);
        let (from, to) = (at(&*union, from), at(&*union, to));
        union.rename(&me(), from, to, RenameFlags::default())
    };
    let refused = rename("rename-exdev=passthrough", "one/deep/f", "two/deep/g");
    assert_eq!(refused.unwrap_err().errno(), Errno::EXDEV);
    rename("rename-exdev=rel-symlink", "one/deep/f", "two/deep/g").unwrap();
    let want = "../../.mergerfs_rename_exdev/one/deep/f\n";
    assert_eq!(read("b/two/deep/g"), want);
    assert_eq!(
        scratch.sh("cat a/.mergerfs_rename_exdev/one/deep/f"),
        "text"
    );
    assert_eq!(scratch.on(&["a"], "one/deep/f"), []);
    rename("rename-exdev=abs-symlink", "one/shut", "two/shut").unwrap();
    assert_eq!(read("b/two/shut"), "/mnt/.mergerfs_rename_exdev/one/shut\n");
    assert_eq!(scratch.on(&["a"], ".mergerfs_rename_exdev/one/shut/f"), [0]);
    // Onto what there is a link cannot be put at one moment.
    scratch.write("b/two/there", "");
    let refused = rename("rename-exdev=abs-symlink", "one/dir", "two/there");
    assert!(refused.is_err());
    assert_eq!(scratch.on(&["a", "b"], "one/dir"), [0]);
}

#[test]
fn what_was_renamed_earlier_stays() {
    let scratch = Scratch::new();
    scratch.sh("mkdir -p a/tmp a/other b/done1 b/done2");
    let options = ["category.create=epff", "rename-exdev=rel-symlink"];
    let union = scratch.open(&["a", "b"], &options);
    let rename = |from: &str, to: &str| {
        let (from, to) = (at(&*union, from), at(&*union, to));
        union.rename(&me(), from, to, RenameFlags::default())
    };
    let long = "l".repeat(250);
    for name in ["job", &long] {
        for number in ["1", "2"] {
            scratch.write(&format!("a/tmp/{name}"), number);
            scratch.sh(&format!("mkdir a/tmp/dir; echo {number} > a/tmp/dir/f"));
            for (from, to) in [(name, name), ("dir", &format!("{}dir", &name[..2]))] {
                rename(&format!("tmp/{from}"), &format!("done{number}/{to}")).unwrap();
            }
        }
        // As they are seen in the union.
        scratch.sh("rm -rf all; mkdir all; cp -a a/. b/. all");
        let short = &name[..2];
        let files = format!("cat all/done1/{name} all/done2/{name}");
        assert_eq!(scratch.sh(&files), "12");
        let files = format!("cat all/done1/{short}dir/f all/done2/{short}dir/f");
        assert_eq!(scratch.sh(&files), "1\n2\n");
    }
    // Where others could take it away, nothing is put.
    for mode in ["0777", "1777"] {
        scratch.write("a/other/f", "text");
        scratch.sh("chmod 755 a/other");
        let place = "a/.mergerfs_rename_exdev/other";
        scratch.sh(&format!("rm -rf {place}; mkdir -m {mode} {place}"));
        let refused = rename("other/f", "done1/f").unwrap_err();
        assert_eq!(refused.errno(), Errno::EXDEV);
        assert_eq!(scratch.on(&["a", "b"], "other/f"), [0]);
        assert_eq!(scratch.on(&["a", "b"], "done1/f"), []);
    }
}

#[test]
fn a_file_with_several_names_is_copied_before_it_is_written() {
    let scratch = Scratch::new();
    scratch.write("a/d/f", "text");
    scratch.sh("ln a/d/f a/d/g; chmod 640 a/d/f; touch -d @7 a/d/f");
    let union = scratch.open(&["a", "b"], &["link_cow"]);
    let open = |flags| {
        let node = walk(&*union, "d/g").unwrap().node;
        union.open(&me(), node, flags).map(drop)
    };
    open(OpenFlags::READ).unwrap();
    assert_eq!(scratch.sh("stat -c %h a/d/g"), "2\n");
    // To be looked up again.
    let first = open(OpenFlags::WRITE).unwrap_err();
    assert_eq!(first.errno(), Errno::ESTALE);
    open(OpenFlags::WRITE).unwrap();
    assert_eq!(
        scratch.sh("stat -c '%h %a %Y' a/d/f a/d/g"),
        "1 640 7\n1 640 7\n"
    );
    assert_eq!(scratch.sh("cat a/d/g; ls -A a/d"), "textf\ng\n");
}

#[test]
fn options_are_changed_for_all_processes() {
    let scratch = Scratch::new();
    scratch.sh("mkdir a b");
    let mount = scratch
        .prepare(&["a", "b=NC"], &["category.create=ff"])
        .unwrap();
    let [one, other] = [(); 2].map(|()| scratch.open_again(&mount));
    let control = |union: &dyn FileSystem| walk(union, ".mergerfs").unwrap().node;
    let get = |name: &str| {
        let name = format!("user.mergerfs.{name}");
        let value = other.get_xattr(&me(), control(&*other), name.as_bytes());
        value.map(|value| String::from_utf8(value).unwrap())
    };
    let set = |name: &str, value: &str| {
        let name = format!("user.mergerfs.{name}");
        one.set_xattr(&me(), control(&*one), name.as_bytes(), value.as_bytes(), 0)
    };
    let base = scratch.0.display();
    assert_eq!(get("branches").unwrap(), format!("{base}/a=RW:{base}/b=NC"));
    assert_eq!(get("category.create").unwrap(), "ff");
    assert_eq!(get("moveonenospc").unwrap(), "false");
    set("category.create", "erofs").unwrap();
    set("minfreespace", "4K").unwrap();
    for (set_as, told_as) in [("link_cow", "link-cow"), ("link-cow", "link_cow")] {
        set(set_as, "true").unwrap();
        assert_eq!(get(told_as).unwrap(), "true");
        set(told_as, "false").unwrap();
        assert_eq!(get(set_as).unwrap(), "false");
    }
    set("func.getattr", "newest").unwrap();
    assert_eq!(get("category.create").unwrap(), "erofs");
    assert_eq!(get("minfreespace").unwrap(), "4096");
    assert_eq!(get("category.search").unwrap(), "ff,newest");
    let made = other.mkdir(&me(), other.root(), b"d", 0o755);
    assert_eq!(made.unwrap_err().errno(), Errno::EROFS);
    // One that comes later has them, too.
    let third = scratch.open_again(&mount);
    let made = third.mkdir(&me(), third.root(), b"d", 0o755);
    assert_eq!(made.unwrap_err().errno(), Errno::EROFS);
    for (name, value, errno) in [
        ("category.create", "no", Errno::EINVAL),
        ("version", "1", Errno::EINVAL),
        ("nothing", "1", Errno::ENODATA),
        ("branches", "+>/nothing/there", Errno::ENOENT),
    ] {
        assert_eq!(set(name, value).unwrap_err().errno(), errno, "{name}");
    }
    set("cmd.gc", "").unwrap();
    let names = other.list_xattr(&me(), control(&*other)).unwrap();
    let names = String::from_utf8(names).unwrap();
    assert!(names.contains("user.mergerfs.func.getattr\0"), "{names}");
    // It is not listed, and nothing else can have its name.
    let mut listed = Vec::new();
    let root = one.root();
    one.read_directory(&me(), root, 0, &mut |entry| {
        listed.push(entry.name.to_vec());
        true
    })
    .unwrap();
    assert!(listed.is_empty());
    set("category.create", "ff").unwrap();
    let made = one.mkdir(&me(), root, b".mergerfs", 0o755);
    assert_eq!(made.unwrap_err().errno(), Errno::EEXIST);
}

#[test]
fn a_hard_link_lies_on_its_files_branch_by_every_policy() {
    for (policies, made) in [
        (
            &[
                "all", "ff", "lfs", "lup", "lus", "mfs", "newest", "pfrd", "rand", "sts",
            ][..],
            true,
        ),
        (
            &[
                "epall", "epff", "eplfs", "eplus", "epmfs", "eppfrd", "eprand", "epsts", "msplfs",
                "msplus", "mspmfs", "msppfrd",
            ],
            false,
        ),
    ] {
        for policy in policies {
            let scratch = Scratch::new();
            scratch.write("b/d/f", "text");
            scratch.sh("mkdir -p a/e; chmod 751 a/e");
            let option = format!("category.create={policy}");
            let union = scratch.open(&["a", "b"], &[&option]);
            let file = walk(&*union, "d/f").unwrap();
            let (dir, name) = at(&*union, "e/g");
            let linked = union.link(&me(), file.node, dir, name);
            if !made {
                assert_eq!(linked.unwrap_err().errno(), Errno::EXDEV, "{policy}");
                continue;
            }
            let linked = linked.unwrap().attributes;
            assert_eq!((linked.node, linked.links), (file.node, 2), "{policy}");
            let found = walk(&*union, "e/g").unwrap();
            assert_eq!((found.inode, found.links), (file.inode, 2), "{policy}");
            assert_eq!(scratch.on(&["a", "b"], "e/g"), [1], "{policy}");
            assert_eq!(scratch.sh("stat -c %a b/e"), "751\n", "{policy}");
        }
    }
}

/// What was found by one name, and is known by that alone, is opened by another (`O_CREAT`), which
/// others have given it meanwhile; and keeps to that when the first goes.
#[test]
fn a_file_that_gets_a_second_name_is_one_node() {
    let scratch = Scratch::new();
    scratch.write("a/f", "text");
    scratch.write("b/h", "text");
    let union = scratch.open(&["a", "b"], &["category.create=ff"]);
    let root = union.root();
    let reached = union.reach(&me(), root, b"f").map(|found| found.unwrap());
    let by_name = reached.map(|found| found.entry.unwrap().attributes.node);
    scratch.sh("ln a/f a/g");
    let (entry, opened) = union
        .create(&me(), root, b"g", OpenFlags::READ_WRITE, 0o644)
        .unwrap();
    let node = entry.attributes.node;
    assert_eq!(entry.attributes.links, 2);
    assert!(by_name.is_none_or(|by_name| by_name == node));
    scratch.sh("rm a/f");
    let cut = culvert::SetAttributes {
        size: Some(2),
        ..culvert::SetAttributes::default()
    };
    let changed = union.set_attributes(&me(), node, &cut).unwrap();
    assert_eq!((changed.links, changed.size), (1, 2));
    assert_eq!(union.path_of(node).unwrap(), b"g");
    assert_eq!(scratch.sh("cat a/g"), "te");
    drop(opened);
    // The name is another's by now: never the other file.
    let seen = union.lookup(&me(), root, b"h").unwrap().attributes.node;
    scratch.sh("mv b/h b/away; echo other > b/h");
    match union.set_attributes(&me(), seen, &cut) {
        Ok(done) => assert_eq!((done.size, scratch.sh("cat b/away")), (2, "te".into())),
        Err(error) => assert_eq!(error.errno(), Errno::ESTALE),
    }
    assert_eq!(scratch.sh("cat b/h"), "other\n");
}

/// The same while others give names and take them.
#[test]
fn names_that_come_and_go_lead_to_one_file_or_none() {
    let scratch = Scratch::new();
    scratch.write("a/f", "text");
    let union = scratch.open(&["a", "b"], &["category.create=ff"]);
    let root = union.root();
    let place = scratch.0.join("a");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..400 {
                let _ = std::fs::hard_link(place.join("f"), place.join("g"));
                let _ = std::fs::remove_file(place.join("f"));
                let _ = std::fs::hard_link(place.join("g"), place.join("f"));
                let _ = std::fs::remove_file(place.join("g"));
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        for (one, other) in [(b"f", b"g"), (b"g", b"f")] {
            let (union, done) = (&union, &done);
            scope.spawn(move || {
                let gone = |error: culvert::Error| {
                    let errno = error.errno();
                    assert!(matches!(errno, Errno::ENOENT | Errno::ESTALE), "{error}");
                };
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let flags = OpenFlags::READ;
                    match union.lookup(&me(), root, one) {
                        Ok(found) => {
                            let node = found.attributes.node;
                            assert_eq!(
                                (found.attributes.size, found.attributes.kind),
                                (4, FileKind::Regular)
                            );
                            let _ = union.open(&me(), node, flags).map_err(gone);
                            union.forget(node, 1);
                        }
                        Err(error) => gone(error),
                    }
                    if let Some(Ok(found)) = union.reach(&me(), root, other)
                        && let Some(entry) = found.entry
                    {
                        let node = entry.attributes.node;
                        let seen = union.attributes(&me(), node);
                        assert!(seen.as_ref().is_ok_and(|seen| seen.size == 4) || seen.is_err());
                        let _ = seen.map_err(gone);
                        union.forget(node, 1);
                    }
                }
            });
        }
    });
}

#[test]
fn nothing_is_made_on_a_branch_that_was_removed() {
    let scratch = Scratch::new();
    scratch.write("a/d/f", "text");
    scratch.write("b/d/g", "text");
    let mount = scratch.prepare(&["a", "b"], &["category.create=ff"]);
    let mount = mount.unwrap();
    let union = scratch.open_again(&mount);
    let dir = walk(&*union, "d").unwrap().node;
    scratch.sh("rm -r a");
    let flags = OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE);
    union.create(&me(), dir, b"new", flags, 0o644).unwrap();
    union.mkdir(&me(), union.root(), b"made", 0o755).unwrap();
    union.symlink(&me(), dir, b"link", b"to").unwrap();
    assert_eq!(scratch.on(&["b"], "d/new"), [0]);
    assert_eq!(walk(&*union, "d/f").unwrap_err().errno(), Errno::ENOENT);
    assert!(union.statfs().unwrap().blocks > 0);
    // A process that opens the union now has the other branch, and so has one that finds another
    // directory in its place.
    for more in ["true", "mkdir -p a/d; touch a/d/no"] {
        scratch.sh(more);
        let other = scratch.open_again(&mount);
        assert_eq!(walk(&*other, "d/new").unwrap().size, 0);
        assert_eq!(walk(&*other, "d/no").unwrap_err().errno(), Errno::ENOENT);
    }
}
