//! Extensions: a program answers requests of a FUSE mount inside the kernel, before its server
//! hears of them.
//!
//! The module `culvert-fuse-ext` runs the program ([`module`]); the kernel's verifier has looked
//! at it before ([`bpf`]). Programs are objects of clang ([`object`]) that come compiled: the
//! loader is bpf(2) itself, because they need neither relocations against the kernel's types nor
//! anything else of libbpf. [`Metadata`] is the one that comes with Culvert: names, attributes and
//! absent extended attributes from tables that the server fills.
#![warn(missing_docs)]

pub mod bpf;
mod metadata;
pub mod module;
pub mod object;
mod tables;

pub use metadata::{Before, Metadata, Touched};
