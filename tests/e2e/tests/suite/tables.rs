//! Tables of descriptors that processes share without memory, and that threads have for themselves, as `programs/tables.c` has them.

use culvert_e2e::{Case, on_each_driver};

fn group(case: Case, name: &str) {
    let tables = case.program("tables");
    case.good(&format!("exec {tables} $M {name}"));
}

on_each_driver! {
    processes_with_one_table_see_what_the_other_does |case| group(case, "processes");
    who_is_killed_with_a_common_table_holds_up_nobody |case| group(case, "killed");
    a_thread_that_unshares_its_table_has_its_own |case| group(case, "unshare");
    close_range_unshares_too |case| group(case, "close_range");
    a_process_that_shares_memory_only_has_its_own_table |case| group(case, "memory");
    a_child_of_vfork_may_have_its_parents_table |case| group(case, "vfork");
}
