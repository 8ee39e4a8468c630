//! The conformance kit of the driver API.

use crate::tools::Scratch;
use culvert::testing::{Tree, fill, reading, sharing, writing};
use culvert_sys::process::unshare;
use culvert_sys::raw::general::CLONE_FS;
use std::sync::Mutex;

fn changes(backends: usize, options: &[&str]) {
    let made = Mutex::new(Vec::new());
    let make = || {
        let scratch = Scratch::new(backends);
        let driver = scratch.open(options);
        made.lock().unwrap().push(scratch);
        driver
    };
    // Modes are what the kit says: in a thread with a umask of its own.
    let checked = || {
        unshare(CLONE_FS).unwrap();
        rustix::process::umask(rustix::fs::Mode::empty());
        writing(&make).assert_ok();
    };
    std::thread::scope(|scope| scope.spawn(checked).join()).unwrap();
}

#[test]
fn changes_keep_the_contract() {
    changes(1, &[]);
}

#[test]
fn changes_keep_the_contract_with_lazy_records() {
    changes(1, &["index=lazy"]);
}

#[test]
fn changes_keep_the_contract_on_three_back_ends() {
    changes(3, &[]);
}

#[test]
fn changes_keep_the_contract_of_plain_files() {
    changes(1, &["workload=file_per_proc"]);
}

#[test]
fn changes_keep_the_contract_with_sizes_at_sync() {
    changes(1, &["consistency=close"]);
}

#[test]
fn processes_see_each_others_changes_in_time() {
    for (option, late) in [("consistency=strict", false), ("consistency=close", true)] {
        let scratch = Scratch::new(2);
        let mount = scratch.prepared(&[option]);
        let pair = [0, 1].map(|_| crate::tools::open(&mount));
        assert_eq!(pair[0].capabilities().size_at_sync, late);
        sharing([&*pair[0], &*pair[1]]).assert_ok();
    }
}

#[test]
fn a_tree_reads_as_it_is() {
    for count in [1, 3] {
        let scratch = Scratch::new(count);
        let mut tree = Tree::new()
            .directory("a")
            .directory("a/b")
            .file("empty", "");
        for number in 0..100 {
            tree = tree.file(format!("a/b/{number}"), "x".repeat(number * 50));
        }
        tree = tree.symlink("a/soft", "../empty");
        let driver = scratch.open(&[]);
        fill(&*driver, &tree).unwrap();
        reading(&*driver, &tree).assert_ok();
        reading(&*scratch.open(&["ro"]), &tree).assert_ok();
    }
}
