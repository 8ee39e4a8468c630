//! What a server puts into the cache of pages by itself, and asks back from there
//! (`FUSE_NOTIFY_STORE`, `FUSE_NOTIFY_RETRIEVE`), in the server's process.

use crate::{
    capabilities::Agreed,
    pages::{Key, PAGE, Pages},
    remembered::NodeRecord,
    words::{CHANGE, Shared, WORDS},
};
use alloc::vec::Vec;
use culvert::Errno;
use culvert_slots::Channel;
use culvert_sys::{clock::Clock, plain::Packed};
use culvert_wire::{
    InitFlags, Plain, ROOT_ID,
    structures::{InitOut, NotifyRetrieveIn, NotifyRetrieveOut, NotifyStoreOut},
};

/// The structure that `body` begins with, and what follows it.
pub fn fixed<T: Plain>(body: &[u8]) -> Option<(T, &[u8])> {
    let rest = body.get(size_of::<T>()..)?;
    Some((T::from_prefix(body), rest))
}

/// What NOTIFY_REPLY says.
#[derive(Debug, PartialEq, Eq)]
pub struct Retrieved {
    /// Its number, as the server has asked for it.
    pub number: u64,
    /// The node.
    pub node: u64,
    /// Its body.
    pub body: Vec<u8>,
}

/// What clients cache, as their server's process sees it.
struct Caches<'a> {
    words: Shared<'a>,
    channel: &'a dyn Channel,
    agreed: Agreed,
    now: u64,
}

impl<'a> Caches<'a> {
    /// None where clients cache nothing.
    fn of(channel: &'a dyn Channel) -> Option<Self> {
        let words = channel.words();
        let init = InitOut::from_prefix(&channel.init_reply());
        let agreed = Agreed::of(&init, channel.largest()).ok()?;
        (words.len() >= WORDS).then(|| Self {
            words: Shared::of(words),
            channel,
            agreed,
            now: Clock::new().steady(),
        })
    }

    /// What all remember of `node`.
    fn known(&self, node: u64) -> Option<NodeRecord> {
        let told = self.channel.notifications();
        self.words.remembered_node((self.now, told), node)
    }

    /// Its pages, and by what they are believed after `changes` of its bytes; none where nobody
    /// would believe them.
    fn pages(&self, known: &NodeRecord, changes: u64) -> Option<(Pages<'a>, u64)> {
        let node = known.attributes.node.0;
        let account = match node {
            ROOT_ID => 0,
            _ => known.account?.word(),
        };
        let is_timed = self.agreed.has(InitFlags::AUTO_INVAL_DATA);
        let told = self.channel.notifications();
        let belief = self
            .words
            .belief(account, [changes, told], &known.attributes, is_timed)?;
        Some((Pages::of(self.channel, self.words, self.now), belief))
    }
}

/// `fuse_notify_store`, fs/fuse/dev.c: what was cached of the file is not believed any more. The
/// pages of which `body` has all bytes are cached in its place, where anything is remembered of the
/// node: a page that was cached may go at any time.
///
/// # Errors
/// `EINVAL`: it is no such notification.
pub fn store(channel: &dyn Channel, body: &[u8]) -> Result<(), Errno> {
    let (store, bytes) = fixed::<NotifyStoreOut>(body).ok_or(Errno::EINVAL)?;
    let bytes = bytes.get(..store.size as usize).ok_or(Errno::EINVAL)?;
    let end = store.offset.checked_add(bytes.len() as u64);
    let end = end.filter(|&end| i64::try_from(end).is_ok());
    let (node, end) = (store.nodeid, end.ok_or(Errno::EINVAL)?);
    let caches = Caches::of(channel);
    let known = caches.as_ref().and_then(|caches| caches.known(node));
    let Some(caches) = caches else {
        return Ok(());
    };
    let changes = caches.words.content(node).changed();
    let counted = caches.words.node_modified(node);
    // Nobody else has changed it since it was remembered.
    let is_last = |known: &NodeRecord| known.stamp / CHANGE + 1 == counted / CHANGE;
    let Some(mut known) = known.filter(is_last) else {
        return Ok(());
    };
    known.stamp = counted;
    known.attributes.size = known.attributes.size.max(end);
    caches.words.remember_node(&known);
    let Some((pages, belief)) = caches.pages(&known, changes) else {
        return Ok(());
    };
    let page = PAGE as u64;
    let skipped = store.offset.next_multiple_of(page) - store.offset;
    let whole = bytes.get(skipped as usize..).unwrap_or_default();
    for (index, bytes) in ((store.offset + skipped) / page..).zip(whole.chunks(PAGE)) {
        // What lies behind the bytes is not known, unless the file ends there.
        if bytes.len() == PAGE || end == known.attributes.size {
            pages.put(
                Key {
                    node,
                    index,
                    belief,
                },
                bytes,
            );
        }
    }
    Ok(())
}

/// `fuse_notify_retrieve`, fs/fuse/dev.c: what is cached of the file from there on, up to the first
/// page that is not.
///
/// # Errors
/// `EINVAL`: it is no such notification; `ENOENT`: nothing is remembered of the node; `ENOMEM`.
pub fn retrieve(channel: &dyn Channel, body: &[u8]) -> Result<Retrieved, Errno> {
    let (asked, rest) = fixed::<NotifyRetrieveOut>(body).ok_or(Errno::EINVAL)?;
    if !rest.is_empty() {
        return Err(Errno::EINVAL);
    }
    let caches = Caches::of(channel).ok_or(Errno::ENOENT)?;
    let node = asked.nodeid;
    let known = match caches.known(node) {
        // What was is not believed any more.
        None if !caches.words.remembers_node(node) => return Err(Errno::ENOENT),
        known => known,
    };
    let most = (asked.size as usize).min(caches.agreed.max_write) as u64;
    let end = asked.offset.saturating_add(most);
    let changes = caches.words.content(node).now();
    let cached = known.and_then(|known| {
        let (pages, belief) = caches.pages(&known, changes)?;
        Some((pages, belief, end.min(known.attributes.size)))
    });
    let mut answer = Vec::new();
    let mut head = NotifyRetrieveIn {
        offset: asked.offset,
        ..NotifyRetrieveIn::default()
    };
    let has_room = answer.try_reserve(size_of_val(&head));
    has_room.map_err(|_| Errno::ENOMEM)?;
    answer.extend_from_slice(head.bytes());
    if let Some((pages, belief, end)) = cached {
        let mut page = [0; PAGE / 8];
        let mut at = asked.offset;
        while at < end {
            let index = at / PAGE as u64;
            let key = Key {
                node,
                index,
                belief,
            };
            let start = (at % PAGE as u64) as usize;
            let until = (end - index * PAGE as u64).min(PAGE as u64) as usize;
            let length = pages.get(key, &mut page).filter(|&length| length >= until);
            let bytes = page.bytes().get(start..until).filter(|_| length.is_some());
            let Some(bytes) = bytes.filter(|bytes| answer.try_reserve(bytes.len()).is_ok()) else {
                break;
            };
            answer.extend_from_slice(bytes);
            at += bytes.len() as u64;
            head.size += bytes.len() as u32;
        }
    }
    if let Some(place) = answer.get_mut(..size_of_val(&head)) {
        place.copy_from_slice(head.bytes());
    }
    Ok(Retrieved {
        number: asked.notify_unique,
        node,
        body: answer,
    })
}

/// The answer that there are no pages.
pub fn nothing(body: &[u8]) -> Option<Retrieved> {
    let (asked, rest) = fixed::<NotifyRetrieveOut>(body)?;
    let head = NotifyRetrieveIn {
        offset: asked.offset,
        ..NotifyRetrieveIn::default()
    };
    rest.is_empty().then(|| Retrieved {
        number: asked.notify_unique,
        node: asked.nodeid,
        body: head.bytes().to_vec(),
    })
}
