//! The end-to-end suite; see the crate's documentation.

mod archives;
mod bad_input;
mod boundary;
mod changing;
mod command_line;
mod heritage;
mod limits;
mod matrix;
mod paths;
mod permissions;
mod programs;
mod reading;
mod suites;
mod surroundings;
mod untouched;
mod writing;
