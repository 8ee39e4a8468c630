//! Paths in a directory that is a mount: the kernel's own tree, but with the links, `..` and
//! working directories of the place where it is seen.

use culvert_e2e::{Case, Driver, on_each_driver, world};

/// Whether the mount is the kernel's own tree: what these tests are about. The other drivers have
/// tests of their own.
fn is_tree(case: &Case) -> bool {
    matches!(case.driver(), Some(Driver::Passthrough | Driver::Bound))
}

on_each_driver! {
    random_paths_mean_what_the_kernel_says |case| {
        if !is_tree(&case) { return; }
        let program = world().program("random_paths.py");
        let seeds = if case.driver() == Some(Driver::Passthrough) { "1 2 3 4" } else { "5" };
        case.good(&script!("passthrough_paths/random_paths_mean_what_the_kernel_says.sh", seeds, program = program.display()));
    };

    a_directory_is_followed_when_others_rename_it |case| { case.good(
        script!("passthrough_paths/a_directory_is_followed_when_others_rename_it.sh"),
    ); };

    // What a program that is started in a removed directory meets is ESTALE on driven mounts, where
    // it knows no more than a number.
    a_directory_that_was_removed_is_empty |case| { if case.driver() == Some(Driver::Driven) { return; } case.good(
        script!("passthrough_paths/a_directory_that_was_removed_is_empty.sh"),
    ); };

    links_lead_where_they_would_from_the_target |case| { case.good(
        script!("passthrough_paths/links_lead_where_they_would_from_the_target.sh"),
    ); };

    names_of_descriptors_are_the_mounts |case| { case.good(
        script!("passthrough_paths/names_of_descriptors_are_the_mounts.sh"),
    ); };

    renames_go_by_the_names_before_slashes |case| { case.good(
        script!("passthrough_paths/renames_go_by_the_names_before_slashes.sh"),
    ); };

    nothing_stays_open_behind_a_call |case| { case.good(
        script!("passthrough_paths/nothing_stays_open_behind_a_call.sh"),
    ); };

    the_list_of_mounts_has_one_line_with_the_device_of_the_files |case| { if !is_tree(&case) { return; }
        // Natively the mount is a bind: `bound` is one, too, and of the file system that is bound.
        // The other has a type of its own.
        let kind = if case.driver() == Some(Driver::Bound) { "print $1" } else { "" };
        case.good(&script!("passthrough_paths/the_list_of_mounts_has_one_line_with_the_device_of_the_files.sh", kind));
    };

    shared_extents_are_the_file_systems_affair |case| { if case.driver() == Some(Driver::Memory) { return; } case.good(
        script!("passthrough_paths/shared_extents_are_the_file_systems_affair.sh"),
    ); };

    programs_that_are_not_intercepted |case| {
        if case.driver() != Some(Driver::Bound) { return; }
        let program = case.program("writing-static");
        for group in ["write", "vectors", "append", "size"] {
            case.good(&script!("passthrough_paths/programs_that_are_not_intercepted.sh", program, group));
        }
        let done = case.options("ro").through_culvert(&["bash", "-c", &script!("passthrough_paths/programs_that_are_not_intercepted-2.sh", program)]);
        assert_eq!(done.text(), "FAILED f: EROFS\n1\n", "{}", done.report());
        assert!(done.errors().contains("g: Read-only file system"), "{}", done.report());
    };

    files_without_a_name_get_one |case| { case.good(
        script!("passthrough_paths/files_without_a_name_get_one.sh"),
    ); };
}

/// With `links=backing` a link that climbs ends where it would in the source.
#[test]
fn links_of_the_source_if_asked() {
    let case = Case::new("links-of-the-source", culvert_e2e::User::Me)
        .directory(culvert_e2e::Driver::Passthrough)
        .options("links=backing");
    let done = case.through_culvert(&[
        "bash",
        "-c",
        script!("passthrough_paths/links_of_the_source_if_asked.sh"),
    ]);
    assert_eq!(
        (done.status.as_str(), done.text().as_str()),
        ("exit 0", "x\nx\ndirectory\nx\n/links-of-the-source/a/b/c\n"),
        "{}",
        done.report()
    );
}

/// Who goes to the source by its own name stays there, whatever programs he starts; the mount is
/// where its target is.
#[test]
fn the_source_keeps_its_own_name() {
    let case = Case::new("source-by-name", culvert_e2e::User::Me)
        .directory(culvert_e2e::Driver::Passthrough);
    let done = case.through_culvert(&[
        "bash",
        "-c",
        script!("passthrough_paths/the_source_keeps_its_own_name.sh"),
    ]);
    let (source, mount) = ("/backing/source-by-name/culvert", "/mounts/source-by-name");
    assert_eq!(
        done.text(),
        format!("{source}\n{source}/d\n{mount}/d\n{source}/d\n{mount}/d\n{mount}\n"),
        "{}",
        done.report()
    );
}

/// A mount whose target lies in such a tree covers what is there, and paths lead through it in both
/// directions.
#[test]
fn a_mount_inside_a_tree() {
    let case = Case::new("mount-inside-a-tree", culvert_e2e::User::Me);
    for privacy in ["--no-private", "--private"] {
        let script = script!("passthrough_paths/a_mount_inside_a_tree.sh", privacy);
        let done = case.natively(&["bash", "-c", &script]);
        assert_eq!(
            done.text(),
            "d\nsub\ntop\na\nup\npacked\ntop\ntop\npacked\npacked\npacked\ntop\ntop\nm/sub/a\n/m\npacked\npacked\ntop\n\
             .\n./d\n./d/back\n./l\n./sub\n./sub/a\n./sub/a/f\n./sub/up\n./top\nd\nl\nsub\ntop\n",
            "{privacy}\n{}",
            done.report()
        );
    }
}

/// A program that gives itself another root finds nothing of the old one above a tree that the
/// kernel had bound over the target.
#[test]
fn a_program_that_changes_its_mounts() {
    let case = Case::new("changes-its-mounts", culvert_e2e::User::Me);
    if !culvert_e2e::world().is_root() {
        return;
    }
    let script = script!(
        "passthrough_paths/a_program_that_changes_its_mounts.sh",
        program = case.program("mounts_change")
    );
    let done = case.natively(&["bash", "-c", &script]);
    assert_eq!(
        done.text(),
        "before: file\ninside: file\nafter: No such file or directory\nabove: No such file or \
        directory\n",
        "{}",
        done.report()
    );
}

/// The kernel follows links in a tree that it has bound over the target, but not into what it does
/// not have.
#[test]
fn links_lead_into_mounts_that_the_kernel_does_not_see() {
    let case = Case::new("links-into-other-mounts", culvert_e2e::User::Me);
    for privacy in ["--no-private", "--private"] {
        let script = script!(
            "passthrough_paths/links_lead_into_mounts_that_the_kernel_does_not_see.sh",
            privacy
        );
        let done = case.natively(&["bash", "-c", &script]);
        assert_eq!(
            done.text(),
            "packed\npacked\nregular file 7\nregular file 7\ndirectory 0\na\nreadable\nnone\n\
             no new\nno new\npacked\na\n",
            "{privacy}\n{}",
            done.report()
        );
    }
}

/// Where the kernel itself has all trees at their targets, a path costs what it costs natively.
#[test]
fn a_path_in_a_bound_tree_is_one_call() {
    if !culvert_e2e::installed("strace") {
        return;
    }
    let case = Case::new("one-call", culvert_e2e::User::Me);
    let script = script!("passthrough_paths/a_path_in_a_bound_tree_is_one_call.sh");
    let done = case.natively(&["bash", "-c", script]);
    assert_eq!(
        done.text(),
        "newfstatat\nnewfstatat\nfaccessat\nutimensat\nfchmodat\nmkdirat\nrenameat2\nunlinkat\nnewfstatat\n\
             openat\nclose\nnewfstatat\nnewfstatat\n",
        "{}",
        done.report()
    );
}

/// The same for directories that another program opened, also where the tree is bound over the
/// target, so that the kernel's own paths go there.
#[test]
fn a_mount_inside_a_tree_beside_an_inherited_directory() {
    let case = Case::new("mount-beside-a-directory", culvert_e2e::User::Me);
    for privacy in ["--no-private", "--private"] {
        let script = script!(
            "passthrough_paths/a_mount_inside_a_tree_beside_an_inherited_directory.sh",
            privacy
        );
        let done = case.natively(&["bash", "-c", &script]);
        assert_eq!(
            done.text(),
            "packed\npacked\na\npacked\npacked\npacked\n/dev/fd/6/:\nd\nsub\ntop\n\n/dev/fd/6/sub:\na\ntop\npacked\ntop\n['a']\n",
            "{privacy}\n{}",
            done.report()
        );
    }
}

/// A removed directory, held open by two mounts of its source, of which a program in between looks
/// at one only.
#[test]
fn a_removed_directory_of_two_mounts_is_inherited_by_both() {
    let case = Case::new("removed-of-two-mounts", culvert_e2e::User::Me);
    let script =
        script!("passthrough_paths/a_removed_directory_of_two_mounts_is_inherited_by_both.sh");
    let done = case.natively(&["bash", "-c", script]);
    assert_eq!(done.text(), "5 0\n6 0\n5 0\n56 0 0\n", "{}", done.report());
}
