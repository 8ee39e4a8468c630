//! Images of rewritten code: what processes share, and what harms nobody.

use culvert_e2e::{
    Case, User, as_each_user, caches_may_go, caches_stay, installed, not_tested, world,
};

const BEGIN: &str = script!(part "images/begin.sh");

/// Compares what `script` says, in a mount namespace with a /dev/shm of its own. No store begins
/// anew meanwhile, as it does when the machine's caches are dropped.
#[track_caller]
fn says(case: Case, script: &str, expected: &str) {
    let _caches = caches_stay();
    compare(case, script, expected);
}

#[track_caller]
fn compare(case: Case, script: &str, expected: &str) {
    if world().only_native {
        return;
    }
    let (text, report) = run(case, script);
    match text.strip_prefix("not tested: ") {
        Some(why) => not_tested(why.trim_end()),
        None => assert_eq!(text, expected, "{report}"),
    }
}

/// What it says, and the report.
fn run(case: Case, script: &str) -> (String, String) {
    let (program, filtered) = (case.program("images"), case.program("filtered"));
    let faults = case.program("start_faults");
    let (limits, sandboxed) = (case.program("limits"), case.program("sandboxed"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/images.c");
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/images_library.c");
    let culvert = world().culvert.to_str().expect("plain").to_owned();
    let case = case
        .variable("CULVERT", culvert)
        .variable("IMAGES", program)
        .variable("FILTERED", filtered)
        .variable("FAULTS", faults)
        .variable("LIMITS", limits)
        .variable("SANDBOXED", sandboxed)
        .variable("SOURCE", source)
        .variable("LIBRARY", library);
    let alone: &[&str] = match world().is_root() && case.user() == User::Me {
        true => &["unshare", "-m"],
        false => &["unshare", "--user", "--map-root-user", "-m"],
    };
    let script = format!("{BEGIN}{script}");
    let words = [alone, &["bash", "-c", &script]].concat();
    let done = case.alone(&words);
    (done.text(), done.report())
}

as_each_user! {
    code_is_not_copied |case| says(case,
        script!("images/code_is_not_copied.sh"),
        "private code: libc 0 kB, ld.so 0 kB\nprivate code: libc 0 kB, ld.so 0 kB\n1\n1\n");

    a_changed_library_is_another |case| says(case,
        script!("images/a_changed_library_is_another.sh"),
        "1000\n1000\n2000\n3000\n3000\nno\n3000\n");

    a_library_on_tmpfs_gets_none |case| says(case,
        script!("images/a_library_on_tmpfs_gets_none.sh"),
        "1000\n1000\n0 images\n2000\n");

    an_updated_libc_is_used_at_once |case| says(case,
        script!("images/an_updated_libc_is_used_at_once.sh"),
        "127 file\n\
         private code: libc 0 kB, ld.so 0 kB\n\
         -- by a rename, while one goes on\n\
         127 file\n127 file\n127 file\n63 file\n127 file\n127 file\n63 file\n63 file\n\
         private code: libc 0 kB, ld.so 0 kB\n\
         127 file\n127 file\n63 file\n\
         -- in place, while one goes on\n31 file\n31 file\n31 file\n\
         private code: libc 0 kB, ld.so 0 kB\n31 file\n\
         -- in place, cut first\n15 file\n15 file\n\
         private code: libc 0 kB, ld.so 0 kB\n\
         -- again and again, while others start\n15 file\n95 file\n");

    a_program_that_was_started_before_may_be_another |case| says(case,
        script!("images/a_program_that_was_started_before_may_be_another.sh"),
        "file\nfile\nfile\na script\nfile\nfile\nfile\nfile\n126\n127\n");

    what_is_said_of_a_program_is_of_that_one_alone |case| says(case,
        script!("images/what_is_said_of_a_program_is_of_that_one_alone.sh"),
        "file\nfile\n1\nfile\nfile\nfile\n");

    a_removed_store_harms_nobody |case| says(case,
        script!("images/a_removed_store_harms_nobody.sh"),
        "1000\nready\n1000\nfile\n1000\n1000\n1000\nready\n1000\nfile\n1000\n1000\n");

    an_image_that_is_cut_is_mended |case| says(case,
        script!("images/an_image_that_is_cut_is_mended.sh"), &mended());

    threads_go_on_in_images_that_are_cut |case| says(case,
        script!("images/threads_go_on_in_images_that_are_cut.sh"),
        "ready\n[b'written'] 0\n");

    signals_come_while_images_are_cut |case| {
        const SHARED: &str = "private code: libc 0 kB, ld.so 0 kB\n";
        let each = "over\n".repeat(4) + SHARED;
        says(case,
            script!("images/signals_come_while_images_are_cut.sh"),
            &(SHARED.to_owned() + &each.repeat(4)));
    };

    a_full_store_is_left |case| says(case,
        script!("images/a_full_store_is_left.sh"),
        &"1000\n".repeat(5));

    a_full_index_takes_no_more |case| says(case,
        script!("images/a_full_index_takes_no_more.sh"),
        &"1000\n".repeat(3));

    a_store_begins_anew_when_caches_were_dropped |case| {
        let _caches = caches_may_go();
        compare(case, script!("images/a_store_begins_anew_when_caches_were_dropped.sh"), "");
    };

    a_store_takes_no_more_bytes |case| says(case,
        script!("images/a_store_takes_no_more_bytes.sh"),
        "1000\n1000\n0 images\n1000\n1 images\n");

    a_store_is_made_anew_within_a_run |case| says(case,
        script!("images/a_store_is_made_anew_within_a_run.sh"),
        "private code: libc 0 kB, ld.so 0 kB\n1000\n1000\n\
         private code: libc 0 kB, ld.so 0 kB\nno\nno\n\
         private code: libc 0 kB, ld.so 0 kB\n1000\n700\n");

    whoever_makes_an_image_may_be_killed |case| {
        if installed("strace") {
            says(case,
                script!("images/whoever_makes_an_image_may_be_killed.sh"),
                "16 1000\n30 1000\n1000\nno\n");
        }
    };

    the_place_behind_ld_so_is_taken |case| says(case,
        script!("images/the_place_behind_ld_so_is_taken.sh"),
        "1000\nprivate code: libc 0 kB, ld.so 0 kB\n1000\n\
         private code: libc 0 kB, ld.so 0 kB\n1000\n\
         private code: libc 0 kB, ld.so some\n");

    images_are_read_where_they_are_not_executed |case| {
        if installed("strace") {
            says(case,
                script!("images/images_are_read_where_they_are_not_executed.sh"),
                "1000\n2000\nholes.so\nld-linux-x86-64.so.2\nlibc.so.6\nlibp.so\n1000\n2000\n\
                 1000, no more mappings\n1000\n1000\n1000\nlimit mdwe\n1000\n\
                 private code: libc some, ld.so some\n1000\n0\n4000\n");
        }
    };

    doctor_tells_why_code_is_in_place |case| says(case,
        script!("images/doctor_tells_why_code_is_in_place.sh"),
        "limited  rewritten code      in place: a seccomp filter is in force\n\
         ok       rewritten code      shared, in it\n\
         limited  rewritten code      in place: it has 0 MiB free\n");

    a_sandbox_of_the_same_user_changes_none |case| says(case,
        script!("images/a_sandbox_of_the_same_user_changes_none.sh"), &refused());

    a_library_is_opened_again_and_again |case| says(case,
        script!("images/a_library_is_opened_again_and_again.sh"),
        &"1000, no more mappings\n".repeat(2));

    filters_of_a_container |case| says(case,
        script!("images/filters_of_a_container.sh"),
        "1000\nmade\nprivate code: libc 0 kB, ld.so 0 kB\n1000\nnone\n1000\nnone\n1000\nnone\n");

    memory_that_is_written_is_never_executed |case| says(case,
        script!("images/memory_that_is_written_is_never_executed.sh"),
        "limit mdwe\nprivate code: libc 0 kB, ld.so 0 kB\nlimit mdwe\n1000\nlimit \
        mdwe\n1000\nlimit mdwe\n2000\nlimit mdwe\n2000\n");

    a_filter_refuses_executable_rights |case| says(case,
        script!("images/a_filter_refuses_executable_rights.sh"),
        "1000\n2000\nfile\n1000\n2000\nfile\nprivate code: libc 0 kB, ld.so 0 kB\n");

    a_library_is_mapped_in_other_ways |case| says(case,
        script!("images/a_library_is_mapped_in_other_ways.sh"),
        "1000\n1000\n1000\n1000\n3000\n3000\n3000\n3000\n");

    a_noexec_store_is_told_of |case| says(case,
        script!("images/a_noexec_store_is_told_of.sh"),
        "private code: libc some, ld.so some\nprivate code: libc some, ld.so some\ncopied: it \
        is mounted noexec\n");

    an_image_is_an_object |case| says(case,
        script!("images/an_image_is_an_object.sh"),
        "1000\n400\n700\n");
}

/// What is tried in a root and a user namespace of its own, then in a Landlock domain, and what the
/// other one says before and after.
fn refused() -> String {
    const STAYS: &str = "1000 127 file\n127 file\n127 file\n";
    let by_the_other = ["memory of the other", "bytes of the other", "traced"];
    let by_its_own = ["its pages removed", "its mapping opened"];
    let names = [
        "by its name",
        "by the root of the other",
        "by the directory of the other",
    ];
    let files = [
        "replaced",
        "linked",
        "opened again",
        "truncated",
        "a hole",
        "mapped to be written",
        "made writable",
        "its shared pages removed",
    ];
    let all: [&[&str]; 6] = [
        &names,
        &by_the_other,
        &by_its_own,
        &files,
        &by_the_other,
        &by_its_own,
    ];
    let lines: String = all
        .concat()
        .iter()
        .map(|what| format!("{what}: refused\n"))
        .collect();
    format!("1000\n1000\n{lines}1000\n{STAYS}no\n")
}

/// What a program that goes on says, and others beside it.
fn mended() -> String {
    const SHARED: &str = "private code: libc 0 kB, ld.so 0 kB\n";
    const STAYS: &str = "1000 127 file\n127 file\n127 file\n";
    const ONE: &str = "1000\n";
    let mut all = SHARED.to_owned();
    for what in ["cut 0", "cut 4096", "cut 400k", "cut -4096", "rm"] {
        all += &format!("{STAYS}-- {what}\n{STAYS}{ONE}{STAYS}{ONE}{SHARED}");
    }
    all += &format!("-- unreadable\n{STAYS}{ONE}{STAYS}");
    all += &format!("-- full\n{STAYS}{ONE}{STAYS}{ONE}{SHARED}");
    all + &format!("-- as small as can be\n{ONE}{STAYS}{ONE}")
}

#[test]
fn images_of_others_are_not_used() {
    let case = Case::new("images-of-others", User::Me);
    if !world().is_root() {
        return;
    }
    says(
        case,
        script!("images/images_of_others_are_not_used.sh"),
        "no\nwritable\nyes\nno\nlinked\nyes\nno\nsymbolic\nyes\nno\nanother user\nyes\nno\n\
         spoilt\nyes\n",
    );
}

/// Each has images of his own, and writes none.
#[test]
fn two_users_share_no_writable_pages() {
    if !world().is_root() {
        return;
    }
    says(
        Case::new("images-two-users", User::Me),
        script!("images/two_users_share_no_writable_pages.sh"),
        "code of 0 is shared\ncode of 65534 is shared\n",
    );
}

#[test]
fn a_confined_process_changes_none() {
    let refused = "open to write: Permission denied\nopen again to write: Permission denied\n\
                   truncate: Permission denied\nrename: Permission denied\n\
                   unlink: Permission denied\ncreate: Permission denied\n\
                   a link: Permission denied\n";
    says(
        Case::new("images-confined", User::Me),
        script!("images/a_confined_process_changes_none.sh"),
        &format!("1000\n{refused}1000\n4 Read-only file system\n1000\n"),
    );
}

/// Libraries of squashfs and erofs images that agree in inode, size and times.
#[test]
fn reproducible_file_systems_are_not_mixed_up() {
    if !world().is_root() || !installed("mksquashfs") || !installed("mkfs.erofs") {
        return;
    }
    let each = |kind| format!("1000\n1000\n2000\n2000\n1000\n1000\n1 {kind}, 0 images\n");
    says(
        Case::new("images-reproducible", User::Me),
        script!("images/reproducible_file_systems_are_not_mixed_up.sh"),
        &(each("squashfs") + &each("erofs")),
    );
}

/// A debugger's breakpoints are in the code before the program's first instruction.
#[test]
fn breakpoints_stay() {
    let case = Case::new("images-breakpoints", User::Me);
    let program = case.program("images");
    case.good(&format!("{program} clean > /dev/null; {program} traced"));
}

/// Their breakpoints, backtraces, and processes that they attach to.
#[test]
fn debuggers_find_functions() {
    if !installed("gdb") {
        return;
    }
    let symbols = "probe in section .text of libp.so\n in main (\n\
                   printf in section .text of libc.so.6\n in main (\nexited normally\n";
    says(
        Case::new("images-debuggers", User::Me),
        script!("images/debuggers_find_functions.sh"),
        &format!("1000\n{symbols}ready\n1000\nfile\n"),
    );
}

#[test]
fn profilers_find_functions() {
    if !installed("perf") {
        return;
    }
    says(
        Case::new("images-profilers", User::Me),
        script!("images/profilers_find_functions.sh"),
        "random\nrandom\n",
    );
}

#[test]
fn sanitizers_share_code() {
    says(
        Case::new("images-sanitizers", User::Me),
        script!("images/sanitizers_share_code.sh"),
        "private code: libc 0 kB, ld.so 0 kB\n1000\n",
    );
}
