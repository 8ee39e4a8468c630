//! INIT: what is offered to a server, with the reason for each flag, and what comes of its answer.

use culvert::{Errno, Error, Result};
use culvert_wire::{
    InitFlags, MAJOR, NEWEST_MINOR, Protocol,
    structures::{InitIn, InitOut},
};

/// What is offered, and what it makes of requests. What Linux offers besides is in [`UNUSED`].
pub const OFFERED: &[(InitFlags, &str)] = &[
    (
        InitFlags::ASYNC_READ,
        "threads read at once, also of one file",
    ),
    (
        InitFlags::POSIX_LOCKS,
        "a server that keeps fcntl(2)'s locks is asked for them",
    ),
    (
        InitFlags::ATOMIC_O_TRUNC,
        "OPEN carries O_TRUNC, else SETATTR follows",
    ),
    (
        InitFlags::BIG_WRITES,
        "WRITE is as large as max_write, not a page",
    ),
    (InitFlags::DONT_MASK, "the umask is told, for default ACLs"),
    (
        InitFlags::FLOCK_LOCKS,
        "a server that keeps flock(2)'s locks is asked for them",
    ),
    (
        InitFlags::AUTO_INVAL_DATA,
        "cached pages go when size or time have changed: culvert::Caching::UntilChanged",
    ),
    (
        InitFlags::DO_READDIRPLUS,
        "a listing brings what a lookup of each name would",
    ),
    (
        InitFlags::READDIRPLUS_AUTO,
        "but only its start, until attributes are asked for",
    ),
    (
        InitFlags::ASYNC_DIO,
        "pieces of a large read or write need not wait for each other",
    ),
    (
        InitFlags::NO_OPEN_SUPPORT,
        "ENOSYS to OPEN is remembered: files need neither OPEN nor RELEASE",
    ),
    (
        InitFlags::PARALLEL_DIROPS,
        "lookups and listings of one directory come at once",
    ),
    (
        InitFlags::HANDLE_KILLPRIV,
        "else set-user-ID is cleared by a SETATTR before a write",
    ),
    (
        InitFlags::HANDLE_KILLPRIV_V2,
        "requests say when set-user-ID goes",
    ),
    (
        InitFlags::MAX_PAGES,
        "requests of up to what the way to the server takes, not 128 KiB",
    ),
    (
        InitFlags::CACHE_SYMLINKS,
        "the target of a link is read once, for all processes",
    ),
    (
        InitFlags::NO_OPENDIR_SUPPORT,
        "ENOSYS to OPENDIR is remembered",
    ),
    (InitFlags::INIT_EXT, "flags above bit 31"),
    (
        InitFlags::HAS_EXPIRE_ONLY,
        "names are looked up again, mounts on them stay",
    ),
    (
        InitFlags::NO_EXPORT_SUPPORT,
        "there are no file handles that could outlive a node",
    ),
    (
        InitFlags::SECURITY_CTX,
        "labels of a new file are said: none, for a security module of the kernel sees no such file",
    ),
    (
        InitFlags::CREATE_SUPP_GROUP,
        "a new file comes with the directory's group, where its maker is in it besides",
    ),
    (
        InitFlags::HAS_RESEND,
        "a server that asks for it gets what it has in hand once more, in the same process",
    ),
];

/// What Linux offers and this client does not, and why.
pub const UNUSED: &[(InitFlags, &str)] = &[
    (InitFlags::FILE_OPS, "was never implemented"),
    (
        InitFlags::EXPORT_SUPPORT,
        "nobody has file handles: nodes are never found by \".\" and \"..\"",
    ),
    (
        InitFlags::SPLICE_WRITE,
        "there is no pipe on the way: bytes are copied once",
    ),
    (InitFlags::SPLICE_MOVE, "as splice-write"),
    (InitFlags::SPLICE_READ, "as splice-write"),
    (
        InitFlags::HAS_IOCTL_DIR,
        "the driver API has no ioctl(2) of directories",
    ),
    (
        InitFlags::WRITEBACK_CACHE,
        "a write is at the server when it returns: a killed writer loses nothing",
    ),
    (
        InitFlags::POSIX_ACL,
        "front ends judge by mode bits; access lists go as extended attributes",
    ),
    (InitFlags::ABORT_ERROR, "is about the errors of the device"),
    (
        InitFlags::EXPLICIT_INVAL_DATA,
        "pages are kept by whoever maps a file, who hears of no notice",
    ),
    (InitFlags::MAP_ALIGNMENT, "is virtiofs's"),
    (InitFlags::HAS_INODE_DAX, "is virtiofs's"),
    (InitFlags::SUBMOUNTS, "a mount is one file system"),
    (
        InitFlags::SETXATTR_EXT,
        "nothing is said in the longer structure",
    ),
    (
        InitFlags::DIRECT_IO_ALLOW_MMAP,
        "files that must not be cached are not mapped",
    ),
    (InitFlags::ALLOW_IDMAP, "there is no idmapped mount"),
    (
        InitFlags::OVER_IO_URING,
        "requests come by slots, or by read(2)",
    ),
    (InitFlags::REQUEST_TIMEOUT, "who waits can be interrupted"),
];

/// Pages of a request without [`InitFlags::MAX_PAGES`] (`FUSE_DEFAULT_MAX_PAGES_PER_REQ`).
const DEFAULT_PAGES: usize = 32;

/// The flags of INIT; with `passthrough` where the way to the server hands descriptors over.
pub fn offered(passthrough: bool) -> InitFlags {
    let all = OFFERED.iter().map(|(flag, _)| *flag);
    let flags = all.fold(InitFlags::NONE, InitFlags::with);
    match passthrough {
        true => flags.with(InitFlags::PASSTHROUGH),
        false => flags,
    }
}

/// The body of INIT, which is sent to a server before there is a client. `largest` is the most
/// bytes that a body may have.
pub fn request(largest: usize, passthrough: bool) -> InitIn {
    let (flags, flags2) = offered(passthrough).words();
    InitIn {
        major: MAJOR,
        minor: NEWEST_MINOR,
        max_readahead: u32::try_from(largest).unwrap_or(u32::MAX).min(1 << 20),
        flags,
        flags2,
        ..InitIn::default()
    }
}

/// What INIT has agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Agreed {
    /// The version, and the flags that both sides know.
    pub protocol: Protocol,
    /// The most bytes of one WRITE.
    pub max_write: usize,
    /// The most bytes of one READ, and of a listing.
    pub max_read: usize,
    /// The most bytes that are read before they are asked for.
    pub max_readahead: usize,
}

impl Agreed {
    /// What comes of the server's answer `init`, where a body may have `largest` bytes.
    ///
    /// # Errors
    /// `EPROTO`: there is no version that both speak, or no room for a page.
    pub fn of(init: &InitOut, largest: usize) -> Result<Self> {
        let flags = InitFlags::from_words(init.flags, init.flags2).common(offered(true));
        let protocol = Protocol::with_server(init.major, init.minor, flags);
        let protocol = protocol.ok_or_else(|| {
            Error::because(
                Errno::EPROTO,
                alloc::format!("the server speaks FUSE {}.{}", init.major, init.minor),
            )
        })?;
        // `struct fuse_write_in` and what is read go in one body.
        let room = largest.saturating_sub(40) / 4096 * 4096;
        if room == 0 {
            return Err(Errno::EPROTO.into());
        }
        let pages = match flags.contains(InitFlags::MAX_PAGES) {
            true => usize::from(init.max_pages.max(1)),
            false => DEFAULT_PAGES,
        };
        let most = room.min(pages * 4096);
        let max_write = match flags.contains(InitFlags::BIG_WRITES) {
            // At least a page, whatever it says (`process_init_reply`, fs/fuse/inode.c).
            true => (init.max_write as usize).max(4096).min(most),
            false => most.min(4096),
        };
        Ok(Self {
            protocol,
            max_write,
            max_read: most,
            max_readahead: init.max_readahead as usize,
        })
    }

    /// Whether both sides know `flag`.
    pub const fn has(&self, flag: InitFlags) -> bool {
        self.protocol.flags.contains(flag)
    }
}
