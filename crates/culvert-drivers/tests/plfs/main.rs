//! The driver plfs.

mod conformance;
mod fixtures;
mod groups;
mod hostile;
mod service;
mod tables;
mod tools;
mod writers;
