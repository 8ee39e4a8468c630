//! Open files and directories by their numbers. Commit word: `kind`.

use super::shared;
use crate::handles::place;
use std::{
    io,
    sync::atomic::{
        AtomicI32, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

#[repr(C)]
#[derive(Debug)]
struct Record {
    kind: AtomicU32,
    flags: AtomicU32,
    number: AtomicU64,
    node: AtomicU64,
    request: AtomicU64,
    fd: AtomicI32,
    backing: AtomicI32,
    /// See [`Open::identity`].
    identity: [AtomicU64; 2],
    /// By which number the kernel waits for it to become ready; 0: it does not.
    waits: AtomicU64,
}

/// How an open thing is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its descriptor is it.
    Backed = 1,
    /// The driver opens it by its node.
    Driven = 2,
    /// It could not be; its number is the kernel's still.
    Lost = 3,
}

/// Something open.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// How it is opened again.
    pub kind: Kind,
    /// The node it is of.
    pub node: u64,
    /// The flags of open(2).
    pub flags: u32,
    /// The descriptor of a [`Kind::Backed`] one.
    pub fd: i32,
    /// Which file of the kernel's that must be: `st_dev` and `st_ino`.
    pub identity: [u64; 2],
    /// By which number the kernel reads and writes it; 0: none, -1: not counted at all.
    pub backing: i32,
    /// The request that opened it.
    pub request: u64,
}

/// All of them.
#[derive(Debug)]
pub struct Opens {
    records: &'static [Record],
    /// The last place that was set: to read on would make the rest of the memory real.
    last: &'static AtomicU64,
}

impl Opens {
    pub(super) fn new(count: usize) -> io::Result<Self> {
        Ok(Self {
            records: shared(count)?,
            last: &shared(1)?[0],
        })
    }

    fn record(&self, number: u64) -> Option<&Record> {
        let index = place(number).checked_sub(1)?;
        self.records.get(usize::try_from(index).ok()?)
    }

    /// The record of `number`, if its place is not another's by now.
    fn own(&self, number: u64) -> Option<&Record> {
        let record = self.record(number)?;
        (record.number.load(Relaxed) == number).then_some(record)
    }

    /// `number` is `open`.
    pub fn set(&self, number: u64, open: &Open) {
        // As many are open as there are descriptors, or one more is: it will be lost with the
        // server.
        if let Some(record) = self.record(number) {
            self.last.fetch_max(place(number), Relaxed);
            record.number.store(number, Relaxed);
            record.flags.store(open.flags, Relaxed);
            record.node.store(open.node, Relaxed);
            record.request.store(open.request, Relaxed);
            record.fd.store(open.fd, Relaxed);
            record.backing.store(open.backing, Relaxed);
            for (place, word) in record.identity.iter().zip(open.identity) {
                place.store(word, Relaxed);
            }
            record.waits.store(0, Relaxed);
            record.kind.store(open.kind as u32, Release);
        }
    }

    /// `number` is closed.
    pub fn clear(&self, number: u64) {
        if let Some(record) = self.own(number) {
            record.kind.store(0, Release);
        }
    }

    /// `number` is open to the kernel alone.
    pub fn lose(&self, number: u64) {
        if let Some(record) = self.own(number) {
            record.kind.store(Kind::Lost as u32, Release);
        }
    }

    /// Who waits for file `number` to become ready is known to the kernel by `waits`.
    pub fn waits(&self, number: u64, waits: u64) {
        if let Some(record) = self.own(number) {
            record.waits.store(waits, Relaxed);
        }
    }

    /// By which numbers the kernel waits for files that are open.
    pub fn waiting(&self) -> impl Iterator<Item = u64> {
        let open = self.each().filter_map(|(number, _)| self.own(number));
        open.map(|record| record.waits.load(Relaxed))
            .filter(|&waits| waits != 0)
    }

    /// All that are open.
    pub fn each(&self) -> impl Iterator<Item = (u64, Open)> {
        let last = self.last.load(Acquire) as usize;
        self.records.iter().take(last).filter_map(|record| {
            let kind = match record.kind.load(Acquire) {
                1 => Kind::Backed,
                2 => Kind::Driven,
                3 => Kind::Lost,
                _ => return None,
            };
            let open = Open {
                kind,
                node: record.node.load(Relaxed),
                flags: record.flags.load(Relaxed),
                fd: record.fd.load(Relaxed),
                identity: [0, 1].map(|word| record.identity[word].load(Relaxed)),
                backing: record.backing.load(Relaxed),
                request: record.request.load(Relaxed),
            };
            Some((record.number.load(Relaxed), open))
        })
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = i32> {
        let backed = self.each().filter(|(_, open)| open.kind == Kind::Backed);
        backed.map(|(_, open)| open.fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Open = Open {
        kind: Kind::Backed,
        node: 5,
        flags: 2,
        fd: 17,
        identity: [3, 4],
        backing: 1,
        request: 8,
    };

    #[test]
    fn what_is_open_stands_there_until_it_is_closed() {
        let opens = Opens::new(100).unwrap();
        opens.set(1, &OPEN);
        opens.set(3, &OPEN);
        opens.set(1000, &OPEN);
        opens.waits(1, 50);
        opens.waits(3, 51);
        assert_eq!(opens.waiting().collect::<Vec<_>>(), [50, 51]);
        opens.clear(1);
        opens.clear(0);
        assert_eq!(opens.waiting().collect::<Vec<_>>(), [51]);
        opens.set(3, &OPEN);
        assert_eq!(opens.waiting().count(), 0);
        let found: Vec<_> = opens
            .each()
            .map(|(number, open)| (number, open.fd))
            .collect();
        assert_eq!(found, [(3, 17)]);
        assert_eq!(opens.descriptors().collect::<Vec<_>>(), [17]);
    }

    /// A RELEASE that comes again closes nothing that is open in its place.
    #[test]
    fn a_place_is_one_numbers() {
        let opens = Opens::new(10).unwrap();
        let (old, new) = (1 << 32 | 3, 2 << 32 | 3);
        opens.set(old, &OPEN);
        opens.clear(old);
        opens.set(new, &OPEN);
        opens.clear(old);
        opens.lose(old);
        let kinds = || {
            let each = opens.each();
            each.map(|(number, open)| (number, open.kind))
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds(), [(new, Kind::Backed)]);
        // What is lost is still open to the kernel, but by no descriptor.
        opens.lose(new);
        assert_eq!(kinds(), [(new, Kind::Lost)]);
        assert_eq!(opens.descriptors().count(), 0);
    }
}
