//! The file systems that come with Culvert.
//!
//! The crate is `no_std`: it is linked into `libculvert.so`, which lives in other people's processes.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod archive;
