//! Notifications: what a server says is no longer right, as the words have it that all of its
//! clients share. It is the process of the server that counts it there, so that a notification
//! which was sent is one that everybody has heard.

pub use crate::stored::Retrieved;

use crate::{
    stored::{self, fixed},
    words::{Shared, WORDS},
};
use core::sync::atomic::AtomicU64;
use culvert::Errno;
use culvert_slots::Channel;
use culvert_wire::structures::{
    NotifyDeleteOut, NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyPollWakeupOut, NotifyStoreOut,
};

/// `FUSE_NOTIFY_STORE`.
const STORE: i32 = 4;
/// `FUSE_NOTIFY_RETRIEVE`.
const RETRIEVE: i32 = 5;

/// How many bytes of a notification have to be seen: a name is the longest (`FUSE_NAME_MAX`).
pub const SEEN: usize = 1024 + 64;

/// What comes of a notification.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Clients ask again for what it says, or there is nothing that they had to ask for.
    Counted,
    /// It means all that is believed.
    All,
    /// It asks for pages of a cache (`FUSE_NOTIFY_RETRIEVE`): [`hear_all`] has them.
    Question,
    /// Requests are wanted again (`FUSE_NOTIFY_RESEND`).
    Resend,
    /// The open file that POLL has called so may be ready (`FUSE_NOTIFY_POLL`): whoever waits is to
    /// be told ([`culvert_slots::waiters::wake`]).
    Ready(u64),
    /// What it asks for.
    Retrieved(Retrieved),
    /// It cannot be done.
    Refused(Errno),
    /// It is none.
    Malformed,
}

/// Whether all of the body of notification `code` is wanted, not only [`SEEN`] bytes.
#[must_use]
pub const fn wants_all(code: i32) -> bool {
    code == STORE
}

/// The same as [`hear`], where what the clients cache is at hand, by `channel`: bytes are put there
/// and asked for.
#[must_use]
pub fn hear_all(channel: &dyn Channel, code: i32, body: &[u8]) -> Heard {
    match code {
        STORE => match stored::store(channel, body) {
            Ok(()) => Heard::Counted,
            Err(errno) => Heard::Refused(errno),
        },
        RETRIEVE => match stored::retrieve(channel, body) {
            Ok(retrieved) => Heard::Retrieved(retrieved),
            Err(errno) => Heard::Refused(errno),
        },
        _ => hear(channel.words(), code, body),
    }
}

/// The answer to notification `code` with `body` that there are no pages, where it asks for some.
#[must_use]
pub fn nothing_retrieved(code: i32, body: &[u8]) -> Option<Retrieved> {
    (code == RETRIEVE).then(|| stored::nothing(body)).flatten()
}

/// Notification `code` with `body`, of which [`SEEN`] bytes may be all that is here, counted in
/// the `words` of the clients.
#[must_use]
pub fn hear(words: &[AtomicU64], code: i32, body: &[u8]) -> Heard {
    if words.len() < WORDS {
        return Heard::All;
    }
    let words = Shared::of(words);
    let heard = match code {
        1 => {
            let wakeup = fixed(body).map(|(wakeup, _): (NotifyPollWakeupOut, _)| wakeup.kh);
            return wakeup.map_or(Heard::Malformed, Heard::Ready);
        }
        2 => fixed(body).map(|(inode, _): (NotifyInvalInodeOut, _)| {
            // `fuse_reverse_inval_inode`, fs/fuse/inode.c: from a negative offset on, attributes
            // alone.
            if inode.off >= 0 {
                words.content(inode.ino).changed();
            }
            words.node_changed(inode.ino);
        }),
        3 => fixed(body).and_then(|(entry, rest): (NotifyInvalEntryOut, _)| {
            name_gone(words, entry.parent, name(rest, entry.namelen)?)
        }),
        STORE => fixed(body).map(|(store, _): (NotifyStoreOut, _)| {
            words.content(store.nodeid).changed();
            words.node_changed(store.nodeid);
        }),
        RETRIEVE => return Heard::Question,
        7 => return Heard::Resend,
        6 => fixed(body).and_then(|(delete, rest): (NotifyDeleteOut, _)| {
            words.node_changed(delete.child);
            name_gone(words, delete.parent, name(rest, delete.namelen)?)
        }),
        8 | 9 => return Heard::All,
        _ => None,
    };
    heard.map_or(Heard::Malformed, |()| Heard::Counted)
}

/// The name of `length` bytes that `rest` is, with the byte behind it.
fn name(rest: &[u8], length: u32) -> Option<&[u8]> {
    let length = usize::try_from(length).ok()?;
    (length != 0 && rest.len() == length + 1).then(|| &rest[..length])
}

/// `fuse_reverse_inval_entry`, fs/fuse/dir.c: the directory has changed, too, and first, as where a
/// client changes a name ([`crate::core::Core::name_changed`]).
fn name_gone(words: Shared<'_>, parent: u64, name: &[u8]) -> Option<()> {
    words.node_changed(parent);
    words.name(parent, name).changed();
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::RIGHTS;
    use alloc::vec::Vec;

    fn bytes(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn a_notification_counts_what_it_names_and_nothing_else() {
        let all: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let words = Shared::of(&all);
        let seen = || {
            [
                words.of_node(5) / RIGHTS,
                words.content(5).now(),
                words.of_node(1) / RIGHTS,
                words.name(1, b"x").now(),
                words.name(1, b"y").now(),
            ]
        };
        let (five, one) = (5_u64.to_ne_bytes(), 1_u64.to_ne_bytes());
        let all_of_it = [0_u8; 16];
        assert_eq!(hear(&all, 2, &bytes(&[&five, &all_of_it])), Heard::Counted);
        assert_eq!(seen(), [1, 1, 0, 0, 0]);
        let attributes = [(-1_i64).to_ne_bytes(), 0_i64.to_ne_bytes()].concat();
        assert_eq!(hear(&all, 2, &bytes(&[&five, &attributes])), Heard::Counted);
        assert_eq!(seen(), [2, 1, 0, 0, 0]);
        let entry = bytes(&[&one, &1_u32.to_ne_bytes(), &[0; 4], b"x\0"]);
        assert_eq!(hear(&all, 3, &entry), Heard::Counted);
        assert_eq!(seen(), [2, 1, 1, 1, 0]);
        let delete = bytes(&[&one, &five, &1_u32.to_ne_bytes(), &[0; 4], b"y\0"]);
        assert_eq!(hear(&all, 6, &delete), Heard::Counted);
        assert_eq!(seen(), [3, 1, 2, 1, 1]);
    }

    #[test]
    fn what_is_no_notification_is_told() {
        let all: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        for (code, body) in [(2, &[0_u8; 8][..]), (3, &[1; 40]), (0, &[]), (10, &[0; 64])] {
            assert_eq!(hear(&all, code, body), Heard::Malformed, "{code}");
        }
        assert_eq!(hear(&all, 5, &[0; 64]), Heard::Question);
        assert_eq!(hear(&all, 7, &[]), Heard::Resend);
        assert_eq!(hear(&all, 1, &5_u64.to_ne_bytes()), Heard::Ready(5));
        assert_eq!(hear(&all, 1, &[0; 4]), Heard::Malformed);
        assert_eq!(hear(&all, 8, &[]), Heard::All);
        assert_eq!(hear(&[], 2, &[0; 24]), Heard::All);
    }
}
