//! Programs that map the files they work on, on every driver. Each finds out by itself whether all
//! is right; natively too.
//!
//! `CULVERT_E2E_FULL=1` makes them long, in every cell; `CULVERT_FSX_OPERATIONS` says how much fsx
//! does (5,000).

mod databases;
pub mod suites;
mod tools;

use culvert_e2e::{Case, Driver, User, world};
use std::time::Duration;

/// Who runs a program, what serves its directory, and whether that is worth its time when programs
/// run short. As root driven files are filled on demand where the kernel lets it, as an ordinary
/// user before they are mapped.
const CELLS: &[(Driver, User, bool)] = &[
    (Driver::Passthrough, User::Nobody, false),
    (Driver::Driven, User::Me, true),
    (Driver::Driven, User::Nobody, true),
    (Driver::NoDescriptor, User::Me, true),
    (Driver::NoDescriptor, User::Nobody, true),
    (Driver::Layered, User::Nobody, false),
    (Driver::Memory, User::Me, true),
    (Driver::Memory, User::Nobody, true),
];

/// Declares tests of programs: `NAME |case, driver| ...;`, each natively and in every cell of
/// [`CELLS`].
macro_rules! mapped {
    ($($(#[$meta:meta])* $name:ident $body:expr;)*) => { $(
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::mapped::mapped! { @cells $body, natively 8, passthrough 0, driven_as_self 1, driven 2, no_descriptor_as_self 3, no_descriptor 4, layered 5, memory_as_self 6, memory 7 }
        }
    )* };
    (@cells $body:expr, $($cell:ident $number:literal),*) => { $(
        #[test]
        fn $cell() { $crate::mapped::in_cell(module_path!(), $number, $body); }
    )* };
}
pub(crate) use mapped;

/// A program in one cell.
pub struct Trial {
    case: Case,
    natively: bool,
}

/// Runs `body` in a cell; the one after the last is a directory of the kernel.
fn in_cell(name: &str, number: usize, body: fn(Trial)) {
    let natively = number == CELLS.len();
    let usual = (Driver::Passthrough, User::Nobody, true);
    let (driver, user, always) = *CELLS.get(number).unwrap_or(&usual);
    if !always && !full() || user == User::Nobody && !world().is_root() {
        return;
    }
    let short = name.rsplit("::").next().unwrap_or(name);
    let case = Case::new(&format!("mapped-{short}-{number}"), user)
        .directory(driver)
        .limit(Duration::from_secs(if full() { 6 * 3600 } else { 120 }));
    body(Trial { case, natively });
}

impl Trial {
    /// Runs a script that must end well, in `$M`. Afterwards `verify` must end well natively, in
    /// what the driver has behind it.
    #[track_caller]
    fn right(&self, script: &str, verify: &str) {
        let script = format!("set -e; cd $M\n{script}");
        let words = ["bash", "-c", &script];
        let done = match self.natively {
            true => self.case.natively(&words),
            false => self.case.through_culvert(&words),
        };
        assert_eq!(done.status, "exit 0", "{script}\n{}", done.report());
        if let (Some(tree), false, false) = (self.case.behind(), verify.is_empty(), self.natively) {
            let script = format!("set -e; cd '{}'; export M=$PWD\n{verify}", tree.display());
            let done = self.case.alone(&["bash", "-c", &script]);
            assert_eq!(done.status, "exit 0", "{script}\n{}", done.report());
        }
    }

    /// The path of a program of `programs`.
    fn program(&self, name: &str) -> String {
        self.case.program(name)
    }

    /// Whether `user` runs it who has all rights.
    fn as_root(&self) -> bool {
        self.case.user() == User::Me && world().is_root()
    }
}

/// Whether programs run long (`CULVERT_E2E_FULL=1`).
fn full() -> bool {
    std::env::var_os("CULVERT_E2E_FULL").is_some()
}
