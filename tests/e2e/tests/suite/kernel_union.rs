//! Unions, beside mergerfs behind the kernel: the same random operations, policy by policy.

use crate::kernel_mount::{Mounted, possible, shell};
use culvert_e2e::{installed, not_tested, run_within, world};
use std::{process::Command, time::Duration};

/// What mergerfs gives, in a run and on a kernel mount, by the options of each of `all`: with which
/// more operations, and how the branches are to be used.
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

/// Each function has a policy of its own, whatever that of its category is.
#[test]
fn each_function_alone() {
    let changes = "unlink rename chown setxattr removexattr truncate utimens link rmdir";
    let asks = "getattr open access getxattr listxattr readlink";
    let all = |functions: &str, policy: &str| -> String {
        let each = functions
            .split(' ')
            .map(|name| format!(",func.{name}={policy}"));
        each.collect()
    };
    let changed = format!("category.create=ff{}", all(changes, "epff"));
    let asked = format!("category.create=ff{}", all(asks, "newest"));
    let made = "func.mkdir=epff,func.mknod=epmfs,func.symlink=eplfs,func.create=mfs";
    beside(
        "functions",
        &[
            (&changed, "xattrs", OPEN),
            (&asked, "xattrs", OPEN),
            (made, "", OPEN),
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

/// Without renames, which ours refuses where a branch that may not be changed would hide the new
/// name.
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

/// A file without room goes to another branch, whole, and is the same to who has it open. (mergerfs
/// 2.33 writes twice what it had written in part.)
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

/// A branch is a mount with a type, options, layers and branches of its own: in a run, as a kernel
/// mount, and by a line of fstab(5).
#[test]
fn a_branch_is_any_mount() {
    if !possible() {
        return;
    }
    let place = Mounted::place("union-any");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("union/any_mount.sh", place, culvert));
    if done.status == "exit 77" {
        not_tested("no overlay file system");
        return;
    }
    let wrong = r#"culvert: branch P: there is no driver "floppy"
culvert: branch P: the server of type fuse.x has a mount of its own
culvert: branch P/none: source P/none: No such file or directory
culvert: P:P/run: branch P: driver passthrough has no option "fast"
culvert: P:P/run: branch P: there is no layer "fualt"
culvert: P:P/run: branch P: driver passthrough has no option "place"
culvert: P:P/run: branch P: layer log: option log.file=x: an absolute path is needed
"#;
    assert_eq!(done.text(), wrong, "{}", done.report());
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

/// Whoever is killed while something moves to another branch, or on several, leaves the old or the
/// new state: at each of the calls by which it is done.
fn killed(way: &str) {
    if !possible() {
        return;
    }
    let place = Mounted::place(&format!("union-killed-{way}"));
    let (place, culvert) = (place.text(""), world().culvert.display());
    let mut command = Command::new("bash");
    command.args(["-c", &script!("union/killed.sh", place, culvert, way)]);
    // Some sixty kills, each with a run or two.
    let done = run_within(command, &[], Duration::from_secs(300));
    assert_eq!(done.text(), "whole\n", "{}", done.report());
}

#[test]
fn who_is_killed_leaves_the_old_or_the_new_state() {
    killed("run");
}

/// The server of a kernel mount.
#[test]
fn a_server_that_is_killed_leaves_the_old_or_the_new_state() {
    killed("mount");
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

/// What a child that shares the memory opens is not the parent's to lose, and who inherits a
/// directory finds it by the name that it has.
#[test]
fn descriptors_of_a_union_go_through_fork_and_exec_while_names_change() {
    if world().only_native {
        return;
    }
    let place = Mounted::place("union-inherited");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/union_inherited.py");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let mount = "$PWD/one:$PWD/two:$PWD/target:type=union,category.create=ff,minfreespace=0";
    let done = shell(&format!(
        "cd {place} && mkdir one two && {culvert} run -v {mount} -- python3 -u {program} $PWD/target"
    ));
    let want = "0o640\n['f']\n['f'] e\n['f'] g\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// Another user swaps a directory of a branch for a link that leads outside, while root works below
/// it.
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

/// What the front end says of a node in use reaches the file system that it lies in, below a
/// branch, a union of its own, or layers: who has a file open that has lost its name keeps its
/// bytes, in other programs, too, and nothing is left of it afterwards.
#[test]
fn a_file_without_a_name_on_a_branch_in_memory_stays_as_long_as_it_is_open() {
    if world().only_native {
        return;
    }
    let place = Mounted::place("union-in-use");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("union/in_use.sh", place, culvert));
    let each = "True 0\nTrue\nTrue 0\n[]\n";
    assert_eq!(done.text(), each.repeat(6), "{}", done.report());
}

/// The same while root's files move to other branches and inodes, in runs and on kernel mounts.
#[test]
fn who_swaps_links_leads_no_move_outside() {
    if !possible() {
        return;
    }
    let place = Mounted::place("union-swapped-moves");
    let (place, culvert) = (place.text(""), world().culvert.display());
    let done = shell(&script!("union/swapped_moves.sh", place, culvert));
    let want = "exdev: True\nroom: True\ncow: True\n";
    let want = format!("{want}{want}inside\n");
    assert_eq!(done.text(), want, "{}", done.report());
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

/// What mergerfs 2.42 has besides, also what it takes without a meaning.
const LATER: &str = "
    allow-idmap atomic-o-trunc big-writes branches-mount-timeout branches-mount-timeout-fail
    cache.files.process-names cache.negative-entry debug defaults direct-io-allow-mmap
    export-support flush-on-close func.access func.chmod func.chown func.create func.getattr
    func.getxattr func.link func.listxattr func.mkdir func.mknod func.open func.readdir
    func.readlink func.removexattr func.rename func.rmdir func.setxattr func.symlink func.truncate
    func.unlink func.utimens gid gid-cache.expire-timeout gid-cache.remove-timeout handle-killpriv
    handle-killpriv-v2 hard-remove kernel-permissions-check lazy-umount-mountpoint log.file mount
    mountpoint negative-entry never-forget-nodes no-splice-move no-splice-read no-splice-write
    noforget nonempty parallel-direct-writes passthrough.io passthrough.max-stack-depth pid
    pin-threads process-thread-count process-thread-queue-depth proxy-ioprio read-thread-count
    readahead remember remember-nodes scheduling-priority splice-move splice-read splice-write
    srcmounts uid umask version
";

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
    let said = said.text();
    let all: Vec<_> = said.lines().chain(LATER.split_whitespace()).collect();
    for option in &all {
        let stands = culvert_e2e::stands_in(&page, option);
        assert!(stands, "{option} is not in the table");
    }
    let stands = culvert_e2e::stands_in(&page, "no-such-option-at-all");
    assert!(!stands, "the table names everything");
    assert!(said.lines().count() > 40, "{said}");
}
