//! Unions, beside mergerfs behind the kernel: the same random operations, policy by policy.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::{installed, world};

/// What mergerfs gives, in a run and on a kernel mount, with the options `policy`.
fn beside(name: &str, policies: &[&str]) {
    if !possible() || !installed("mergerfs") {
        return;
    }
    for policy in policies {
        let place = Mounted::place(&format!("union-{name}"));
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/union_random.py");
        let (culvert, steps) = (world().culvert.display(), 250);
        let place = place.text("");
        let script = script!("union/beside.sh", place, program, culvert, policy, steps);
        let done = shell(&script);
        assert_eq!(done.text(), "compared\n", "{policy}\n{}", done.report());
    }
}

#[test]
fn paths_that_there_are() {
    beside(
        "paths",
        &[
            "category.create=epff",
            "category.create=epmfs",
            "category.create=eplfs",
            "category.create=eplus",
        ],
    );
}

#[test]
fn all_branches() {
    beside(
        "all",
        &[
            "category.create=ff",
            "category.create=mfs",
            "category.create=lfs",
            "category.create=lus",
        ],
    );
}

#[test]
fn shared_paths() {
    beside(
        "shared",
        &[
            "category.create=msplfs",
            "category.create=mspmfs",
            "category.create=msplus",
        ],
    );
}

#[test]
fn actions_and_searches() {
    beside(
        "other",
        &[
            "category.create=ff,category.action=epff",
            "category.create=ff,category.action=epmfs,func.chmod=epall",
        ],
    );
}

/// Several users on a union of root's: who may do what, and whose is what was made.
#[test]
fn each_user_may_what_the_first_branch_shows() {
    if !possible() || !installed("mergerfs") || !world().is_root() {
        return;
    }
    let place = Mounted::place("union-users");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("union/users.sh", place, culvert));
    assert_eq!(done.text(), "compared\n", "{}", done.report());
}

/// Whoever is killed while a file moves to another branch leaves the old or the new state.
#[test]
fn who_is_killed_leaves_the_old_or_the_new_state() {
    if !possible() {
        return;
    }
    let place = Mounted::place("union-killed");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("union/killed.sh", place, culvert));
    assert_eq!(done.text(), "whole\n", "{}", done.report());
}

/// Another user swaps a directory of a branch for a link that leads outside, while root works below it.
#[test]
fn who_swaps_links_in_a_branch_leads_nobody_outside() {
    if !possible() {
        return;
    }
    let place = Mounted::place("union-swapped");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("union/swapped.sh", place, culvert));
    assert_eq!(done.text(), "True\ninside\n", "{}", done.report());
}
