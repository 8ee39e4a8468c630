//! Tables of records in the memory that outlives a server.

use super::shared;
use std::{
    io,
    sync::atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

/// A record that is being written.
const TAKEN: u64 = u64::MAX;

/// A record of `N` words. Its state is its commit word; 0: it is free.
#[repr(C)]
#[derive(Debug)]
pub struct Record<const N: usize> {
    state: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> Record<N> {
    /// The state, before the words are read.
    pub fn state(&self) -> u64 {
        self.state.load(Acquire)
    }

    /// Sets the state, after the words were written.
    pub fn commit(&self, state: u64) {
        self.state.store(state, Release);
    }

    pub fn word(&self, at: usize) -> u64 {
        self.words[at].load(Relaxed)
    }

    pub fn set_word(&self, at: usize, word: u64) {
        self.words[at].store(word, Relaxed);
    }

    pub fn words(&self) -> [u64; N] {
        std::array::from_fn(|at| self.word(at))
    }

    pub fn write(&self, state: u64, words: [u64; N]) {
        for (at, word) in words.into_iter().enumerate() {
            self.set_word(at, word);
        }
        self.commit(state);
    }
}

/// A table, whose records are found by their places.
#[derive(Debug)]
pub struct Records<const N: usize> {
    /// The first record's state is how many of the others were ever used: to read on would make
    /// the memory of the rest real.
    records: &'static [Record<N>],
}

impl<const N: usize> Records<N> {
    /// A table without places.
    pub const NONE: Self = Self { records: &[] };

    pub fn new(count: usize) -> io::Result<Self> {
        let records = shared(count + 1)?;
        Ok(Self { records })
    }

    /// The record at `place`, if there is such a place.
    pub fn at(&self, place: usize) -> Option<&'static Record<N>> {
        self.records.get(1..)?.get(place)
    }

    /// The same, which is about to be used.
    pub fn use_at(&self, place: usize) -> Option<&'static Record<N>> {
        let record = self.at(place)?;
        self.records[0].state.fetch_max(place as u64 + 1, Relaxed);
        Some(record)
    }

    /// A place that was never used.
    pub fn unused(&self) -> Option<usize> {
        let used = &self.records.first()?.state;
        let free = used.fetch_update(AcqRel, Acquire, |used| {
            (used + 1 < self.records.len() as u64).then_some(used + 1)
        });
        Some(free.ok()? as usize)
    }

    /// A place that is free, and is nobody else's from here on.
    pub fn take(&self) -> Option<usize> {
        let free = |(_, record): &(usize, &Record<N>)| {
            let taken = record.state.compare_exchange(0, TAKEN, AcqRel, Relaxed);
            taken.is_ok()
        };
        let found = self.all().find(free).map(|(place, _)| place);
        found.or_else(|| self.unused())
    }

    /// All places that were ever used.
    pub fn all(&self) -> impl Iterator<Item = (usize, &'static Record<N>)> {
        let used = self.records.first().map_or(0, Record::state);
        let records = self.records.iter().skip(1).take(used as usize);
        records.enumerate()
    }

    /// Those that hold something, with their states; what a dead server was writing is freed.
    pub fn each(&self) -> impl Iterator<Item = (usize, u64, &'static Record<N>)> {
        self.all().filter_map(|(place, record)| {
            let state = record.state();
            if state == TAKEN {
                record.commit(0);
            }
            (state != 0 && state != TAKEN).then_some((place, state, record))
        })
    }
}
