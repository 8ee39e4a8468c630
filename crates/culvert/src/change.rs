//! What a driver tells a front end that caches: changes that did not come through that front end.
//!
//! A kernel believes what it was told for a while ([`Validity`](crate::Validity)). A driver that
//! learns of changes by others (its back end says so, another process has made them) may let it
//! believe for long, and tell of each change instead:
//! [`FileSystem::observe`](crate::FileSystem::observe) gives it an [`Observer`].

use crate::Node;
use alloc::vec::Vec;

/// Something that is no longer what the front end was told, by node. Telling too much costs a
/// question at the next use, telling too little is a wrong answer.
///
/// In the order in which they are told where several wait; the same twice is told once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Any name may mean something else: changes were lost (`FUSE_NOTIFY_INC_EPOCH`). What is open,
    /// and working directories, are asked for by node, so their attributes and content must be told
    /// of besides.
    Everything,
    /// `name` in `dir` means something else now, or nothing, or has come to be
    /// (`FUSE_NOTIFY_INVAL_ENTRY`). Mounts of the kernel's below it end.
    Name {
        /// The directory.
        dir: Node,
        /// The name in it.
        name: Vec<u8>,
    },
    /// As [`Change::Name`], but perhaps: it is looked up again at its next use, and nothing is lost
    /// if it is still the same (`FUSE_EXPIRE_ONLY`).
    Doubtful {
        /// The directory.
        dir: Node,
        /// The name in it.
        name: Vec<u8>,
    },
    /// `name` in `dir` was removed when it meant `node`, and that was its last name
    /// (`FUSE_NOTIFY_DELETE`): besides what [`Change::Name`] does, fstat(2) of who has it open
    /// shows no link more, without a question, and who watches the file through the mount
    /// (inotify(7)) is told of its end. Who watches the directory is not: Linux has not done that
    /// since 5.3 (`fuse_reverse_inval_entry`, `d_delete`).
    Removed {
        /// The directory.
        dir: Node,
        /// The name that it had.
        name: Vec<u8>,
        /// What it was the name of.
        node: Node,
    },
    /// The attributes of a node.
    Attributes(Node),
    /// The content of a file and its attributes; of a directory its listing
    /// (`FUSE_NOTIFY_INVAL_INODE`).
    Content(Node),
    /// The driver would rather not keep this node: the front end gives its references back if
    /// nobody uses it (`FUSE_NOTIFY_PRUNE`).
    Unneeded(Node),
}

/// Where a driver tells of changes.
pub trait Observer: Send + Sync {
    /// Something has changed. Returns at once: the kernel is told by a thread of the front end's,
    /// since it may wait for a request on the same node to be answered first. So this may be called
    /// from anywhere, also within a call of the driver and with its locks held. Of a driver that
    /// both tells and has files that become ready ([`File::poll`](crate::File::poll)) that thread
    /// wakes those who wait, too, after what was told before: they wait as long as it does.
    fn tell(&self, change: Change);

    /// One line for the log.
    fn report(&self, line: &str);
}

/// How a driver learns of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// Not at all.
    Never,
    /// By calls, or from threads of its own: it tells when it likes.
    Told,
    /// From this descriptor: when it is readable, [`FileSystem::look`](crate::FileSystem::look) is
    /// called. It stays the driver's, and open.
    Descriptor(i32),
}
