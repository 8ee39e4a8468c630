//! Arguments that few programs use, see `programs/arguments.c`.

use culvert_e2e::{Case, Driver, User, on_each_driver, world};

on_each_driver! {
    structures_of_later_kernels_are_read_to_their_end |case| {
        let program = case.program("arguments");
        case.good(&format!("cd $M && exec {program} structures"));
    };

    what_is_wrong_with_other_arguments_is_said_first |case| {
        let program = case.program("arguments");
        case.good(&format!("cd $M && exec {program} refused"));
    };

    openat2_through_a_link_to_proc_is_judged_by_its_flags |case| {
        let program = case.program("arguments");
        case.good(&format!("cd $M && exec {program} links_to_proc"));
    };

    a_socket_may_have_a_name_as_long_as_natively |case| {
        let program = case.program("arguments");
        case.good(&format!("cd $M && exec {program} sockets"));
    };

    descriptors_say_what_they_are_in_proc |case| {
        let program = case.program("arguments");
        case.good(&format!("cd $M && exec {program} fdinfo"));
    };

    as_many_descriptors_as_natively_and_what_works_when_they_are_open |case| {
        let program = case.program("full_table");
        case.good(&format!("cd $M && {program} 64 4096 && exec {program} 1024 4096"));
    };

    a_child_reads_what_it_inherits_when_all_descriptors_are_open |case| {
        let program = case.program("full_table");
        case.good(&format!("cd $M && {program} 64 64 | grep -E 'read|lseek|limit'"));
    };

    small_things_are_as_natively |case| {
        let program = case.program("arguments");
        case.good(&format!("cd $M && exec {program} small"));
    };
}

/// A link that is not to be followed is what is refused; followed, there would be nothing.
#[test]
fn links_are_not_followed_where_that_is_asked() {
    if !world().is_root() {
        return;
    }
    for driver in [Driver::Driven, Driver::Memory] {
        let case = Case::new(&format!("arguments-links-{driver:?}"), User::Me).directory(driver);
        let program = case.program("arguments");
        let done = case.through_culvert(&["bash", "-c", &format!("cd $M && exec {program} links")]);
        assert!(!done.text().contains("ENOENT"), "{}", done.report());
    }
}

/// A directory that only a driver has is not watched by F_NOTIFY, and says so; those that the
/// kernel has are.
#[test]
fn directory_notification() {
    for driver in [Driver::Passthrough, Driver::Bound] {
        if driver == Driver::Bound && !world().is_root() {
            continue;
        }
        let case = Case::new(&format!("arguments-dnotify-{driver:?}"), User::Me).directory(driver);
        let program = case.program("arguments");
        case.good(&format!("cd $M && exec {program} dnotify"));
    }
    for driver in [Driver::Driven, Driver::Memory] {
        let case = Case::new(&format!("arguments-dnotify-{driver:?}"), User::Me).directory(driver);
        let program = case.program("arguments");
        let script = format!("cd $M && exec {program} dnotify");
        let done = case.through_culvert(&["bash", "-c", &script]);
        assert!(done.text().ends_with("= -1 EINVAL\n"), "{}", done.report());
    }
}

/// Root's programs open FIFOs after they have become other users, who may what the FIFOs' modes
/// say, whoever opens one first.
#[test]
fn fifos_are_for_other_users_too() {
    if !world().is_root() {
        return;
    }
    for driver in Driver::ALL {
        let case = Case::new(&format!("arguments-fifos-{driver:?}"), User::Me).directory(driver);
        let program = case.program("fifo_users.py");
        case.good(&format!("cd $M && exec python3 {program}"));
    }
}
