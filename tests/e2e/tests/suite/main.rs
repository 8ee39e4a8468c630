//! The end-to-end suite; see the crate's documentation.

mod archives;
mod boundary;
mod changing;
mod command_line;
mod heritage;
mod limits;
mod paths;
mod permissions;
mod programs;
mod reading;
mod surroundings;
mod untouched;
