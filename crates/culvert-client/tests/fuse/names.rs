//! Directories that others have moved or removed.

use crate::{
    caches::{WHO, made_in},
    ours::Served,
};
use culvert::{Errno, FileSystem, Node, RenameFlags, testing::Memory};

fn directory(client: &dyn FileSystem, dir: Node, name: &[u8]) -> Node {
    let made = client.mkdir(&WHO, dir, name, 0o755);
    made.expect("it can be made").attributes.node
}

#[test]
fn a_directory_goes_not_below_itself_also_where_others_have_moved_it() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let root = one.root();
    let above = directory(&one, root, b"above");
    let moved = directory(&one, root, b"moved");
    let plain = RenameFlags::default();
    // The other process moves one into a directory that the first has never heard of.
    let found = other.lookup(&WHO, root, b"above").expect("it is there");
    let between = directory(&other, found.attributes.node, b"between");
    let to = (between, &b"here"[..]);
    let done = other.rename(&WHO, (root, b"moved"), to, plain);
    done.expect("it can be moved");
    assert_eq!(
        one.path_of(moved).expect("it has one"),
        b"above/between/here"
    );
    served.line.counted();
    let errno = |done: culvert::Result<()>| done.map_err(|error| error.errno());
    let done = one.rename(&WHO, (root, b"above"), (moved, b"new"), plain);
    assert_eq!(errno(done), Err(Errno::EINVAL));
    made_in(&one, moved, b"file");
    let done = one.rename(&WHO, (moved, b"file"), (root, b"above"), plain);
    assert_eq!(errno(done), Err(Errno::ENOTEMPTY));
    let counted = served.line.counted();
    assert!(!counted.contains_key("Rename") && !counted.contains_key("Rename2"));
    // Back again, it may be.
    let done = other.rename(&WHO, to, (root, b"moved"), plain);
    done.expect("it can be moved");
    assert_eq!(one.path_of(moved).expect("it has one"), b"moved");
    let done = one.rename(&WHO, (root, b"above"), (moved, b"new"), plain);
    assert_eq!(errno(done), Ok(()));
    assert_eq!(one.path_of(above).expect("it has one"), b"moved/new");
}

#[test]
fn a_directory_that_another_process_has_removed_has_no_path() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let root = one.root();
    let node = directory(&one, root, b"gone");
    assert_eq!(one.path_of(node).expect("it has one"), b"gone");
    other.rmdir(&WHO, root, b"gone").expect("it can be removed");
    let path = one.path_of(node).map_err(|error| error.errno());
    assert_eq!(path, Err(Errno::ENOENT));
    // One of that name, or with its number, is another.
    let next = directory(&other, root, b"gone");
    assert_eq!(other.path_of(next).expect("it has one"), b"gone");
    let inner = directory(&other, next, b"inner");
    assert_eq!(other.path_of(inner).expect("it has one"), b"gone/inner");
}

#[test]
fn a_directory_that_another_was_removed_in_place_of_has_its_path() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let root = one.root();
    let node = directory(&one, root, b"name");
    other.lookup(&WHO, root, b"name").expect("is there");
    let moved = one.rename(&WHO, (root, b"name"), (root, b"moved"), Default::default());
    moved.expect("it can be moved");
    directory(&one, root, b"name");
    // It has looked before, and removes the new one.
    other.rmdir(&WHO, root, b"name").expect("it can be removed");
    assert_eq!(one.path_of(node).expect("it has one"), b"moved");
}

#[test]
fn a_directory_that_another_process_has_put_one_in_place_of_has_no_path() {
    let served = Served::new(Box::new(Memory::new()));
    let (one, other) = (served.client(), served.client());
    let root = one.root();
    let moved = directory(&one, root, b"moved");
    let gone = directory(&one, root, b"gone");
    let done = other.rename(&WHO, (root, b"moved"), (root, b"gone"), Default::default());
    done.expect("it can be moved");
    let path = one.path_of(gone).map_err(|error| error.errno());
    assert_eq!(path, Err(Errno::ENOENT));
    assert_eq!(one.path_of(moved).expect("it has one"), b"gone");
}
