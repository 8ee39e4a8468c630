//! Extensions: a program answers requests of a FUSE mount inside the kernel, before its server
//! hears of them.
//!
//! The module `culvert-fuse-ext` runs the program ([`module`]); the kernel's verifier has looked
//! at it before ([`bpf`]). Programs are objects of clang ([`object`]) that come compiled: the
//! loader is bpf(2) itself, because they need neither relocations against the kernel's types nor
//! anything else of libbpf. [`Extension`] is the one that comes with Culvert: names, attributes and
//! extended attributes from tables that the server fills, and a log, as [`Parts`] say. An author's
//! own is a [`Program`], with [`Map`]s that both sides change. Who has no privilege asks the
//! [`loader`] service.
#![warn(missing_docs)]

mod author;
pub mod bpf;
mod extension;
mod loaded;
pub mod loader;
mod log;
pub mod module;
pub mod object;
mod parts;
mod paths;
mod tables;

pub use author::{Map, Maps, Program, attach};
pub use extension::{Before, Extension, Touched};
pub use parts::Parts;
pub use paths::{Moving, Paths};
