//! The driver plfs.

mod conformance;
mod fixtures;
mod hostile;
mod service;
mod tools;
mod writers;
