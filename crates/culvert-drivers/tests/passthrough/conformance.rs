//! The conformance kit of the driver API.

use crate::tools::{PLACES, Scratch, root};
use culvert::testing::{Tree, reading, writing};
use std::sync::Mutex;

const MODES: [&[&str]; 3] = [&[], &["driven"], &["paths"]];

#[test]
fn a_tree_reads_as_it_is() {
    for place in PLACES {
        let scratch = Scratch::new(place);
        scratch.sh(
            "mkdir -p a/b/c empty; echo hello > a/hello; : > a/nothing; seq 1 50000 > a/b/numbers
             truncate -s 1M sparse; printf x >> sparse; ln -s ../hello a/b/soft; ln a/hello same; \
             chmod 4711 a/hello
             i=0; while [ $i -lt 300 ]; do echo $i > a/b/c/$i; i=$((i+1)); done",
        );
        let tree = Tree::of_directory(&scratch.0).unwrap();
        for options in [MODES[0], MODES[1], MODES[2], &["ro"]] {
            reading(&*scratch.open(options), &tree).assert_ok();
        }
    }
}

#[test]
fn changes_are_the_kernels() {
    for place in PLACES {
        for options in MODES {
            let made = Mutex::new(Vec::new());
            let make = || {
                let scratch = Scratch::new(place);
                let driver = scratch.open(options);
                made.lock().unwrap().push(scratch);
                driver
            };
            writing(&make).assert_ok();
        }
    }
}

/// The same as nobody: this test program once more, under another user.
#[test]
fn nobody_finds_the_same() {
    if !root() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    // Where nobody may start it.
    let scratch = Scratch::tmpfs();
    let copy = scratch.0.join("tests");
    std::fs::copy(own, &copy).unwrap();
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command
        .arg(&copy)
        .args(["--skip", "nobody", "--skip", "as_root"]);
    let out = command.current_dir("/").output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}");
    assert!(!text.contains(" 0 passed"), "{text}");
}
