//! The driver plfs.

mod conformance;
mod fixtures;
mod groups;
mod hostile;
mod referee;
mod service;
mod tables;
mod tools;
mod writers;
