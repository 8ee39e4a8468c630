//! Which descriptors are which nodes, with the kernel's lookup counts, and which nodes have none
//! for the time being. Commit word of both: `node`.

use super::shared;
use culvert_drivers::{NodeBook, Traces};
use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// How many nodes without a descriptor have a place: 72 bytes of address space each.
const AWAY: usize = 1 << 20;

#[repr(C)]
#[derive(Debug)]
struct Record {
    node: AtomicU64,
    references: AtomicU64,
}

/// A node without a descriptor.
#[repr(C)]
#[derive(Debug)]
struct Away {
    node: AtomicU64,
    references: AtomicU64,
    traces: [AtomicU64; size_of::<Traces>() / 8],
}

/// By descriptor, and those that have none.
#[derive(Debug)]
pub struct Nodes {
    records: &'static [Record],
    /// One more than the largest descriptor that was noted: to read on would make the rest of the
    /// memory real.
    end: &'static AtomicU64,
    away: &'static [Away],
    /// As `end`, of `away`.
    away_end: &'static AtomicU64,
    /// Places of `away` before its end that are free; none: not looked for yet. This server's own
    /// memory.
    free: Mutex<Option<Vec<u32>>>,
}

impl Nodes {
    pub(super) fn new(count: usize) -> io::Result<Self> {
        Ok(Self {
            records: shared(count)?,
            end: &shared(1)?[0],
            away: shared(AWAY)?,
            away_end: &shared(1)?[0],
            free: Mutex::default(),
        })
    }

    fn free(&self) -> MutexGuard<'_, Option<Vec<u32>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn away(&self) -> impl Iterator<Item = (u32, &Away)> {
        let end = self.away_end.load(Acquire) as usize;
        (0..).zip(self.away.iter().take(end))
    }

    fn record(&self, fd: i32) -> Option<&Record> {
        self.records.get(usize::try_from(fd).ok()?)
    }

    fn noted(&self) -> impl Iterator<Item = (i32, &Record)> {
        let end = self.end.load(Acquire) as usize;
        let noted = (0..).zip(self.records.iter().take(end));
        noted.filter(|(_, record)| record.node.load(Acquire) != 0)
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.noted().map(|(fd, _)| fd)
    }
}

impl NodeBook for Nodes {
    fn note(&self, fd: i32, node: u64, references: u64) {
        // A descriptor beyond is not recorded; its node is found by a search.
        if let Some(record) = self.record(fd) {
            self.end.fetch_max(fd as u64 + 1, Relaxed);
            record.references.store(references, Relaxed);
            record.node.store(node, Release);
        }
    }

    fn erase(&self, fd: i32) {
        if let Some(record) = self.record(fd)
            && record.node.load(Relaxed) != 0
        {
            record.node.store(0, Release);
        }
    }

    fn each(&self, visit: &mut dyn FnMut(i32, u64, u64)) {
        for (fd, record) in self.noted() {
            let node = record.node.load(Acquire);
            visit(fd, node, record.references.load(Relaxed));
        }
    }

    fn put_away(&self, node: u64, references: u64, traces: &Traces) -> Option<u32> {
        let place = {
            let mut free = self.free();
            let free = free.get_or_insert_with(|| {
                let free = |away: &Away| away.node.load(Acquire) == 0;
                self.away()
                    .filter(|(_, away)| free(away))
                    .map(|(place, _)| place)
                    .collect()
            });
            match free.pop() {
                Some(place) => place,
                None => {
                    let unused = self.away_end.load(Relaxed);
                    (unused < AWAY as u64).then(|| self.away_end.fetch_add(1, Release) as u32)?
                }
            }
        };
        let away = self.away.get(place as usize)?;
        away.references.store(references, Relaxed);
        for (word, trace) in away.traces.iter().zip(traces) {
            word.store(*trace, Relaxed);
        }
        away.node.store(node, Release);
        Some(place)
    }

    fn count(&self, place: u32, references: u64) {
        if let Some(away) = self.away.get(place as usize) {
            away.references.store(references, Relaxed);
        }
    }

    fn take_back(&self, place: u32) {
        if let Some(away) = self.away.get(place as usize) {
            let mut free = self.free();
            away.node.store(0, Release);
            if let Some(free) = &mut *free {
                free.push(place);
            }
        }
    }

    fn each_away(&self, visit: &mut dyn FnMut(u32, u64, u64, &Traces)) {
        for (place, away) in self.away() {
            let node = away.node.load(Acquire);
            if node != 0 {
                let traces: Traces = std::array::from_fn(|at| away.traces[at].load(Relaxed));
                visit(place, node, away.references.load(Relaxed), &traces);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_away_is_found_by_the_next_server() {
        let nodes = Nodes::new(4).unwrap();
        let traces = |first| [first, 2, 3, 4, 5, 6, 7];
        let places = [11, 12, 13].map(|node| nodes.put_away(node, 1, &traces(node)).unwrap());
        nodes.count(places[2], 9);
        nodes.take_back(places[1]);
        // The next one has memory of its own.
        *nodes.free() = None;
        let mut found = Vec::new();
        nodes.each_away(&mut |place, node, references, traces| {
            found.push((place, node, references, traces[0]));
        });
        assert_eq!(found, [(places[0], 11, 1, 11), (places[2], 13, 9, 13)]);
        assert_eq!(nodes.put_away(14, 1, &traces(14)), Some(places[1]));
        assert_eq!(nodes.put_away(15, 1, &traces(15)), Some(3));
    }
}
