//! The driver plfs.

mod conformance;
mod fixtures;
mod groups;
mod hostile;
mod names;
mod service;
mod small;
mod tables;
mod tls;
mod tools;
mod writers;
