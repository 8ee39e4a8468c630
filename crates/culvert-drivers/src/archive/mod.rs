//! Archives as directories: tar, cpio and ar, also compressed, zip, 7z, packages of Debian and of
//! RPM, and images of ISO 9660, read in place through an index that is built once.
//!
//! ```text
//! launcher:  archive file -> codec (compressed) -> scanner of the format -> tree -> index file
//! process:   archive file + index file, both mapped -> ArchiveFs -> members
//! ```

mod ar;
pub mod build;
pub mod bytes;
pub mod cache;
pub mod codec;
mod contents;
mod cpio;
mod file;
mod filesystem;
pub mod format;
pub(crate) mod hash;
pub mod host;
pub mod index;
mod iso;
pub mod kind;
pub mod listing;
mod options;
pub mod package;
mod prepare;
mod scan;
pub mod serial;
mod sevenz;
pub mod tar;
pub mod tree;
pub mod warning;
pub mod zip;

pub use build::Progress;
pub use bytes::Bytes;
pub use filesystem::ArchiveFs;
pub use options::{DECLARED, OPTIONS, Options};
pub use prepare::{detect, open, prepare};
pub use warning::{Warning, Warnings};
