//! Which processes hold which nodes of the server's, so that each is forgotten when the last has
//! done with it.
//!
//! The server counts lookups. The first process that looks a node up makes an *account* of it,
//! which owns one of them; whoever finds the node by what all remember joins the account, by one
//! instruction, and so does who looks the node up again, whose lookup the account counts. What all
//! remember holds it, too, until the node has lost its name or the word is needed for another
//! account. Who leaves it last gives all lookups back at once, as the kernel does when it drops an
//! inode. An account is a word: a bit for each *place* of a process, and a count of the accounts
//! that the word has had, so that nobody joins another than he means. A process that is killed
//! leaves its bits: the guardian clears them ([`end_process`]).

use crate::{
    layout::{ACCOUNT_WORDS, ACCOUNTS, ACCOUNTS_AT, PLACES, WORDS},
    words::Shared,
};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use culvert_wire::structures::ForgetOne;

/// The bit of what all remember.
const CACHE: u32 = 45;
/// The bit of processes that have none, and of requests that nobody waits for: what they hold stays
/// until the server ends.
const KEPT: u32 = 46;
/// The bit of files that are open in several processes.
const FILES: u32 = 47;
const HOLDERS: u64 = (1 << 48) - 1;
/// How many words are looked at for a free one.
const TRIES: usize = 32;

/// An account: its index, and how many the word had had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    index: u32,
    count: u16,
}

impl Account {
    /// As a word, which is not 0.
    pub const fn word(self) -> u64 {
        1 << 63 | (self.index as u64) << 16 | self.count as u64
    }

    /// The way back.
    pub fn of_word(word: u64) -> Option<Self> {
        let index = u32::try_from(word >> 16 & 0xffff_ffff).ok()?;
        (word >> 63 == 1 && (index as usize) < ACCOUNTS).then_some(Self {
            index,
            count: word as u16,
        })
    }
}

/// A sum of an account's node that is another one for each account.
const fn tied(node: u64, count: u16) -> u64 {
    (node ^ (count as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1
}

impl<'a> Shared<'a> {
    fn account(self, index: u32) -> Option<&'a [AtomicU64; ACCOUNT_WORDS]> {
        let start = ACCOUNTS_AT + index as usize * ACCOUNT_WORDS;
        let is_one = (index as usize) < ACCOUNTS;
        let words = self.words.get(start..start + ACCOUNT_WORDS);
        words.filter(|_| is_one)?.as_array()
    }

    fn bit(self) -> Option<u64> {
        self.place
            .filter(|&place| (place as usize) < PLACES)
            .map(|place| 1 << place)
    }

    /// A place for the process `identity`.
    pub fn take_place(self, identity: u64) -> Option<u32> {
        if !self.is_shared || identity == 0 {
            return None;
        }
        let place = (0..PLACES as u32).find(|&place| {
            self.place_word(place as usize)
                .is_some_and(|word| word.compare_exchange(0, identity, SeqCst, SeqCst).is_ok())
        })?;
        if let Some(word) = self.changing_word(place as usize) {
            word.store(0, SeqCst);
        }
        Some(place)
    }

    /// It holds nothing any more. Where another of its threads ends in a change, the guardian has
    /// to hear of that.
    pub fn leave_place(self, identity: u64) {
        let Some(place) = self.place.map(|place| place as usize) else {
            return;
        };
        let changing = self.changing_word(place);
        if changing.is_some_and(|word| word.load(SeqCst) != 0) {
            return;
        }
        if let Some(word) = self.place_word(place) {
            let _ = word.compare_exchange(identity, 0, SeqCst, SeqCst);
        }
    }

    /// An account of a lookup of `node`, which the server has counted: the one that there is, or a
    /// new one; none where there is no room, or this process has no place. And lookups to be given
    /// back, of a node whose account it has taken the place of.
    pub fn take_account(self, node: u64) -> (Option<Account>, Option<ForgetOne>) {
        let Some(bit) = self.bit() else {
            return (None, None);
        };
        let first = (node.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
        let all = (first..first + TRIES).map(|at| (at % ACCOUNTS) as u32);
        if let Some(account) = all.clone().find_map(|index| self.join_at(index, node, bit)) {
            self.count_lookup(account);
            return (Some(account), None);
        }
        for evicts in [false, true] {
            for index in all.clone() {
                if let Some((count, evicted)) = self.try_open(index, node, bit, evicts) {
                    return (Some(Account { index, count }), evicted);
                }
            }
        }
        (None, None)
    }

    /// The account in word `index`, which `bit` holds from here on, if it is one of `node`: as long
    /// as somebody holds it, the server has lookups of the node, so its number means what it meant.
    fn join_at(self, index: u32, node: u64, bit: u64) -> Option<Account> {
        let [word, of, tie, _] = self.account(index)?;
        let count = (word.load(SeqCst) >> 48) as u16;
        let is_its = of.load(SeqCst) == node && tie.load(SeqCst) == tied(node, count);
        let account = Account { index, count };
        (is_its && self.join_by(account, bit)).then_some(account)
    }

    /// The server has counted one more lookup of the node of `account`, which this process holds.
    pub fn count_lookup(self, account: Account) {
        if let Some([.., more]) = self.account(account.index) {
            more.fetch_add(1, SeqCst);
        }
    }

    /// Whether the server has counted more than the lookup by which it was opened.
    pub fn has_more_lookups(self, account: Account) -> bool {
        self.lookups(account) > 0
    }

    /// Those besides the first: the word says of which account they are.
    fn lookups(self, account: Account) -> u64 {
        let more = self
            .account(account.index)
            .map_or(0, |[.., more]| more.load(SeqCst));
        match (more >> 48) as u16 == account.count {
            true => more & HOLDERS,
            false => 0,
        }
    }

    /// The same in word `index`, if nobody holds what it has; where it `evicts`, nobody but what
    /// all remember.
    fn try_open(
        self,
        index: u32,
        node: u64,
        bit: u64,
        evicts: bool,
    ) -> Option<(u16, Option<ForgetOne>)> {
        let [word, of, tie, more] = self.account(index)?;
        let seen = word.load(SeqCst);
        let (before, count) = (of.load(SeqCst), (seen >> 48) as u16);
        let is_known = tie.load(SeqCst) == tied(before, count) && before > 1;
        let (evicted, count) = match seen & HOLDERS {
            0 => (None, count),
            held if held == 1 << CACHE && evicts => {
                let back = ForgetOne {
                    nodeid: before,
                    nlookup: 1 + self.lookups(Account { index, count }),
                };
                (Some(back).filter(|_| is_known), count.wrapping_add(1))
            }
            _ => return None,
        };
        let new = u64::from(count) << 48 | bit | 1 << CACHE;
        word.compare_exchange(seen, new, SeqCst, SeqCst).ok()?;
        more.store(u64::from(count) << 48, SeqCst);
        of.store(node, SeqCst);
        tie.store(tied(node, count), SeqCst);
        Some((count, evicted))
    }

    /// Whether there is still such an account: it has `bit` from here on then.
    fn join_by(self, account: Account, bit: u64) -> bool {
        let Some([word, ..]) = self.account(account.index) else {
            return false;
        };
        word.fetch_update(SeqCst, SeqCst, |seen| {
            let is_it = (seen >> 48) as u16 == account.count && seen & HOLDERS != 0;
            is_it.then_some(seen | bit)
        })
        .is_ok()
    }

    /// This process holds the node of `account` from here on, if there is still such a one.
    pub fn join(self, account: Account) -> bool {
        self.bit().is_some_and(|bit| self.join_by(account, bit))
    }

    /// Files that several processes have open hold it, too.
    pub fn join_files(self, account: Account) -> bool {
        self.join_by(account, 1 << FILES)
    }

    /// It stays until the server ends, whoever leaves it: the child of a fork holds it that has no
    /// place, or a request that nobody waits for. Whether there is still such a one.
    pub fn keep(self, account: Account) -> bool {
        self.join_by(account, 1 << KEPT)
    }

    /// Whether there is still such an account: its node has been the same since it was opened.
    pub fn is_held(self, account: Account) -> bool {
        self.account(account.index).is_some_and(|[word, ..]| {
            let seen = word.load(SeqCst);
            (seen >> 48) as u16 == account.count && seen & HOLDERS != 0
        })
    }

    /// How many lookups are to be given back: `bit` was the last that held the account. Nobody
    /// counts more of them but who holds it.
    fn leave_by(self, account: Account, bit: u64) -> Option<u64> {
        let [word, ..] = self.account(account.index)?;
        let mut seen = word.load(SeqCst);
        loop {
            if (seen >> 48) as u16 != account.count || seen & HOLDERS & bit == 0 {
                return None;
            }
            let rest = seen & !bit;
            let (next, back) = match rest & HOLDERS {
                // The next account is another.
                0 => (rest.wrapping_add(1 << 48), Some(1 + self.lookups(account))),
                _ => (rest, None),
            };
            match word.compare_exchange(seen, next, SeqCst, SeqCst) {
                Ok(_) => return back,
                Err(now) => seen = now,
            }
        }
    }

    /// This process does not hold it any more: the lookups to be given back, if it was the last.
    pub fn leave(self, account: Account) -> Option<u64> {
        self.leave_by(account, self.bit()?)
    }

    /// The same of a node that has lost its name: nor is it remembered.
    pub fn leave_nameless(self, account: Account) -> Option<u64> {
        let bit = self.bit().unwrap_or(0);
        self.leave_by(account, bit | 1 << CACHE)
    }

    /// Nor do such files.
    pub fn leave_files(self, account: Account) -> Option<u64> {
        self.leave_by(account, 1 << FILES)
    }
}

/// What processes that are gone have left in the server.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Open files: node and handle.
    pub files: Vec<(u64, u64)>,
    /// Nodes of which they had the last lookups, and how many.
    pub nodes: Vec<(u64, u64)>,
    /// They may have changed what nobody was told of.
    pub changed: bool,
}

/// Nodes that the process `identity`, which is gone, was the last to hold; by `words`, which the
/// clients of a server share, nobody holds it any more.
#[must_use]
pub fn end_process(words: &[AtomicU64], identity: u64) -> Left {
    let mut left = Left::default();
    if words.len() < WORDS || identity == 0 {
        return left;
    }
    for place in 0..PLACES as u32 {
        let words = Shared {
            place: Some(place),
            ..Shared::of(words)
        };
        let Some(word) = words.place_word(place as usize) else {
            continue;
        };
        if word.load(SeqCst) != identity {
            continue;
        }
        for index in 0..ACCOUNTS as u32 {
            let Some([word, of, tie, _]) = words.account(index) else {
                continue;
            };
            let seen = word.load(SeqCst);
            let count = (seen >> 48) as u16;
            if seen & 1 << place == 0 {
                continue;
            }
            let (node, tie) = (of.load(SeqCst), tie.load(SeqCst));
            // Who was killed before he had said which node it is leaves it to the server's end.
            let lookups = words.leave(Account { index, count });
            if let Some(lookups) = lookups.filter(|_| tie == tied(node, count) && node > 1) {
                left.nodes.push((node, lookups));
            }
        }
        let changing = words.changing_word(place as usize);
        left.changed |= changing.is_some_and(|word| word.swap(0, SeqCst) != 0);
        let _ = word.compare_exchange(identity, 0, SeqCst, SeqCst);
    }
    left
}
