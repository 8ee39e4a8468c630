//! Files and descriptions with several writers, as `programs/sharing.c` has them, and shells' redirections.

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
            let done = case.through_culvert(&["bash", "-c", &format!("cd $M && exec {sharing} torn")]);
            assert_eq!(done.text(), "processes that saw half of a write: 0\ndone\n", "{}", done.report());
        }
    };
    programs_that_are_not_intercepted_read_and_write_what_they_inherit |case| {
        let program = case.program("sharing-static");
        case.good(&format!(
            "S={program}; cd $M; $S say one > f; cat f; $S say two >> f; cat f; stat -c %s f
             (echo a; $S say b; echo c; $S say d) > g; cat g
             {{ $S say long-long-line; wc -c < h; echo y; }} > h; cat h
             $S copy < f > k; cat k; (read line; echo $line; $S copy) < g
             exec 7<>m; echo start >&7; $S say middle >&7; echo end >&7; cat m; $S say more >&7; exec 7>&-; cat m
             $S say last > n & wait; cat n; $S say x > o; $S say y > o; cat o; truncate -s 1 o; cat o; $S say z >> o; cat o"
        ));
    };
    what_was_executed_once_does_not_come_back |case| {
        let program = case.program("sharing-static");
        case.good(&format!(
            "S={program}; cd $M; cp /bin/echo e; cp /bin/echo g; for i in 1 2 3 4 5; do ./e $i; ./g $i; done; cat /bin/true > e; cat /bin/true > g
             $S say x >> o & $S copy <> e | cmp - /bin/true && cmp e /bin/true && cmp g /bin/true && echo the new bytes; wait; cat o"
        ));
    };
    redirections |case| {
        case.good(
            "cd $M; (echo one; echo two) > f; cat f; { echo a; echo b >&2; } > f 2>&1; cat f
             { echo 1; bash -c 'echo 2'; /bin/echo 3; echo 4; } > f; cat f
             exec 5>>f; echo five >&5; (echo six >&5); bash -c 'echo seven >&5'; exec 5>&-; cat f
             (echo x; cat < f; echo y) > g; cat g; wc -l < g; tail -n 2 g
             exec 6<>f; read -u 6 line; echo $line; echo REPLACED >&6; exec 6>&-; cat f
             sort < f > h; cat h; tac < f | tee -a h > i; cat h i; rm f; ls",
        );
    };
}
