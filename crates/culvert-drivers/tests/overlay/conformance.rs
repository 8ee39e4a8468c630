//! The conformance kit of the driver API.

use crate::tools::{Scratch, root};
use culvert::testing::{Tree, fill, reading, writing};
use std::sync::Mutex;

#[test]
fn changes_are_as_the_contract_says() {
    for (upper, lowers, options) in [
        ("upper", &["a"][..], &[][..]),
        ("upper", &["a", "b"], &["redirect_dir=on"]),
        ("upper", &["a"], &["whiteouts=xattr", "userxattr"]),
        ("memory", &["a"], &["redirect_dir=on", "metacopy=on"]),
        ("memory", &["base.tar"], &[]),
        (
            "memory",
            &["top.tar.zst", "base.tar.gz"],
            &["redirect_dir=on"],
        ),
    ] {
        if !root() && upper != "memory" {
            continue;
        }
        let made = Mutex::new(Vec::new());
        let make = || {
            let scratch = Scratch::new();
            let make =
                "for name in base.tar base.tar.gz top.tar.zst; do tar caf $name -C in .; done";
            scratch.sh(&format!("mkdir -p in; {make}"));
            let overlay = scratch.open(upper, lowers, options);
            made.lock().unwrap().push(scratch);
            overlay
        };
        println!("{upper} {lowers:?} {options:?}");
        writing(&make).assert_ok();
    }
}

fn tree() -> Tree {
    let mut tree = Tree::new()
        .directory("a")
        .directory("a/b")
        .directory("a/many")
        .directory("a/empty")
        .file("a/b/c", "text")
        .symlink("soft", "a/b");
    for number in 0..300 {
        tree = tree.file(format!("a/many/{number}"), format!("{number}"));
    }
    tree
}

#[test]
fn a_tree_reads_as_it_was_made() {
    let tree = tree();
    for upper in ["upper", "memory"] {
        if !root() && upper != "memory" {
            continue;
        }
        let scratch = Scratch::new();
        let mount = scratch.prepare(upper, &["below"], &[]).unwrap();
        let overlay = scratch.open_again(&mount);
        fill(&*overlay, &tree).unwrap();
        reading(&*overlay, &tree).assert_ok();
        // And by a process that has not made it.
        reading(&*scratch.open_again(&mount), &tree).assert_ok();
    }
}

#[test]
fn what_layers_have_is_read_below_each_other() {
    let scratch = Scratch::new();
    scratch.write("in/base/one", "archive");
    scratch.write("in/both", "archive");
    scratch.write("in/gone", "archive");
    scratch.write("in/opaque/old", "archive");
    scratch.sh("tar cf base.tar -C in . ; rm -r in");
    scratch.write("in/base/two", "image");
    scratch.write("in/both", "image");
    scratch.write("in/.wh.gone", "");
    scratch.write("in/opaque/.wh..wh..opq", "");
    scratch.write("in/opaque/new", "image");
    scratch.sh("tar cf app.tar -C in .");
    let tree = Tree::new()
        .directory("base")
        .directory("opaque")
        .file("both", "image")
        .file("base/one", "archive")
        .file("base/two", "image")
        .file("opaque/new", "image");
    let tree = tree.content_only();
    for upper in ["", "memory"] {
        reading(&*scratch.open(upper, &["app.tar", "base.tar"], &[]), &tree).assert_ok();
    }
}
