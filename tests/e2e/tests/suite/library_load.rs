//! The examples in C under load, in each place where they run.

use crate::libraries::{Place, ROOT};
use crate::suites::FSX;
use culvert_e2e::suite;
use std::fs;

/// fsx on a file of the library, in the place that `options` say.
#[track_caller]
fn fsx(place: &Place, options: &str) {
    fs::write(place.base.join("fsx.conf"), FSX).expect("ours");
    let (fsx, base) = (suite("fsx"), place.base.display());
    let script = format!(
        "mkdir {base}/said; {} -f {base}/fsx.conf -N 1500 -S 7 -P {base}/said file > \
         {base}/fsx.log 2>&1 || tail -n 30 {base}/fsx.log; rm -r {base}/said; \
         tail -n 1 {base}/fsx.log",
        fsx.display()
    );
    let done = place.run(options, &script);
    assert!(done.text().contains("A-OK"), "{options}: {}", done.report());
}

#[test]
fn fsx_on_directories_in_c_in_each_place() {
    let place = Place::new("fsx");
    place.compile(&format!("{ROOT}/examples/c/mirror.c"), "-O2");
    fsx(&place, "");
    place.compile(&format!("{ROOT}/examples/c/direct.c"), "-O2");
    for options in ["", ",calls", ",place=host", ",layer=casefold"] {
        fsx(&place, options);
    }
}
