//! Archives as directories: tar, compressed tar and zip, read in place through an index that is
//! built once.
//!
//! ```text
//! launcher:  archive file -> codec (compressed) -> tar or zip scanner -> tree -> index file
//! process:   archive file + index file, both mapped -> ArchiveFs -> members
//! ```

pub mod bytes;
pub mod codec;
mod contents;
mod file;
mod filesystem;
pub mod format;
mod hash;
pub mod host;
pub mod index;
mod options;
mod prepare;
pub mod tar;
pub mod tree;
pub mod warning;
pub mod zip;

pub use bytes::Bytes;
pub use filesystem::ArchiveFs;
pub use index::build::Progress;
pub use options::{DECLARED, OPTIONS, Options};
pub use prepare::{detect, open, prepare};
pub use warning::{Warning, Warnings};
