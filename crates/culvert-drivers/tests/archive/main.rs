//! The archive driver against archives that the system's own tools make.

mod compare;
mod conformance;
mod explore;
mod hostile;
mod iso;
mod mount;
mod mutate;
mod packages;
mod serial;
mod sevenz;
mod tar;
mod tools;
mod zip;
