//! Mounts whose file system is another program: a FUSE server, which runs as it is, intercepted,
//! and finds /dev/fuse in slots of shared memory (`culvert_preload::fuse_server`).
//!
//! Drivers of ours may run so, too (`place=host`): the server is then the command itself, as a
//! host.
//!
//! Each server has a run of its own, in whose directory the slots lie and whose mounts are those
//! that the command itself sees: so it never sees its own. A *guardian* starts it, outside of all
//! programs, and is there as long as a run uses it: several runs of a user on the same mount have
//! one server ([`shared`]).

pub mod adapter;
mod again;
pub mod command;
mod ending;
mod guardian;
mod heirs;
mod left;
mod lines;
mod listed;
mod place;
mod shared;
mod start;
mod surroundings;
mod terminal;
mod watching;
mod way;

pub use again::turn_of;
pub use culvert_drivers::fuse::is_served;
pub use guardian::guard;
pub use listed::{Listed, listed};
pub use place::Place;
pub use shared::inherits;
pub use start::{Job, start};
pub use way::Way;

/// The word with which the command becomes a guardian.
pub const GUARDIAN: &str = "run-fuse";

/// The number by which a server has the device from its start, where its command names it: none
/// that starting it uses.
const DEVICE: i32 = 100;
/// What such a command has for the mount point: libfuse 3.3 and go-fuse take the descriptor, and
/// mount nothing.
const DEVICE_PATH: &str = "/dev/fd/100";

/// The word with which the command becomes a host.
pub const HOST: &str = "run-host";

/// The word with which the command becomes an adapter.
pub const ADAPTER: &str = "run-adapter";

unsafe extern "C" {
    /// dup2(2).
    safe fn dup2(from: i32, to: i32) -> i32;
}
