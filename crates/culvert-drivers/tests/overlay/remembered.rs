//! Directories that were found before are found faster, and never where they are not.

use crate::ours::Ours;
use crate::steps::Step;
use crate::tools::{Scratch, root};
use culvert::{Errno, FileSystem, Node, OpenFlags, OpenedDirectory, testing::caller};

/// The size of the file `path`, whose nodes are forgotten as soon as the next name is found: one
/// process after the other asks so.
fn size(fs: &dyn FileSystem, path: &str) -> Result<u64, Errno> {
    let mut here: Node = fs.root();
    let mut size = 0;
    for name in path.split('/') {
        let found = fs.lookup(&caller(), here, name.as_bytes());
        if here != fs.root() {
            fs.forget(here, 1);
        }
        let found = found.map_err(|error| error.errno())?.attributes;
        (here, size) = (found.node, found.size);
    }
    fs.forget(here, 1);
    Ok(size)
}

#[test]
fn what_other_processes_change_is_seen() {
    for upper in ["upper", "memory"] {
        if !root() && upper != "memory" {
            continue;
        }
        let scratch = Scratch::new();
        scratch.write("l1/a/b/f", "1");
        scratch.write("l2/a/b/f", "hidden");
        scratch.write("l2/a/b/g", "22");
        let mount = scratch.prepare(upper, &["l1", "l2"], &["redirect_dir=on"]);
        let mount = mount.unwrap();
        let (one, other) = (scratch.open_again(&mount), scratch.open_again(&mount));
        let all = |path: &str| {
            let both = [size(&*one, path), size(&*other, path)];
            assert_eq!(both[0], both[1], "{path}");
            assert_eq!(size(&*one, path), both[0], "{path} again");
            both[0]
        };
        let step = |step: Step| Ours(&*other).step(&step).unwrap();
        assert_eq!((all("a/b/f"), all("a/b/g")), (Ok(1), Ok(2)));
        step(Step::Append("a/b/g".into(), "2".into()));
        assert_eq!((all("a/b/f"), all("a/b/g")), (Ok(1), Ok(3)));
        step(Step::Rename("a/b".into(), "a/c".into()));
        assert_eq!((all("a/b/g"), all("a/c/g")), (Err(Errno::ENOENT), Ok(3)));
        step(Step::Mkdir("a/b".into()));
        assert_eq!((all("a/b/f"), all("a/c/f")), (Err(Errno::ENOENT), Ok(1)));
        step(Step::Write("a/b/g".into(), "4444".into()));
        assert_eq!((all("a/b/g"), all("a/c/g")), (Ok(4), Ok(3)));
        step(Step::Unlink("a/b/g".into()));
        step(Step::Rmdir("a/b".into()));
        assert_eq!(all("a/b/g"), Err(Errno::ENOENT));
        step(Step::Rename("a/c".into(), "a/b".into()));
        assert_eq!((all("a/b/g"), all("a/c/g")), (Ok(3), Err(Errno::ENOENT)));
    }
}

/// By whoever changes layers that should stay as they are: a directory's name at least counts.
#[test]
fn a_directory_that_others_replace_below_is_seen() {
    if !root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("l1/a/b/f", "1");
    scratch.write("l2/a/b/g", "22");
    let overlay = scratch.open("upper", &["l1", "l2"], &[]);
    let sizes = || (size(&*overlay, "a/b/f"), size(&*overlay, "a/b/g"));
    for _ in 0..2 {
        assert_eq!(sizes(), (Ok(1), Ok(2)));
    }
    scratch.sh("mv l1/a/b l1/a/c");
    scratch.write("l1/a/b/f", "333");
    assert_eq!(sizes(), (Ok(3), Ok(2)));
    scratch.sh("rm -r l1/a/b");
    assert_eq!(sizes(), (Err(Errno::ENOENT), Ok(2)));
    scratch.sh("mknod upper/a c 0 0");
    assert_eq!(sizes(), (Err(Errno::ENOENT), Err(Errno::ENOENT)));
    scratch.sh("rm upper/a");
    assert_eq!(sizes(), (Err(Errno::ENOENT), Ok(2)));
}

/// More than are remembered, and each of a process that asks for them in turn.
#[test]
fn many_directories_are_found() {
    let scratch = Scratch::new();
    for number in 0..200 {
        scratch.write(&format!("l1/{number}/d/f"), &"x".repeat(number));
    }
    let overlay = scratch.open("", &["l1", "l2"], &[]);
    for _ in 0..3 {
        for number in 0..200u64 {
            assert_eq!(size(&*overlay, &format!("{number}/d/f")), Ok(number));
        }
    }
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(descriptors < 200, "{descriptors}");
}

/// As by the kernel's overlayfs: not even itself and what is above, and also behind what was read.
#[test]
fn an_open_directory_that_was_removed_has_no_listing() {
    let scratch = Scratch::new();
    scratch.write("l1/d/f", "1");
    let overlay = scratch.open("memory", &["l1"], &[]);
    let me = caller();
    let found = overlay.lookup(&me, overlay.root(), b"d").unwrap();
    let dir = found.attributes.node;
    let opened = overlay.open_directory(&me, dir, OpenFlags::READ);
    let Ok(OpenedDirectory::Driven(opened)) = opened else {
        panic!("it is the driver's to list");
    };
    let list = |from: u64| {
        let mut names = Vec::new();
        let read = opened.read(from, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            true
        });
        read.map(|()| names).map_err(|error| error.errno())
    };
    assert_eq!(list(0), Ok(vec!["f".to_owned()]));
    overlay.unlink(&me, dir, b"f").unwrap();
    assert_eq!(list(0), Ok(vec![]));
    overlay.rmdir(&me, overlay.root(), b"d").unwrap();
    assert_eq!([list(0), list(1)], [Err(Errno::ENOENT), Err(Errno::ENOENT)]);
}
