//! Never worse than absent: a program that touches no mount runs as if culvert were not there.

use culvert_e2e::{Case, User, as_each_user, not_tested, world};

as_each_user! {
    its_environment_and_descriptors |case| {
        let case = case.odd().strict();
        let environment = case.program("environment");
        case.good(&format!("env -i A=1 B= {environment} one 'two words' ''"));
        case.good(&script!("untouched/its_environment_and_descriptors.sh", environment));
    };

    its_output |case| { case.odd().strict().script(
        script!("untouched/its_output.sh"),
    ); };
}

/// System calls that a program makes are not multiplied: `strace` counts those that reach the
/// kernel.
#[test]
fn its_system_calls_reach_the_kernel_as_they_are() {
    if world().only_native {
        return;
    }
    let case = Case::new("strace", User::Me);
    let program = script!("untouched/its_system_calls_reach_the_kernel_as_they_are-program.sh");
    let count = |argv: &[&str]| {
        let done = case.natively(argv);
        let calls = done
            .errors()
            .lines()
            .filter(|line| {
                ["chdir(", "/etc/hostname", "dup2(", "lseek(0"]
                    .iter()
                    .any(|call| line.contains(call))
            })
            .count();
        (calls, done)
    };
    let available = case.natively(&["strace", "-V"]);
    if available.status != "exit 0" {
        not_tested("strace is not installed");
        return;
    }
    let (native, _) = count(&["strace", "-f", "bash", "-c", program]);
    let culvert = world().culvert.to_str().expect("plain").to_owned();
    let (ours, done) = count(&["strace", "-f", &culvert, "run", "--", "bash", "-c", program]);
    // A handful more is starting up; each call of the loop twice would be many.
    assert!(
        ours <= native + 10,
        "native {native}, culvert {ours}\n{}",
        done.report()
    );
}

/// What a hook needs in a new process is side by side: a child of fork pays little for being in a
/// run.
#[test]
fn a_child_of_fork_takes_few_page_faults_more() {
    const MORE: u64 = 8;
    if world().only_native {
        return;
    }
    // The order is that of the functions of the optimised library.
    if !world().is_release {
        not_tested("page faults of a child of fork are counted with the release build");
        return;
    }
    let case = Case::new("fork-faults", User::Me);
    let program = case.program("fork_faults");
    let faults = |done: culvert_e2e::Finished| -> u64 {
        let faults = done.text().trim().parse();
        faults.unwrap_or_else(|_| panic!("{}", done.report()))
    };
    let native = faults(case.natively(&[&program]));
    // How many windows of 64 KiB the functions lie in depends on the library's random address.
    let inside = (0..8).map(|_| faults(case.through_culvert(&[&program])));
    let inside = inside.min().unwrap();
    assert!(inside <= native + MORE, "native {native}, inside {inside}");
}

/// What a program needs in a run is mapped, not copied: a start by vfork pays for few pages.
#[test]
fn a_start_takes_few_page_faults_more() {
    const MORE: u64 = 44;
    if world().only_native {
        return;
    }
    if !world().is_release {
        not_tested("page faults of a start are counted with the release build");
        return;
    }
    let case = Case::new("start-faults", User::Me);
    let program = case.program("start_faults");
    let faults = |done: culvert_e2e::Finished| -> u64 {
        let faults = done.text().trim().parse();
        faults.unwrap_or_else(|_| panic!("{}", done.report()))
    };
    let native = faults(case.natively(&[&program, "/bin/true"]));
    // The first ones make the images; and where another test has just made a link to the dynamic
    // linker, that has none for two seconds.
    let mut inside = u64::MAX;
    for _ in 0..16 {
        inside = inside.min(faults(case.through_culvert(&[&program, "/bin/true"])));
        if inside <= native + MORE {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    assert!(inside <= native + MORE, "native {native}, inside {inside}");
}
