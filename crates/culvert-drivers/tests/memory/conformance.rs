//! The conformance kit of the driver API.

use crate::tools::Run;
use culvert::testing::writing;
use std::cell::RefCell;

#[test]
fn the_writing_half_conforms_and_leaves_a_consistent_file_system() {
    let run = Run::new();
    let mounts = RefCell::new(Vec::new());
    writing(&|| {
        let mount = run.prepare("memory", &[]).unwrap();
        let made = run.open(&mount).unwrap();
        mounts.borrow_mut().push(mount);
        made
    })
    .assert_ok();
    for mount in mounts.into_inner() {
        run.assert_consistent(&mount);
    }
}
