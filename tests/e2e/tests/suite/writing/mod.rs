//! Real programs that write, on each driver: the same output as in a directory of the kernel.

mod building;
mod files;
mod languages;
mod shell;
mod versions;

use culvert_e2e::Case;

/// Runs `script` in the directory; what it leaves there is compared too, by name, type, mode,
/// owner, links, size and content.
fn same(case: &Case, script: &str) {
    case.script(&format!(
        "export TMPDIR=$M; cd $M\n{script}\ncd $M; echo == left; {LISTING}"
    ));
}

/// [`same`], and the script must end well: every command of it, unless it says that failing is
/// right.
fn good(case: &Case, script: &str) {
    let done = case.script(&format!(
        "set -e; export TMPDIR=$M; cd $M\n{script}\ncd $M; echo == left; {LISTING}"
    ));
    assert_eq!(done.status, "exit 0", "{script}\n{}", done.report());
}

/// Everything about a tree that does not depend on the file system or the clock.
const LISTING: &str = script!("writing/mod/listing.sh");

/// Whether long programs run in full (`CULVERT_E2E_FULL=1`), which takes many minutes.
fn full() -> bool {
    std::env::var_os("CULVERT_E2E_FULL").is_some()
}
