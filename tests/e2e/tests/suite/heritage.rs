//! What children inherit from their parents: descriptors, offsets, directories, locks.

use culvert_e2e::{Case, Driver, User, as_each_user, on_each_driver, world};

/// One line per way of inheriting, for one way of making a child.
fn matrix(case: Case, spawn: &str) {
    let case = case.odd();
    let heritage = case.program("heritage");
    let (reader, fixed) = (case.program("reader"), case.program("reader-static"));
    let cases = |exec: &str, reader: &str, inherit: &str| script!(part "heritage/matrix.sh", inherit, spawn, exec, heritage, reader);
    let usual = "plain cloexec dup2 stdin close_range cloexec_range scm dir";
    let mut script =
        format!("printf '#!/bin/sh\\nexec {reader} \"$@\"\\n' > script; chmod +x script\n");
    script += &cases("run", &reader, usual);
    script += &cases("script", &reader, "plain cloexec dup2 stdin");
    if spawn != "posix_spawn" {
        script += &cases("none", &reader, "plain dup2 stdin dir");
    }
    // A program without a dynamic loader, which nobody intercepts.
    script += &cases("run", &fixed, "plain cloexec dup2 stdin close_range");
    case.good(&script);
}

/// Runs a Python program of this suite in the mount.
fn python(case: Case, name: &str, arguments: &str) {
    let case = case.odd();
    let program = case.program(name);
    case.good(&format!("cd $M && exec python3 {program} {arguments}"));
}

as_each_user! {
    fork |case| matrix(case, "fork");
    vfork |case| matrix(case, "vfork");
    posix_spawn |case| matrix(case, "posix_spawn");
    clone3 |case| matrix(case, "clone3");
    clone_with_shared_memory |case| matrix(case, "clone_vm");
    fork_in_a_thread |case| matrix(case, "thread");

    four_thousand_descriptors |case| {
        let case = case.odd();
        let many = case.program("many_descriptors");
        case.good(&format!("{many} 4000 $M/big.txt $M"));
    };

    a_failed_exec_changes_nothing |case| {
        let case = case.odd();
        let fails = case.program("exec_fails");
        case.good(&format!("cd $M && exec {fails} hello.txt $W"));
    };

    the_offset_is_shared_by_a_subshell |case| { case.odd().good(
        script!("heritage/the_offset_is_shared_by_a_subshell.sh"),
    ); };

    flock_of_an_inherited_descriptor |case| { case.odd().good(
        script!("heritage/flock_of_an_inherited_descriptor.sh"),
    ); };

    an_empty_environment |case| { case.odd().good(
        script!("heritage/an_empty_environment.sh"),
    ); };

    python_subprocesses |case| python(case, "subprocesses.py", "");
    python_multiprocessing |case| python(case, "pool.py", "");
    descriptors_between_unrelated_processes |case| python(case, "passing.py", "receive");

    pipelines |case| { case.odd().good(
        script!("heritage/pipelines.sh"),
    ); };

    a_program_in_between_that_nobody_intercepts |case| { case.odd().good(
        script!("heritage/a_program_in_between_that_nobody_intercepts.sh"),
    ); };

    static_busybox_reads_redirected_input |case| { case.odd().good(
        script!("heritage/static_busybox_reads_redirected_input.sh"),
    ); };
}

/// A program that nobody intercepts and its parent store into one file at the same time, and
/// nothing of it is lost (`programs/static_stores.c`).
fn stored_by_both(case: &Case) {
    let (program, fixed) = (
        case.program("static_stores"),
        case.program("static_stores-static"),
    );
    case.good(&format!("exec {program} $M {fixed}"));
}

#[test]
fn a_static_program_and_others_store_into_one_file_without_descriptor() {
    for user in [User::Me, User::Nobody] {
        if user == User::Me || world().is_root() {
            let name = format!("stored-by-both-{user:?}");
            stored_by_both(&Case::new(&name, user).directory(Driver::NoDescriptor));
        }
    }
}

/// A file that the next program may not open, and that has been mapped: it is written where the
/// driver sees it.
#[test]
fn what_cannot_be_opened_again_goes_on() {
    if !world().is_root() {
        return;
    }
    let case = Case::new("not-opened-again", User::Nobody).directory(Driver::NoDescriptor);
    case.good(script!("heritage/what_cannot_be_opened_again_goes_on.sh"));
}

/// The driver has it open for reading, too, which no call takes from an open description; a program
/// that had it for writing alone does not leave that to the next one.
#[test]
fn what_is_open_for_writing_alone_cannot_go_on() {
    if world().only_native || !world().is_root() {
        return;
    }
    let case = Case::new("not-narrowed", User::Nobody).directory(Driver::NoDescriptor);
    let script = script!("heritage/what_is_open_for_writing_alone_cannot_go_on.sh");
    let done = case.through_culvert(&["bash", "-c", script]);
    assert_eq!(done.text(), "EIO\nEBADF\nEIO\n0\n", "{}", done.report());
}

/// A static program cuts a file, somebody else sees that, and it writes the same bytes once more.
fn written_again(case: &Case) {
    case.good(script!("heritage/written_again.sh"));
}

#[test]
fn a_static_program_writes_what_it_cut_off_without_descriptor() {
    for user in [User::Me, User::Nobody] {
        if user == User::Me || world().is_root() {
            let name = format!("written-again-{user:?}");
            written_again(&Case::new(&name, user).directory(Driver::NoDescriptor));
        }
    }
}

on_each_driver! {
    what_lies_in_a_directory_goes_to_the_next_program |case| { case.good(
        script!("heritage/what_lies_in_a_directory_goes_to_the_next_program.sh"),
    ); };

    a_static_program_and_others_store_into_one_file |case| stored_by_both(&case);
    a_static_program_writes_what_it_cut_off |case| written_again(&case);
}
