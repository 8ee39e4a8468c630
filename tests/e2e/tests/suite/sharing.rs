//! Files and descriptions with several writers, as `programs/sharing.c` has them, and shells'
//! redirections.

use culvert_e2e::{Case, Driver, on_each_driver};

fn group(case: Case, name: &str) {
    let sharing = case.program("sharing");
    case.good(&format!("cd $M && exec {sharing} {name}"));
}

on_each_driver! {
    writes_at_one_offset_do_not_overlap |case| group(case, "offset");
    appends_of_all_processes_stay_whole |case| group(case, "append");
    readers_of_one_description_divide_the_file |case| group(case, "readers");
    a_description_goes_through_fork_exec_and_vfork |case| group(case, "heirs");
    who_is_killed_in_a_write_holds_up_nobody |case| group(case, "killed");
    no_read_sees_half_of_a_write |case| {
        // Kernel file systems do not promise that for more than a page.
        if case.driver() == Some(Driver::Memory) {
            let sharing = case.program("sharing");
            let done = case.through_culvert(&["bash", "-c", &format!("cd $M && exec {sharing} \
                torn")]);
            assert_eq!(done.text(), "processes that saw half of a write: \
                0\ndone\n", "{}", done.report());
        }
    };
    programs_that_are_not_intercepted_read_and_write_what_they_inherit |case| {
        let program = case.program("sharing-static");
        case.good(&script!("sharing/programs_that_are_not_intercepted_read_and_write_what_they_inherit.sh", program));
    };
    what_was_executed_once_does_not_come_back |case| {
        let program = case.program("sharing-static");
        case.good(&script!("sharing/what_was_executed_once_does_not_come_back.sh", program));
    };
    redirections |case| {
        case.good(
            script!("sharing/redirections.sh"),
        );
    };
}
