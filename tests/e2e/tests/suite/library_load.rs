//! The examples in C under load and by the conformance kit, in each place where they run.

use crate::bindings_kit::outside;
use crate::fuse_sources;
use crate::kernel_mount::{culvert, possible};
use crate::libraries::{Place, ROOT};
use crate::suites::FSX;
use culvert::testing::{Tree, reading};
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

#[test]
fn a_source_for_libfuse_passes_the_kit() {
    if !possible() {
        return;
    }
    let place = fuse_sources::Place::new("kit");
    place.compile(&format!("{ROOT}/examples/c/greeting.c"), "-Wextra -Werror");
    let (target, run) = (place.base.join("target"), place.base.join("run"));
    fs::create_dir_all(&run).expect("ours");
    let (kind, text) = (place.base.join("fs.so"), target.display().to_string());
    let done = culvert(&["mount", "-t", &kind.display().to_string(), "none", &text]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let tree = Tree::new().file("greeting", "hello\n").permissions(0o444);
    let mut report = reading(&*outside(&target, &run), &tree);
    culvert(&["umount", &text]);
    // As libfuse has it: names are listed without inodes, and it has no extended attributes.
    report.failures.retain(|failure| {
        let known = [("listing-agrees", "4294967295"), ("xattrs", "EOPNOTSUPP")];
        let mut known = known.iter();
        !known.any(|(rule, part)| *rule == failure.rule && failure.what.contains(part))
    });
    report.assert_ok();
}
