//! The FUSE protocol (`include/uapi/linux/fuse.h`), every message typed once and used in both
//! directions.
//!
//! | half | takes | gives |
//! |---|---|---|
//! | server | [`Request::decode`] | [`Reply::encode`], [`Notification::encode`] |
//! | client (the kernel's part) | [`Reply::decode`], [`Notification::decode`] | [`Request::encode`] |
//!
//! Decoding copies neither names nor data: they are borrowed from the buffer. Encoding gives a
//! [`Message`]: fixed parts by value, names and data borrowed, to be written by one writev(2).
//! Nothing allocates, nothing panics, and no number that a peer sent is believed before it was
//! compared with the bytes that are there: a hostile peer gets an error ([`Malformed`]).
//!
//! Versions 7.[`OLDEST_MINOR`] (Linux 5.4) to 7.[`NEWEST_MINOR`] (Linux 6.18) are spoken. What
//! differs between them is said by [`Protocol`], which INIT negotiates. As a client it speaks to
//! servers of 7.[`OLDEST_SERVER_MINOR`] on, with the sizes of before 7.9 and 7.12
//! (`FUSE_COMPAT_*`): libfuse 2 says 7.19. A server never meets them.
//!
//! Left out: `FUSE_SETUPMAPPING` and `FUSE_REMOVEMAPPING`, because only virtiofs sends them (they
//! speak of its shared-memory window, which neither /dev/fuse nor a socket has), and CUSE, which
//! serves character devices, not file systems. They arrive as [`Operation::Unknown`], whose answer
//! is `ENOSYS`.
#![no_std]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

mod directory;
mod extension;
mod field;
mod flags;
mod input;
mod message;
mod message_table;
mod notification;
mod plain;
mod protocol;
mod reply;
mod request;
pub mod structures;
#[cfg(test)]
mod tests;

pub use directory::{DirectoryEntries, DirectoryEntriesPlus, DirectoryWriter, WireEntry};
pub use extension::{Extension, Extensions, Groups, SecurityContext, SecurityContexts};
pub use field::{Data, Forgets, Name, Nodes, Text};
pub use flags::InitFlags;
pub use input::Malformed;
pub use message::{MAXIMUM_PIECES, Message};
pub use notification::Notification;
pub use plain::Plain;
pub use protocol::{MAJOR, NEWEST_MINOR, OLDEST_MINOR, OLDEST_SERVER_MINOR, Protocol};
pub use reply::{Answer, Expects, Reply};
pub use request::{Operation, Request};

/// The node number of the root (`FUSE_ROOT_ID`).
pub const ROOT_ID: u64 = 1;

/// The smallest buffer that requests may be read into (`FUSE_MIN_READ_BUFFER`); in fact a header, a
/// `fuse_write_in` and `max_write` bytes are needed.
pub const MINIMUM_BUFFER: usize = 8192;

/// Set in [`structures::InHeader::unique`] of a request that is sent again after
/// [`Notification::Resend`] (`FUSE_UNIQUE_RESEND`).
pub const UNIQUE_RESEND: u64 = 1 << 63;
