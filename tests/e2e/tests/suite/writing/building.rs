//! Compilers and build tools that work on the mount.

use super::{good, same};
use culvert_e2e::{Case, Driver, User, installed, on_each_driver, sources};
use std::time::Duration;

on_each_driver! {
    gcc_and_make |case| {
        let lz4 = sources("lz4-sys");
        good(&case.limit(Duration::from_secs(150)), &script!("writing/building/gcc_and_make.sh", lz4 = lz4.display()));
    };

    programs_on_the_mount_are_replaced |case| same(&case,
        script!("writing/building/programs_on_the_mount_are_replaced.sh"));
}

/// cargo keeps locks, hard links, fingerprints by time, and a package cache. Only for whom the
/// toolchain is installed.
fn cargo(driver: Driver) {
    // cargo, which runs the tests, tells them where it is; asked second, for who is not installed
    // is noted down.
    if std::env::var_os("CARGO").is_none() && !installed("cargo") {
        return;
    }
    let home = std::env::var("CARGO_HOME")
        .unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()));
    let rustup = std::env::var("RUSTUP_HOME")
        .unwrap_or_else(|_| format!("{}/.rustup", std::env::var("HOME").unwrap_or_default()));
    let package = if super::full() { "lz4-sys" } else { "shlex" };
    let case = Case::new(&format!("cargo-{}", driver.name()), User::Me)
        .directory(driver)
        .limit(Duration::from_secs(300))
        .variable("RUSTUP_HOME", rustup)
        .variable("CARGO_NET_OFFLINE", "true")
        .variable("CARGO_TERM_PROGRESS_WHEN", "never");
    good(
        &case,
        &script!(
            "writing/building/cargo.sh",
            home,
            sources = sources("").display(),
            package
        ),
    );
}

#[test]
fn cargo_builds_on_passthrough() {
    cargo(Driver::Passthrough);
}

#[test]
fn cargo_builds_on_driven() {
    cargo(Driver::Driven);
}

#[test]
fn cargo_builds_in_memory() {
    cargo(Driver::Memory);
}
