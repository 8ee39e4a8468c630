//! A directory, as it is.
//!
//! The mount *is* the source: names, inodes, owners and times are its own, and the kernel itself
//! judges what the caller may do. Files are handed out as the kernel's own descriptors. With the
//! option `driven` the same files are served by calls into the driver instead.
//!
//! ```text
//! prepare:  source -> checked directory and its identity (device, inode)
//! open:     source -> root descriptor, compared with the identity
//! calls:    node -> O_PATH descriptor (nodes) -> the kernel's *at call (kernel)
//! ```

pub(crate) mod attributes;
mod by_path;
mod changes;
mod closed;
mod file;
mod filesystem;
mod finding;
mod glance;
mod holds;
pub(crate) mod inotify;
pub(crate) mod kernel;
mod listing;
mod named;
mod nodes;
mod object;
mod options;
mod pins;
mod prepare;
mod search;
mod seen;
mod table;
mod watch;
mod watched;

pub(crate) use attributes::times;
pub(crate) use closed::{file_handle, file_system_identity};
pub use file::{DescriptorFile, unhindered};
pub use filesystem::PassthroughFs;
pub(crate) use glance::Glance;
pub(crate) use kernel::reopen;
pub(crate) use listing::entries;
pub(crate) use nodes::mix;
pub use options::{DECLARED, OPTIONS, Options};
pub(crate) use options::{WATCH, WRITABLE};
pub use prepare::{open, prepare};
