//! What becomes of the records that the layer `log` sends ([`culvert_drivers::log`]).
//!
//! ```text
//! FIFO -> writer -> paths (nodes get names) -> config (is it wanted?) -> line (JSON, LoggedFS) -> file
//! file of JSON lines -> summary (counts, latencies, bytes) -> text, plot (SVG)
//! ```

mod action;
mod config;
mod escape;
mod json;
mod loggedfs;
mod paths;
mod plot;
mod summary;
mod time;
mod writer;

pub use config::Config;
pub use plot::plot;
pub use summary::{Summary, follow};
pub use writer::{Format, Job, Writer};
