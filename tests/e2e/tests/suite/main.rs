//! The end-to-end suite; see the crate's documentation.

mod archives;
mod bad_directories;
mod bad_input;
mod boundary;
mod changing;
mod changing_bytes;
mod command_line;
mod durability;
mod fault;
mod heritage;
mod isolation;
mod limits;
mod locking;
mod matrix;
mod passthrough_paths;
mod paths;
mod permissions;
mod programs;
mod reading;
mod sharing;
mod sockets;
mod static_tls;
mod suites;
mod surroundings;
mod untouched;
mod writing;
