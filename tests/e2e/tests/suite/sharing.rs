//! Files and descriptions with several writers, as `programs/sharing.c` has them, and shells' redirections.

use culvert_e2e::{Case, on_each_driver};

fn group(case: Case, name: &str) {
    let sharing = case.program("sharing");
    case.good(&format!("cd $M && exec {sharing} {name}"));
}

on_each_driver! {
    writes_at_one_offset_do_not_overlap |case| group(case, "offset");
    appends_of_all_processes_stay_whole |case| group(case, "append");
    readers_of_one_description_divide_the_file |case| group(case, "readers");
    a_description_goes_through_fork_exec_and_vfork |case| group(case, "heirs");
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
