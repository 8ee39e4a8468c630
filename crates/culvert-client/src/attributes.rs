//! From the protocol's attributes to the driver API's, checked as the kernel does.

use culvert::{Attributes, Errno, FileKind, Node, Result, StatFs, Timespec};
use culvert_wire::structures::{Attr, Kstatfs, StatxAttr};

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

/// `STATX_BASIC_STATS`, `STATX_BTIME`.
pub const BASIC: u32 = 0x7ff;
pub const BTIME: u32 = 0x800;

/// What `sx` says of `node`, if that is all (`fuse_do_statx`, fs/fuse/dir.c), and when it was made.
pub fn extended(node: u64, sx: &StatxAttr) -> Result<(Option<Attributes>, Option<Timespec>)> {
    let has = |mask: u32| sx.mask & mask == mask;
    let attr = Attr {
        ino: sx.ino,
        size: sx.size,
        blocks: sx.blocks,
        atime: sx.atime.tv_sec as u64,
        mtime: sx.mtime.tv_sec as u64,
        ctime: sx.ctime.tv_sec as u64,
        atimensec: sx.atime.tv_nsec,
        mtimensec: sx.mtime.tv_nsec,
        ctimensec: sx.ctime.tv_nsec,
        mode: u32::from(sx.mode),
        nlink: sx.nlink,
        uid: sx.uid,
        gid: sx.gid,
        // `new_encode_dev`, include/linux/kdev_t.h.
        rdev: sx.rdev_minor & 0xff | sx.rdev_major << 8 | (sx.rdev_minor & !0xff) << 12,
        blksize: sx.blksize,
        flags: 0,
    };
    let found = has(BASIC).then(|| attributes(node, &attr)).transpose()?;
    let born = has(BTIME).then(|| time(sx.btime.tv_sec as u64, sx.btime.tv_nsec));
    Ok((found, born))
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
