//! What is mounted where: the words of the command line, and the form in which a run's mounts travel to every process.

use alloc::{string::String, vec::Vec};

/// One mount as the user asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The driver's name (`archive`).
    pub driver: String,
    /// What it serves; its meaning is the driver's. Paths are absolute by the time a mount travels.
    pub source: Vec<u8>,
    /// Where: an absolute path without links, `.`, `..` or trailing slash.
    pub target: Vec<u8>,
    /// `name=value` options, or bare names with an empty value, in the order given.
    pub options: Vec<(String, Vec<u8>)>,
}
