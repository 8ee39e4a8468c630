//! The rules of the boundary, each a test. Scenarios run in a process of their own: the test runs
//! its own executable again.

mod baseline;
mod clones;
mod copies;
mod faults;
mod jump;
mod registers;
mod signals;
mod stepped;
mod stub;
mod waits;

use crate::{Call, Config, ForkHooks, Interests, Outcome, install};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use culvert_sys::{nr, syscall};
use std::{process::Command, string::ToString};

/// Runs `scenario` in a process of its own, which may crash or hang.
fn alone(scenario: fn()) {
    const MARK: &str = "CULVERT_TEST_SCENARIO";
    if std::env::var_os(MARK).is_some() {
        // SAFETY: a number. SIGALRM ends a scenario that hangs.
        unsafe { syscall::raw(nr::ALARM, [60, 0, 0, 0, 0, 0]) };
        return scenario();
    }
    let name = std::thread::current()
        .name()
        .expect("tests have names")
        .to_string();
    let executable = std::env::current_exe().expect("a path");
    let output = Command::new(executable)
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(MARK, "1")
        .output()
        .expect("started");
    let text = std::string::String::from_utf8_lossy(&output.stdout).into_owned()
        + &std::string::String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}: {text}",
        output.status
    );
}

/// What the hook does, as a function pointer.
static HOOK: AtomicUsize = AtomicUsize::new(0);

fn handler(call: &mut Call) -> Outcome {
    match HOOK.load(Relaxed) {
        0 => Outcome::Forward,
        address => {
            // SAFETY: `hook` stored a function of this type.
            let function: fn(&mut Call) -> Outcome = unsafe { core::mem::transmute(address) };
            function(call)
        }
    }
}

/// Changes what the hook does.
fn hook(function: fn(&mut Call) -> Outcome) {
    HOOK.store(function as usize, Relaxed);
}

/// Installs the engine without patching; `hook` is offered every call that a [`stub`] makes.
fn start(function: fn(&mut Call) -> Outcome) {
    hook(function);
    start_as(false, false);
}

/// The same in a process that is said to have set no handlers.
fn start_fresh(function: fn(&mut Call) -> Outcome) {
    hook(function);
    start_as(true, false);
}

/// Installs it and patches libc; then `hook` is offered every call of this process.
fn start_patched(function: fn(&mut Call) -> Outcome) {
    start_as(false, true);
    hook(function);
}

fn start_as(fresh: bool, patch: bool) {
    let fork = ForkHooks {
        thread: || (),
        before: |_| (),
        parent: |_, _| (),
        child: |_| (),
    };
    let config = Config {
        handler,
        interests: &Interests::ALL,
        fork,
        fresh,
        patch,
        cache_directories: &[],
        images: None,
        known_images: &[],
        said_of_program: None,
        may_make_images: || true,
        log: |_| (),
    };
    // SAFETY: once, in a process of its own.
    unsafe { install(config) }.expect("installed");
}
