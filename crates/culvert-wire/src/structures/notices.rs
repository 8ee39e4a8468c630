//! Notifications.

use crate::plain::structures;

structures! {
    /// Poll again.
    NotifyPollWakeupOut = "fuse_notify_poll_wakeup_out" since 31 {
        kh: u64,
    }

    /// Forget attributes, and cached pages of a range.
    NotifyInvalInodeOut = "fuse_notify_inval_inode_out" since 31 {
        ino: u64,
        /// Bytes; negative: attributes only.
        off: i64,
        /// Bytes; 0 or less: to the end.
        len: i64,
    }

    /// Forget a name; it follows.
    NotifyInvalEntryOut = "fuse_notify_inval_entry_out" since 31 {
        parent: u64,
        namelen: u32,
        /// [`NotifyInvalEntryOut::EXPIRE_ONLY`] (7.38; before, padding).
        flags: u32,
    }

    /// A name was removed while it meant `child`; the name follows.
    NotifyDeleteOut = "fuse_notify_delete_out" since 31 {
        parent: u64,
        child: u64,
        namelen: u32,
        padding: u32,
    }

    /// Put `size` bytes into the page cache; they follow.
    NotifyStoreOut = "fuse_notify_store_out" since 31 {
        nodeid: u64,
        offset: u64,
        size: u32,
        padding: u32,
    }

    /// Send what the page cache has: NOTIFY_REPLY answers.
    NotifyRetrieveOut = "fuse_notify_retrieve_out" since 31 {
        notify_unique: u64,
        nodeid: u64,
        offset: u64,
        size: u32,
        padding: u32,
    }

    /// NOTIFY_REPLY; `size` bytes follow.
    NotifyRetrieveIn = "fuse_notify_retrieve_in" since 31 {
        dummy1: u64,
        offset: u64,
        size: u32,
        dummy2: u32,
        dummy3: u64,
        dummy4: u64,
    }

    /// Drop nodes that nobody uses; `count` numbers follow.
    NotifyPruneOut = "fuse_notify_prune_out" since 45 {
        count: u32,
        padding: u32,
        spare: u64,
    }
}

impl NotifyInvalEntryOut {
    /// Only ask again at the next use: mounts below stay (`FUSE_EXPIRE_ONLY`).
    pub const EXPIRE_ONLY: u32 = 1;
}
