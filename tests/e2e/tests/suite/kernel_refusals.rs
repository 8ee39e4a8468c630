//! What an ordinary user is told when a mount cannot be made (as root: `kernel_mount`).

use crate::{
    kernel_life::privately,
    kernel_mount::{Mounted, possible, shell},
};
use culvert_e2e::{User, installed, world};

#[test]
fn an_ordinary_user_is_told_what_to_do() {
    if !possible() || !installed("fusermount3") {
        return;
    }
    let script = script!("kernel_refusals/an_ordinary_user_is_told_what_to_do.sh");
    let done = privately("kernel-refusals", User::Nobody, script);
    let text = done.text();
    let mut rest = &*text;
    for said in [
        "file: not a directory",
        "= 125",
        "none: No such file or directory",
        "mkdir -p",
        "= 125",
        "source ",
        "none: No such file or directory",
        "= 125",
        "no write access",
        "= 125",
        "full is not empty",
        "= 0",
        "full: mounted already",
        "culvert umount",
        "= 125",
        "ended 0",
        "x\n",
        "No such file or directory",
        "ended 0",
    ] {
        let found = rest.find(said);
        let at = found.unwrap_or_else(|| panic!("{said:?} is not next: {}", done.report()));
        rest = &rest[at + said.len()..];
    }
}

/// The device is not there, or not for this user.
#[test]
fn an_ordinary_user_is_told_that_run_needs_no_device() {
    if !possible() || !installed("fusermount3") {
        return;
    }
    let place = Mounted::place("kernel-no-device");
    let (source, target) = (place.text("source"), place.text("target"));
    let user = script!(
        "kernel_refusals/an_ordinary_user_is_told_that_run_needs_no_device-user.sh",
        target,
        culvert = world().culvert.display(),
        source
    );
    for hide in [
        "mount -t tmpfs none /dev",
        "touch {}.null; chmod 600 {}.null; mount --bind {}.null /dev/fuse",
    ] {
        let hide = hide.replace("{}", &target);
        let done = shell(&format!("unshare -m bash -c '{hide}; {user}'"));
        assert_eq!(done.status, "exit 125", "{}", done.report());
        assert!(done.errors().contains("culvert run"), "{}", done.report());
    }
}
