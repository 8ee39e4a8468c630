//! Kernel mounts in an administrator's hands: what is asked for by mistake, changed afterwards,
//! looked at and ended.

use crate::{
    kernel_life::privately,
    kernel_mount::{Mounted, possible, shell},
};
use culvert_e2e::{User, installed, not_tested, world};

/// mount(8) finds the helper, in a mount namespace of its own.
const HELPER: &str = script!("kernel_administered/helper.sh");

/// `script` prints `expected`.
fn prints(name: &str, user: User, script: &str, expected: &str) {
    if !possible() || user == User::Nobody && !installed("fusermount3") {
        return;
    }
    let done = privately(name, user, script);
    if done.status == "exit 77" {
        not_tested("no overlay file system, or no user namespaces");
        return;
    }
    assert_eq!(done.text(), expected, "{}", done.report());
}

/// A server that cannot see the device, /proc or its run directory would wait for itself.
#[test]
fn a_target_that_hides_what_the_server_uses_is_refused() {
    let script =
        script!("kernel_administered/a_target_that_hides_what_the_server_uses_is_refused.sh");
    prints("kernel-hiding", User::Me, script, "1\n1\n1\n1\n1\n0\n");
}

/// The next server would look for the archive on its own mount.
#[test]
fn an_archive_that_would_be_hidden_from_the_next_server_is_refused() {
    let script = script!(
        "kernel_administered/an_archive_that_would_be_hidden_from_the_next_server_is_refused.sh"
    );
    prints("kernel-hidden-archive", User::Me, script, "1\nf\n");
}

/// Messages go where the place was before the mount covered it.
#[test]
fn the_log_lies_under_the_mount() {
    let script = script!("kernel_administered/the_log_lies_under_the_mount.sh");
    for user in [User::Me, User::Nobody] {
        prints(
            &format!("kernel-log-under-{user:?}"),
            user,
            script,
            "1\n1\n",
        );
    }
}

/// `mount -o remount` changes the mount's own flags and leaves the rest; what a mount was made with
/// cannot be taken from it.
#[test]
fn flags_are_changed() {
    let script = script!("kernel_administered/flags_are_changed.sh", helper = HELPER);
    let expected = "rw,nosuid,nodev,relatime\nro,nosuid,nodev,noexec,relatime\nRead-only\nrw,nodev,noexec,relatime\nf\ng\nl\n1\n\
                    ro,nosuid,nodev,relatime,nosymfollow\nsymbolic\n1\n32\n32\n";
    prints("kernel-remount", User::Me, &script, expected);
}

/// What keeps a mount is named: other mounts, programs, but not who asks.
#[test]
fn what_keeps_a_mount_is_named() {
    let script = script!("kernel_administered/what_keeps_a_mount_is_named.sh");
    let done = "has mounts in it: ";
    let place = world().path("mounts/kernel-kept/target/in");
    prints(
        "kernel-kept",
        User::Me,
        script,
        &format!("{done}{}\n1\n1\n1\n", place.display()),
    );
}

/// In a user namespace, mounts of outside stay, and it is said why.
#[test]
fn mounts_of_outside_are_ended_there() {
    let script = script!("kernel_administered/mounts_of_outside_are_ended_there.sh");
    prints("kernel-outer", User::Me, script, "1\n0\n");
}

/// A user's wish that only root can grant is not passed over in silence.
#[test]
fn a_user_is_told_what_is_roots() {
    let script = script!("kernel_administered/a_user_is_told_what_is_roots.sh");
    prints(
        "kernel-users-wish",
        User::Nobody,
        script,
        "1\n1\n1\n1\n1\n1\n",
    );
}

/// Names in the list for programs are the names.
#[test]
fn listed_names_are_exact() {
    let script = script!("kernel_administered/listed_names_are_exact.sh");
    for user in [User::Me, User::Nobody] {
        prints(
            &format!("kernel-list-names-{user:?}"),
            user,
            script,
            "['a\\nb\\\\040\" c,é']\n0\n",
        );
    }
}

/// A dead server is not listed as a living one while nobody has waited for it, and a server whose
/// keeper is gone is told as the last.
#[test]
fn the_dead_are_not_listed_as_living() {
    if !possible() {
        return;
    }
    let place = Mounted::place("kernel-list-dead");
    let (source, target) = (place.text("source"), place.text("target"));
    let program = script!("kernel_administered/the_dead_are_not_listed_as_living-program.py");
    let done = shell(&format!(
        "python3 -c \"{program}\" {} {source} {target}",
        world().culvert.display()
    ));
    assert_eq!(
        done.text(),
        "True False True\nFalse True\n",
        "{}",
        done.report()
    );
}
