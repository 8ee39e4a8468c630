//! The differential fuzzer: random programs of file-system calls, run natively and through Culvert,
//! and compared call by call.
//!
//! A *program* is a list of steps, one a line: the number of an *actor* (a process or a thread), an
//! operation, its words.
//!
//! ```text
//! 0 openat a cwd d/f O_RDWR|O_CREAT 0644     descriptor into slot a
//! 0 fork 1                                   actor 1 is a child of actor 0, with its slots
//! 1 write a 100
//! 0 lseek a 0 SEEK_CUR
//! ```
//!
//! The *executor* (`executor/*.c`) carries it out with real system calls. Actors take turns in the
//! order of the lines, so that nothing depends on timing, and each step prints one line: result or
//! errno, contents, attributes in a form in which two runs can be compared. At the end everything
//! in the mount and in the directory beside it is listed.
//!
//! Natively the tree is bound to the mount's path in a mount namespace; so every path is the same
//! on both sides.
//!
//! Words: a descriptor is a slot (`a` to `z`), `cwd`, or `#N`; in paths `{m}` is the mount, `{o}`
//! the directory beside it, `{fd:a}` the number in a slot, `{x:255}` the text before the colon so
//! many times, `{null}` and `{bad}` are pointers. Lines that begin with `#` are comments, `#!
//! ticks` and `#! user nobody` are options of the whole program.

#![forbid(unsafe_code)]

mod accept;
mod compare;
mod generate;
mod mount;
mod original;
mod program;
mod random;
mod shrink;
mod world;

pub use accept::{suited, suited_to_disk};
pub use compare::{Difference, compare, report};
pub use generate::{generate, generate_mapped};
pub use mount::Mount;
pub use original::Original;
pub use program::{Program, Step};
pub use shrink::{difference, shrink, smaller};
pub use world::{Finished, Place, World, built_culvert};
