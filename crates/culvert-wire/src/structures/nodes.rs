//! Nodes, names and attributes.

use crate::plain::structures;

structures! {
    /// stat(2).
    Attr = "fuse_attr" since 31 {
        ino: u64,
        size: u64,
        /// Units of 512 bytes.
        blocks: u64,
        /// Seconds; a signed number in an unsigned field.
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        nlink: u32,
        uid: u32,
        gid: u32,
        /// As `new_encode_dev` has it (`include/linux/kdev_t.h`).
        rdev: u32,
        blksize: u32,
        /// `FUSE_ATTR_*` (7.32; before, padding).
        flags: u32,
    }

    /// A time of statx(2).
    SxTime = "fuse_sx_time" since 39 {
        tv_sec: i64,
        tv_nsec: u32,
        __reserved: i32,
    }

    /// statx(2).
    StatxAttr = "fuse_statx" since 39 {
        mask: u32,
        blksize: u32,
        attributes: u64,
        nlink: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        __spare0: [u16; 1],
        ino: u64,
        size: u64,
        blocks: u64,
        attributes_mask: u64,
        atime: SxTime,
        btime: SxTime,
        ctime: SxTime,
        mtime: SxTime,
        rdev_major: u32,
        rdev_minor: u32,
        dev_major: u32,
        dev_minor: u32,
        __spare2: [u64; 14],
    }

    /// statfs(2).
    Kstatfs = "fuse_kstatfs" since 31 {
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
        padding: u32,
        spare: [u32; 6],
    }

    /// What LOOKUP and all that make names answer. A node given is one lookup, which FORGET takes
    /// back; node 0 says that the name does not exist, for as long as `entry_valid`.
    /// `FUSE_COMPAT_ENTRY_OUT_SIZE` before 7.9.
    EntryOut = "fuse_entry_out" since 31 [|protocol| if protocol.minor < 9 { 120 } else { 128 }] {
        nodeid: u64,
        /// With the node number unique for ever: tells a node from a later one of the same number.
        generation: u64,
        /// Seconds for which the name may be believed.
        entry_valid: u64,
        /// Seconds for which the attributes may be believed.
        attr_valid: u64,
        entry_valid_nsec: u32,
        attr_valid_nsec: u32,
        attr: Attr,
    }

    /// FORGET: `nlookup` lookups of the node are given back.
    ForgetIn = "fuse_forget_in" since 31 {
        nlookup: u64,
    }

    /// One of BATCH_FORGET.
    ForgetOne = "fuse_forget_one" since 31 {
        nodeid: u64,
        nlookup: u64,
    }

    /// BATCH_FORGET; `count` of [`ForgetOne`] follow.
    BatchForgetIn = "fuse_batch_forget_in" since 31 {
        count: u32,
        dummy: u32,
    }

    /// GETATTR.
    GetattrIn = "fuse_getattr_in" since 31 {
        /// [`GetattrIn::FH`].
        getattr_flags: u32,
        dummy: u32,
        fh: u64,
    }

    /// The answer to GETATTR and SETATTR. `FUSE_COMPAT_ATTR_OUT_SIZE` before 7.9.
    AttrOut = "fuse_attr_out" since 31 [|protocol| if protocol.minor < 9 { 96 } else { 104 }] {
        /// Seconds.
        attr_valid: u64,
        attr_valid_nsec: u32,
        dummy: u32,
        attr: Attr,
    }

    /// STATX.
    StatxIn = "fuse_statx_in" since 39 {
        /// [`GetattrIn::FH`].
        getattr_flags: u32,
        reserved: u32,
        fh: u64,
        /// `AT_STATX_*`.
        sx_flags: u32,
        /// `STATX_*`.
        sx_mask: u32,
    }

    /// STATX's answer.
    StatxOut = "fuse_statx_out" since 39 {
        /// Seconds.
        attr_valid: u64,
        attr_valid_nsec: u32,
        flags: u32,
        spare: [u64; 2],
        stat: StatxAttr,
    }

    /// MKNOD; the name follows. `FUSE_COMPAT_MKNOD_IN_SIZE` before 7.12.
    MknodIn = "fuse_mknod_in" since 31 [|protocol| if protocol.minor < 12 { 8 } else { 16 }] {
        mode: u32,
        rdev: u32,
        umask: u32,
        padding: u32,
    }

    /// MKDIR; the name follows.
    MkdirIn = "fuse_mkdir_in" since 31 {
        mode: u32,
        umask: u32,
    }

    /// RENAME; the old and the new name follow.
    RenameIn = "fuse_rename_in" since 31 {
        newdir: u64,
    }

    /// RENAME2; the old and the new name follow.
    Rename2In = "fuse_rename2_in" since 31 {
        newdir: u64,
        /// `RENAME_*`.
        flags: u32,
        padding: u32,
    }

    /// LINK; the new name follows.
    LinkIn = "fuse_link_in" since 31 {
        oldnodeid: u64,
    }

    /// SETATTR.
    SetattrIn = "fuse_setattr_in" since 31 {
        /// Which of the fields count: the constants below.
        valid: u32,
        padding: u32,
        fh: u64,
        size: u64,
        lock_owner: u64,
        atime: u64,
        mtime: u64,
        ctime: u64,
        atimensec: u32,
        mtimensec: u32,
        ctimensec: u32,
        mode: u32,
        unused4: u32,
        uid: u32,
        gid: u32,
        unused5: u32,
    }

    /// STATFS's answer.
    StatfsOut = "fuse_statfs_out" since 31 {
        st: Kstatfs,
    }

    /// ACCESS.
    AccessIn = "fuse_access_in" since 31 {
        /// `R_OK`, `W_OK`, `X_OK`.
        mask: u32,
        padding: u32,
    }

    /// SETXATTR; the name and the value follow.
    /// `FUSE_COMPAT_SETXATTR_IN_SIZE` unless both sides know the longer one.
    SetxattrIn = "fuse_setxattr_in" since 31 [|protocol| if protocol.flags.contains(crate::InitFlags::SETXATTR_EXT) { 16 } else { 8 }] {
        /// Bytes of the value.
        size: u32,
        /// `XATTR_CREATE`, `XATTR_REPLACE`.
        flags: u32,
        /// [`SetxattrIn::ACL_KILL_SGID`] (7.33).
        setxattr_flags: u32,
        padding: u32,
    }

    /// GETXATTR and LISTXATTR.
    GetxattrIn = "fuse_getxattr_in" since 31 {
        /// Room for the answer, bytes; 0 asks for the size.
        size: u32,
        padding: u32,
    }

    /// The answer to GETXATTR and LISTXATTR of size 0.
    GetxattrOut = "fuse_getxattr_out" since 31 {
        size: u32,
        padding: u32,
    }

    /// SYNCFS.
    SyncfsIn = "fuse_syncfs_in" since 34 {
        padding: u64,
    }

    /// In front of each name of a listing; `namelen` bytes follow, and zeroes up to a multiple of
    /// 8.
    Dirent = "fuse_dirent" since 31 {
        ino: u64,
        off: u64,
        namelen: u32,
        r#type: u32,
    }
}

impl GetattrIn {
    /// `fh` counts (`FUSE_GETATTR_FH`).
    pub const FH: u32 = 1;
}

impl SetxattrIn {
    /// Set-group-ID goes with this ACL (`FUSE_SETXATTR_ACL_KILL_SGID`).
    pub const ACL_KILL_SGID: u32 = 1;
}

/// Bits of [`SetattrIn::valid`] (`FATTR_*`).
impl SetattrIn {
    /// `mode`.
    pub const MODE: u32 = 1;
    /// `uid`.
    pub const UID: u32 = 1 << 1;
    /// `gid`.
    pub const GID: u32 = 1 << 2;
    /// `size`.
    pub const SIZE: u32 = 1 << 3;
    /// `atime`.
    pub const ATIME: u32 = 1 << 4;
    /// `mtime`.
    pub const MTIME: u32 = 1 << 5;
    /// `fh`.
    pub const FH: u32 = 1 << 6;
    /// The present for `atime`.
    pub const ATIME_NOW: u32 = 1 << 7;
    /// The present for `mtime`.
    pub const MTIME_NOW: u32 = 1 << 8;
    /// `lock_owner`.
    pub const LOCK_OWNER: u32 = 1 << 9;
    /// `ctime`.
    pub const CTIME: u32 = 1 << 10;
    /// Set-user-ID and set-group-ID go (7.33, with `FUSE_HANDLE_KILLPRIV_V2`).
    pub const KILL_SUIDGID: u32 = 1 << 11;
}
