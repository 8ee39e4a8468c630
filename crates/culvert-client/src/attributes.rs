//! From the protocol's attributes to the driver API's, checked as the kernel does.

use culvert::{Attributes, Errno, FileKind, Node, Result, StatFs, Timespec};
use culvert_wire::structures::{Attr, Kstatfs};

/// Nanoseconds of a time for which something may be believed (`time_to_jiffies`, fs/fuse/dir.c).
pub fn duration(seconds: u64, nanoseconds: u32) -> u64 {
    let nanoseconds = u64::from(nanoseconds.min(999_999_999));
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}

/// A time; nanoseconds that are none are cut (`fuse_change_attributes_common`, fs/fuse/inode.c).
fn time(seconds: u64, nanoseconds: u32) -> Timespec {
    Timespec {
        seconds: seconds as i64,
        nanoseconds: nanoseconds.min(999_999_999),
    }
}

/// What `attr` says of `node`; `EIO` where it cannot be (`fuse_invalid_attr`, fs/fuse/dir.c).
pub fn attributes(node: u64, attr: &Attr) -> Result<Attributes> {
    let kind = FileKind::of_mode(attr.mode).ok_or(Errno::EIO)?;
    if attr.size > i64::MAX as u64 {
        return Err(Errno::EIO.into());
    }
    Ok(Attributes {
        node: Node(node),
        inode: attr.ino,
        kind,
        permissions: attr.mode & 0o7777,
        links: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: match kind {
            FileKind::CharacterDevice | FileKind::BlockDevice => u64::from(attr.rdev),
            _ => 0,
        },
        size: attr.size,
        blocks: attr.blocks,
        block_size: match attr.blksize {
            0 => 4096,
            size => size,
        },
        atime: time(attr.atime, attr.atimensec),
        mtime: time(attr.mtime, attr.mtimensec),
        ctime: time(attr.ctime, attr.ctimensec),
        btime: None,
    })
}

/// statfs(2) (`convert_fuse_statfs`, fs/fuse/inode.c).
pub fn statfs(st: &Kstatfs, read_only: bool) -> StatFs {
    StatFs {
        magic: 0x6573_5546, // FUSE_SUPER_MAGIC
        block_size: match st.frsize {
            0 => st.bsize,
            size => size,
        },
        blocks: st.blocks,
        blocks_free: st.bfree,
        blocks_available: st.bavail,
        files: st.files,
        files_free: st.ffree,
        name_max: st.namelen,
        read_only,
    }
}
