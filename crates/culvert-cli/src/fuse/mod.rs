//! Mounts whose file system is another program: a FUSE server, which runs as it is, intercepted, and
//! finds /dev/fuse in slots of shared memory (`culvert_preload::fuse_server`).
//!
//! Each server has a run of its own, in whose directory the slots lie and whose mounts are those
//! that the command itself sees: so it never sees its own. A *guardian* starts it, outside of all
//! programs, and is there as long as the run is.

mod guardian;
mod lines;
mod start;

pub use culvert_drivers::fuse::is_served;
pub use guardian::guard;
pub use start::{Job, start};

/// The word with which the command becomes a guardian.
pub const GUARDIAN: &str = "run-fuse";
