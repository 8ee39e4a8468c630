//! The inodes that a process has open, as it keeps them for itself (`opened`).

use alloc::{collections::BTreeMap, vec::Vec};

/// An inode that this process has open.
#[derive(Default)]
pub struct OpenInode {
    /// Its place in the list.
    pub place: u32,
    /// How often it is open.
    pub count: u32,
    /// How often for writing.
    pub writers: u32,
}

/// What this process has open.
#[derive(Default)]
pub struct OpenInodes {
    /// By inode.
    pub files: BTreeMap<u32, OpenInode>,
    /// Places of the list that are free below `end`.
    pub free: Vec<u32>,
    /// Places that were ever used.
    pub end: u32,
    /// The blocks of the list.
    pub blocks: Vec<u64>,
}
