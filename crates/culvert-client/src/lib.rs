//! The driver for FUSE servers: a file system that speaks FUSE's protocol, as the kernel does, to a
//! server that knows only the kernel.
//!
//! ```text
//! front end -> FuseFs (this crate) -> Channel (slots in shared memory) -> server
//! ```
//!
//! A call of the driver API becomes requests, replies become its answer; what the kernel does in
//! `fs/fuse` is done here, and its functions are named where a rule comes from them.
//!
//! - `connection` asks: from an operation to its checked answer, and what the server does not have;
//! - `capabilities` is INIT, with a reason for each flag;
//! - `nodes` keeps what the server was asked to keep (lookup counts), and what it said for how
//!   long;
//! - `notices` hears what the server says of its own accord;
//! - `words` is what all clients of a server share, so that each sees what another changes,
//!   `remembered` what one was told and all believe, `pages` what one has read, `holders` who holds
//!   which nodes;
//! - `filesystem`, `file` and `directory` are the driver API.
//!
//! A server's node numbers are the driver's. A server has one session, so all processes of a run
//! have the same; a process must have looked one up to use it, or found it where all remember what
//! one has looked up ([`culvert::Capabilities::transient_nodes`]).
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod ahead;
mod attributes;
mod backing;
mod cached;
pub mod capabilities;
mod changes;
mod connection;
mod core;
mod data;
mod directory;
mod estate;
mod file;
mod filesystem;
mod holders;
mod large;
mod layout;
mod listing;
mod locks;
mod lookups;
mod nodes;
pub mod notices;
mod opens;
mod pages;
mod remembered;
mod settings;
mod stored;
mod words;

pub use estate::Estate;
pub use filesystem::FuseFs;
pub use holders::{Left, end_process};
pub use opens::{are_shared, end_run, end_shares, end_unheld, has_shares};
pub use settings::{InUse, Settings, place};
pub use words::{Counts, WORDS, disbelieve_pages};
