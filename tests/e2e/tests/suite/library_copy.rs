//! The copy of the library at an address of its own: that programs are given it, and that its loss
//! harms nobody.

use culvert_e2e::{Case, User, not_tested, world};

const BEGIN: &str = script!(part "library_copy/begin.sh");

/// Compares what `script` says, in a mount namespace with a /dev/shm and a /run of its own: others
/// than root have no directory that is safe without their system's help.
#[track_caller]
fn says(name: &str, script: &str, expected: &str) {
    if world().only_native || !world().is_root() {
        return;
    }
    let case = Case::new(&format!("library_copy-{name}"), User::Me);
    let landlocked = case.program("landlocked");
    let filtered = case.program("filtered");
    let occupier = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/occupier.c");
    let thread = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/reads_by_thread.c");
    let culvert = world().culvert.to_str().expect("plain").to_owned();
    let case = case
        .variable("CULVERT", culvert)
        .variable("LANDLOCKED", landlocked)
        .variable("FILTERED", filtered)
        .variable("OCCUPIER", occupier)
        .variable("THREAD", thread);
    let script = format!("{BEGIN}{script}");
    let done = case.alone(&["unshare", "-m", "bash", "-c", &script]);
    match done.text().strip_prefix("not tested: ") {
        Some(why) => not_tested(why.trim_end()),
        None => assert_eq!(done.text(), expected, "{}", done.report()),
    }
}

#[test]
fn programs_lie_at_its_address() {
    says(
        "programs_lie_at_its_address",
        script!("library_copy/programs_lie_at_its_address.sh"),
        "there\n1\nelsewhere\n0 kB\n0\n",
    );
}

#[test]
fn its_environment_needs_no_copy() {
    says(
        "its_environment_needs_no_copy",
        script!("library_copy/its_environment_needs_no_copy.sh"),
        "the library\nfile\nfile\nfile\n",
    );
}

#[test]
fn a_removed_copy_is_missed_by_nobody() {
    says(
        "a_removed_copy_is_missed_by_nobody",
        script!("library_copy/a_removed_copy_is_missed_by_nobody.sh"),
        "file\nfile\nfile\n0\n0\nfile\n1\n",
    );
}

#[test]
fn one_that_is_not_to_be_believed_is_made_anew() {
    says(
        "one_that_is_not_to_be_believed_is_made_anew",
        script!("library_copy/one_that_is_not_to_be_believed_is_made_anew.sh"),
        "file\n-- may be written\nfile\nanother\n500 1\n-- was cut\nfile\nanother\n500 1\n\
         -- has another name\nfile\nanother\n500 1\n-- is a link\nfile\nanother\n500 1\n",
    );
}

#[test]
fn its_address_may_be_taken() {
    says(
        "its_address_may_be_taken",
        script!("library_copy/its_address_may_be_taken.sh"),
        "there\n2\nfile\nno\n3\nfile\n",
    );
}

#[test]
fn where_none_can_be_made() {
    says(
        "where_none_can_be_made",
        script!("library_copy/where_none_can_be_made.sh"),
        "file\n0\nfile\n1\n-- few addresses\n0\n-- no room\nfile\nfile\n0\n-- later\nfile\n1\n\
         -- read-only\nfile\n",
    );
}

#[test]
fn its_variables_are_its_own() {
    says(
        "its_variables_are_its_own",
        script!("library_copy/its_variables_are_its_own.sh"),
        "CV_AUDIT_LOG=here\n0\nfile\n0\n",
    );
}

#[test]
fn whoever_makes_it_is_alone() {
    says(
        "whoever_makes_it_is_alone",
        script!("library_copy/whoever_makes_it_is_alone.sh"),
        "file\n-- another one makes it\nfile\n0\n-- is killed\nfile\n1\n-- many at once\n\
         40 file\n1\n",
    );
}

#[test]
fn doctor_says_whether_programs_have_it() {
    let elsewhere = " programs start more slowly: let XDG_RUNTIME_DIR name a directory of mode \
        0700 on this machine, below those that only root or the user may write";
    says(
        "doctor_says_whether_programs_have_it",
        script!("library_copy/doctor_says_whether_programs_have_it.sh"),
        &[
            "ok library copy loaded, from /run/mine/culvert-libraries",
            "-- nowhere",
            "limited library copy not loaded: neither XDG_RUNTIME_DIR nor HOME is set",
            elsewhere,
            "limited library copy not loaded: /dev/shm/mine: others may put another directory in \
             its place; /proc/.cache/culvert: it cannot be opened: No such file or directory",
            elsewhere,
            "-- no room",
            "limited library copy not loaded: none could be made in /run/small/culvert-libraries \
             in the last ten minutes",
            " programs start more slowly: let it have 6 MB of room; it is tried again by itself",
            "-- a filter",
            "limited library copy not loaded: a seccomp filter is in force",
            "ok library copy loaded, from /run/mine/culvert-libraries",
            "",
        ]
        .join("\n"),
    );
}

#[test]
fn a_sandbox_that_does_not_show_it() {
    says(
        "a_sandbox_that_does_not_show_it",
        script!("library_copy/a_sandbox_that_does_not_show_it.sh"),
        "file\n0\nfile\n",
    );
}

#[test]
fn what_comes_after_the_look_costs_a_line() {
    says(
        "what_comes_after_the_look_costs_a_line",
        script!("library_copy/what_comes_after_the_look_costs_a_line.sh"),
        "file\nfile\nfile\n1\n",
    );
}

#[test]
fn only_in_places_of_the_users_own() {
    says(
        "only_in_places_of_the_users_own",
        script!("library_copy/only_in_places_of_the_users_own.sh"),
        "-- /run/mine\n/run/mine\nfile\n-- /dev/shm/mine\nfile\n-- /run/a:b\nfile\n-- /run/a$LIB\nfile\n\
         -- /run/link\nfile\n-- /run/other\nfile\n-- /run/open/mine\nfile\n\
         -- /run/mine/../mine\n/run/mine\nfile\n-- run/mine\nfile\n\
         -- the cache, which is made with the base\n/run/mine/cache/culvert\nfile\n700\n\
         -- another user's home\nfile\n0\n-- no home\nfile\nfile\nfile\n\
         -- a user whom the namespace does not know\n0\n\
         -- others may write into the directory of the copies, but not reach it\n\
         /run/wide\nfile\n",
    );
}

#[test]
fn sanitizers_let_it_be() {
    says(
        "sanitizers_let_it_be",
        script!("library_copy/sanitizers_let_it_be.sh"),
        &"file\n".repeat(6),
    );
}
