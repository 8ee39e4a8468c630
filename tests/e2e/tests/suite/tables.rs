//! Tables of descriptors that processes share without memory, and that threads have for themselves,
//! as `programs/tables.c` has them; programs that want the numbers at which Culvert keeps its own
//! (`programs/own_numbers.c`); closes that take their time (`programs/slow_close.c`).

use culvert_e2e::{Case, Driver, User, on_each_driver, world};

fn group(case: Case, name: &str) {
    let tables = case.program("tables");
    case.good(&format!("exec {tables} $M {name}"));
}

fn numbers(case: Case, who: &str) {
    let program = case.program("own_numbers");
    case.good(&format!("exec {program} $M {who}"));
}

/// A stand-in for drivers whose files have no descriptors.
fn numbers_without_descriptor(who: &str) {
    for user in [User::Me, User::Nobody] {
        if user == User::Me || world().is_root() {
            let name = format!("numbers-{who}-{user:?}");
            numbers(Case::new(&name, user).directory(Driver::NoDescriptor), who);
        }
    }
}

#[test]
fn all_numbers_are_the_programs_without_descriptor() {
    numbers_without_descriptor("alone");
}

#[test]
fn all_numbers_are_the_programs_beside_a_thread_without_descriptor() {
    numbers_without_descriptor("threads");
}

/// A child of vfork that cannot have one of Culvert's numbers is told so, and its parent's threads
/// are not stopped for it.
#[test]
fn a_child_of_vfork_waits_for_no_thread() {
    if world().only_native {
        return;
    }
    let case = Case::new("numbers-vforked", User::Me)
        .options("layer=fault,fault.rule=read+path=/slow+delay=3600s")
        .directory(Driver::Memory);
    let program = case.program("own_numbers");
    let script = script!("tables/a_child_of_vfork_waits_for_no_thread.sh", program);
    // Nothing is in the log, a wait for the other thread neither.
    let done = case.through_culvert(&["sh", "-c", &script]);
    let said = "child 0: 64 of 64 taken or busy\n";
    assert_eq!(done.text(), said, "{}", done.report());
}

on_each_driver! {
    all_numbers_are_the_programs |case| numbers(case, "alone");
    all_numbers_are_the_programs_beside_a_thread |case| numbers(case, "threads");
    all_numbers_are_a_childs |case| numbers(case, "forked");
    what_a_child_of_vfork_opens_keeps_no_number_from_it |case| numbers(case, "opened");

    a_close_that_takes_its_time_holds_up_nobody |case| {
        let program = case.program("slow_close");
        case.good(&format!("{program} $M"));
    };

    processes_with_one_table_see_what_the_other_does |case| group(case, "processes");
    who_is_killed_with_a_common_table_holds_up_nobody |case| group(case, "killed");
    a_thread_that_unshares_its_table_has_its_own |case| group(case, "unshare");
    close_range_unshares_too |case| group(case, "close_range");
    a_process_that_shares_memory_only_has_its_own_table |case| group(case, "memory");
    a_child_of_vfork_may_have_its_parents_table |case| group(case, "vfork");
}
