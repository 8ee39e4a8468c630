//! Pages of files and of listings that all clients of a server cache together, in memory that they
//! share.
//!
//! A page has a head, which says of what node it is and which of its pages, and begins with a sum
//! of head and page: what two write at once, or what a writer has left half written that was
//! killed, is none. Nobody locks anything. The head also has a *belief*, one number made of all
//! that must be as it was when the server was asked: who takes the page makes it anew and compares.
//!
//! The sum keeps nobody from anything: a process of the same user can put here what it likes, and
//! all others read that as bytes of any file, whatever the server lets it write (`words`).
//!
//! A page has four places, of which the one goes that was used longest ago. Sixteen pages of a node
//! that follow each other lie together.

use crate::words::{PAGES, PAGES_EVICTED, Shared};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culvert_slots::Channel;
use culvert_sys::plain::Packed;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Words of a page.
const WORDS: usize = PAGE / 8;
/// A copy of one.
pub type Page = [u64; WORDS];
/// Words of a head: sum, when it was used last, node, index, belief, bytes.
const HEAD: usize = 8;
/// Heads that a page of memory holds.
const HEADS: usize = WORDS / HEAD;
const WAYS: usize = 4;
/// Pages that lie together.
const RUN: usize = 16;
/// How finely the time of use is kept, nanoseconds.
const TICK: u64 = 1 << 30;

/// A page's place: what it is, and what must be so that it is believed.
#[derive(Clone, Copy)]
pub struct Key {
    pub node: u64,
    pub index: u64,
    pub belief: u64,
}

/// The cache, as it is for one operation.
#[derive(Clone, Copy)]
pub struct Pages<'a> {
    channel: &'a dyn Channel,
    words: Shared<'a>,
    now: u64,
    /// How many there are.
    count: usize,
}

/// `all` in one number.
pub fn mixed(all: &[u64]) -> u64 {
    all.iter().fold(0x6a09_e667_f3bc_c908, |sum: u64, word| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    })
}

/// A sum of a page's words, in lanes that do not wait for each other: of the words, turned at each
/// so that the sum says where a word stands, and of these sums. Shifts and additions are what a
/// processor does to several words at once; with a multiplication for each word this took as long
/// as a system call.
fn sum(head: u64, page: &Page) -> u64 {
    const LANES: usize = 8;
    let (mut words, mut sums) = ([head; LANES], [0_u64; LANES]);
    let (rows, _) = page.as_chunks::<LANES>();
    for row in rows {
        for ((words, sums), word) in words.iter_mut().zip(&mut sums).zip(row) {
            *words = words.rotate_left(7).wrapping_add(*word);
            *sums = sums.wrapping_add(*words);
        }
    }
    // 0: there is none.
    mixed(&[mixed(&words), mixed(&sums)]) | 1
}

impl<'a> Pages<'a> {
    /// The cache of `channel`; `now`: nanoseconds since some moment.
    pub fn of(channel: &'a dyn Channel, words: Shared<'a>, now: u64) -> Self {
        let all = match words.is_shared {
            true => channel.cache_pages(),
            false => 0,
        };
        let count = all.saturating_sub(all.div_ceil(HEADS)) / RUN * RUN;
        Self {
            channel,
            words,
            now: now / TICK + 1,
            count,
        }
    }

    /// Whether there is any.
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    fn places(self, key: Key) -> impl Iterator<Item = usize> {
        let runs = (self.count / RUN).max(1) as u64;
        let (run, at) = (key.index / RUN as u64, key.index as usize % RUN);
        let place = move |way| (mixed(&[key.node, run, way]) % runs) as usize * RUN + at;
        (0..WAYS as u64).map(place)
    }

    fn head(self, place: usize) -> Option<&'a [AtomicU64; HEAD]> {
        let heads = self.channel.cached(place / HEADS, 1)?;
        let start = place % HEADS * HEAD;
        heads.get(start..start + HEAD)?.as_array()
    }

    fn page(self, place: usize) -> Option<&'a [AtomicU64; WORDS]> {
        let first = self.channel.cache_pages().div_ceil(HEADS);
        self.channel.cached(first + place, 1)?.as_array()
    }

    /// The bytes of the page that `key` says, into `page`: how many it has; none: it is not here.
    pub fn get(self, key: Key, page: &mut Page) -> Option<usize> {
        self.places(key).find_map(|place| {
            let [sum_of, used, node, index, belief, length, ..] = self.head(place)?;
            let is_it = node.load(Relaxed) == key.node
                && index.load(Relaxed) == key.index
                && belief.load(Relaxed) == key.belief;
            let (said, length) = (sum_of.load(Relaxed), length.load(Relaxed));
            if !is_it || said == 0 || length > PAGE as u64 {
                return None;
            }
            let shared = self.page(place)?;
            // SAFETY: it is mapped as long as this borrow of it, and all of it is atomic words.
            let shared = unsafe { culvert_sys::Shared::new(shared.as_ptr().cast(), PAGE) };
            shared.copy_to(page.bytes_mut());
            let head = mixed(&[key.node, key.index, key.belief, length]);
            if sum(head, page) != said {
                return None;
            }
            if used.load(Relaxed) != self.now {
                used.store(self.now, Relaxed);
            }
            Some(length as usize)
        })
    }

    /// Puts `bytes`, at most [`PAGE`], as the page that `key` says.
    pub fn put(self, key: Key, bytes: &[u8]) {
        let mut page = [0; WORDS];
        if let Some(place) = page.bytes_mut().get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
        }
        let order = |&place: &usize| {
            let Some([sum, used, node, index, ..]) = self.head(place) else {
                return u64::MAX;
            };
            let is_it = node.load(Relaxed) == key.node && index.load(Relaxed) == key.index;
            match is_it || sum.load(Relaxed) == 0 {
                true => 0,
                false => used.load(Relaxed),
            }
        };
        let Some(place) = self.places(key).min_by_key(order) else {
            return;
        };
        let (Some(head), Some(words)) = (self.head(place), self.page(place)) else {
            return;
        };
        let [sum_of, used, node, index, belief, length, ..] = head;
        let is_it = node.load(Relaxed) == key.node && index.load(Relaxed) == key.index;
        match sum_of.swap(0, Relaxed) {
            0 => self.words.count(PAGES, 1),
            _ if !is_it => self.words.count(PAGES_EVICTED, 1),
            _ => {}
        }
        for (place, word) in words.iter().zip(page) {
            place.store(word, Relaxed);
        }
        used.store(self.now, Relaxed);
        node.store(key.node, Relaxed);
        index.store(key.index, Relaxed);
        belief.store(key.belief, Relaxed);
        length.store(bytes.len() as u64, Relaxed);
        let head = mixed(&[key.node, key.index, key.belief, bytes.len() as u64]);
        sum_of.store(sum(head, &page), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What may be left of two pages: rows of one, then rows of the other; or some words alone that
    /// have another sign.
    #[test]
    fn a_page_of_two_halves_has_another_sum() {
        let old: Page = core::array::from_fn(|at| (at as f64 + 1.0).to_bits());
        let changes: [fn(u64) -> u64; 4] = [
            |word| word ^ 1 << 63,
            |word| word + 1,
            |_| 0,
            |word| word.rotate_left(32),
        ];
        for change in changes {
            let new = old.map(change);
            let said = sum(7, &new);
            for at in 1..WORDS {
                let mut torn = new;
                torn[at..].copy_from_slice(&old[at..]);
                assert_ne!(sum(7, &torn), said, "{at}");
                let mut turned = new;
                turned.swap(at, at - 1);
                assert!(turned == new || sum(7, &turned) != said, "{at}");
            }
            for (at, other) in [(0, 8), (0, 16), (3, 7), (8, 264), (1, 505)] {
                let mut torn = new;
                (torn[at], torn[other]) = (old[at], old[other]);
                assert_ne!(sum(7, &torn), said, "{at}, {other}");
            }
        }
        assert_ne!(sum(7, &old), sum(8, &old));
    }
}
