//! Locks of kernel mounts that are taken where the files are (`--with posix-locks`, `--with
//! flock-locks`): they exclude everybody's.

use crate::kernel_mount::{Mounted, culvert, possible, shell};
use culvert_e2e::{Case, Driver, User, world};

const WITH: &[&str] = &["--with", "posix-locks", "--with", "flock-locks"];

/// The groups of `programs/locking.c`, as natively.
fn groups(driver: Driver, user: User) {
    if !possible() {
        return;
    }
    for name in ["record", "close", "numbers", "descriptions", "wait", "exec"] {
        let case = Case::new(
            &format!("kernel-locks-{name}-{}-{user:?}", driver.name()),
            user,
        )
        .directory(driver);
        let program = case.program("locking");
        let script = format!("umask 022; cd $M && exec {program} {name}");
        let argv = ["bash", "-c", &script];
        let native = case.natively(&argv);
        let ours = case.through_kernel(WITH, &argv);
        // FUSE does not say which locks are a description's: who asks is told the process that took
        // them.
        let told = |text: &str| match name {
            "exec" => text.replace("by a description", "by parent"),
            _ => text.to_owned(),
        };
        assert_eq!(
            told(&ours.text()),
            told(&native.text()),
            "{name} {}",
            ours.report()
        );
    }
}

#[test]
fn as_natively_on_passthrough() {
    groups(Driver::Passthrough, User::Nobody);
}

#[test]
fn as_natively_on_driven() {
    groups(Driver::Driven, User::Me);
}

/// A mount with locks, of its own directory.
fn mount(name: &str, more: &[&str]) -> Mounted {
    let mut words = WITH.to_vec();
    words.extend(more);
    Mounted::new(name, &words)
}

/// `programs/locks_beside.py` by the paths `one` and `other`; `server` ends the server in between.
fn beside(one: &str, other: &str, server: &str) -> culvert_e2e::Finished {
    let program = world().program("locks_beside.py");
    let done = shell(&format!(
        "rm -f {one}/*; exec python3 {} {one} {other} '{server}'",
        program.display()
    ));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    done
}

/// Processes on the mount and processes that use its source see each other's locks, wait for each
/// other, and get what the other gives up or has died with.
#[test]
fn who_uses_the_source_is_excluded_too() {
    if !possible() {
        return;
    }
    let native = Mounted::place("locks-native").text("source");
    let native = beside(&native, &native, "");
    for (name, more) in [
        ("locks-beside", &[][..]),
        ("locks-beside-driven", &["-o", "driven"]),
    ] {
        let mount = mount(name, more);
        let (source, target) = (mount.text("source"), mount.text("target"));
        for (one, other) in [(&target, &source), (&target, &target)] {
            let ours = beside(one, other, "");
            assert_eq!(
                ours.text(),
                native.text(),
                "{one} {other} {}",
                ours.report()
            );
        }
    }
}

/// A server that is killed takes no lock with it, and who waits goes on waiting with the next one.
#[test]
fn locks_outlive_the_server() {
    if !possible() {
        return;
    }
    let native = Mounted::place("locks-native-again").text("source");
    let native = beside(&native, &native, "");
    for (name, more) in [
        ("locks-restart", &["--restart"][..]),
        ("locks-restart-driven", &["--restart", "-o", "driven"]),
    ] {
        let mount = mount(name, more);
        let (source, target) = (mount.text("source"), mount.text("target"));
        let kill = format!(
            "kill -9 $(cat /proc/$(pgrep -of \"culvert mount.*{target}$\")/task/*/children)"
        );
        let ours = beside(&target, &source, &kill);
        assert_eq!(ours.text(), native.text(), "{}", ours.report());
    }
}

/// Who has a lock is told by its process, across the mount.
#[test]
fn the_holder_is_told() {
    if !possible() {
        return;
    }
    let mount = mount("locks-told", &[]);
    let (source, target) = (mount.text("source"), mount.text("target"));
    let program = script!("kernel_locks/the_holder_is_told-program.py", target, source);
    let done = shell(&format!("python3 -c \"{program}\""));
    assert_eq!(done.text(), "True\nTrue\n", "{}", done.report());
}

/// Where nobody could see them they are not used, which is said; nor with what could not wait.
#[test]
fn what_cannot_be_is_said() {
    if !possible() {
        return;
    }
    let place = Mounted::place("locks-refused");
    let target = place.text("target");
    for (words, want) in [
        (
            &["-t", "memory", "--with", "flock-locks", "memory"][..],
            "flock-locks is not used",
        ),
        (
            &[
                "--with",
                "posix-locks",
                "-o",
                "request_timeout=30",
                &place.text("source"),
            ],
            "request_timeout is not used",
        ),
    ] {
        let mut all = vec!["mount"];
        all.extend(words);
        all.push(&target);
        let up = culvert(&all);
        assert_eq!(up.status, "exit 0", "{}", up.report());
        assert!(up.errors().contains(want), "{}", up.report());
        let done = shell(&script!("kernel_locks/what_cannot_be_is_said.sh", target));
        assert_eq!(done.text(), "1\n0\n", "{}", done.report());
        culvert(&["umount", &target]);
    }
    let done = culvert(&["mount", "--with", "everything", "/", &target]);
    assert!(done.errors().contains("no capability"), "{}", done.report());
}
