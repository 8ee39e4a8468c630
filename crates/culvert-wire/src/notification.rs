//! Notifications: a server tells, nobody asked.

use crate::{
    Data, Malformed, Message, Name, Nodes, Protocol,
    input::Input,
    message_table::messages,
    structures::{
        NotifyDeleteOut, NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyPollWakeupOut,
        NotifyPruneOut, NotifyRetrieveOut, NotifyStoreOut, OutHeader,
    },
};

messages! {
    /// What a server tells (`enum fuse_notify_code`). Never from within the handling of a request
    /// that holds the same node: the kernel may wait for one to do the other.
    pub enum Notification<'a> {
        /// A file may have become ready.
        Poll = 1 since 31 { wakeup: NotifyPollWakeupOut }
        /// Attributes, and pages, are no longer right.
        InvalInode = 2 since 31 { inode: NotifyInvalInodeOut }
        /// A name is no longer right; with [`NotifyInvalEntryOut::EXPIRE_ONLY`] perhaps.
        InvalEntry = 3 since 31 { entry: NotifyInvalEntryOut, name: Name<'a> }
        /// Data for the page cache.
        Store = 4 since 31 { store: NotifyStoreOut, data: Data<'a> }
        /// Asks for data in the page cache.
        Retrieve = 5 since 31 { retrieve: NotifyRetrieveOut }
        /// A name was removed (inotify(7) is told).
        Delete = 6 since 31 { delete: NotifyDeleteOut, name: Name<'a> }
        /// Send all unanswered requests again.
        Resend = 7 since 40 {}
        /// No name that was looked up before is right any more.
        IncEpoch = 8 since 44 {}
        /// Drop these nodes if nobody uses them.
        Prune = 9 since 45 { prune: NotifyPruneOut, nodes: Nodes<'a> }
    }
}

impl<'a> Notification<'a> {
    /// The number in a structure that says how much follows it, and how much does.
    fn counted(&mut self) -> Option<(&mut u32, usize)> {
        match self {
            Self::InvalEntry { entry, name } => Some((&mut entry.namelen, name.bytes().len())),
            Self::Delete { delete, name } => Some((&mut delete.namelen, name.bytes().len())),
            Self::Store { store, data } => Some((&mut store.size, data.0.len())),
            Self::Prune { prune, nodes } => Some((&mut prune.count, nodes.count())),
            _ => None,
        }
    }

    /// The notification that `bytes` are, exactly.
    ///
    /// # Errors
    /// [`Malformed`]: the bytes are none, or a reply ([`crate::Reply::is_notification`] tells).
    pub fn decode(bytes: &'a [u8], protocol: &Protocol) -> Result<Self, Malformed> {
        let protocol = *protocol;
        let mut input = Input {
            rest: bytes,
            protocol,
        };
        let header: OutHeader = input.plain()?;
        if header.len as usize != bytes.len() {
            return Err(Malformed::Length);
        }
        let code = u32::try_from(header.error).ok();
        let code = code.filter(|_| header.unique == 0);
        let code = code.ok_or(Malformed::Notification)?;
        let found = Self::take(code, &mut input)?;
        let mut notification = found.ok_or(Malformed::Notification)?;
        input.finish()?;
        match notification.counted() {
            Some((&mut said, found)) if said as usize != found => Err(Malformed::Count),
            _ => Ok(notification),
        }
    }

    /// The notification as it is sent. Counts in it are set to what is there.
    ///
    /// # Errors
    /// [`Malformed::TooLarge`]: more than 4 GiB.
    pub fn encode(&self, protocol: &Protocol) -> Result<Message<'a>, Malformed> {
        let mut notification = *self;
        if let Some((said, found)) = notification.counted() {
            *said = u32::try_from(found).map_err(|_| Malformed::TooLarge)?;
        }
        let mut message = Message::new();
        message.plain(&OutHeader::default(), protocol);
        let code = notification.put(&mut message, protocol);
        message.finish(&OutHeader {
            len: 0,
            error: code.and_then(|code| i32::try_from(code).ok()).unwrap_or(0),
            unique: 0,
        })
    }
}
