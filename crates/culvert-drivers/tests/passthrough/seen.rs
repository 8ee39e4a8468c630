//! Nodes without a descriptor: what is done by a name, and what becomes of a node whose name is
//! another's.

use crate::tools::{PLACES, Scratch, caller, mount};
use culvert::{
    Access, Attributes, Errno, File, FileSystem, Node, OpenFlags, Opened, SetAttributes, Timespec,
};
use culvert_drivers::{Environment, Keeper};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn errno<T>(result: culvert::Result<T>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

/// The driver as layers have it: it drives files whose descriptors it lends.
fn each(test: fn(&Scratch, &dyn FileSystem)) {
    each_by(Keeper::default(), test);
}

/// The same, whose descriptors are in `keeper`'s keeping.
fn each_by(keeper: Keeper, test: fn(&Scratch, &dyn FileSystem)) {
    for place in PLACES {
        let scratch = &Scratch::new(place);
        scratch.sh("mkdir d; echo first > d/f; echo other > d/g");
        let environment = Environment {
            keeper,
            ..Environment::default()
        };
        let mount = mount(&scratch.0, &[]);
        let mut prepared = culvert_drivers::prepare(&mount, &environment, &mut |_| {}).unwrap();
        prepared.mount.options.push(("backed".into(), Vec::new()));
        let fs = culvert_drivers::open(&prepared.mount, &environment).unwrap();
        test(scratch, &*fs);
    }
}

/// What `path` leads to, with one reference, as a front end has it.
fn find(fs: &dyn FileSystem, path: &str) -> Attributes {
    let reached = fs.reach(&caller(), fs.root(), path.as_bytes());
    let reached = reached.expect("no link is on the way").unwrap();
    fs.forget(reached.parent, 1);
    reached.entry.expect("it is there").attributes
}

fn opened(fs: &dyn FileSystem, node: Node) -> culvert::Result<Box<dyn File>> {
    opened_by(fs, node, OpenFlags::WRITE)
}

fn opened_by(fs: &dyn FileSystem, node: Node, how: OpenFlags) -> culvert::Result<Box<dyn File>> {
    match fs.open(&caller(), node, how.with(OpenFlags::LENDS))? {
        Opened::Driven(file) => Ok(file),
        Opened::Backed(_) => unreachable!("it is driven"),
    }
}

fn mode(permissions: u32) -> SetAttributes {
    SetAttributes {
        permissions: Some(permissions),
        ..SetAttributes::default()
    }
}

#[test]
fn what_has_no_descriptor_is_used_by_its_name() {
    each(|scratch, fs| {
        let node = find(fs, "d/f").node;
        assert_eq!(find(fs, "d/f").node, node);
        fs.forget(node, 1);
        fs.access(&caller(), node, Access::READ).unwrap();
        let changed = fs.set_attributes(&caller(), node, &mode(0o640)).unwrap();
        assert_eq!(changed.permissions, 0o640);
        let Attributes { permissions, .. } = fs.attributes(&caller(), node).unwrap();
        assert_eq!(permissions, 0o640);
        fs.forget(node, 1);
        assert_eq!(scratch.sh("stat -c %a d/f").trim(), "640");
    });
}

#[test]
fn a_name_that_is_anothers_is_looked_for_again() {
    each(|scratch, fs| {
        let node = find(fs, "d/f").node;
        scratch.sh("mv d/g d/f");
        assert_eq!(errno(fs.attributes(&caller(), node)), Some(Errno::ESTALE));
        assert_eq!(errno(opened(fs, node)), Some(Errno::ESTALE));
        for how in [OpenFlags::WRITE, OpenFlags::READ] {
            let emptied = opened_by(fs, node, how.with(OpenFlags::TRUNCATE));
            assert_eq!(errno(emptied), Some(Errno::ESTALE));
            assert_eq!(scratch.sh("cat d/f"), "other\n");
        }
        scratch.sh("rm d/f");
        let access = fs.access(&caller(), node, Access::READ);
        assert_eq!(errno(access), Some(Errno::ESTALE));
        let changed = fs.set_attributes(&caller(), node, &mode(0o600));
        assert_eq!(errno(changed), Some(Errno::ESTALE));
    });
}

#[test]
fn what_is_opened_by_its_name_is_emptied_by_that() {
    each(|scratch, fs| {
        for how in [OpenFlags::WRITE, OpenFlags::READ_WRITE, OpenFlags::READ] {
            scratch.sh("echo full > d/f");
            let node = find(fs, "d/f").node;
            let file = opened_by(fs, node, how.with(OpenFlags::TRUNCATE)).unwrap();
            assert_eq!(file.attributes(&caller()).unwrap().size, 0);
            fs.forget(node, 1);
        }
    });
}

/// What took its place is changed itself, for no link is followed; the file behind it was meant.
#[test]
fn a_change_is_made_again_where_a_link_has_the_name() {
    each(|scratch, fs| {
        let node = find(fs, "d/f").node;
        scratch.sh("mv d/f d/h; ln -s g d/f");
        let times = SetAttributes {
            mtime: Some(Timespec {
                seconds: 1,
                nanoseconds: 0,
            }),
            ..SetAttributes::default()
        };
        let changed = fs.set_attributes(&caller(), node, &times);
        assert_eq!(errno(changed), Some(Errno::ESTALE));
    });
}

/// Its memory is its parent's, but its table of descriptors is a copy.
#[test]
fn a_child_of_vfork_has_the_file_that_its_parent_has_open() {
    static TABLE: AtomicUsize = AtomicUsize::new(0);
    let keeper = Keeper {
        table: Some(|| TABLE.load(Relaxed)),
        ..Keeper::default()
    };
    each_by(keeper, |scratch, fs| {
        let node = find(fs, "d/f").node;
        let file = opened(fs, node).unwrap();
        fs.forget(node, 1);
        // No search finds it.
        scratch.sh("rm d/f");
        TABLE.store(1, Relaxed);
        let known = fs.set_attributes(&caller(), node, &mode(0o606));
        TABLE.store(0, Relaxed);
        assert_eq!(known.unwrap().permissions, 0o606);
        drop(file);
    });
}

/// Whoever else has found it by another name means the same file.
#[test]
fn a_file_with_two_names_is_one_node_and_used_by_neither() {
    each(|scratch, fs| {
        scratch.sh("ln d/f d/h");
        let (node, second) = (find(fs, "d/f").node, find(fs, "d/h").node);
        assert_eq!(node, second);
        scratch.sh("mv d/g d/h");
        fs.set_attributes(&caller(), node, &mode(0o604)).unwrap();
        assert_eq!(scratch.sh("stat -c %a d/f").trim(), "604");
    });
}

#[test]
fn an_open_file_keeps_its_node_without_a_name() {
    each(|scratch, fs| {
        let node = find(fs, "d/f").node;
        let file = opened(fs, node).unwrap();
        fs.forget(node, 1);
        scratch.sh("mv d/f d/moved");
        assert_eq!(find(fs, "d/moved").node, node);
        fs.set_attributes(&caller(), node, &mode(0o606)).unwrap();
        assert_eq!(scratch.sh("stat -c %a d/moved").trim(), "606");
        scratch.sh("rm d/moved; echo new > d/f");
        assert_eq!(fs.attributes(&caller(), node).unwrap().links, 0);
        assert_ne!(find(fs, "d/f").node, node);
        drop(file);
    });
}

/// Of two open files the first may be closed first, whatever became of the name.
#[test]
fn the_second_of_two_open_files_keeps_the_node() {
    each(|scratch, fs| {
        let node = find(fs, "d/f").node;
        let first = opened(fs, node).unwrap();
        let second = opened(fs, node).unwrap();
        scratch.sh("mv d/f d/moved");
        drop(first);
        fs.forget(node, 1);
        fs.set_attributes(&caller(), node, &mode(0o606)).unwrap();
        assert_eq!(scratch.sh("stat -c %a d/moved").trim(), "606");
        drop(second);
        assert_eq!(find(fs, "d/moved").node, node);
    });
}

#[test]
fn a_directory_that_others_move_is_not_found_by_its_old_name() {
    each(|scratch, fs| {
        let before = find(fs, "d/f").node;
        fs.forget(before, 1);
        scratch.sh("mv d e; mkdir d; echo third > d/f");
        assert_ne!(find(fs, "d/f").node, before);
        assert_eq!(find(fs, "e/f").node, before);
        scratch.sh("rm -r d; ln -s e d");
        let reached = fs.reach(&caller(), fs.root(), b"d/f");
        assert!(reached.is_none(), "a link is on the way");
    });
}
