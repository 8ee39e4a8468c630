//! Programs that root starts and that become another user, in a run of root's: what they serve and
//! execute sees the mounts as that user may.

use culvert_e2e::{Case, Driver, User, installed, not_tested, world};

const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";

/// Makes files in `$M` that all, and that only root, may read.
const FILES: &str = script!(part "dropped/files.sh");

/// What somebody sees there.
const LOOKS: &str = script!("dropped/looks.sh");

fn ways() -> Vec<(&'static str, String)> {
    let python = script!("dropped/ways-python.sh", looks = LOOKS);
    vec![
        ("setpriv", format!("{NOBODY} sh -c '{LOOKS}'")),
        ("gosu", format!("gosu nobody sh -c '{LOOKS}'")),
        ("runuser", format!("runuser -u nobody -- sh -c '{LOOKS}'")),
        ("su", format!("su -s /bin/sh nobody -c '{LOOKS}'")),
        ("sudo", format!("sudo -u nobody M=$M sh -c '{LOOKS}'")),
        ("python3", python),
        // And back to a program that starts others.
        (
            "setpriv",
            format!("{NOBODY} bash -c 'bash -c \"cat $M/f\"; env cat $M/f | sort'"),
        ),
        // A script, by its own name.
        ("setpriv", script!("dropped/ways.sh", nobody = NOBODY)),
    ]
}

#[test]
fn what_another_user_executes_sees_the_mounts() {
    if !world().is_root() {
        return;
    }
    for driver in [Driver::Passthrough, Driver::Bound, Driver::Driven] {
        let case = Case::new(&format!("dropped-{driver:?}"), User::Me).directory(driver);
        for (program, script) in ways() {
            match installed(program) {
                true => _ = case.script(&format!("{FILES}{script}")),
                false => not_tested(format!("{program} is not installed")),
            }
        }
    }
}

#[test]
fn what_another_user_executes_sees_archives() {
    if !world().is_root() {
        return;
    }
    let case = Case::new("dropped-archive", User::Me).odd();
    for way in [NOBODY, "runuser -u nobody --", "gosu nobody"] {
        if !installed(way.split(' ').next().unwrap_or_default()) {
            not_tested(format!("{way} is not installed"));
            continue;
        }
        case.script(&script!(
            "dropped/what_another_user_executes_sees_archives.sh",
            way
        ));
    }
}

/// nginx: its workers have been root's children.
#[test]
fn workers_of_another_user_serve_files() {
    if !world().is_root() {
        return;
    }
    if !installed("nginx") {
        return not_tested("nginx is not installed");
    }
    for driver in [Driver::Passthrough, Driver::Driven, Driver::Memory] {
        let case = Case::new(&format!("nginx-{driver:?}"), User::Me).directory(driver);
        let serve = case.program("serve.sh");
        for sendfile in ["on", "off"] {
            let served = format!("sh {serve} $M {sendfile} f sub/big own none sub/");
            // A listing names times.
            case.good(&format!("{FILES}{served} | sed '/^sub. /s/ [0-9a-f]*$//'"));
        }
    }
}

/// Whoever has the file of `memory` has all that is in it: it is not given to programs of others.
/// They are told, and get an error, never an empty directory.
#[test]
fn memory_is_not_given_to_another_users_programs() {
    if !world().is_root() {
        return;
    }
    let case = Case::new("dropped-memory", User::Me).directory(Driver::Memory);
    let script = format!("{FILES}{NOBODY} sh -c 'cat $M/f; ls $M; echo > $M/new; echo still here'");
    let done = case.through_culvert(&["bash", "-c", &script]);
    assert_eq!(done.text(), "still here\n", "{}", done.report());
    let said = done.errors();
    assert_eq!(said.matches("Input/output error").count(), 3, "{said}");
    let line = said
        .lines()
        .find(|line| line.starts_with("culvert: warning: "));
    let line = line.unwrap_or_default();
    for part in ["user 65534", "files in memory", "culvert mount"] {
        assert!(line.contains(part), "{said}");
    }
    // Those of the process itself are served, with the rights that it has.
    let own = script!("dropped/memory_is_not_given_to_another_users_programs-own.py");
    case.good(&format!("{FILES}python3 -c \"{own}\""));
}

/// A hostile program as another user: neither descriptors that it inherited, nor what they can be
/// opened anew as, nor the run's directory give it what only root may read or write.
#[test]
fn another_users_program_gains_nothing_by_what_it_inherits() {
    if !world().is_root() {
        return;
    }
    for driver in [Driver::Memory, Driver::Driven, Driver::NoDescriptor] {
        let case = Case::new(&format!("attacked-{driver:?}"), User::Me).directory(driver);
        for attacker in ["attacker", "attacker-static"] {
            let attacker = case.program(attacker);
            // What root has open, mapped and shared with a process that stays.
            let uses =
                script!("dropped/another_users_program_gains_nothing_by_what_it_inherits-uses.py");
            let script = script!(
                "dropped/another_users_program_gains_nothing_by_what_it_inherits.sh",
                uses,
                nobody = NOBODY,
                attacker
            );
            let done = case.through_culvert(&["bash", "-c", &script]);
            assert_eq!(done.text(), "user 65534 found 0\n0\n", "{}", done.report());
        }
    }
}

/// PostgreSQL as Debian starts it: by root, who gives up his rights first, or goes through su.
#[test]
fn postgresql_that_root_starts() {
    if !world().is_root() || world().only_native {
        return;
    }
    if !installed("../lib/postgresql") || !installed("runuser") {
        return not_tested("PostgreSQL is not installed");
    }
    for (way, driver) in [
        ("su postgres -s /bin/sh -c", Driver::Driven),
        ("runuser -u postgres -- sh -c", Driver::Bound),
        ("runuser -u postgres -- sh -c", Driver::Memory),
    ] {
        let case = Case::new(&format!("postgres-{driver:?}"), User::Me).directory(driver);
        let script = script!("dropped/postgresql_that_root_starts.sh", way);
        let done = case.through_culvert(&["bash", "-c", &script]);
        match driver {
            // Said, and an error: never an empty data directory.
            Driver::Memory => {
                assert!(done.text().starts_with("1\n1\n"), "{}", done.report());
                assert!(
                    done.errors().contains("files in memory are kept"),
                    "{}",
                    done.report()
                );
            }
            _ => assert_eq!(
                done.text(),
                "0\n0\n500500\n0\npostgres\n0\n",
                "{}",
                done.report()
            ),
        }
    }
}

/// A working directory on a mount, of a process that becomes another user and executes a program:
/// that is told that it is not there.
#[test]
fn a_working_directory_that_stays_behind_is_told() {
    if !world().is_root() || world().only_native {
        return;
    }
    let case = Case::new("dropped-directory", User::Me).directory(Driver::Driven);
    let script = script!(
        "dropped/a_working_directory_that_stays_behind_is_told.sh",
        nobody = NOBODY
    );
    let done = case.through_culvert(&["bash", "-c", &script]);
    assert_eq!(done.text(), "text\n", "{}", done.report());
    let errors = done.errors();
    let told = errors.matches("is not in its working directory").count();
    assert_eq!(told, 1, "{}", done.report());
}
