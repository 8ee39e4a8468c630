//! Programs of musl, which has no auditors: the library is preloaded, and nobody tells it where the
//! environment is.

use culvert_e2e::{Case, Finished, User, as_each_user, installed, on_each_driver, world};

/// Runs the script both ways and demands the same, and success.
#[track_caller]
fn same(case: &Case, script: &str) -> Finished {
    let done = case.good(script);
    assert!(!done.text().is_empty(), "{script}");
    done
}

on_each_driver! {
    files_children_threads_and_signals |case| {
        if installed("musl-gcc") {
            let program = case.program("musl-musl");
            for what in ["files", "forks", "threads", "signals"] {
                same(&case, &format!("cd $M; {program} {what} 2>&1"));
            }
        }
    };

    programs_of_both_libraries_execute_each_other |case| {
        if installed("musl-gcc") {
            let (musl, glibc) = (case.program("musl-musl"), case.program("musl"));
            same(&case, &script!("musl/programs_of_both_libraries_execute_each_other.sh", musl, glibc));
            // On the mount itself, where another program's interpreter is musl's, and by hand.
            same(&case, &script!("musl/programs_of_both_libraries_execute_each_other-2.sh", musl));
        }
    };
}

as_each_user! {
    the_environment_is_the_programs_own |case| {
        if !installed("musl-gcc") {
            return;
        }
        let program = case.program("musl-musl");
        let case = case.odd();
        // bash counts its levels and keeps its own command in `_`.
        for prefix in ["", "env -i", "env LD_PRELOAD=/nowhere.so", "env LD_AUDIT=x \
            LD_LIBRARY_PATH=/none A= B=b"] {
            same(&case, &script!("musl/the_environment_is_the_programs_own.sh", prefix, program));
            // Started by the command itself.
            let mut words: Vec<&str> = prefix.split(' ').filter(|word| !word.is_empty()).collect();
            words.extend([&program[..], "environment"]);
            let (native, ours) = (case.alone(&words), case.through_culvert(&words));
            assert_eq!(native.text(), ours.text(), "{prefix}\n{}", ours.report());
            assert_eq!(ours.status, "exit 0", "{}", ours.report());
        }
    };

    what_the_user_preloads_is_loaded |case| {
        if world().only_native || !installed("musl-gcc") {
            return;
        }
        let program = case.program("musl-musl");
        let case = case.odd();
        // It needs no library, so that both kinds of programs load it.
        let make = script!("musl/what_the_user_preloads_is_loaded-make.sh");
        let script = format!("{make}\nLD_PRELOAD=$W/p.so {program} environment signals | grep -v \
            -e ^_= -e SHLVL -e OLDPWD");
        let done = same(&case, &script);
        assert!(done.text().starts_with("loaded\n"), "{}", done.report());
        assert!(done.text().contains("\nLD_PRELOAD="), "{}", done.report());
        // The command's own, too.
        let script = script!("musl/what_the_user_preloads_is_loaded.sh", make, program);
        let done = case.natively(&["bash", "-c", &script]);
        assert!(done.text().starts_with("loaded\n"), "{}", done.report());
        assert!(done.text().contains("/p.so\n") && !done.text().contains("libculvert"), "{}", done.report());
    };

    a_program_that_touches_no_mount |case| {
        if installed("musl-gcc") {
            let program = case.program("musl-musl");
            case.odd().strict().good(&script!("musl/a_program_that_touches_no_mount.sh", program));
        }
    };
}

#[test]
fn a_static_program_of_musl_is_told_of() {
    if world().only_native || !installed("musl-gcc") {
        return;
    }
    let case = Case::new("musl-static", User::Me).odd();
    let program = case.program("musl-static-musl");
    let done = case.through_culvert(&["bash", "-c", &format!("{program} signals; true")]);
    assert_eq!(done.text(), "== signals\n1\n1\n", "{}", done.report());
    let errors = done.errors();
    assert!(
        errors.contains("musl-static-musl does not see the mounts: it is statically linked"),
        "{errors}"
    );
    let doctor = case.culvert(&["doctor", "--", &program]);
    assert_eq!(doctor.status, "exit 1", "{}", doctor.report());
    let dynamic = case.culvert(&["doctor", "--", &case.program("musl-musl")]);
    assert_eq!(dynamic.status, "exit 0", "{}", dynamic.report());
    assert!(
        dynamic.text().contains("LD_PRELOAD"),
        "{}",
        dynamic.report()
    );
}
