//! Attributes, between the driver API and the protocol.

use culvert::{Attributes, Entry, Node, SetAttributes, StatFs, Timespec, Validity};
use culvert_wire::{
    ROOT_ID,
    structures::{Attr, EntryOut, Kstatfs, SetattrIn, StatxAttr, SxTime},
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Node numbers as the kernel has them: the driver's own, the root's exchanged with 1.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    root: u64,
}

impl Numbers {
    /// For a driver whose root is `root`.
    pub const fn new(root: Node) -> Self {
        Self { root: root.0 }
    }

    const fn exchanged(self, number: u64) -> u64 {
        match number {
            ROOT_ID => self.root,
            number if number == self.root => ROOT_ID,
            number => number,
        }
    }

    /// The driver's node of the kernel's number.
    pub const fn node(self, number: u64) -> Node {
        Node(self.exchanged(number))
    }

    /// The kernel's number of the driver's node.
    pub const fn number(self, node: Node) -> u64 {
        self.exchanged(node.0)
    }
}

/// Seconds and nanoseconds. For ever is cut to what the kernel's jiffies hold anyway
/// (`time_to_jiffies`, fs/fuse/dir.c).
pub const fn validity(nanoseconds: u64) -> (u64, u32) {
    const SECOND: u64 = 1_000_000_000;
    match nanoseconds {
        u64::MAX => (u64::MAX, 0),
        nanoseconds => (nanoseconds / SECOND, (nanoseconds % SECOND) as u32),
    }
}

/// stat(2)'s part.
pub fn attr(attributes: &Attributes) -> Attr {
    Attr {
        ino: attributes.inode,
        size: attributes.size,
        blocks: attributes.blocks,
        atime: attributes.atime.seconds as u64,
        mtime: attributes.mtime.seconds as u64,
        ctime: attributes.ctime.seconds as u64,
        atimensec: attributes.atime.nanoseconds,
        mtimensec: attributes.mtime.nanoseconds,
        ctimensec: attributes.ctime.nanoseconds,
        mode: attributes.mode(),
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        // The low half of `st_rdev` is `new_encode_dev` for all numbers that the kernel gives
        // (majors below 4096, minors below 2^20).
        rdev: attributes.rdev as u32,
        blksize: attributes.block_size,
        flags: 0,
    }
}

/// statx(2)'s part: what [`attr`] has, and the time of creation.
pub fn statx(attributes: &Attributes) -> StatxAttr {
    const BASIC: u32 = 0x7ff;
    const BTIME: u32 = 0x800;
    let time = |time: Timespec| SxTime {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds,
        __reserved: 0,
    };
    let device = attributes.rdev;
    StatxAttr {
        mask: BASIC | if attributes.btime.is_some() { BTIME } else { 0 },
        blksize: attributes.block_size,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        mode: attributes.mode() as u16,
        ino: attributes.inode,
        size: attributes.size,
        blocks: attributes.blocks,
        atime: time(attributes.atime),
        btime: time(attributes.btime.unwrap_or_default()),
        ctime: time(attributes.ctime),
        mtime: time(attributes.mtime),
        rdev_major: (device >> 8 & 0xfff | device >> 32 & 0xffff_f000) as u32,
        rdev_minor: (device & 0xff | device >> 12 & 0xffff_ff00) as u32,
        ..StatxAttr::default()
    }
}

/// What LOOKUP answers for `entry`.
pub fn entry(entry: &Entry, numbers: Numbers, valid: Validity) -> EntryOut {
    let (entry_valid, entry_valid_nsec) = validity(valid.entry);
    let (attr_valid, attr_valid_nsec) = validity(valid.attributes);
    EntryOut {
        nodeid: numbers.number(entry.attributes.node),
        generation: 0,
        entry_valid,
        attr_valid,
        entry_valid_nsec,
        attr_valid_nsec,
        attr: attr(&entry.attributes),
    }
}

/// statfs(2).
pub fn statfs(found: &StatFs) -> Kstatfs {
    Kstatfs {
        blocks: found.blocks,
        bfree: found.blocks_free,
        bavail: found.blocks_available,
        files: found.files,
        ffree: found.files_free,
        bsize: found.block_size,
        namelen: found.name_max,
        frsize: found.block_size,
        ..Kstatfs::default()
    }
}

/// What SETATTR changes.
pub fn changes(asked: &SetattrIn) -> SetAttributes {
    let has = |bit: u32| asked.valid & bit != 0;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = Timespec {
        seconds: now.as_secs() as i64,
        nanoseconds: now.subsec_nanos(),
    };
    let time = |bit, bit_now, seconds: u64, nanoseconds| {
        let given = Timespec {
            seconds: seconds as i64,
            nanoseconds,
        };
        has(bit).then_some(if has(bit_now) { now } else { given })
    };
    SetAttributes {
        permissions: has(SetattrIn::MODE).then_some(asked.mode & 0o7777),
        uid: has(SetattrIn::UID).then_some(asked.uid),
        gid: has(SetattrIn::GID).then_some(asked.gid),
        size: has(SetattrIn::SIZE).then_some(asked.size),
        atime: time(
            SetattrIn::ATIME,
            SetattrIn::ATIME_NOW,
            asked.atime,
            asked.atimensec,
        ),
        mtime: time(
            SetattrIn::MTIME,
            SetattrIn::MTIME_NOW,
            asked.mtime,
            asked.mtimensec,
        ),
        // With a writeback cache the kernel keeps it, too.
        ctime: time(SetattrIn::CTIME, 0, asked.ctime, asked.ctimensec),
        touch: has(SetattrIn::ATIME_NOW) && has(SetattrIn::MTIME_NOW),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_one_and_one_is_somebody_else() {
        let numbers = Numbers::new(Node(77));
        assert_eq!(numbers.node(1), Node(77));
        assert_eq!(numbers.number(Node(77)), 1);
        assert_eq!(numbers.number(Node(1)), 77);
        for number in [1, 2, 77, u64::MAX] {
            assert_eq!(numbers.number(numbers.node(number)), number);
        }
        assert_eq!(Numbers::new(Node(1)).node(1), Node(1));
    }

    #[test]
    fn only_what_is_asked_is_changed() {
        let asked = SetattrIn {
            valid: SetattrIn::MODE | SetattrIn::MTIME,
            mode: 0o100_644,
            mtime: -5_i64 as u64,
            size: 9,
            ..SetattrIn::default()
        };
        let got = changes(&asked);
        assert_eq!(got.permissions, Some(0o644));
        assert_eq!(got.mtime.map(|time| time.seconds), Some(-5));
        assert!(got.size.is_none() && got.uid.is_none() && got.atime.is_none() && !got.touch);
    }
}
