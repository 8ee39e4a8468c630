//! Messages of the FUSE protocol between processes, in slots of shared memory.
//!
//! A client (the driver for FUSE servers) knows only [`Channel`], which [`Client`] is. [`Server`]
//! is the other side. This crate does not know what the messages mean, but for those that have no
//! reply, and those that close a file.
//!
//! A slot is a word, an owner and a payload. The owner claims the slot, by one instruction that
//! also says who it is; the word says where its request is:
//!
//! ```text
//!             owner                   server                  server
//!     free ----------> posted ----------------> taken ----------------> done
//!      ^  <----------    |                        |                       |
//!      |   taken back                  no reply   |                owner  |
//!      +------------------------------------------+-----------------------+
//! ```
//!
//! A client may die in any state. Its slots are freed by others; one that the server has in hand
//! becomes an orphan, and whoever sees its reply first frees it. What the server has in hand it
//! remembers in its own memory, so that nobody answers, or holds up, what another has written
//! there.
#![no_std]

extern crate alloc;

mod area;
pub mod backing;
mod channel;
mod client;
mod entries;
mod extension;
mod held;
mod identity;
mod processor;
mod requests;
mod server;
mod steps;
#[cfg(test)]
mod tests;
pub mod waiters;

pub use area::{AREA, Area, BELL, GUARD, LARGEST, SLOTS, Session, open_fifo};
pub use channel::{Begun, Body, Caller, Channel, Extension, OpenFile, Payload};
pub use client::cut::{Noted, cut, has_area_of};
pub use client::{Client, Heir};
pub use held::Held;
pub use processor::{BULK, LOOK, cycles, processor};
pub use server::{Caches, IN_HEADER, Message, OUT_HEADER, Reply, Server};
