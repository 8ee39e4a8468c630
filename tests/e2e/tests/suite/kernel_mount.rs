//! Kernel mounts (`culvert mount`): the same programs natively and on the mount.
//!
//! They need /dev/fuse and, but for the one of ordinary users, root.

use culvert_e2e::{Case, Driver, User, world};
use std::path::Path;

/// Whether kernel mounts can be tried here.
fn possible() -> bool {
    let possible = world().is_root() && Path::new("/dev/fuse").exists();
    if !possible {
        eprintln!("not tested: kernel mounts need root and /dev/fuse");
    }
    possible
}

/// The groups `names` of `program`, each for each driver and user.
fn groups(driver: Driver, user: User, program: &str, names: &[&str]) {
    if !possible() {
        return;
    }
    for name in names {
        let case = Case::new(
            &format!("kernel-{program}-{name}-{}-{user:?}", driver.name()),
            user,
        )
        .directory(driver);
        let program = case.program(program);
        let script = format!("umask 022; cd $M && OUTSIDE=$W/outside exec {program} {name}");
        let done = case.same_on_kernel_mount(&["bash", "-c", &script]);
        assert_eq!(done.status, "exit 0", "{script}\n{}", done.report());
    }
}

macro_rules! on_kernel_mounts {
    ($($name:ident $program:literal $names:expr;)*) => { $(
        mod $name {
            use super::*;
            #[test]
            fn passthrough_as_root() { groups(Driver::Passthrough, User::Me, $program, $names); }
            #[test]
            fn passthrough_as_nobody() { groups(Driver::Passthrough, User::Nobody, $program, $names); }
            #[test]
            fn driven_as_nobody() { groups(Driver::Driven, User::Nobody, $program, $names); }
            #[test]
            fn memory_as_nobody() { groups(Driver::Memory, User::Nobody, $program, $names); }
        }
    )* };
}

// Not "append" of `writing`: FUSE does not tell the server of RWF_NOAPPEND.
on_kernel_mounts! {
    bytes "writing" &["write", "vectors", "half", "open", "size", "limit", "umask", "transfer", "map", "shared-map"];
    locks "locking" &["record", "close", "numbers", "descriptions", "wait", "exec"];
    sharing "sharing" &["offset", "append", "readers", "heirs", "killed"];
}
