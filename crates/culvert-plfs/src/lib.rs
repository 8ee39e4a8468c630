//! What `culvert plfs` does with containers, by their paths on a back end.
//!
//! ```text
//! container -> scan (droppings, metalinks) -> index (records, merged) -> map, query, flatten, plot
//!                                          -> check, recover
//! ```

mod check;
mod maps;
mod open;
mod plot;
mod scan;

pub use check::{Findings, check, recover};
pub use maps::{flatten, list, map, query, version};
pub use plot::plot;
pub use scan::{Progress, Scan};

use std::io;

/// An error of kind `InvalidData` with this text.
fn wrong(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}
