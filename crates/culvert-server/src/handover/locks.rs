//! Who holds locks, by the descriptions that have them. Commit word: `kind`.

use super::shared;
use std::{
    io,
    sync::atomic::{
        AtomicI32, AtomicU32, AtomicU64, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

/// A record that is being written.
const TAKEN: u32 = u32::MAX;

#[repr(C)]
#[derive(Debug)]
struct Record {
    kind: AtomicU32,
    pid: AtomicU32,
    node: AtomicU64,
    owner: AtomicU64,
    fh: AtomicU64,
    fd: AtomicI32,
    identity: [AtomicU64; 2],
}

/// A holder of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Which kind of locks; not 0.
    pub kind: u32,
    /// Who, as the kernel calls him (`lk_owner`).
    pub owner: u64,
    /// On what.
    pub node: u64,
    /// By which open file last.
    pub fh: u64,
    /// By which process last.
    pub pid: u32,
    /// The description's descriptor.
    pub fd: i32,
    /// Which file of the kernel's it is on: `st_dev` and `st_ino`.
    pub identity: [u64; 2],
}

/// All of them.
#[derive(Debug)]
pub struct Holdings {
    records: &'static [Record],
    /// All records from here on are free and were never used: to read them would make their memory
    /// real.
    end: &'static AtomicUsize,
}

impl Holdings {
    pub(super) fn new(count: usize) -> io::Result<Self> {
        Ok(Self {
            records: shared(count)?,
            end: &shared(1)?[0],
        })
    }

    /// Writes `holding` down; where. None: there is no room, and it is lost with this server.
    pub fn add(&self, holding: &Holding) -> Option<usize> {
        let free = |record: &Record| {
            let taken = record.kind.compare_exchange(0, TAKEN, AcqRel, Relaxed);
            taken.is_ok()
        };
        let used = self.end.load(Acquire);
        let index = match self.records.iter().take(used).position(free) {
            Some(index) => index,
            None => self.end.fetch_add(1, AcqRel),
        };
        let record = self.records.get(index)?;
        record.node.store(holding.node, Relaxed);
        record.owner.store(holding.owner, Relaxed);
        record.fh.store(holding.fh, Relaxed);
        record.pid.store(holding.pid, Relaxed);
        record.fd.store(holding.fd, Relaxed);
        for (place, word) in record.identity.iter().zip(holding.identity) {
            place.store(word, Relaxed);
        }
        record.kind.store(holding.kind, Release);
        Some(index)
    }

    /// The one at `index` was last used so.
    pub fn change(&self, index: usize, fh: u64, pid: u32, fd: i32) {
        if let Some(record) = self.records.get(index) {
            record.fh.store(fh, Relaxed);
            record.pid.store(pid, Relaxed);
            record.fd.store(fd, Release);
        }
    }

    /// The one at `index` holds nothing any more.
    pub fn clear(&self, index: usize) {
        if let Some(record) = self.records.get(index) {
            record.kind.store(0, Release);
        }
    }

    /// Those that there are, with their places; what a dead server was writing is freed.
    pub fn each(&self) -> impl Iterator<Item = (usize, Holding)> {
        let used = self.records.iter().take(self.end.load(Acquire));
        used.enumerate().filter_map(|(index, record)| {
            let kind = record.kind.load(Acquire);
            if kind == TAKEN {
                record.kind.store(0, Release);
            }
            (kind != 0 && kind != TAKEN).then(|| {
                let holding = Holding {
                    kind,
                    owner: record.owner.load(Relaxed),
                    node: record.node.load(Relaxed),
                    fh: record.fh.load(Relaxed),
                    pid: record.pid.load(Relaxed),
                    fd: record.fd.load(Acquire),
                    identity: [0, 1].map(|word| record.identity[word].load(Relaxed)),
                };
                (index, holding)
            })
        })
    }

    /// The descriptors that they are.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.each().map(|(_, holding)| holding.fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let holdings = Holdings::new(2).unwrap();
        let one = |owner| Holding {
            kind: 1,
            owner,
            node: 2,
            fh: 3,
            pid: 4,
            fd: 5,
            identity: [6, 7],
        };
        assert_eq!(holdings.add(&one(1)), Some(0));
        assert_eq!(holdings.add(&one(2)), Some(1));
        assert_eq!(holdings.add(&one(3)), None);
        holdings.clear(0);
        assert_eq!(holdings.add(&one(4)), Some(0));
        holdings.change(0, 6, 7, 8);
        let found: Vec<_> = holdings.each().map(|(_, holding)| holding).collect();
        let changed = Holding {
            fh: 6,
            pid: 7,
            fd: 8,
            ..one(4)
        };
        assert_eq!(found, [changed, one(2)]);
    }
}
