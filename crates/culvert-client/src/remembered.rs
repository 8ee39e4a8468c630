//! What all clients of a server remember together: names, absent names, attributes and targets of
//! links, as *records* in the words that they share.
//!
//! A record begins with a sum of what follows, and is believed only if that is right: nobody locks
//! anything, and what two write at once, or what a writer has left half written that was killed, is
//! no record. It says how often its name or node had changed when the server was asked, and until
//! when it may be believed, as what a process remembers by itself does (`nodes`).
//!
//! The place of a record follows from its key: four in a row have the same, of which the one goes
//! first that ends first. What a record says is checked as a server's answer is.

use crate::{
    holders::Account,
    layout::{ATTRIBUTES, LINK, LONGEST_NAME, LONGEST_TARGET, MOVE, MOVED, NAME, Records},
    words::{Shared, is_read_only},
};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culvert::{Attributes, FileKind, Node, Timespec};

/// How many records of a kind have the same place.
const WAYS: usize = 4;

/// In place of the length of a name: the directory is not there any more.
const REMOVED: u64 = u64::MAX;

/// The sum.
const SUM: usize = 0;
/// Until when it is believed.
const EXPIRES: usize = 1;
/// The node, or the directory of the name.
const KEY: usize = 2;

/// What is remembered of a name.
#[derive(Clone, Copy, Debug)]
pub struct NameRecord {
    pub expires: u64,
    /// 0: it is not there.
    pub node: u64,
    /// Changes of the name, and notifications of the server, before it was asked.
    pub stamp: u64,
    pub told: u64,
    /// By which the node can be held.
    pub account: Option<Account>,
}

/// What is remembered of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeRecord {
    pub expires: u64,
    pub generation: u64,
    pub stamp: u64,
    pub told: u64,
    /// As long as it is held, the number of the node means what it meant. The root has none.
    pub account: Option<Account>,
    pub attributes: Attributes,
}

/// Where a node was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub when: u64,
    pub dir: u64,
    pub name: Vec<u8>,
}

/// A sum of `words` that tells a record from what is none.
fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0x6a09_e667_f3bc_c908, |sum: u64, word| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    })
}

/// Bytes as words, the last filled with zeros.
fn pack(bytes: &[u8], words: &mut [u64]) {
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        if let Some(place) = whole.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
        *word = u64::from_ne_bytes(whole);
    }
}

/// The first `length` bytes of `words`.
fn unpack(words: &[u64], length: usize) -> Option<Vec<u8>> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    if length > bytes.len() {
        return None;
    }
    bytes.truncate(length);
    Some(bytes)
}

const fn node_hash(node: u64) -> u64 {
    node.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

const fn halves(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn low(word: u64) -> u32 {
    word as u32
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl<'a> Shared<'a> {
    fn ways(self, records: Records, hash: u64) -> impl Iterator<Item = &'a [AtomicU64]> {
        let first = (hash as usize % (records.count / WAYS)) * WAYS;
        (first..first + WAYS).filter_map(move |index| {
            let start = records.start + index * records.size;
            self.words.get(start..start + records.size)
        })
    }

    /// The record among those at `hash` that is right, of the node or directory `key`, and that
    /// `is_it`.
    fn record<const N: usize>(
        self,
        records: Records,
        (hash, key): (u64, u64),
        is_it: impl Fn(&[u64; N]) -> bool,
    ) -> Option<[u64; N]> {
        if !self.is_shared {
            return None;
        }
        let is_of_key = |way: &&'a [AtomicU64]| {
            let word = way.get(KEY);
            word.is_some_and(|word| word.load(Relaxed) == key)
        };
        self.ways(records, hash).filter(is_of_key).find_map(|way| {
            let mut read = [0; N];
            for (word, place) in read.iter_mut().zip(way) {
                *word = place.load(Relaxed);
            }
            let (said, rest) = read.split_first()?;
            let is_right = read.get(KEY) == Some(&key) && is_it(&read);
            (is_right && *said == sum(rest)).then_some(read)
        })
    }

    /// Writes `record` in the place of the one that `is_it`, or that ends first.
    fn put_record<const N: usize>(
        self,
        records: Records,
        hash: u64,
        mut record: [u64; N],
        is_it: impl Fn(&'a [AtomicU64]) -> bool,
    ) {
        if !self.is_shared {
            return;
        }
        if let Some((first, rest)) = record.split_first_mut() {
            *first = sum(rest);
        }
        let expires = |way: &&'a [AtomicU64]| match is_it(way) {
            true => 0,
            false => way.get(EXPIRES).map_or(0, |word| word.load(Relaxed)).max(1),
        };
        if let Some(way) = self.ways(records, hash).min_by_key(expires) {
            match way.get(SUM).map_or(0, |word| word.load(Relaxed)) {
                0 => self.count(crate::words::REMEMBERED, 1),
                _ if !is_it(way) => self.count(crate::words::EVICTED, 1),
                _ => {}
            }
            for (place, word) in way.iter().zip(record) {
                place.store(word, Relaxed);
            }
        }
    }

    /// What is remembered of `name` in `dir`, if that may be believed.
    pub fn remembered_name(
        self,
        (now, told): (u64, u64),
        dir: u64,
        name: &[u8],
    ) -> Option<NameRecord> {
        let (key, hash) = name_key(dir, name)?;
        let found = self.record::<NAME>(self.names(), (hash, dir), |record| {
            record.get(7..) == Some(&key[..])
        })?;
        let [_, expires, _, node, stamp, heard, account, ..] = found;
        let believed = now < expires && heard == told && stamp == self.name(dir, name).now();
        believed.then_some(NameRecord {
            expires,
            node,
            stamp,
            told: heard,
            account: Account::of_word(account),
        })
    }

    /// The node that `name` in `dir` led to when somebody was told last.
    pub fn last_node(self, dir: u64, name: &[u8]) -> Option<u64> {
        let (key, hash) = name_key(dir, name)?;
        let found = self.record::<NAME>(self.names(), (hash, dir), |record| {
            record.get(7..) == Some(&key[..])
        })?;
        found.get(3).copied().filter(|&node| node != 0)
    }

    /// What somebody held node `node` by when he was told last that `name` in `dir` leads to it.
    pub fn last_account(self, dir: u64, name: &[u8], node: u64) -> Option<Account> {
        let (key, hash) = name_key(dir, name)?;
        let found = self.record::<NAME>(self.names(), (hash, dir), |record| {
            record.get(7..) == Some(&key[..]) && record.get(3) == Some(&node)
        })?;
        let [_, _, _, _, _, _, account, ..] = found;
        Account::of_word(account)
    }

    /// Remembers it.
    pub fn remember_name(self, dir: u64, name: &[u8], known: &NameRecord) {
        let Some((key, hash)) = name_key(dir, name) else {
            return;
        };
        let mut record = [0; NAME];
        let account = known.account.map_or(0, Account::word);
        let head = [
            0,
            known.expires,
            dir,
            known.node,
            known.stamp,
            known.told,
            account,
        ];
        for (word, value) in record.iter_mut().zip(head.into_iter().chain(key)) {
            *word = value;
        }
        self.put_record(self.names(), hash, record, |way| {
            let is =
                |at: usize, value: u64| way.get(at).is_some_and(|word| word.load(Relaxed) == value);
            is(2, dir) && key.iter().zip(7..).all(|(&value, at)| is(at, value))
        });
    }

    /// Where somebody has moved `node` last, or has known it to be when he moved something below
    /// it.
    pub fn moved(self, node: u64) -> Option<Moved> {
        let found = self.record::<MOVE>(MOVED, (node_hash(node), node), |_| true)?;
        let [_, when, _, dir, length, name @ ..] = found;
        let name = unpack(&name, length as usize)?;
        let is_name = culvert_wire::Name::new(&name).is_some();
        is_name.then_some(Moved { when, dir, name })
    }

    /// Whether anybody has said so, also by a name that is too long. What was removed under its
    /// number was another.
    pub fn is_moved(self, node: u64) -> bool {
        let found = self.record::<MOVE>(MOVED, (node_hash(node), node), |_| true);
        found.is_some_and(|[_, _, _, _, length, ..]| length != REMOVED)
    }

    /// The account of directory `node` that somebody has removed.
    pub fn removed(self, node: u64) -> Option<u64> {
        let found = self.record::<MOVE>(MOVED, (node_hash(node), node), |_| true)?;
        let [_, _, _, account, length, ..] = found;
        (length == REMOVED).then_some(account)
    }

    /// Remembers that, at `now`, of the directory with this `account`.
    pub fn remember_removal(self, now: u64, node: u64, account: Account) {
        let mut record = [0; MOVE];
        let (head, _) = record.split_at_mut(5);
        head.copy_from_slice(&[0, now, node, account.word(), REMOVED]);
        let is_it = |way: &[AtomicU64]| way.get(2).is_some_and(|word| word.load(Relaxed) == node);
        self.put_record(MOVED, node_hash(node), record, is_it);
    }

    /// Remembers that, at `now`; of a name that is too long, that nothing is known any more.
    pub fn remember_move(self, now: u64, node: u64, (dir, name): (u64, &[u8])) {
        let name: &[u8] = if name.len() > LONGEST_NAME { b"" } else { name };
        let mut record = [0; MOVE];
        let (head, text) = record.split_at_mut(5);
        head.copy_from_slice(&[0, now, node, dir, name.len() as u64]);
        pack(name, text);
        let is_it = |way: &[AtomicU64]| way.get(2).is_some_and(|word| word.load(Relaxed) == node);
        self.put_record(MOVED, node_hash(node), record, is_it);
    }

    /// Whether anything is remembered of `node`, be it believed or not.
    pub fn remembers_node(self, node: u64) -> bool {
        let key = (node_hash(node), node);
        let found = self.record::<ATTRIBUTES>(self.attributes(), key, |_| true);
        found.is_some()
    }

    /// What is remembered of `node`, if that may be believed; its time of access only where it has
    /// the stamp that the node has now.
    pub fn remembered_node(self, (now, told): (u64, u64), node: u64) -> Option<NodeRecord> {
        let key = (node_hash(node), node);
        let found = self.record::<ATTRIBUTES>(self.attributes(), key, |_| true)?;
        let [_, expires, _, stamp, heard, generation, rest @ ..] = found;
        if now >= expires || heard != told || !is_read_only(stamp, self.of_node(node)) {
            return None;
        }
        let [
            inode,
            mode,
            owner,
            rdev,
            size,
            blocks,
            block_size,
            rest @ ..,
        ] = rest;
        let [access, change, status, nanoseconds, last, account, ..] = rest;
        let time = |seconds: u64, nanoseconds: u32| Timespec {
            seconds: seconds as i64,
            nanoseconds: nanoseconds.min(999_999_999),
        };
        if size > i64::MAX as u64 {
            return None;
        }
        Some(NodeRecord {
            expires,
            generation,
            stamp,
            told: heard,
            account: Account::of_word(account),
            attributes: Attributes {
                node: Node(node),
                inode,
                kind: FileKind::of_mode(low(mode))?,
                permissions: low(mode) & 0o7777,
                links: high(mode),
                uid: low(owner),
                gid: high(owner),
                rdev,
                size,
                blocks,
                block_size: low(block_size),
                atime: time(access, low(nanoseconds)),
                mtime: time(change, high(nanoseconds)),
                ctime: time(status, low(last)),
                btime: None,
            },
        })
    }

    /// Remembers it.
    pub fn remember_node(self, known: &NodeRecord) {
        let found = &known.attributes;
        let node = found.node.0;
        let hash = node_hash(node);
        let record = [
            0,
            known.expires,
            node,
            known.stamp,
            known.told,
            known.generation,
            found.inode,
            halves(found.kind as u32 | found.permissions, found.links),
            halves(found.uid, found.gid),
            found.rdev,
            found.size,
            found.blocks,
            u64::from(found.block_size),
            found.atime.seconds as u64,
            found.mtime.seconds as u64,
            found.ctime.seconds as u64,
            halves(found.atime.nanoseconds, found.mtime.nanoseconds),
            u64::from(found.ctime.nanoseconds),
            known.account.map_or(0, Account::word),
            0,
        ];
        self.put_record::<ATTRIBUTES>(self.attributes(), hash, record, |way| {
            way.get(2).is_some_and(|word| word.load(Relaxed) == node)
        });
    }

    /// The target of the link `node`, where it is remembered.
    pub fn remembered_target(self, told: u64, node: u64) -> Option<Vec<u8>> {
        let key = (node_hash(node), node);
        let found = self.record::<LINK>(self.links(), key, |_| true)?;
        let [_, _, _, stamp, heard, length, account, text @ ..] = &found;
        let account = Account::of_word(*account);
        let believed = *heard == told
            && *stamp == self.content(node).now()
            && account.is_some_and(|account| self.is_held(account));
        let target = unpack(text, usize::try_from(*length).ok()?);
        let is_one = |target: &Vec<u8>| !target.is_empty() && !target.contains(&0);
        target.filter(|target| believed && is_one(target))
    }

    /// Remembers it of the node that is held by `account`.
    pub fn remember_target(
        self,
        (stamp, told): (u64, u64),
        (node, account): (u64, Account),
        target: &[u8],
    ) {
        if target.len() > LONGEST_TARGET {
            return;
        }
        let hash = node_hash(node);
        let mut record = [0; LINK];
        let length = target.len() as u64;
        if let Some((head, text)) = record.split_first_chunk_mut::<7>() {
            *head = [0, u64::MAX, node, stamp, told, length, account.word()];
            pack(target, text);
        }
        self.put_record(self.links(), hash, record, |way| {
            way.get(2).is_some_and(|word| word.load(Relaxed) == node)
        });
    }
}

/// A name as a record has it, its length first, and its place.
fn name_key(dir: u64, name: &[u8]) -> Option<([u64; NAME - 7], u64)> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return None;
    }
    let mut key = [0; NAME - 7];
    let (length, text) = key.split_first_mut()?;
    *length = name.len() as u64;
    pack(name, text);
    let hash = sum(&key) ^ dir.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some((key, hash ^ hash >> 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::WORDS;

    #[test]
    fn a_name_that_is_too_long_leaves_no_older_place() {
        let words: Vec<_> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let shared = Shared::of(&words);
        let place = || shared.moved(7).map(|moved| (moved.dir, moved.name));
        assert!(!shared.is_moved(7));
        for name in [&[b'x'; LONGEST_NAME][..], b"short"] {
            shared.remember_move(1, 7, (1, name));
            assert_eq!(place(), Some((1, name.to_vec())));
            shared.remember_move(2, 7, (1, &[b'x'; LONGEST_NAME + 1]));
            assert!(place().is_none() && shared.is_moved(7));
        }
    }
}
