//! A complete file system in shared memory, used by all processes of a run directly: no server.
//!
//! ```text
//! launcher:  options -> shared file (run directory, or named) -> empty file system
//! process:   shared file, mapped in windows -> MemoryFs -> transactions (metadata), content locks (data)
//! ```

mod attributes;
mod blocks;
mod content;
mod content_lock;
mod core;
mod directory;
mod external;
mod file;
mod filesystem;
mod host;
mod image;
mod inode_blocks;
mod inodes;
mod kernel_files;
mod known_paths;
mod layout;
mod lock;
mod map;
mod names;
mod numa;
mod open_inodes;
mod opened;
mod options;
mod orphans;
mod paths;
mod places;
mod prepare;
mod ranges;
mod regions;
mod returned;
mod runs;
mod slots;
mod spill;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transaction;
mod upwards;
mod xattrs;

pub use filesystem::MemoryFs;
pub(crate) use host::set_aside;
pub use options::{DECLARED, OPTIONS, Options};
pub use prepare::{open, prepare};
pub use regions::{Files, Listed, Region, list_regions};
pub use spill::{SUFFIX as SPILL_SUFFIX, remove_linked as remove_spill};
