//! The conformance kit of the driver API.

use crate::tools::Run;
use culvert::testing::writing;

#[test]
fn the_writing_half_conforms() {
    let run = Run::new();
    writing(&|| run.fresh(&[])).assert_ok();
}
