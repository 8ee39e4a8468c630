//! Requests in hand. Commit word: `stage`.

use super::shared;
use culvert_wire::{Message, UNIQUE_RESEND};
use std::{
    io,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

/// Places: more than threads, so that those of requests that wait for being done again stay while
/// others are answered.
const PLACES: usize = 256;
/// The longest answer that is kept, bytes: that of CREATE is 160. Longer ones are of requests that
/// change nothing.
const ANSWER: usize = 256;

const IDLE: u32 = 0;
/// Taken from the kernel.
const BEGUN: u32 = 1;
/// Carried out; the answer stands here.
const DONE: u32 = 2;

#[repr(C)]
#[derive(Debug)]
struct Record {
    stage: AtomicU32,
    length: AtomicU32,
    unique: AtomicU64,
    /// How many servers have begun it.
    attempts: AtomicU32,
    /// The server that last did.
    server: AtomicU32,
    /// See [`Evidence`]; its first word is its commit word.
    evidence: [AtomicU64; 3],
    answer: [AtomicU64; ANSWER / 8],
}

/// All slots.
#[derive(Clone, Copy, Debug)]
pub struct Requests {
    records: &'static [Record],
    answered: &'static AtomicU64,
}

/// What was so before a change was begun, by which can be told afterwards whether it was done. What
/// each kind means is written where it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What the others are; not 0.
    pub kind: u64,
    /// Two numbers.
    pub what: [u64; 2],
}

/// A thread's slot.
#[derive(Clone, Copy, Debug)]
pub struct RequestSlot(&'static Record, Requests);

/// What an earlier server did of a request that comes again.
#[derive(Debug)]
pub enum Past {
    /// Everything: this was its answer.
    Answered(Vec<u8>),
    /// It had begun; what it wrote down before it changed anything. None: nothing was changed.
    Begun {
        /// How many servers had.
        attempts: u32,
        /// What they saw first.
        evidence: Option<Evidence>,
    },
}

impl Requests {
    /// No slots; that something was answered is nowhere.
    pub(super) const fn none() -> Self {
        static ANSWERED: AtomicU64 = AtomicU64::new(0);
        Self {
            records: &[],
            answered: &ANSWERED,
        }
    }

    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            records: shared(PLACES)?,
            answered: &shared(1)?[0],
        })
    }

    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Whether request `unique` was begun and not carried out.
    pub(super) fn is_begun(&self, unique: u64) -> bool {
        unique != 0
            && self.records.iter().any(|record| {
                record.stage.load(Acquire) == BEGUN && record.unique.load(Relaxed) == unique
            })
    }

    /// Whether server `server` has begun a request that is not answered.
    pub(super) fn is_in_hand_of(&self, server: u32) -> bool {
        self.records.iter().any(|record| {
            record.stage.load(Acquire) != IDLE && record.server.load(Relaxed) == server
        })
    }

    /// Places for `count` more threads of server `server`: idle ones, else those whose requests
    /// have waited the longest (the kernel does not send an answered one again, whose server died
    /// before it could say that it had answered).
    pub fn slots(self, count: usize, server: u32) -> Vec<RequestSlot> {
        let others = |record: &&Record| record.server.load(Relaxed) != server;
        let mut records: Vec<&'static Record> = self.records.iter().filter(others).collect();
        // Each is asked once: others change them meanwhile, and an order that changes would be a
        // panic.
        records.sort_by_cached_key(|record| match record.stage.load(Acquire) {
            IDLE => 0,
            _ => record.server.load(Relaxed) + 1,
        });
        records.truncate(count);
        for record in &records {
            record.stage.store(IDLE, Release);
            record.server.store(server, Relaxed);
        }
        let slots = records.into_iter();
        slots.map(|record| RequestSlot(record, self)).collect()
    }
}

impl RequestSlot {
    /// What became of request `unique`, which has come again; its record is taken, and this one
    /// continues it.
    pub fn past(self, unique: u64) -> Option<Past> {
        let unique = unique & !UNIQUE_RESEND;
        let record = self.1.records.iter().find(|record| {
            !std::ptr::eq(*record, self.0)
                && record.stage.load(Acquire) != IDLE
                && record.unique.load(Relaxed) == unique
        })?;
        let past = match record.stage.load(Acquire) {
            DONE => {
                let length = record.length.load(Relaxed) as usize;
                let words = record.answer.iter();
                let bytes = words.flat_map(|word| word.load(Relaxed).to_ne_bytes());
                Past::Answered(bytes.take(length).collect())
            }
            _ => Past::Begun {
                attempts: record.attempts.load(Relaxed),
                evidence: record.evidence(),
            },
        };
        // The request stands in two places for a moment, never in none.
        match &past {
            Past::Answered(bytes) => {
                self.begin(unique);
                self.store(bytes);
            }
            Past::Begun { attempts, evidence } => {
                self.begin_again(unique, attempts + 1);
                if let Some(evidence) = evidence {
                    self.note(*evidence);
                }
            }
        }
        record.stage.store(IDLE, Release);
        Some(past)
    }
}

impl Record {
    fn evidence(&self) -> Option<Evidence> {
        let [kind, one, two] = &self.evidence;
        let kind = kind.load(Acquire);
        (kind != 0).then(|| Evidence {
            kind,
            what: [one.load(Relaxed), two.load(Relaxed)],
        })
    }
}

impl RequestSlot {
    /// Request `unique` was taken from the kernel.
    pub fn begin(self, unique: u64) {
        self.begin_again(unique, 1);
    }

    fn begin_again(self, unique: u64, attempts: u32) {
        let record = self.0;
        record.evidence[0].store(0, Relaxed);
        record.attempts.store(attempts, Relaxed);
        record.unique.store(unique & !UNIQUE_RESEND, Relaxed);
        record.stage.store(BEGUN, Release);
    }

    /// The request in hand; what it opens is noted with it.
    pub fn unique(self) -> u64 {
        self.0.unique.load(Relaxed)
    }

    /// What is so, before the request changes anything.
    pub fn note(self, evidence: Evidence) {
        let [kind, one, two] = &self.0.evidence;
        one.store(evidence.what[0], Relaxed);
        two.store(evidence.what[1], Relaxed);
        kind.store(evidence.kind, Release);
    }

    /// It was carried out, and is about to be answered so.
    pub fn carried_out(self, answer: &Message<'_>) {
        let pieces = answer.pieces();
        let length = answer.head().len() + pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if length <= ANSWER {
            let mut bytes = answer.head().to_vec();
            pieces
                .iter()
                .for_each(|piece| bytes.extend_from_slice(piece));
            self.store(&bytes);
        }
    }

    fn store(self, bytes: &[u8]) {
        let record = self.0;
        for (place, chunk) in record.answer.iter().zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            place.store(u64::from_ne_bytes(word), Relaxed);
        }
        record.length.store(bytes.len() as u32, Relaxed);
        record.stage.store(DONE, Release);
    }

    /// It was answered.
    pub fn end(self) {
        self.0.stage.store(IDLE, Release);
        self.1.answered.fetch_add(1, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Evidence = Evidence {
        kind: 3,
        what: [7, 9],
    };

    #[test]
    fn what_was_begun_or_done_is_known_to_the_next_server() {
        let requests = Requests::new().unwrap();
        let first = requests.slots(3, 1);
        first[0].begin(10);
        first[1].begin(12);
        first[1].note(SEEN);
        first[2].begin(14);
        first[2].store(b"answer");
        let second = requests.slots(3, 2);
        let past = |unique: u64, slot: RequestSlot| slot.past(unique | UNIQUE_RESEND);
        assert!(matches!(
            past(10, second[0]),
            Some(Past::Begun {
                attempts: 1,
                evidence: None
            })
        ));
        assert!(matches!(
            past(12, second[1]),
            Some(Past::Begun {
                evidence: Some(SEEN),
                ..
            })
        ));
        assert!(matches!(past(14, second[2]), Some(Past::Answered(bytes)) if bytes == b"answer"));
        // The second server dies, too, before it has answered; after that the fourth is asked by
        // nobody.
        second[2].end();
        let third = requests.slots(3, 3);
        assert!(matches!(
            past(12, third[0]),
            Some(Past::Begun {
                attempts: 2,
                evidence: Some(SEEN)
            })
        ));
        assert!(past(14, third[1]).is_none());
    }

    #[test]
    fn slots_run_out_for_the_oldest_first() {
        let requests = Requests::new().unwrap();
        for server in 1..30 {
            for (at, slot) in requests.slots(16, server).into_iter().enumerate() {
                slot.begin(u64::from(server) * 100 + at as u64 + 1);
            }
        }
        let slots = requests.slots(16, 30);
        assert!(slots[0].past(2901).is_some());
        assert!(slots[1].past(101).is_none());
    }

    #[test]
    fn threads_that_come_later_have_slots_of_their_own() {
        let requests = Requests::new().unwrap();
        let mut slots = requests.slots(2, 1);
        slots.extend(requests.slots(1, 1));
        slots.extend(requests.slots(1, 1));
        for (at, slot) in slots.iter().enumerate() {
            slot.begin(at as u64 + 1);
        }
        let uniques: Vec<u64> = slots.iter().map(|slot| slot.unique()).collect();
        assert_eq!(uniques, [1, 2, 3, 4]);
    }
}
