//! A defect in one process's driver is that process's alone: `action=` of the layer fault.

use culvert_e2e::{Case, Driver, User, world};
use std::os::unix::fs::PermissionsExt;

fn isolated(action: &str, end: &str, independent: &str) {
    if world().only_native {
        return;
    }
    let rule = format!(
        "layer=fault,fault.count=run,fault.rule=read+path=/lines.txt+offset=8192+times=1+action={action}"
    );
    for (user, driver) in [
        (User::Me, None),
        (User::Nobody, None),
        (User::Me, Some(Driver::Memory)),
        (User::Me, Some(Driver::Driven)),
    ] {
        if user == User::Nobody && !world().is_root() {
            continue;
        }
        let name = format!("isolation::{action}-{user:?}-{driver:?}");
        let case = Case::new(&name, user).options(rule.clone());
        let case = match driver {
            Some(driver) => case.directory(driver),
            None => case.odd(),
        };
        let logs = world().path("logs");
        std::fs::create_dir_all(&logs).expect("the base directory is ours");
        let everybody = std::fs::Permissions::from_mode(0o1777);
        std::fs::set_permissions(&logs, everybody).expect("it is ours");
        let log = logs.join(name.replace("::", "-"));
        let case = case.variable("CULVERT_LOG", &log);
        let program = case.program("isolation.py");
        let done = case.through_culvert(&["sh", "-c", "exec python3 $0 $1 $M", &program, action]);
        let want = format!(
            "{independent}shared description: True 1000\nvictim: {end}\nafter: exit 0\nwhole: \
            True\n"
        );
        assert_eq!(done.text(), want, "{}", done.report());
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let told: Vec<_> = log
            .lines()
            .filter(|line| line.contains("a defect of"))
            .collect();
        assert_eq!(told.len(), usize::from(action == "panic"), "{log}");
        // Quick builds know the message.
        let names = |line: &&str| {
            line.contains("a panic that a rule of layer fault asked for")
                || line.matches(" 0x").count() > 4
        };
        assert!(told.iter().all(names), "{log}");
    }
}

#[test]
fn a_crash_ends_its_process() {
    isolated("crash", "SIGSEGV", "");
}

#[test]
fn a_panic_ends_its_process_with_a_line_in_the_log() {
    isolated("panic", "SIGABRT", "");
}

#[test]
fn an_abort_ends_its_process() {
    isolated("abort", "SIGABRT", "");
}

#[test]
fn an_endless_loop_is_its_process_s_alone_and_can_be_ended() {
    let independent =
        "other file: hello, world\nsame file: True\nlisting: True\nindependent: exit 0\n";
    isolated("loop", "SIGTERM", independent);
}

#[test]
fn workers_that_are_killed_leave_a_file_system_behind() {
    if world().only_native {
        return;
    }
    let case = Case::new("isolation::killed", User::Me).directory(Driver::Memory);
    let script = format!("exec {} $M 200 1", case.program("killed_workers"));
    let done = case.through_culvert(&["sh", "-c", &script]);
    assert_eq!(
        done.text(),
        "200 rounds, killed in each, 0 wrong\n",
        "{}",
        done.report()
    );
}
