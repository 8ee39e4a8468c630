//! What text alone tells: `quick`, and the table's own tests of canonical paths.

use super::fake::Tree;
use crate::resolver::{MountTable, Place, Quick};
use alloc::{boxed::Box, string::String, vec::Vec};
use culvert::Node;

pub fn table(targets: &[&str]) -> MountTable {
    let mut table = MountTable::new();
    for (index, target) in targets.iter().enumerate() {
        let identity = Some((1, 100 + index as u64));
        let open = Box::new(|| Ok(Box::new(Tree::new("d/e/ f s/t/")) as Box<_>));
        table
            .add(target.as_bytes().to_vec(), identity, open)
            .unwrap();
    }
    table
}

fn host(path: &str) -> Option<Place> {
    Some(Place::Host(path.as_bytes().to_vec()))
}

#[test]
fn quick_sorts_out_paths_by_text() {
    use Quick::{AskBase, Untouched, Walk};
    let table = table(&["/mnt/fs", "/data/x/y", "/mnt/fs/s/t"]);
    let root = table.place(b"/mnt/fs").unwrap();
    for (base, path, want) in [
        (host("/home"), "", Untouched),
        (host("/home"), "/", Untouched),
        (host("/home"), "/mnt", Untouched),
        (host("/home"), "/mnt/", Untouched),
        (host("/home"), "/mnt/fs", Walk),
        (host("/home"), "/mnt/fs/", Walk),
        (host("/home"), "/mnt/fs/a/b", Walk),
        (host("/home"), "/mnt/fs2", Untouched),
        (host("/home"), "/mnt/fs2/a", Untouched),
        (host("/home"), "/mnt/f", Untouched),
        (host("/home"), "//mnt///fs//a", Walk),
        (host("/home"), "/./mnt/./fs", Walk),
        (host("/home"), "/mnt/.fs", Untouched),
        (host("/home"), "/usr/.a/mnt/fs", Untouched),
        (host("/home"), "/usr/../mnt/fs/a", Walk),
        (host("/home"), "/usr/lib/../mnt/fs/a", Untouched),
        (host("/home"), "/../../mnt/fs", Walk),
        (host("/home"), "/mnt/a/../fs", Walk),
        (host("/home"), "/mnt/fs/../b", Walk),
        (host("/home"), "/mnt/a/../fs/../b", Walk),
        (host("/home"), "/mnt/a/..fs", Untouched),
        (host("/home"), "/data/x/y", Walk),
        (host("/home"), "/data/x/z", Untouched),
        (host("/home"), "mnt/fs", Untouched),
        (host("/home"), "../mnt/fs", Walk),
        (host("/home"), "../mnt/fs2", Untouched),
        (host("/home"), "a/../../mnt/fs", Walk),
        (host("/"), "mnt/fs/a", Walk),
        (host("/"), "mnt", Untouched),
        (host("/"), "usr/lib", Untouched),
        (host("/mnt"), "fs", Walk),
        (host("/mnt"), "./fs/a", Walk),
        (host("/mnt"), ".//fs", Walk),
        (host("/mnt"), "fs2", Untouched),
        (host("/mnt"), "x/fs", Untouched),
        (host("/mnt"), "..", Untouched),
        (host("/mnt"), ".", Untouched),
        (host("/mnt/fs"), "a", Walk),
        (host("/mnt2"), "fs", Untouched),
        (host("/data"), "x/y/z", Walk),
        (Some(root.clone()), "a", Walk),
        (Some(root.clone()), "..", Walk),
        (Some(root), "/usr/bin", Untouched),
        (None, "a", Untouched),
        (None, "a/b", Untouched),
        (None, ".a", Untouched),
        (None, "fs", AskBase),
        (None, "fs2", Untouched),
        (None, "./fs/b", AskBase),
        (None, "x/y", AskBase),
        (None, "y", AskBase),
        (None, "x/z", Untouched),
        (None, "a/..", AskBase),
        (None, "..", AskBase),
        (None, "mnt/fs/q", AskBase),
        (None, "/mnt/fs", Walk),
        (None, "/usr", Untouched),
        (None, "/proc/self/fd/3", Walk),
        (None, "/proc/17/task/18/cwd/x", Walk),
        (None, "/proc/self/maps", Untouched),
        (None, "/proc/meminfo", Untouched),
        (None, "/dev/fd/3", Walk),
        (None, "/dev/stdin", Walk),
        (None, "/dev/null", Untouched),
    ] {
        assert_eq!(
            table.quick(base.as_ref(), path.as_bytes()),
            want,
            "{base:?} {path}"
        );
    }
}

#[test]
fn without_mounts_nothing_is_touched() {
    let table = MountTable::new();
    for path in ["/", "/a", "a", "../a", "/a//b/../c"] {
        assert_eq!(
            table.quick(host("/x").as_ref(), path.as_bytes()),
            Quick::Untouched
        );
    }
}

#[test]
fn the_deepest_mount_has_the_path() {
    let table = table(&["/m", "/m/d/e", "/mm", "/m"]);
    let deepest = |path: &'static str| {
        let (id, rest) = table.deepest(path.as_bytes())?;
        Some((id.0, core::str::from_utf8(rest).unwrap()))
    };
    assert_eq!(deepest("/m"), Some((3, "")));
    assert_eq!(deepest("/m/d/ee"), Some((3, "d/ee")));
    assert_eq!(deepest("/m/d/e"), Some((1, "")));
    assert_eq!(deepest("/m/d/e/f"), Some((1, "f")));
    assert_eq!(deepest("/mm/f"), Some((2, "f")));
    assert_eq!(deepest("/mmm"), None);
    assert_eq!(deepest("/"), None);
}

#[test]
fn targets_are_canonical() {
    for target in ["", "/", "a", "/a/", "/a//b", "/a/.", "/a/../b", "/a\0"] {
        let open = Box::new(|| Ok(Box::new(Tree::new("")) as Box<_>));
        let added = MountTable::new().add(target.as_bytes().to_vec(), None, open);
        assert!(added.is_err(), "{target}");
    }
}

#[test]
fn drivers_are_made_on_first_use() {
    let table = table(&["/m", "/n"]);
    let ids: Vec<_> = table.ids().collect();
    table.quick(None, b"/m/a");
    assert!(table.driver_if_open(ids[0]).is_none());
    table.driver(ids[0]).unwrap();
    assert!(table.driver_if_open(ids[0]).is_some());
    assert!(table.driver_if_open(ids[1]).is_none());
}

#[test]
fn places_have_paths_and_paths_places() {
    let table = table(&["/m", "/m/d/e"]);
    let show = |place: &Place| String::from_utf8(table.path_of(place).unwrap()).unwrap();
    assert_eq!(show(&table.place(b"/m").unwrap()), "/m");
    assert_eq!(show(&table.place(b"/m/d/e").unwrap()), "/m/d/e");
    assert_eq!(show(&table.place(b"/usr").unwrap()), "/usr");
    let mount = table.ids().next().unwrap();
    let node = Tree::new("d/e/ f s/t/").at("s/t");
    assert_eq!(show(&Place::Mount { mount, node }), "/m/s/t");
    assert_eq!(table.path_of_node(mount, Node(1)).unwrap(), b"/m");
}

#[test]
fn a_target_is_known_by_its_identity() {
    let table = table(&["/m", "/n"]);
    assert_eq!(table.is_target(1, 101), table.ids().nth(1));
    assert_eq!(table.is_target(1, 99), None);
    assert_eq!(table.is_target(2, 101), None);
}
