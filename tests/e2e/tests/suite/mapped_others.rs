//! Mapped files and what else is going on: programs that run from them, other users, PID
//! namespaces, and more parts than the pager can note.

use culvert_e2e::{Case, Driver, User, on_each_driver, world};

/// A case with a directory, and the program. None: not tested here.
fn case(name: &str, program: &str, driver: Driver, user: User) -> Option<(Case, String)> {
    if user == User::Nobody && !world().is_root() {
        return None;
    }
    let name = format!("mapped-others-{name}-{}-{user:?}", driver.name());
    let case = Case::new(&name, user).directory(driver);
    let program = case.program(program);
    Some((case, program))
}

/// The program runs from the mount and maps itself, and others map it while it runs.
fn maps_what_runs(case: &Case, program: &str) {
    case.good(&script!("mapped_others/maps_what_runs.sh", program));
}

on_each_driver! {
    programs_that_run_are_mapped |case| {
        let program = case.program("mapped_executed");
        maps_what_runs(&case, &program);
    };
}

#[test]
fn programs_that_run_without_a_descriptor_are_mapped() {
    for driver in [Driver::NoDescriptor, Driver::Layered] {
        for user in [User::Me, User::Nobody] {
            if let Some((case, program)) = case("running", "mapped_executed", driver, user) {
                maps_what_runs(&case, &program);
            }
        }
    }
}

#[test]
fn programs_that_run_from_an_archive_are_mapped() {
    if world().only_native {
        return;
    }
    let case = Case::new("mapped-others-archive", User::Me);
    let program = case.program("mapped_executed");
    let culvert = world().culvert.display();
    let done = case.alone(&[
        "bash",
        "-c",
        &script!(
            "mapped_others/programs_that_run_from_an_archive_are_mapped.sh",
            program,
            culvert
        ),
    ]);
    assert_eq!(done.text(), "ELF same\n".repeat(6), "{}", done.report());
}

/// Only root becomes another user.
#[test]
fn another_user_sees_what_is_stored_later() {
    for driver in [
        Driver::NoDescriptor,
        Driver::Layered,
        Driver::Driven,
        Driver::Memory,
    ] {
        if world().is_root()
            && let Some((case, program)) = case("user", "mapped_user", driver, User::Me)
        {
            case.good(&format!("exec {program} $M/file"));
        }
    }
}

/// Only root makes a PID namespace just so.
#[test]
fn a_pid_namespace_that_ends_takes_no_page_from_others() {
    for driver in [Driver::NoDescriptor, Driver::Layered] {
        if world().is_root()
            && let Some((case, program)) = case("namespace", "mapped_pager", driver, User::Me)
        {
            case.good(&format!("exec {program} $M/file namespace"));
        }
    }
}

#[test]
fn parts_of_mappings_for_which_there_is_no_room_are_there() {
    if let Some((case, program)) = case("ranges", "mapped_pager", Driver::NoDescriptor, User::Me) {
        case.good(&format!("exec {program} $M/file ranges"));
    }
}
