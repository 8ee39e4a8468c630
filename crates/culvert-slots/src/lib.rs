//! Messages of the FUSE protocol between processes, in slots of shared memory.
//!
//! A client (the driver for FUSE servers) knows only [`Channel`]. This crate does not know what the
//! messages mean.
#![no_std]

mod channel;

pub use channel::{Body, Caller, Channel, Payload};
