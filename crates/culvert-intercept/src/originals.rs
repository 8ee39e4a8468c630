//! Mappings that stand for others: the program mapped a file, and an image with the same bytes and
//! rewritten code is mapped in its place. What tells programs of their own mappings
//! (/proc/self/maps) names the file that they mapped.

use crate::{maps, registry};
use alloc::vec::Vec;

/// A range of addresses where another file is mapped than the program asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The first address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// The inode of the file that is mapped there: where another one is, the program has mapped
    /// something else since, and nothing stands for anything.
    pub mapped_inode: u64,
    /// The place in the original file at `start`, bytes.
    pub offset: u64,
    /// The original file's device, as `st_dev` has it.
    pub device: u64,
    /// The original file's inode.
    pub inode: u64,
    /// The original file's absolute path, as the kernel tells it of another part of the object.
    pub path: Vec<u8>,
}

/// All of this process, whose mappings are those of `text`, that of /proc/self/maps or smaps; none
/// whose other parts are not mapped any more.
pub fn originals(text: &[u8]) -> Vec<Original> {
    let known = registry::of_images().filter_map(|code| {
        let path = maps::path_between(text, code.bias..code.end, code.file.image)?.into();
        Some(Original {
            start: code.start,
            end: code.end,
            mapped_inode: code.file.image,
            offset: code.offset,
            device: code.file.key.device(),
            inode: code.file.key.inode(),
            path,
        })
    });
    known.collect()
}

/// Whether there may be any.
pub fn are_any() -> bool {
    registry::of_images().next().is_some()
}
