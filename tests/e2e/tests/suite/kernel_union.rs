//! Unions, beside mergerfs behind the kernel: the same random operations, policy by policy.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::{installed, world};

/// What mergerfs gives, in a run and on a kernel mount, by the options of each of `all`: with which more
/// operations, and how the branches are to be used.
fn beside(name: &str, all: &[(&str, &str, &str)]) {
    if !possible() || !installed("mergerfs") {
        return;
    }
    for (policy, more, modes) in all {
        let place = Mounted::place(&format!("union-{name}"));
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/union_random.py");
        let (culvert, steps) = (world().culvert.display(), 250);
        let place = place.text("");
        let script = script!(
            "union/beside.sh",
            place,
            program,
            culvert,
            policy,
            steps,
            more,
            modes
        );
        let done = shell(&script);
        assert_eq!(done.text(), "compared\n", "{policy}\n{}", done.report());
    }
}

/// The same by policies alone.
fn policies(name: &str, all: &[&str]) {
    let all: Vec<_> = all.iter().map(|policy| (*policy, "", OPEN)).collect();
    beside(name, &all);
}

const OPEN: &str = "RW RW RW";

#[test]
fn paths_that_there_are() {
    policies(
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
    policies(
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
    policies(
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
    policies(
        "other",
        &[
            "category.create=ff,category.action=epff",
            "category.create=ff,category.action=epmfs,func.chmod=epall",
        ],
    );
}

#[test]
fn links_that_would_be_on_another_branch() {
    beside(
        "exdev",
        &[
            ("category.create=epff,link-exdev=rel-symlink", "", OPEN),
            ("category.create=epff,link-exdev=abs-base-symlink", "", OPEN),
            ("category.create=epff,link-exdev=abs-pool-symlink", "", OPEN),
            // Onto a name that there is ours is another error.
            (
                "category.create=epff,rename-exdev=rel-symlink",
                "free",
                OPEN,
            ),
            (
                "category.create=epff,rename-exdev=abs-symlink",
                "free",
                OPEN,
            ),
        ],
    );
}

#[test]
fn options_of_files() {
    beside(
        "options",
        &[
            ("category.create=ff,link_cow=true", "", OPEN),
            ("category.create=ff,follow-symlinks=regular", "links", OPEN),
            ("category.create=ff", "xattrs", OPEN),
            (
                "category.create=epmfs,category.action=epff,category.search=newest",
                "xattrs",
                OPEN,
            ),
        ],
    );
}

/// Without renames, which ours refuses where a branch that may not be changed would hide the new name.
#[test]
fn modes_and_space_of_branches() {
    beside(
        "modes",
        &[
            ("category.create=ff,minfreespace=29M", "", OPEN),
            ("category.create=epff,minfreespace=25M", "", OPEN),
            ("category.create=mfs", "still", "RW NC RO"),
            ("category.create=epff", "still", "RO RW NC"),
            ("category.create=ff", "still", "RW,25M RO RW"),
            ("category.create=msplfs", "still", "NC RW RW"),
        ],
    );
}

/// A script that compares by itself.
fn compared(name: &str, script: impl Fn(String, String) -> String, want: &str) {
    if !possible() || !installed("mergerfs") {
        return;
    }
    let place = Mounted::place(name);
    let done = shell(&script(
        place.text(""),
        world().culvert.display().to_string(),
    ));
    assert_eq!(done.text(), want, "{}", done.report());
}

#[test]
fn the_space_of_paths_and_branches() {
    let script = |place: String, culvert: String| script!("union/space.sh", place, culvert);
    compared("union-space", script, "compared\n");
}

#[test]
fn branches_change_by_the_same_words() {
    let script = |place: String, culvert: String| script!("union/branches.sh", place, culvert);
    compared("union-branches", script, "compared\nlet go\n");
}

/// A file without room goes to another branch, whole, and is the same to who has it open. (mergerfs 2.33
/// writes twice what it had written in part.)
#[test]
fn files_move_where_there_is_room() {
    let script = |place: String, culvert: String| script!("union/room.sh", place, culvert);
    compared("union-room", script, "moved\n");
}

/// Branches are listed by as many threads, or one after the other.
#[test]
fn branches_are_listed_at_once() {
    let script = |place: String, culvert: String| script!("union/at_once.sh", place, culvert);
    compared("union-at-once", script, "seq: in turn\ncor: at once\n");
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

/// What is mounted in a branch can be unmounted, whatever a program has used there.
#[test]
fn directories_on_other_file_systems_do_not_stay_open() {
    if !possible() {
        return;
    }
    let place = Mounted::place("union-inner");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("union/inner.sh", place, culvert));
    assert_eq!(done.text(), "True 0\n", "{}", done.report());
}

/// Processes of a run make and remove the same names, and some are killed meanwhile.
#[test]
fn a_name_is_made_once_whoever_is_killed() {
    if world().only_native {
        return;
    }
    let place = Mounted::place("union-turns");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("union/turns.sh", place, culvert));
    assert_eq!(done.text(), "done\n", "{}", done.report());
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

#[test]
fn a_branch_that_becomes_read_only_is_passed_over() {
    if !installed("mergerfs") {
        return;
    }
    let policies = "ff mfs epmfs mspmfs";
    let script =
        |place: String, culvert: String| script!("union/read_only.sh", place, culvert, policies);
    compared("union-read-only", script, "compared\n");
}

#[test]
fn old_files_are_shown_as_links() {
    if !installed("mergerfs") {
        return;
    }
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/union_links.py");
    let script = |place: String, culvert: String| {
        script!("union/links_of_files.sh", place, culvert, program)
    };
    compared("union-links", script, "shown\nnot\ncompared\n");
}

#[test]
fn files_move_where_those_of_mergerfs_do() {
    if !installed("mergerfs") {
        return;
    }
    let script = |place: String, culvert: String| script!("union/room_beside.sh", place, culvert);
    compared("union-room-beside", script, "compared\n");
}

/// Removed, or replaced by another directory.
#[test]
fn a_union_goes_on_without_a_branch_that_is_gone() {
    let script = |place: String, culvert: String| script!("union/gone.sh", place, culvert);
    compared("union-gone", script, "went on\n");
}

/// Those of Debian's mergerfs, and those that 2.42 has besides.
#[test]
fn the_table_says_something_of_each_option_of_mergerfs() {
    if !installed("mergerfs") {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/drivers/union.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let manual = "zcat -f /usr/share/man/man1/mergerfs.1* | tr -d '\\\\'";
    let options = r"grep -oE '^f\[B\][a-z_.-]+(=[^]]*)?f\[\]:'";
    let names = r"sed 's/^f.B.//; s/=.*//; s/f..:$//' | sort -u";
    let said = shell(&format!("{manual} | {options} | {names}"));
    let more = [
        "cache.negative-entry",
        "branches-mount-timeout",
        "export-support",
        "flush-on-close",
        "lazy-umount-mountpoint",
        "noforget",
        "parallel-direct-writes",
        "passthrough.io",
        "pin-threads",
        "process-thread-count",
        "proxy-ioprio",
        "read-thread-count",
        "readahead",
        "remember-nodes",
        "scheduling-priority",
        "func.readdir",
    ];
    let said = said.text();
    let all: Vec<_> = said.lines().chain(more).collect();
    for option in &all {
        let stands = culvert_e2e::stands_in(&page, option);
        assert!(stands, "{option} is not in the table");
    }
    assert!(all.len() > 40, "{said}");
}
