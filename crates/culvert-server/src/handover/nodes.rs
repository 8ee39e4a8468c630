//! Which descriptors are which nodes, with the kernel's lookup counts, and which nodes have none
//! for the time being. The state of both records is the node.

use super::records::Records;
use culvert_drivers::{NodeBook, Traces};
use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How many nodes without a descriptor have a place: 72 bytes of address space each.
const AWAY: usize = 1 << 20;
/// The lookup count, in the words of both.
const REFERENCES: usize = 0;

/// By descriptor, and those that have none.
#[derive(Debug)]
pub struct Nodes {
    by_descriptor: Records<1>,
    /// Behind the lookup count stand the traces.
    away: Records<{ 1 + size_of::<Traces>() / 8 }>,
    /// Places of `away` that were used and are free; none: not looked for yet. This server's own
    /// memory.
    free: Mutex<Option<Vec<u32>>>,
}

impl Nodes {
    /// Places for none.
    pub(super) const fn none() -> Self {
        Self {
            by_descriptor: Records::NONE,
            away: Records::NONE,
            free: Mutex::new(None),
        }
    }

    pub(super) fn new(count: usize) -> io::Result<Self> {
        Ok(Self {
            by_descriptor: Records::new(count)?,
            away: Records::new(AWAY)?,
            free: Mutex::default(),
        })
    }

    fn free(&self) -> MutexGuard<'_, Option<Vec<u32>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.by_descriptor.each().map(|(fd, _, _)| fd as i32)
    }
}

impl NodeBook for Nodes {
    fn note(&self, fd: i32, node: u64, references: u64) {
        // A descriptor beyond is not recorded; its node is found by a search.
        let place = usize::try_from(fd).ok();
        if let Some(record) = place.and_then(|place| self.by_descriptor.use_at(place)) {
            record.write(node, [references]);
        }
    }

    fn erase(&self, fd: i32) {
        let place = usize::try_from(fd).ok();
        if let Some(record) = place.and_then(|place| self.by_descriptor.at(place))
            && record.state() != 0
        {
            record.commit(0);
        }
    }

    fn each(&self, visit: &mut dyn FnMut(i32, u64, u64)) {
        for (fd, node, record) in self.by_descriptor.each() {
            visit(fd as i32, node, record.word(REFERENCES));
        }
    }

    fn put_away(&self, node: u64, references: u64, traces: &Traces) -> Option<u32> {
        let mut free = self.free();
        let free = free.get_or_insert_with(|| {
            let all = self.away.all();
            let free = all.filter(|(_, record)| record.state() == 0);
            free.map(|(place, _)| place as u32).collect()
        });
        let place = match free.pop() {
            Some(place) => place as usize,
            None => self.away.unused()?,
        };
        let mut words = [references; _];
        words[REFERENCES + 1..].copy_from_slice(traces);
        self.away.at(place)?.write(node, words);
        Some(place as u32)
    }

    fn count(&self, place: u32, references: u64) {
        if let Some(record) = self.away.at(place as usize) {
            record.set_word(REFERENCES, references);
        }
    }

    fn take_back(&self, place: u32) {
        if let Some(record) = self.away.at(place as usize) {
            let mut free = self.free();
            record.commit(0);
            if let Some(free) = &mut *free {
                free.push(place);
            }
        }
    }

    fn each_away(&self, visit: &mut dyn FnMut(u32, u64, u64, &Traces)) {
        for (place, node, record) in self.away.each() {
            let [references, traces @ ..] = record.words();
            visit(place as u32, node, references, &traces);
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
