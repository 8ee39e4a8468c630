//! What tests ask of a file system in memory.

mod check;

pub use check::check;
