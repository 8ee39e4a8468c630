//! Locks between processes, as `programs/locking.c` takes them.

use culvert_e2e::{Case, Driver, User, on_each_driver, world};

fn group(case: Case, name: &str) {
    let locking = case.program("locking");
    case.good(&format!("cd $M && exec {locking} {name}"));
}

on_each_driver! {
    record_locks |case| group(case, "record");
    closing_drops_them |case| group(case, "close");
    files_with_locks_get_the_lowest_numbers |case| group(case, "numbers");
    locks_of_descriptions |case| group(case, "descriptions");
    waiting_signals_and_deadlock |case| group(case, "wait");
    locks_over_exec |case| group(case, "exec");
}

/// `programs/locked_writes.py`: what is opened for a call must not be closed again, and there are
/// fewer numbers than calls.
fn written_and_mapped(driver: Driver, user: User) {
    if user == User::Nobody && !world().is_root() {
        return;
    }
    let case = Case::new(&format!("locked-writes-{user:?}"), user).directory(driver);
    let program = case.program("locked_writes.py");
    case.good(&format!("exec /usr/bin/python3 {program} $M/file"));
}

#[test]
fn a_locked_file_that_is_mapped_uses_no_descriptors_up() {
    written_and_mapped(Driver::NoDescriptor, User::Me);
}

#[test]
fn a_locked_file_that_is_mapped_uses_no_descriptors_up_below_a_layer_as_nobody() {
    written_and_mapped(Driver::Layered, User::Nobody);
}
