//! The archive driver against archives that the system's own tools make.

mod compare;
mod conformance;
mod explore;
mod hostile;
mod mount;
mod mutate;
mod tar;
mod tools;
mod zip;
