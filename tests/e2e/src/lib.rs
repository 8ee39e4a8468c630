//! End-to-end tests of Culvert: the same program twice.
//!
//! Every differential test runs a command *natively*, on an unpacked tree that is bind-mounted
//! read-only at the target path in a private mount namespace, and *through culvert*, on an archive
//! of that tree at the same path. Outputs, exit statuses and messages must be equal; so paths can
//! be printed, links into the target work on both sides, and a changing call natively fails the way
//! it fails on any read-only mount. Tests of drivers that write run natively in an empty directory
//! that is bind-mounted at the target path, and through culvert in another, see [`Driver`].
//!
//! The tests need `culvert`, `culvert-full` and `libculvert.so` of a release build: `CULVERT_BIN`
//! names the command, else `$CARGO_TARGET_DIR/release/culvert`, else `target/release/culvert` of
//! the workspace. With `CULVERT_E2E_NATIVE=1` both sides run natively, which tests the tests.

#![forbid(unsafe_code)]

#[macro_use]
mod script;

mod caches;
mod case;
mod driver;
mod environments;
mod fixture;
mod page;
mod process;
mod suites;
mod world;

pub use caches::{caches_may_go, caches_stay};
pub use case::{Case, User, has_python_suite, installed, not_tested};
pub use driver::Driver;
pub use environments::can_be_made;
pub use fixture::Tree;
pub use page::stands_in;
pub use process::{Finished, run, run_within};
pub use script::filled;
pub use suites::{sources, suite};
pub use world::{Native, World, open_to_all, world};

/// Declares differential tests that run twice: as the user who runs the tests, and (where that is
/// root) as an ordinary user with no rights at all.
#[macro_export]
macro_rules! as_each_user {
    ($($(#[$meta:meta])* $name:ident $body:expr;)*) => { $(
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $(#[$meta])*
            #[test]
            fn as_self() { let body: fn($crate::Case) = $body; body($crate::Case::new(concat!(module_path!(), "-self"), $crate::User::Me)); }
            $(#[$meta])*
            #[test]
            fn as_nobody() {
                if $crate::world().is_root() {
                    let body: fn($crate::Case) = $body;
                    body($crate::Case::new(concat!(module_path!(), "-nobody"), $crate::User::Nobody));
                }
            }
        }
    )* };
}

/// Declares differential tests in a directory that can be written, each for every [`Driver`] named,
/// as the user who runs the tests and (where that is root) as an ordinary user:
/// `NAME::passthrough::as_nobody` and so on.
#[macro_export]
macro_rules! on_each_driver {
    ($($(#[$meta:meta])* $name:ident $body:expr;)*) => { $(
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::on_each_driver! { @driver $body, passthrough Passthrough, driven Driven, memory Memory,
                paths Paths }
            /// What is mounted in the kernel needs its administrator.
            #[test]
            fn bound() {
                if $crate::world().is_root() {
                    let body: fn($crate::Case) = $body;
                    body($crate::Case::new(concat!(module_path!(), "-bound"), $crate::User::Me).directory($crate::Driver::Bound));
                }
            }
        }
    )* };
    (@driver $body:expr, $($kind:ident $driver:ident),*) => { $(
        mod $kind {
            #[allow(unused_imports)]
            use super::*;
            #[test]
            fn as_self() {
                if !$crate::Driver::$driver.promises(module_path!()) {
                    return;
                }
                let body: fn($crate::Case) = $body;
                body($crate::Case::new(concat!(module_path!(), "-self"), $crate::User::Me).directory($crate::Driver::$driver));
            }
            #[test]
            fn as_nobody() {
                if $crate::world().is_root() && $crate::Driver::$driver.promises(module_path!()) {
                    let body: fn($crate::Case) = $body;
                    body($crate::Case::new(concat!(module_path!(), "-nobody"), $crate::User::Nobody).directory($crate::Driver::$driver));
                }
            }
        }
    )* };
}
