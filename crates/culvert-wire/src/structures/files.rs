//! Open files: reading, writing, locks, ioctl.

use crate::plain::structures;

structures! {
    /// OPEN and OPENDIR.
    OpenIn = "fuse_open_in" since 31 {
        /// open(2)'s.
        flags: u32,
        /// [`OpenIn::KILL_SUIDGID`] (7.33; before, unused).
        open_flags: u32,
    }

    /// CREATE and TMPFILE; the name follows. As long as [`OpenIn`] before 7.12.
    CreateIn = "fuse_create_in" since 31 [|protocol| if protocol.minor < 12 { 8 } else { 16 }] {
        /// open(2)'s.
        flags: u32,
        mode: u32,
        umask: u32,
        /// [`OpenIn::KILL_SUIDGID`] (7.33; before, padding).
        open_flags: u32,
    }

    /// The answer to OPEN and OPENDIR, and the second part of that to CREATE and TMPFILE.
    OpenOut = "fuse_open_out" since 31 {
        /// The server's own; comes back with every request on this open file.
        fh: u64,
        /// The constants below.
        open_flags: u32,
        /// With [`OpenOut::PASSTHROUGH`]: which file (7.40; before, padding).
        backing_id: i32,
    }

    /// RELEASE and RELEASEDIR.
    ReleaseIn = "fuse_release_in" since 31 {
        fh: u64,
        flags: u32,
        /// [`ReleaseIn::FLUSH`], [`ReleaseIn::FLOCK_UNLOCK`].
        release_flags: u32,
        lock_owner: u64,
    }

    /// FLUSH.
    FlushIn = "fuse_flush_in" since 31 {
        fh: u64,
        unused: u32,
        padding: u32,
        lock_owner: u64,
    }

    /// READ, READDIR and READDIRPLUS.
    ReadIn = "fuse_read_in" since 31 {
        fh: u64,
        offset: u64,
        size: u32,
        /// [`ReadIn::LOCK_OWNER`].
        read_flags: u32,
        lock_owner: u64,
        /// open(2)'s.
        flags: u32,
        padding: u32,
    }

    /// WRITE; `size` bytes follow. `FUSE_COMPAT_WRITE_IN_SIZE` before 7.9.
    WriteIn = "fuse_write_in" since 31 [|protocol| if protocol.minor < 9 { 24 } else { 40 }] {
        fh: u64,
        offset: u64,
        size: u32,
        /// [`WriteIn::CACHE`], [`WriteIn::LOCK_OWNER`], [`WriteIn::KILL_SUIDGID`].
        write_flags: u32,
        lock_owner: u64,
        /// open(2)'s.
        flags: u32,
        padding: u32,
    }

    /// The answer to WRITE and COPY_FILE_RANGE.
    WriteOut = "fuse_write_out" since 31 {
        size: u32,
        padding: u32,
    }

    /// FSYNC and FSYNCDIR.
    FsyncIn = "fuse_fsync_in" since 31 {
        fh: u64,
        /// 1: the data only (`FUSE_FSYNC_FDATASYNC`).
        fsync_flags: u32,
        padding: u32,
    }

    /// A range and how it is locked.
    FileLock = "fuse_file_lock" since 31 {
        start: u64,
        /// Inclusive; `i64::MAX` is the end of the file, wherever that is.
        end: u64,
        /// `F_RDLCK` 0, `F_WRLCK` 1, `F_UNLCK` 2.
        r#type: u32,
        pid: u32,
    }

    /// GETLK, SETLK and SETLKW.
    LkIn = "fuse_lk_in" since 31 {
        fh: u64,
        owner: u64,
        lk: FileLock,
        /// 1: flock(2)'s (`FUSE_LK_FLOCK`).
        lk_flags: u32,
        padding: u32,
    }

    /// GETLK's answer.
    LkOut = "fuse_lk_out" since 31 {
        lk: FileLock,
    }

    /// INTERRUPT: the caller of that request has a signal.
    InterruptIn = "fuse_interrupt_in" since 31 {
        unique: u64,
    }

    /// BMAP.
    BmapIn = "fuse_bmap_in" since 31 {
        block: u64,
        blocksize: u32,
        padding: u32,
    }

    /// BMAP's answer.
    BmapOut = "fuse_bmap_out" since 31 {
        block: u64,
    }

    /// IOCTL; `in_size` bytes follow.
    IoctlIn = "fuse_ioctl_in" since 31 {
        fh: u64,
        /// The constants below.
        flags: u32,
        cmd: u32,
        arg: u64,
        in_size: u32,
        out_size: u32,
    }

    /// IOCTL's answer; data follow.
    IoctlOut = "fuse_ioctl_out" since 31 {
        result: i32,
        flags: u32,
        in_iovs: u32,
        out_iovs: u32,
    }

    /// POLL.
    PollIn = "fuse_poll_in" since 31 {
        fh: u64,
        /// What a notification names.
        kh: u64,
        /// [`PollIn::SCHEDULE_NOTIFY`].
        flags: u32,
        events: u32,
    }

    /// POLL's answer.
    PollOut = "fuse_poll_out" since 31 {
        revents: u32,
        padding: u32,
    }

    /// FALLOCATE.
    FallocateIn = "fuse_fallocate_in" since 31 {
        fh: u64,
        offset: u64,
        length: u64,
        mode: u32,
        padding: u32,
    }

    /// LSEEK.
    LseekIn = "fuse_lseek_in" since 31 {
        fh: u64,
        offset: u64,
        /// `SEEK_DATA` 3, `SEEK_HOLE` 4.
        whence: u32,
        padding: u32,
    }

    /// LSEEK's answer.
    LseekOut = "fuse_lseek_out" since 31 {
        offset: u64,
    }

    /// COPY_FILE_RANGE and COPY_FILE_RANGE_64.
    CopyFileRangeIn = "fuse_copy_file_range_in" since 31 {
        fh_in: u64,
        off_in: u64,
        nodeid_out: u64,
        fh_out: u64,
        off_out: u64,
        len: u64,
        flags: u64,
    }

    /// The answer to COPY_FILE_RANGE_64.
    CopyFileRangeOut = "fuse_copy_file_range_out" since 45 {
        bytes_copied: u64,
    }
}

impl OpenIn {
    /// Set-user-ID and set-group-ID go if the file may be executed (`FUSE_OPEN_KILL_SUIDGID`).
    pub const KILL_SUIDGID: u32 = 1;
}

/// Bits of [`OpenOut::open_flags`] (`FOPEN_*`).
impl OpenOut {
    /// Reads and writes go past the page cache.
    pub const DIRECT_IO: u32 = 1;
    /// Pages cached before this open stay.
    pub const KEEP_CACHE: u32 = 1 << 1;
    /// lseek(2) is ESPIPE.
    pub const NONSEEKABLE: u32 = 1 << 2;
    /// This directory's listing may be cached.
    pub const CACHE_DIR: u32 = 1 << 3;
    /// No file position at all.
    pub const STREAM: u32 = 1 << 4;
    /// No FLUSH at close (7.35).
    pub const NOFLUSH: u32 = 1 << 5;
    /// Direct writes to one file may run at once (7.38).
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    /// Read, write and mapping are the backing file's (7.40).
    pub const PASSTHROUGH: u32 = 1 << 7;
}

impl ReleaseIn {
    /// A flush is due too (`FUSE_RELEASE_FLUSH`).
    pub const FLUSH: u32 = 1;
    /// flock(2)'s lock of this description goes (`FUSE_RELEASE_FLOCK_UNLOCK`).
    pub const FLOCK_UNLOCK: u32 = 1 << 1;
}

impl ReadIn {
    /// `lock_owner` counts (`FUSE_READ_LOCKOWNER`).
    pub const LOCK_OWNER: u32 = 1 << 1;
}

impl WriteIn {
    /// From the page cache: later than the write(2), the `fh` is any that may write
    /// (`FUSE_WRITE_CACHE`).
    pub const CACHE: u32 = 1;
    /// `lock_owner` counts.
    pub const LOCK_OWNER: u32 = 1 << 1;
    /// Set-user-ID and set-group-ID go (`FUSE_WRITE_KILL_SUIDGID`).
    pub const KILL_SUIDGID: u32 = 1 << 2;
}

impl FsyncIn {
    /// fdatasync(2) (`FUSE_FSYNC_FDATASYNC`).
    pub const DATA_ONLY: u32 = 1;
}

impl LkIn {
    /// flock(2) (`FUSE_LK_FLOCK`).
    pub const FLOCK: u32 = 1;
}

/// Bits of [`IoctlIn::flags`] and [`IoctlOut::flags`] (`FUSE_IOCTL_*`).
impl PollIn {
    /// Somebody waits: to be notified when the file becomes ready (`FUSE_POLL_SCHEDULE_NOTIFY`).
    pub const SCHEDULE_NOTIFY: u32 = 1;
}

impl IoctlIn {
    /// A 32-bit program on a 64-bit kernel.
    pub const COMPAT: u32 = 1;
    /// Any size: the server may ask again with RETRY.
    pub const UNRESTRICTED: u32 = 1 << 1;
    /// An answer that asks for other areas.
    pub const RETRY: u32 = 1 << 2;
    /// A 32-bit request.
    pub const BITS_32: u32 = 1 << 3;
    /// Of a directory.
    pub const DIRECTORY: u32 = 1 << 4;
    /// x32, with 64-bit times.
    pub const COMPAT_X32: u32 = 1 << 5;
}
