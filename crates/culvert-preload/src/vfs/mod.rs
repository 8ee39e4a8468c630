//! What the kernel's virtual file system decides, over mounts, nodes and the caller: where paths
//! lead, and for each operation the order of its checks and effects. Nothing here reads a call's
//! registers.

pub mod access;
pub mod backed;
pub mod backed_open;
pub mod busy;
pub mod copy;
pub mod create;
pub mod fifos;
pub mod host;
pub mod inotify;
pub mod ioctl;
pub mod link;
pub mod list;
pub mod map;
pub mod misses;
pub mod mount_points;
pub mod native;
pub mod node;
pub mod open;
pub mod opened;
pub mod own_file;
pub mod path;
pub mod permission;
pub mod proc_files;
mod proc_maps;
pub mod read;
pub mod readlink;
pub mod ready;
pub mod remove;
pub mod rename;
pub mod setattr;
pub mod shown;
pub mod splice;
pub mod sync;
pub mod targets;
pub mod truncate;
pub mod two_paths;
pub mod unix_sockets;
pub mod working_directory;
pub mod write;
pub mod xattr;
