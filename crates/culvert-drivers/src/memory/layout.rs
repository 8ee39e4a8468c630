//! Where things lie in the shared file. All numbers are in the machine's own byte order: the file
//! never leaves it.
//!
//! ```text
//! block 0        header: words, then the slots' chunks and the runs
//! block 1        inode table: 1024 u32, each a block of 1024 u32, each a block of 16 inodes
//! block 2..34    undo log: pairs (offset, old value); an odd offset is one more than that of a half
//!                word
//! block 34       bitmap of blocks 0 to 32767; the bitmap of group N > 0 is the first block of the group
//! block 35..     inodes, directories, content, in any order
//! ```

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// The first word: "culvmem" and a version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"culvmem\x05");
/// Largest file system, in blocks: 1 TiB, what the windows of `image.rs` reach.
pub const MOST_BLOCKS: u64 = 1 << 28;
/// Most inodes: what the inode table reaches.
pub const MOST_INODES: u64 = (1 << 24) - 1;
/// Smallest file system, in blocks.
pub const FEWEST_BLOCKS: u64 = 64;

/// Words of the header. Those of locks, and of the chunks of slots, are only ever touched as
/// halves, all others only as words.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: u64 = 0;
    /// Limit of blocks.
    pub const LIMIT: u64 = 1;
    /// Limit of inodes.
    pub const INODES: u64 = 2;
    /// Seed of the hash of names.
    pub const SEED: u64 = 3;
    /// With `spill=`: how many blocks lie in the shared file; those behind lie in the file of the
    /// directory. It may shrink to [`GROWN`], never grow, and is stored before that. 0: all lie
    /// in the shared file.
    pub const SPLIT: u64 = 4;
    /// What the name of the spill ends in; 0 where there is none.
    pub const SPILL: u64 = 5;
    /// Blocks that the kernel has given: never more than the files are long.
    pub const GROWN: u64 = 8;
    /// Free ones among them.
    pub const FREE: u64 = 9;
    /// Queue of free inodes: first (low half) and last.
    pub const FREE_INODES: u64 = 10;
    /// Length of the queue (low half) and lowest inode never used.
    pub const INODE_COUNTS: u64 = 11;
    /// Inodes in use.
    pub const USED_INODES: u64 = 12;
    /// Inodes that are in use without a name: the first (low half) and how many.
    pub const ORPHANS: u64 = 13;
    /// Where the next search for free blocks begins: a hint, no transaction.
    pub const HINT: u64 = 14;
    /// One more than the highest slot ever used.
    pub const SLOTS: u64 = 15;
    /// Blocks that files of their own take, as far as they were seen.
    pub const EXTERNAL: u64 = 16;
    /// Blocks that were given back to the kernel, and stand in the list.
    pub const RETURNED: u64 = 17;
    /// The block that lists them (0: none yet) and (upper half) how many entries it has.
    pub const RETURNED_LIST: u64 = 18;
    /// The metadata lock (low half: its word).
    pub const LOCK: u64 = 64;
    /// Odd while metadata change.
    pub const SEQUENCE: u64 = 72;
    /// Entries in the undo log.
    pub const LOGGED: u64 = 80;
    /// The lock of those who clean up after dead owners of inode locks.
    pub const REPAIR: u64 = 88;
    /// Incremented whenever a directory is removed, moved, or gets another owner or mode: what a
    /// path of directories means may have changed.
    pub const PATHS: u64 = 96;
    /// Blocks of 16 slots, two to a word.
    pub const SLOT_CHUNKS: u64 = 128;
    /// Runs that use a named file system: 4 words each, a name ended by NUL.
    pub const RUNS: u64 = 256;
}

/// Block of the inode table's root.
pub const INODE_TABLE: u64 = 1;
/// First block of the log.
pub const LOG: u64 = 2;
/// Entries that the log has room for.
pub const LOG_ENTRIES: u64 = 32 * BLOCK / 16;
/// Bitmap of the first group.
pub const FIRST_BITMAP: u64 = 34;
/// Blocks that are never free in the first group.
pub const RESERVED: u64 = 35;
/// Blocks of a group, as many as a block has bits.
pub const GROUP: u64 = BLOCK * 8;
/// Inodes of a block.
pub const INODES_PER_BLOCK: u64 = 16;
/// Bytes of an inode.
pub const INODE: u64 = BLOCK / INODES_PER_BLOCK;
/// Slots of a block.
pub const SLOTS_PER_BLOCK: u64 = 16;
/// Most processes at once.
pub const MOST_SLOTS: u64 = 256 * SLOTS_PER_BLOCK;
/// Most runs at once.
pub const MOST_RUNS: u64 = 64;

/// Words of an inode.
pub mod inode {
    /// Lock of the content (low half, and only ever touched as such).
    pub const LOCK: u64 = 0;
    /// Mode (16 bits), flags (16 bits), generation (32 bits).
    pub const STATE: u64 = 1;
    /// User and (upper half) group.
    pub const OWNER: u64 = 2;
    /// Links and (upper half) the directory that holds, or once held, a name of it.
    pub const LINKS: u64 = 3;
    /// Bytes; of a directory derived, so unused.
    pub const SIZE: u64 = 4;
    /// Blocks in use; of a directory its buckets.
    pub const BLOCKS: u64 = 5;
    /// Last access.
    pub const ATIME: u64 = 6;
    /// Last change of content.
    pub const MTIME: u64 = 7;
    /// Last change.
    pub const CTIME: u64 = 8;
    /// Creation.
    pub const BTIME: u64 = 9;
    /// Root of the block map: block and (upper half) depth. Of devices the number.
    pub const ROOT: u64 = 10;
    /// Blocks that belong to the file but are in no map yet: first, and (upper half) how many. Of a
    /// directory: entries and 8-byte units used.
    pub const RESERVE: u64 = 11;
    /// One more than the index of the block last taken from the reserve. Of a directory the root of
    /// the map of its buckets; of a file with content of its own the blocks that this takes.
    pub const INTENT: u64 = 12;
    /// Extended attributes: first block, (16 bits) blocks, unused.
    pub const XATTRS: u64 = 13;
    /// Links of the list of free or of unnamed inodes: next and (upper half) previous.
    pub const LIST: u64 = 14;
    /// Runs that may use an unnamed inode, a bit each. Of a directory: blocks of entries and (upper
    /// half) where to look for room.
    pub const RUNS: u64 = 15;
    /// The first word of the content that lies in the inode itself: that of a file without a block
    /// map.
    pub const INLINE_AT: u64 = 16;
    /// Bytes of it.
    pub const INLINE: u64 = super::INODE - INLINE_AT * 8;
    /// In [`INTENT`]: the content in the inode was written, so that it is no hole.
    pub const WRITTEN: u64 = u64::MAX;
}

/// Flags of an inode, as they stand in [`inode::STATE`].
pub mod flag {
    /// Has no name, but may be in use: on the list of orphans.
    pub const ORPHAN: u64 = 1 << 16;
    /// Free; what is left of it is what stat says of a removed file.
    pub const FREE: u64 = 1 << 17;
    /// Made by O_TMPFILE without O_EXCL: may get a name.
    pub const LINKABLE: u64 = 1 << 18;
    /// The content lies in a file of its own ([`super::super::external`]).
    pub const EXTERNAL: u64 = 1 << 19;
}

/// A slot: what a process says of itself.
#[repr(C)]
pub struct Slot {
    /// Words, see [`slot`].
    pub words: [AtomicU64; 8],
    /// Inodes whose content locks its threads hold or wait for.
    pub cells: [AtomicU32; 48],
}

/// Words of a [`Slot`].
pub mod slot {
    /// Bytes of a slot.
    pub const SIZE: u64 = super::BLOCK / super::SLOTS_PER_BLOCK;
    /// First block of the list of inodes that the process has open; 0 when it has none.
    pub const OPENED: u64 = 0;
    /// One more than the highest place used in the list.
    pub const OPENED_END: u64 = 1;
}
const _: () = assert!(size_of::<Slot>() as u64 == slot::SIZE);

/// The root's inode.
pub const ROOT: u32 = 1;
/// In a block map: allocated, but reads as zeroes.
pub const UNWRITTEN: u32 = 1 << 31;
