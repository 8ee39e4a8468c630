//! The conformance kit of the driver API.

use crate::tools::{Scratch, root};
use culvert::testing::{Tree, fill, reading, writing};
use std::sync::Mutex;

/// Options that leave what the kit looks at as it is.
const HARMLESS: &[&[&str]] = &[
    &[],
    &["perms=a+", "hide-hard-links"],
    &["ctime-from-mtime"],
    &["exclude=*.hidden", "path=/never", "perms=0"],
    &["exclude=/a/hidden/**", "create-as-user"],
    &["mirror=77:78"],
    &["chmod-filter=a+"],
    &["chown-normal", "chgrp-normal", "chmod-normal", "xattr-rw"],
    &[
        "resolved-symlink-deletion=deny",
        "multithreaded",
        "block-devices-as-files",
    ],
    &["read-rate=1G", "write-rate=1G"],
];

/// Whether the kit sees what an option does.
fn shows(options: &[&str]) -> bool {
    let shown = ["hide-hard-links", "ctime-from-mtime"];
    options.iter().any(|option| shown.contains(option))
}

/// Whether what is shown decides who may do what.
fn judges(options: &[&str]) -> bool {
    options.iter().any(|option| {
        ["perms", "mirror"]
            .iter()
            .any(|one| option.starts_with(one))
    })
}

#[test]
fn changes_are_as_the_contract_says() {
    for driver in ["bind", "passthrough", "memory"] {
        for alone in [false, true] {
            for options in HARMLESS {
                if !root() && driver != "memory" || shows(options) {
                    continue;
                }
                // A run has one user, by whose rights a directory is used where what is shown
                // decides.
                if driver != "memory" && !alone && judges(options) {
                    continue;
                }
                let made = Mutex::new(Vec::new());
                let make = || {
                    let scratch = Scratch::new();
                    let bound = scratch.open(driver, options, alone).unwrap();
                    made.lock().unwrap().push(scratch);
                    bound
                };
                println!("{driver} {options:?} {alone}");
                writing(&make).assert_ok();
            }
        }
    }
}

#[test]
fn a_tree_reads_as_it_was_made() {
    let mut tree = Tree::new()
        .directory("a")
        .directory("a/b")
        .directory("a/many")
        .file("a/b/c", "text")
        .symlink("soft", "a/b");
    for number in 0..100 {
        tree = tree.file(format!("a/many/{number}"), format!("{number}"));
    }
    for driver in ["bind", "memory"] {
        for options in HARMLESS.iter().filter(|options| !shows(options)) {
            if !root() && driver != "memory" {
                continue;
            }
            let scratch = Scratch::new();
            let bound = scratch.open(driver, options, false).unwrap();
            fill(&*bound, &tree).unwrap();
            println!("{driver} {options:?}");
            reading(&*bound, &tree).assert_ok();
        }
    }
}
