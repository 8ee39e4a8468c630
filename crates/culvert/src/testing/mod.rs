//! The conformance kit: whether a driver keeps the contract of [`FileSystem`](crate::FileSystem).
//!
//! [`reading`] compares a driver with a [`Tree`], a description of what it shall show, and asks
//! everything that the reading half of the API promises. [`writing`] makes, changes and removes
//! files on a fresh file system. Both return a [`Report`], whose failures name the rule broken and
//! the place.
//!
//! ```
//! use culvert::testing::{Memory, Tree, caller, reading, writing};
//! use culvert::FileSystem;
//!
//! let memory = Memory::new();
//! memory.mkdir(&caller(), memory.root(), b"empty", 0o755).unwrap();
//! let expected = Tree::new().directory("empty").permissions(0o755);
//! reading(&memory, &expected).assert_ok();
//! reading(&memory.read_only(), &expected).assert_ok();
//!
//! writing(&|| Box::new(Memory::new())).assert_ok();
//! ```
//!
//! The kit is itself tested: for every one of its [`RULES`] there is a driver that breaks it, and
//! the kit must say so.

mod fill;
mod memory;
mod reading;
mod rules;
mod sharing;
mod sinks;
mod tree;
mod writing;

pub use fill::fill;
pub use memory::Memory;
pub use reading::reading;
pub use rules::RULES;
pub use sharing::sharing;
pub use tree::Tree;
pub use writing::writing;

use crate::{Caller, Errno, Result};
/// `fd`, as the standard library has descriptors.
fn of_std(fd: crate::OwnedFd) -> std::os::fd::OwnedFd {
    // SAFETY: it has given the number up.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd.into_raw()) }
}

use std::{
    format,
    panic::{AssertUnwindSafe, catch_unwind},
    string::{String, ToString},
    vec::Vec,
};

/// The caller that the kit acts as: the superuser, who may do everything.
pub const fn caller() -> Caller<'static> {
    user(0, 0)
}

const fn user(uid: u32, gid: u32) -> Caller<'static> {
    Caller {
        uid,
        gid,
        groups: &[],
        pid: 1,
        umask: 0o022,
        rights: None,
    }
}

/// A rule that a driver broke.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The rule's short name (`every-entry-once`).
    pub rule: &'static str,
    /// Where, what was expected and what came.
    pub what: String,
}

/// What the kit found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Everything that was wrong, in the order found; at most ten for each rule.
    pub failures: Vec<Failure>,
    /// How many single checks were made.
    pub checks: usize,
}

impl Report {
    /// Panics with all failures when there are any: for the end of a test.
    #[track_caller]
    pub fn assert_ok(&self) {
        let lines = self
            .failures
            .iter()
            .map(|f| format!("  {}: {}\n", f.rule, f.what));
        let text: String = lines.collect();
        assert!(
            self.failures.is_empty(),
            "the driver breaks its contract:\n{text}"
        );
    }

    /// Whether `rule` was broken.
    pub fn broke(&self, rule: &str) -> bool {
        self.failures.iter().any(|failure| failure.rule == rule)
    }

    fn fail(&mut self, rule: &'static str, what: impl Into<String>) {
        debug_assert!(RULES.iter().any(|(name, _)| *name == rule), "{rule}");
        if self.failures.iter().filter(|f| f.rule == rule).count() < 10 {
            let what = shortened(what.into());
            self.failures.push(Failure { rule, what });
        }
    }

    /// One check: `what` says where, should `holds` be false.
    fn check(&mut self, rule: &'static str, holds: bool, what: impl FnOnce() -> String) {
        self.checks += 1;
        if !holds {
            self.fail(rule, what());
        }
    }

    /// Two values that must be equal.
    fn equal<T: PartialEq + core::fmt::Debug>(
        &mut self,
        rule: &'static str,
        place: &str,
        got: T,
        want: T,
    ) {
        self.check(rule, got == want, || {
            format!("{place}: {got:?}, not {want:?}")
        });
    }

    /// A call that must succeed.
    fn works<T>(&mut self, rule: &'static str, place: &str, result: Result<T>) -> Option<T> {
        self.checks += 1;
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(rule, format!("{place}: fails with {error:?}"));
                None
            }
        }
    }

    /// A call that must fail with `errno`.
    fn refused<T>(&mut self, rule: &'static str, place: &str, result: Result<T>, errno: Errno) {
        self.checks += 1;
        match result {
            Ok(_) => self.fail(rule, format!("{place}: works, should fail with {errno:?}")),
            Err(error) if error.errno() == errno => {}
            Err(error) => self.fail(
                rule,
                format!("{place}: fails with {error:?}, not {errno:?}"),
            ),
        }
    }

    /// Runs a part of the kit; a panic in it is a failure of the driver.
    fn part(&mut self, name: &str, part: impl FnOnce(&mut Self)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| part(self))) {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            self.fail("no-panic", format!("{name}: {}", text.unwrap_or_default()));
        }
    }
}

/// Enough of a message to understand it: whole listings and contents are compared here.
fn shortened(what: String) -> String {
    const LONGEST: usize = 600;
    match what.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ... ({} bytes)", &what[..end], what.len()),
        None => what,
    }
}

/// Bytes of a path for messages.
fn shown(path: &[u8]) -> String {
    format!("/{}", path.escape_ascii())
}

#[cfg(test)]
mod broken;
#[cfg(test)]
mod tests;
