//! The conformance kit of the driver API.

use crate::tools::{Scratch, root};
use culvert::testing::{Tree, fill, reading, writing};
use std::sync::Mutex;

const THREE: &[&str] = &["a", "b", "c"];

#[test]
fn changes_are_as_the_contract_says() {
    let archive = |scratch: &Scratch| {
        scratch.sh("mkdir -p in; tar cf base.tar -C in .");
    };
    for (branches, options) in [
        (&["a"][..], &[][..]),
        (THREE, &["category.create=ff"]),
        (THREE, &[]),
        (THREE, &["category.create=rand", "category.action=all"]),
        (THREE, &["category.create=mspmfs", "category.search=newest"]),
        (&["memory"], &[]),
        (&["memory", "base.tar"], &[]),
        (&["base.tar=RO", "memory"], &[]),
        (&["a=RO", "b=NC", "c"], &[]),
    ] {
        if !root() && branches.iter().any(|branch| branch.len() == 1) {
            continue;
        }
        let made = Mutex::new(Vec::new());
        let make = || {
            let scratch = Scratch::new();
            archive(&scratch);
            let union = scratch.open(branches, options);
            made.lock().unwrap().push(scratch);
            union
        };
        println!("{branches:?} {options:?}");
        writing(&make).assert_ok();
    }
}

/// Files and directories that the policy has strewn over three branches.
#[test]
fn a_tree_reads_as_it_was_made() {
    if !root() {
        return;
    }
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
    for policy in ["rand", "ff", "epall", "msplfs"] {
        for inodes in ["hybrid-hash", "devino-hash32", "path-hash", "passthrough"] {
            let scratch = Scratch::new();
            let create = format!("category.create={policy}");
            let inodes = format!("inodecalc={inodes}");
            let options = [&*create, &*inodes];
            let mount = scratch.prepare(THREE, &options).unwrap();
            let union = scratch.open_again(&mount);
            fill(&*union, &tree).unwrap();
            println!("{options:?}");
            reading(&*union, &tree).assert_ok();
            // And by a process that has not made it.
            reading(&*scratch.open_again(&mount), &tree).assert_ok();
        }
    }
}

#[test]
fn what_branches_have_is_read_below_each_other() {
    let scratch = Scratch::new();
    scratch.write("in/base/one", "archive");
    scratch.write("in/both", "archive");
    scratch.sh("tar cf base.tar -C in . ; rm -r in");
    scratch.write("a/both", "directory");
    scratch.write("a/base/two", "directory");
    let tree = Tree::new()
        .directory("base")
        .file("both", "directory")
        .file("base/one", "archive")
        .file("base/two", "directory");
    let tree = tree.content_only();
    reading(&*scratch.open(&["a", "base.tar"], &[]), &tree).assert_ok();
    reading(&*scratch.open(&["a=RO", "base.tar"], &[]), &tree).assert_ok();
}
