//! The passthrough driver over real directories: of a tmpfs and of the disk, as root and as nobody.

mod closing;
mod conformance;
mod files;
mod nodes;
mod seen;
mod tools;
