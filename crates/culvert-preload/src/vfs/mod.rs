//! What the kernel's virtual file system decides: over mounts, nodes and the caller, without a
//! system call's registers and the program's memory.

pub mod permission;
