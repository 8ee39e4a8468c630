//! Which file an object is, and how its image lies.

use culvert_sys::plain::{Packed, Plain};
use culvert_sys::raw::general as linux;

/// What tells a file from all others, and from itself before a change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    device: u64,
    inode: u64,
    size: u64,
    /// The time of the last change (`st_ctime`), in nanoseconds.
    changed: u64,
}

// SAFETY: words.
unsafe impl Plain for Key {}
// SAFETY: words, and nothing between them.
unsafe impl Packed for Key {}

impl Key {
    /// Of a file with this `struct stat`.
    pub fn of(found: &linux::stat) -> Self {
        Self {
            device: found.st_dev,
            inode: found.st_ino,
            size: found.st_size as u64,
            changed: found
                .st_ctime
                .wrapping_mul(1_000_000_000)
                .wrapping_add(found.st_ctime_nsec),
        }
    }

    /// Whether it is of the same file as `other`, changed or not.
    pub fn is_file_of(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// The file's device, as `st_dev` has it.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// The file's inode.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The file's bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// When it was changed, in nanoseconds since 1970.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// A number that differs for most files.
    pub fn hash(&self) -> u64 {
        let words = [self.device, self.inode, self.size, self.changed];
        words.into_iter().fold(0, |sum: u64, word| {
            (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }
}

/// Where the parts of an image go: what is known of one before it is opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the object in memory, whole pages; it begins at link-time address 0.
    pub span: u64,
    /// Where the page of the code begins in the file.
    pub code_offset: u64,
    /// The same as a link-time address.
    pub code_address: u64,
    /// Bytes of the code, whole pages.
    pub code_length: u64,
    /// Where header and chunk begin in the image, and behind the object's beginning in memory.
    pub chunk_offset: u64,
    /// How many bytes they have, whole pages.
    pub chunk_length: u64,
    /// The address of the page in which each process has what its stubs need.
    pub slots: u64,
}

// SAFETY: words.
unsafe impl Plain for Layout {}
// SAFETY: words, and nothing between them.
unsafe impl Packed for Layout {}

impl Layout {
    /// Bytes of the object in memory with its chunk.
    pub fn extent(&self) -> u64 {
        self.chunk_offset + self.chunk_length
    }

    /// Whether the code lies in memory as in the file.
    pub fn is_linear(&self) -> bool {
        self.code_offset == self.code_address
    }
}
