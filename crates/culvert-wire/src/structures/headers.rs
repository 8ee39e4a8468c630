//! Headers, INIT, extensions.

use crate::plain::structures;

structures! {
    /// In front of every request.
    InHeader = "fuse_in_header" since 31 {
        /// Bytes of the whole request, this header included.
        len: u32,
        opcode: u32,
        /// Names the request: its reply carries the same number, an INTERRUPT names it.
        unique: u64,
        nodeid: u64,
        /// File-system user of the caller; `u32::MAX` where the kernel does not tell (7.41,
        /// idmapped mounts).
        uid: u32,
        gid: u32,
        pid: u32,
        /// Bytes of extensions at the end of the request, in units of 8 (7.38; before, padding).
        total_extlen: u16,
        padding: u16,
    }

    /// In front of every reply and notification.
    OutHeader = "fuse_out_header" since 31 {
        /// Bytes of the whole message, this header included.
        len: u32,
        /// 0, or a negated errno; of a notification its code.
        error: i32,
        /// The request's; 0 for a notification.
        unique: u64,
    }

    /// INIT, from the client.
    /// Linux before 5.17 sends the first four words only.
    InitIn = "fuse_init_in" since 31 [|protocol| if protocol.minor < 36 { 16 } else { 64 }] {
        major: u32,
        minor: u32,
        /// Bytes.
        max_readahead: u32,
        flags: u32,
        /// Bits 32 to 63 (7.36, with `FUSE_INIT_EXT`).
        flags2: u32,
        unused: [u32; 11],
    }

    /// INIT, the server's answer.
    InitOut = "fuse_init_out" since 31 {
        major: u32,
        minor: u32,
        /// Bytes.
        max_readahead: u32,
        flags: u32,
        /// How many requests of read-ahead and direct I/O may be under way.
        max_background: u16,
        congestion_threshold: u16,
        /// Bytes, at least 4096.
        max_write: u32,
        /// Granularity of times, nanoseconds, 1 to 1,000,000,000.
        time_gran: u32,
        /// Pages in one request (with `FUSE_MAX_PAGES`).
        max_pages: u16,
        map_alignment: u16,
        /// Bits 32 to 63 (7.36).
        flags2: u32,
        /// How deep files for passthrough may be stacked, 1 or 2 (7.40).
        max_stack_depth: u32,
        /// Seconds after which the kernel aborts the connection for an unanswered request (7.43).
        request_timeout: u16,
        unused: [u16; 11],
    }

    /// In front of an extension of a request.
    ExtHeader = "fuse_ext_header" since 38 {
        /// Bytes with this header, a multiple of 8.
        size: u32,
        /// Up to 31: security contexts, that many (then this is a `fuse_secctx_header`); 32:
        /// supplementary groups (`FUSE_EXT_GROUPS`).
        r#type: u32,
    }

    /// In front of one security context: then its name, NUL, and `size` bytes.
    Secctx = "fuse_secctx" since 36 {
        size: u32,
        padding: u32,
    }

    /// `FUSE_DEV_IOC_BACKING_OPEN`'s argument: a file for passthrough.
    BackingMap = "fuse_backing_map" since 40 {
        fd: i32,
        flags: u32,
        padding: u64,
    }
}

/// ioctl(2) requests of /dev/fuse.
pub mod device {
    /// `FUSE_DEV_IOC_CLONE`: makes a freshly opened /dev/fuse another channel of the connection
    /// whose descriptor the argument (a `u32`) points to.
    pub const CLONE: u32 = 0x8004_e500;
    /// `FUSE_DEV_IOC_BACKING_OPEN`: registers a file ([`super::BackingMap`]), returns its number
    /// (7.40).
    pub const BACKING_OPEN: u32 = 0x4010_e501;
    /// `FUSE_DEV_IOC_BACKING_CLOSE`: gives a number (a `u32`) back; opens that use it keep the
    /// file.
    pub const BACKING_CLOSE: u32 = 0x4004_e502;
}
