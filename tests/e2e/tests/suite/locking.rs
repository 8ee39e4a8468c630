//! Locks between processes, as `programs/locking.c` takes them.

use culvert_e2e::{Case, on_each_driver};

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
