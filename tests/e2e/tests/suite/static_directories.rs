//! Directories of mounts that a program which nobody intercepts inherits: its working directory,
//! and open ones.

use culvert_e2e::{Case, Driver, User, as_each_user, on_each_driver};

/// A tree with something of each kind.
const TREE: &str = script!(part "static_directories/tree.sh");

/// What a static program finds, with the types.
const LOOK: &str = script!(part "static_directories/look.sh");

/// What is below a directory that may be listed but not searched has names only.
fn not_searched(case: &Case) {
    case.good(script!("static_directories/not_searched.sh"));
}

/// Programs that start each other with the mount's root open have no more descriptors, hidden ones
/// among them, than the first.
fn inherited_root(case: &Case) {
    case.good(script!("static_directories/inherited_root.sh"));
}

on_each_driver! {
    a_working_directory |case: Case| {
        case.good(&script!("static_directories/a_working_directory.sh", tree = TREE, look = LOOK));
    };

    programs_after_it |case: Case| {
        // Intercepted again, and back where it was.
        case.good(&script!("static_directories/programs_after_it.sh", tree = TREE));
    };

    a_program_that_cannot_be_started |case: Case| {
        case.good(&script!("static_directories/a_program_that_cannot_be_started.sh", tree = TREE));
    };

    a_removed_working_directory |case: Case| {
        case.good(script!("static_directories/a_removed_working_directory.sh"));
    };

    several_at_the_same_time |case: Case| {
        case.good(script!("static_directories/several_at_the_same_time.sh"));
    };

    names_that_come_and_go |case: Case| {
        // What vanishes between the listing and the copy is no error for the rest.
        case.good(script!("static_directories/names_that_come_and_go.sh"));
    };

    a_directory_that_may_not_be_searched |case: Case| not_searched(&case);
    programs_that_inherit_the_root |case: Case| inherited_root(&case);

    an_open_directory |case: Case| {
        // The way to it is its number.
        case.good(&script!("static_directories/an_open_directory.sh", tree = TREE));
    };
}

as_each_user! {
    an_archives |case| {
        // Some of what is at the top is too large to be copied: see below.
        case.odd().good(script!("static_directories/an_archives.sh"));
    };

    an_unsearchable_directory_below_a_layer |case| not_searched(&case.directory(Driver::Layered));
    programs_that_inherit_the_root_of_a_layer |case| inherited_root(&case.directory(Driver::Layered));

    below_a_layer |case| {
        case.directory(Driver::Layered).good(&format!("{TREE} cd d\n{LOOK} echo new > new; \
            busybox cat new"));
    };
}

/// What a static program does to a copy would be lost: it is refused.
#[test]
fn a_copy_is_not_written() {
    for (driver, user) in [
        (Driver::Memory, User::Me),
        (Driver::Memory, User::Nobody),
        (Driver::Layered, User::Me),
    ] {
        let case = Case::new(&format!("static-refused-{}-{user:?}", driver.name()), user);
        let done = case.directory(driver).through_culvert(&[
            "bash",
            "-c",
            script!("static_directories/a_copy_is_not_written.sh"),
        ]);
        assert_eq!(done.text(), "file\nsub\ntext\n", "{}", done.report());
    }
}

/// A tree that is too large to be copied, or holds devices, is an error, never an empty one.
#[test]
fn what_is_too_large_is_an_error() {
    let case = Case::new("static-too-large", User::Me).directory(Driver::Memory);
    let many = "mkdir $M/d; cd $M/d; for i in $(seq 1001); do echo > $i; done";
    let large = "mkdir $M/d; cd $M/d; head -c 9000000 /dev/zero > large";
    for (make, names) in [(many, 1002), (large, 2)] {
        let program = case.program("listed-static");
        let script = script!(
            "static_directories/what_is_too_large_is_an_error.sh",
            make,
            program
        );
        let done = case.through_culvert(&["bash", "-c", &script]);
        assert_eq!(
            done.text(),
            format!(
                ".: EINVAL\nnothing: ENOENT\n/dev/fd/5/: ENOTDIR\nnew: ENOENT\nnew\n{names}\n.: 2 \
                names\n"
            ),
            "{}",
            done.report()
        );
    }
}
