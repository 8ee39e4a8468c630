//! Which sites there are in this machine's libraries, and that none of them is of a kind that costs
//! a signal.

use culvert_intercept::analysis::{self, Analysis};
use culvert_intercept::sites::Kind;

fn analyse(path: &str) -> Option<Analysis> {
    let analysis = analysis::file(&std::fs::read(path).ok()?).unwrap();
    let counts = Kind::ALL.map(|kind| (kind, analysis.count(kind)));
    println!(
        "{path}: {} sites ({} byte pairs, {} outside of functions, {} with variable numbers): \
        {counts:?}",
        analysis.sites.len(),
        analysis.pairs,
        analysis.unknown,
        analysis.variable_numbers()
    );
    Some(analysis)
}

#[test]
fn no_site_of_the_c_library_is_hard() {
    let paths = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/ld-musl-x86_64.so.1",
    ];
    for (path, analysis) in paths.iter().filter_map(|path| Some((path, analyse(path)?))) {
        assert!(analysis.sites.len() >= 40, "{path}");
        assert_eq!(
            analysis.count(Kind::Trap) + analysis.count(Kind::Island),
            0,
            "{path}"
        );
        assert_eq!(analysis.unknown, 0, "{path}");
        let easy = analysis.count(Kind::Mov) + analysis.count(Kind::Before);
        assert!(
            easy * 100 >= analysis.sites.len() * 90,
            "{path}: most keep their system-call instruction"
        );
    }
}

#[test]
fn byte_pairs_are_not_taken_for_system_calls() {
    for path in [
        "/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/bin/python3",
    ] {
        if let Some(analysis) = analyse(path) {
            assert!(analysis.sites.len() <= 2, "{path}");
        }
    }
}

#[test]
fn static_programs_are_analysed() {
    for (path, least) in [("/bin/busybox", 200), ("/usr/local/go/bin/gofmt", 30)] {
        if let Some(analysis) = analyse(path) {
            assert_eq!(analysis.linkage, analysis::Linkage::Static, "{path}");
            assert!(analysis.sites.len() >= least, "{path}");
            assert_eq!(
                analysis.count(Kind::Trap) + analysis.count(Kind::Island),
                0,
                "{path}"
            );
        }
    }
}

#[test]
fn the_running_program_is_analysed() {
    let analysis = analyse("/proc/self/exe").unwrap();
    assert!(matches!(analysis.linkage, analysis::Linkage::Dynamic(_)));
    assert!(analysis.functions > 100);
}

/// Without frame descriptions, functions without symbols lie between those with.
#[test]
fn functions_without_symbols_are_found_in_musl() {
    if let Some(analysis) =
        analyse("/lib/ld-musl-x86_64.so.1").or_else(|| analyse("/lib/x86_64-linux-musl/libc.so"))
    {
        assert_eq!(analysis.linkage, analysis::Linkage::Library);
        assert_eq!(analysis.unknown, 0);
        assert!(analysis.sites.len() > 400);
    }
}
