//! Logs of the layer `log`: the processes that write them, and `culvert log`, which reads them.

mod read;
mod write;

pub use read::{Read, read};
pub use write::{Job, note_idle, start, until_over, write};

/// The word with which the command becomes the process that writes a log.
pub const WRITER: &str = "run-log";
