//! What is agreed on in INIT: every capability with its reason, and why it is not used where it is
//! not.

mod on_request;

pub use on_request::{LOCKS, ON_REQUEST};

use crate::{report::report, settings::Settings};
use culvert::{FileSystem, Validity};
use culvert_wire::InitFlags;

/// What decides about capabilities.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// The driver's tree never changes.
    pub immutable: bool,
    /// Nothing can be changed.
    pub read_only: bool,
    /// The driver has extended attributes, and checks permissions by more than mode bits: ACLs are
    /// among them.
    pub keeps_acls: bool,
    /// The driver's files keep locks that others see, too.
    pub keeps_locks: bool,
    /// Names and attributes may be believed for a while.
    pub believed: bool,
    /// They may be believed for ever: nobody changes them but by this mount.
    pub believed_for_ever: bool,
    /// Listings may be kept without a look at each open: see `keeps_listings`.
    pub listings_kept: bool,
    /// The server may register backing files (CAP_SYS_ADMIN).
    pub privileged: bool,
    /// Some files are not always ready, and the driver is asked.
    pub polls: bool,
    /// The user wants unanswered requests to end the connection.
    pub timeout: bool,
    /// Files are truncated by a request of its own, which says whether set-user-ID goes.
    pub truncates_apart: bool,
}

impl Situation {
    /// As `filesystem` and the calling process have it.
    pub fn of(filesystem: &dyn FileSystem, validity: Validity, settings: &Settings) -> Self {
        let can = filesystem.capabilities();
        let keeps_acls = can.xattrs && can.checks_permissions && !settings.without(XATTRS);
        let valid = validity.entry.min(validity.attributes);
        // The driver judges by ACLs that the kernel does not have.
        let judges = can.checks_permissions && (!keeps_acls || settings.without("posix-acl"));
        Self {
            immutable: can.immutable,
            read_only: can.read_only || settings.read_only,
            keeps_locks: can.locks,
            keeps_acls,
            believed: validity.entry > 0 && validity.attributes > 0,
            believed_for_ever: valid == u64::MAX,
            listings_kept: keeps_listings(valid, judges, settings),
            privileged: rustix::process::geteuid().is_root(),
            polls: can.polls && !settings.without(POLL),
            timeout: settings.request_timeout.is_some(),
            truncates_apart: !settings.with.iter().any(|name| name == "atomic-o-trunc"),
        }
    }
}

/// Whether the kernel may keep a listing until it knows of a change, and who opens a directory need
/// not be judged here. `valid`: how long names and attributes are believed; `judges`: the driver
/// would refuse what the kernel, by mode bits and ACLs, does not.
///
/// When that time is over the kernel asks for the time of change before it takes a listing that it
/// has (`fuse_readdir_cached`, fs/fuse/readdir.c), but only with `FUSE_AUTO_INVAL_DATA`; meanwhile
/// the driver tells of changes, or the user wants them believed. Where the time is short, a new
/// listing, which brings all attributes, costs less than a question for each name of the old one.
fn keeps_listings(valid: u64, judges: bool, settings: &Settings) -> bool {
    const HOUR: u64 = 3_600_000_000_000;
    let looks = !settings.without("auto-inval-data") && !judges;
    !settings.without(CACHE_DIR) && (valid == u64::MAX || valid >= HOUR && looks)
}

/// Whether a capability is used: why not, where it is not.
type Verdict = Result<(), &'static str>;

/// One capability.
#[derive(Clone, Copy, Debug)]
pub struct Capability {
    /// The kernel's bit.
    pub flag: InitFlags,
    /// What `--without` calls it.
    pub name: &'static str,
    /// Why it is used.
    pub reason: &'static str,
    /// Whether the driver and this server can honour it.
    pub honoured: fn(&Situation) -> Verdict,
    /// Whether it may be switched off: what is negotiated only for correctness may not.
    pub switchable: bool,
}

pub(crate) const fn always(_: &Situation) -> Verdict {
    Ok(())
}

const fn writable(situation: &Situation) -> Verdict {
    match situation.read_only {
        true => Err("nothing is written on a read-only mount"),
        false => Ok(()),
    }
}

const fn ours(situation: &Situation) -> Verdict {
    match situation.believed_for_ever {
        true => Ok(()),
        false => Err("the driver's tree may change behind the kernel's back"),
    }
}

const fn believed(situation: &Situation) -> Verdict {
    match situation.believed {
        true => Ok(()),
        false => Err("answers may not be believed, so each name would be looked up again"),
    }
}

macro_rules! capabilities {
    ($($flag:ident $name:literal $switchable:literal $honoured:expr, $reason:literal;)*) => {
        /// Every capability that is used where the kernel offers it, whatever the transport.
        pub const USED: &[Capability] = &[$(Capability {
            flag: InitFlags::$flag,
            name: $name,
            reason: $reason,
            honoured: $honoured,
            switchable: $switchable,
        }),*];
    };
}

capabilities! {
    INIT_EXT "init-ext" false always, "the second half of these bits is sent at all";
    MAX_PAGES "max-pages" true always, "requests of 1 MiB instead of 128 KiB: an eighth of the \
        upcalls for large reads and writes";
    BIG_WRITES "big-writes" true always, "writes of more than one page";
    ASYNC_READ "async-read" true always, "read-ahead runs while the program goes on: drivers read \
        from several threads";
    ASYNC_DIO "async-dio" true always, "direct I/O in parallel pieces, for the same reason";
    PARALLEL_DIROPS "parallel-dirops" true always, "lookups and listings of one directory at \
        once: drivers are called from several threads";
    DONT_MASK "dont-mask" false always, "the umask comes with the request: a default ACL in the \
        directory takes its place (acl(5))";
    HANDLE_KILLPRIV_V2 "killpriv-v2" true writable, "without it each write asks for \
        security.capability: 4 KiB writes 20 times slower. Drivers clear set-user-ID, \
        set-group-ID and capabilities themselves";
    SETXATTR_EXT "setxattr-ext" true always, "an ACL says whether set-group-ID goes with it";
    POSIX_ACL "posix-acl" true |situation| match situation.keeps_acls {
        true => Ok(()),
        false => Err("the driver keeps no ACLs"),
    }, "the kernel checks by the ACLs of the driver's files, not by their mode bits alone";
    AUTO_INVAL_DATA "auto-inval-data" true |situation| match situation.immutable {
        true => Err("nothing changes in an immutable tree"),
        false => Ok(()),
    }, "cached pages go when size or time show that somebody else has written";
    CACHE_SYMLINKS "cache-symlinks" true ours, "a link is read once";
    NO_OPEN_SUPPORT "no-open" true |situation| match situation.immutable && situation.believed_for_ever {
        true if situation.polls => Err("who waits for a file must have it open"),
        true => Ok(()),
        false => Err("drivers keep state for each open file of a tree that changes"),
    }, "files of an immutable tree are opened and closed without a request, what was read of them \
        stays cached";
    NO_OPENDIR_SUPPORT "no-opendir" true |situation| match situation.listings_kept {
        true => Ok(()),
        false => Err("names are not believed for an hour, listings are not cached, or the driver \
            judges by more than the kernel knows"),
    }, "directories are opened and closed without a request and their listings stay cached, where \
        only this mount changes the tree, or names are believed for an hour and longer (watch, \
        valid=). The kernel judges alone who may list them";
    DO_READDIRPLUS "readdirplus" true believed, "a listing brings the attributes: `ls -l` needs \
        no lookup of each name";
    READDIRPLUS_AUTO "readdirplus-auto" true believed, "but only where attributes are asked for";
    CREATE_SUPP_GROUP "create-supp-group" true writable, "new files come with the caller's group \
        that decides about set-group-ID";
    NO_EXPORT_SUPPORT "no-export" true always, "a node that the kernel has forgotten cannot be \
        found by its number: no file handles are given that would be stale";
    PASSTHROUGH "passthrough" true |situation| match situation.privileged {
        true => Ok(()),
        false => Err("backing files may be registered with CAP_SYS_ADMIN only"),
    }, "reads, writes and mappings of backed files are the kernel's own: no request at all";
    REQUEST_TIMEOUT "request-timeout" true |situation| match situation.timeout {
        true => Ok(()),
        false => Err("a driver may take as long as it has to (request_timeout=)"),
    }, "a request that is not answered in time ends the connection: its caller gets an error \
        instead of waiting for ever";
}

/// What is not agreed on in INIT but said with each answer: its name for `--without`, and its
/// reason.
pub const SWITCHES: &[(&str, &str)] = &[
    (
        KEEP_CACHE,
        "pages stay cached from one open of a file to the next while its time of change is the \
        same (FOPEN_KEEP_CACHE); small files that are opened again and again for reading only are \
        cached so, and not read by the kernel from their backing files, because each such read \
        makes the next stat ask",
    ),
    (
        CACHE_DIR,
        "listings are cached while a directory's time of change is the same, as long as names are \
        believed (FOPEN_CACHE_DIR)",
    ),
    (
        XATTRS,
        "extended attributes, and ACLs with them. The kernel never remembers that a file has \
        none: `ls -l` asks twice for each, and the first write to each open file asks once \
        (security.capability). Without them it never asks",
    ),
    (
        POLL,
        "a driver whose files are not always ready is asked by poll(2), select(2) and epoll(7), \
        and tells who waits (FUSE_POLL, FUSE_NOTIFY_POLL). Of all others the kernel asks once for \
        the whole mount and hears that everything is ready always, as regular files are",
    ),
    (
        STAY_AWAKE,
        "one thread looks for the next request for 50 microseconds before it sleeps: being woken \
        takes longer than most requests",
    ),
    (
        GIVE_WAY,
        "with io_uring, a server that may (root): threads that answer many requests a millisecond \
        are of the class SCHED_IDLE, so that their callers wake on the same processor",
    ),
];

/// See [`SWITCHES`].
pub const POLL: &str = "poll";
/// See [`SWITCHES`].
pub const STAY_AWAKE: &str = "stay-awake";
/// See [`SWITCHES`].
pub const GIVE_WAY: &str = "give-way";
/// See [`SWITCHES`].
pub const XATTRS: &str = "xattrs";
/// See [`SWITCHES`].
pub const KEEP_CACHE: &str = "keep-cache";
/// See [`SWITCHES`].
pub const CACHE_DIR: &str = "cache-dir";

/// What the kernel may offer and is not used, and why.
pub const UNUSED: &[(InitFlags, &str)] = &[
    (
        InitFlags::HANDLE_KILLPRIV,
        "HANDLE_KILLPRIV_V2 says more exactly when",
    ),
    (
        InitFlags::EXPLICIT_INVAL_DATA,
        "others may write without a notice",
    ),
    (
        InitFlags::HAS_IOCTL_DIR,
        "says only that this kernel sends ioctl(2) of directories, which it does in any case",
    ),
    (
        InitFlags::SECURITY_CTX,
        "labels are not set at creation: no driver could do it at one moment",
    ),
    (
        InitFlags::DIRECT_IO_ALLOW_MMAP,
        "files that must not be cached must not be mapped (Caching::Never)",
    ),
    (
        InitFlags::SUBMOUNTS,
        "a mount is one file system, with one device number",
    ),
    (
        InitFlags::EXPORT_SUPPORT,
        "nodes cannot be found by number after they were forgotten",
    ),
];

/// What of `used` is answered to a kernel that offers `offered`, without those named in `without`;
/// see `on_request::chosen` for what is used where the user asks for it.
fn choose<'a>(
    used: impl Iterator<Item = &'a Capability>,
    situation: &Situation,
    offered: InitFlags,
    without: &[String],
) -> InitFlags {
    used.filter(|one| offered.contains(one.flag) && (one.honoured)(situation).is_ok())
        .filter(|one| !one.switchable || !without.iter().any(|name| name == one.name))
        .fold(InitFlags::NONE, |chosen, one| chosen.with(one.flag))
}

/// What is answered to a kernel that offers `offered`, where the transport wants `transport`. What
/// was asked for and cannot be is reported.
pub(crate) fn agreed(
    situation: &Situation,
    offered: InitFlags,
    transport: Option<&Capability>,
    settings: &Settings,
) -> InitFlags {
    let (asked, refused) = on_request::chosen(situation, offered, &settings.with);
    for (name, reason) in refused {
        report(format_args!("{name} is not used: {reason}"));
    }
    if asked.contains(InitFlags::WRITEBACK_CACHE) && !situation.believed_for_ever {
        report(format_args!(
            "warning: with writeback-cache nobody else must change what is mounted: it would not \
            be seen, or be written over"
        ));
    }
    let used = USED.iter().chain(transport);
    let chosen = choose(used, situation, offered, &settings.without).with(asked);
    let locks = InitFlags::POSIX_LOCKS.with(InitFlags::FLOCK_LOCKS);
    if chosen.common(locks) != InitFlags::NONE && situation.timeout {
        report(format_args!(
            "request_timeout is not used: who waits for a lock may wait for ever"
        ));
    }
    let chosen = match chosen.common(locks) != InitFlags::NONE {
        true => chosen.without(InitFlags::REQUEST_TIMEOUT),
        false => chosen,
    };
    // The kernel takes one of the two (`process_init_reply`, fs/fuse/inode.c).
    match chosen.contains(InitFlags::WRITEBACK_CACHE) {
        true => chosen.without(InitFlags::PASSTHROUGH),
        false => chosen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Situation = Situation {
        immutable: false,
        read_only: false,
        keeps_acls: true,
        keeps_locks: true,
        believed: false,
        believed_for_ever: false,
        listings_kept: false,
        privileged: true,
        polls: false,
        timeout: false,
        truncates_apart: true,
    };
    const EVERYTHING: InitFlags = InitFlags(u64::MAX);

    #[test]
    fn what_cannot_be_honoured_is_not_chosen() {
        let chosen = choose(USED.iter(), &FULL, EVERYTHING, &[]);
        assert!(chosen.contains(InitFlags::HANDLE_KILLPRIV_V2));
        assert!(chosen.contains(InitFlags::PASSTHROUGH) && chosen.contains(InitFlags::POSIX_ACL));
        assert!(!chosen.contains(InitFlags::CACHE_SYMLINKS));
        for (flag, reason) in UNUSED {
            assert!(!reason.is_empty() && chosen.common(*flag) == InitFlags::NONE);
        }
        let archive = Situation {
            immutable: true,
            read_only: true,
            keeps_acls: false,
            keeps_locks: false,
            believed: true,
            believed_for_ever: true,
            listings_kept: true,
            privileged: false,
            polls: false,
            timeout: false,
            truncates_apart: true,
        };
        let chosen = choose(USED.iter(), &archive, EVERYTHING, &[]);
        assert!(chosen.contains(InitFlags::CACHE_SYMLINKS.with(InitFlags::NO_OPENDIR_SUPPORT)));
        assert!(chosen.contains(InitFlags::NO_OPEN_SUPPORT));
        let polling = Situation {
            polls: true,
            ..archive
        };
        assert!(
            !choose(USED.iter(), &polling, EVERYTHING, &[]).contains(InitFlags::NO_OPEN_SUPPORT)
        );
        for flag in [
            InitFlags::PASSTHROUGH,
            InitFlags::POSIX_ACL,
            InitFlags::HANDLE_KILLPRIV_V2,
            InitFlags::AUTO_INVAL_DATA,
        ] {
            assert!(!chosen.contains(flag));
        }
    }

    #[test]
    fn nothing_is_chosen_that_is_not_offered_or_is_switched_off() {
        assert_eq!(
            choose(USED.iter(), &FULL, InitFlags::NONE, &[]),
            InitFlags::NONE
        );
        let without = ["passthrough".into(), "init-ext".into()];
        let chosen = choose(USED.iter(), &FULL, EVERYTHING, &without);
        assert!(!chosen.contains(InitFlags::PASSTHROUGH));
        assert!(chosen.contains(InitFlags::INIT_EXT));
    }
}
