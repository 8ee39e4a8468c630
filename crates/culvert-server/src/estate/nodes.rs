//! Which descriptors are which nodes, with the kernel's lookup counts. Commit word: `node`.

use super::shared;
use culvert_drivers::NodeBook;
use std::{
    io,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

#[repr(C)]
#[derive(Debug)]
struct Record {
    node: AtomicU64,
    references: AtomicU64,
}

/// By descriptor.
#[derive(Debug)]
pub struct Nodes {
    records: &'static [Record],
    /// One more than the largest descriptor that was noted: to read on would make the rest of the memory real.
    end: &'static AtomicU64,
}

impl Nodes {
    pub(super) fn new(count: usize) -> io::Result<Self> {
        Ok(Self {
            records: shared(count)?,
            end: &shared(1)?[0],
        })
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
}
