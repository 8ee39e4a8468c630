//! io_uring (docs/design/io-uring.md): what works as without mounts, what is refused, and that
//! nothing gets past the look at a request.

use culvert_e2e::{Case, Driver, User, installed, not_tested, on_each_driver, world};
use std::process::Command;

/// Whether the kernel makes rings, and can be told how a request ends (Linux 6.10).
fn has_rings(case: &Case) -> bool {
    if world().only_native {
        return false;
    }
    let program = case.program("rings");
    let made = Command::new(program).arg("none").arg("probe").status();
    let made = made.is_ok_and(|status| status.code() == Some(2));
    if !made {
        not_tested("io_uring: the kernel has none, or one older than Linux 6.10");
    }
    made
}

fn group(case: &Case, name: &str) {
    if has_rings(case) {
        let rings = case.program("rings");
        case.good(&format!(
            "umask 022; mkdir -p $W/outside; cd $M && OUTSIDE=$W/outside exec {rings} {name}"
        ));
    }
}

on_each_driver! {
    operations_on_an_open_file |case| group(&case, "alone");
    operations_on_what_a_child_has_too |case| group(&case, "shared");
    chains_and_barriers |case| group(&case, "chains");
    requests_that_nobody_takes |case| group(&case, "malformed");
    what_concerns_no_mount |case| group(&case, "others");
    descriptors_of_rings |case| group(&case, "numbers");
    restrictions_of_a_programs_own |case| group(&case, "restricted");
    threads_that_share_a_ring |case| group(&case, "threads");
}

fn outcome(case: &Case, name: &str) -> String {
    let program = case.program("rings_refused");
    let script = script!("rings/outcome.sh", program, name);
    let done = case.through_culvert(&["bash", "-c", &script]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    done.text()
}

/// Operations by path, what the kernel would read later, and files of mounts where the kernel would
/// have to move the bytes.
#[test]
fn what_is_refused() {
    for user in [User::Me, User::Nobody] {
        if user == User::Nobody && !world().is_root() {
            continue;
        }
        for driver in [Driver::Memory, Driver::Driven] {
            let case =
                Case::new(&format!("rings-refused-{driver:?}-{user:?}"), user).directory(driver);
            if !has_rings(&case) {
                return;
            }
            let told = outcome(&case, "calls");
            let expected = include_str!("rings.txt");
            match driver {
                Driver::Memory => assert_eq!(told, expected),
                // Its files are the kernel's own as soon as anything wants that.
                _ => {
                    let begin = |text: &str| text.split("splice out").next().map(str::to_owned);
                    assert_eq!(begin(&told), begin(expected), "{told}");
                    for line in [
                        "splice out: 4",
                        "behind another's: 0",
                        "8 sbytents",
                        "none of all",
                        "ring_enter(&r, 1, 0): EOPNOTSUPP",
                    ] {
                        assert!(told.lines().any(|found| found == line), "{line}:\n{told}");
                    }
                }
            }
        }
    }
}

/// Which registered file a request is about only the kernel knows: reads and writes are its own,
/// and what a layer is to hear of is refused.
#[test]
fn what_a_layer_would_not_hear_of_is_refused() {
    let case = Case::new("rings-layered", User::Me).directory(Driver::Passthrough);
    let case = case.options("layer=fault,fault.rule=sync+path=/none+errno=EIO");
    if has_rings(&case) {
        let told = outcome(&case, "layered");
        assert_eq!(
            told,
            "before: 0\nread: 8\nfsync: EOPNOTSUPP\nby its descriptor: 0\n"
        );
    }
}

/// Another thread changes descriptor, operation and order of requests all the time: no zeroes of a
/// shadow, no operation by path.
///
/// It fails where a request is checked in place: against a `fill` that copied the program's
/// requests once more after all were judged it found 1 to 48 wrong results, in each of seven runs.
#[test]
fn a_request_that_changes_after_the_look() {
    for driver in [Driver::Memory, Driver::Driven, Driver::Passthrough] {
        let case = Case::new(&format!("rings-attack-{driver:?}"), User::Me).directory(driver);
        if has_rings(&case) {
            let told = outcome(&case, "attack");
            assert_eq!(told, "wrong 0, right 1, victims 1\ndone\n");
        }
    }
}

/// What is read from an archive by a ring is what is read from its tree.
#[test]
fn an_archive_by_a_ring() {
    let case = Case::new("rings-archive", User::Me).odd();
    if has_rings(&case) {
        let rings = case.program("rings");
        case.good(&format!("exec {rings} reading $M/hello.txt"));
    }
}

/// qemu's block layer, fio and node by their own rings.
#[test]
fn programs_with_rings() {
    for driver in [Driver::Memory, Driver::Driven, Driver::Passthrough] {
        let case = Case::new(&format!("rings-programs-{driver:?}"), User::Me).directory(driver);
        if !has_rings(&case) {
            return;
        }
        if installed("qemu-io") && installed("qemu-img") {
            case.good(script!("rings/programs_with_rings.sh"));
        }
        if installed("fio") {
            case.good(script!("rings/programs_with_rings-2.sh"));
        }
        if installed("node") {
            case.good(script!("rings/programs_with_rings-3.sh"));
        }
    }
}
