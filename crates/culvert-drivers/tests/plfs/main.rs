//! The driver plfs.

mod conformance;
mod fixtures;
mod hostile;
mod tools;
mod writers;
