//! Whose rights count: those of the thread, with its capabilities, as tables of what each may.

use crate::kernel_mount::possible;
use culvert_e2e::{Case, Driver, User, world};
use std::time::Duration;

/// Thousands of calls, each by another user than the one before.
const LIMIT: Duration = Duration::from_secs(300);

#[test]
fn credentials_belong_to_the_thread() {
    if !world().is_root() {
        return;
    }
    for driver in [Driver::Memory, Driver::Driven, Driver::Passthrough] {
        let case = Case::new(&format!("thread-{driver:?}"), User::Me).directory(driver);
        let program = case.program("credentials");
        let done = case.good(&format!("{program} $M"));
        assert!(done.text().lines().count() > 100, "{}", done.report());
    }
}

/// Moving directories, set-group-ID at chmod, chown to nobody and to others, writes into what
/// others own.
const TABLES: &[&str] = &["moves", "chmods", "nobody", "chowns", "writes"];

#[test]
fn owners_and_modes_decide_as_natively() {
    if !world().is_root() {
        return;
    }
    for driver in [Driver::Memory, Driver::Driven] {
        let case = Case::new(&format!("owners-{driver:?}"), User::Me)
            .directory(driver)
            .limit(LIMIT);
        let program = case.program("ownership.py");
        for table in TABLES {
            let done = case.good(&format!("python3 {program} $M {table}"));
            assert!(done.text().lines().count() >= 20, "{}", done.report());
        }
    }
}

/// The same on a kernel mount that root serves. Two tables are the kernel's there: a stranger's
/// chown to nobody is not refused, though it changes nothing but a time, and a write takes
/// set-group-ID only where the group may execute.
#[test]
fn owners_and_modes_decide_as_natively_on_kernel_mounts() {
    if !world().is_root() || !possible() {
        return;
    }
    let case = Case::new("owners-kernel", User::Me)
        .directory(Driver::Memory)
        .limit(LIMIT);
    let program = case.program("ownership.py");
    let words = ["--allow-other", "-o", "suid"];
    let script = format!("python3 {program} $M moves chmods chowns");
    case.same_on_kernel_mount_with(&words, &["bash", "-c", &script]);
}
