//! Drivers outside of this repository: the C ABI of `culvert/driver.h`, and a driver by paths in
//! Rust as a library that has it.
//!
//! An author's crate is a `cdylib` that depends on this one. It implements
//! [`PathFileSystem`](crate::path::PathFileSystem) and [`Mounted`], and says
//! [`export_driver!`](crate::export_driver). So there is one ABI: the library is loaded as one in C
//! is, and refused as one in C is where its version is another.

pub mod abi;
mod answers;
mod export;
#[doc(hidden)]
pub mod freestanding;
mod maps;
mod waits;

pub use answers::{UNCHANGED, UTIME_OMIT, time_of, times};
pub use export::{Exported, MountRequest, Mounted};
pub use waits::change;
