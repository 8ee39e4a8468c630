//! What the worker knows, in memory that the guardian keeps for the worker's successor:
//! connections, and the ranges whose pages are filled on demand.
//!
//! The worker alone writes. An entry is valid from the store of its first word on, which comes
//! last; so a worker that is killed leaves no half of one.

use culvert_sys::{
    Errno,
    flags::Protection,
    memory::{Mapping, Of},
};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Processes at a time.
pub const CONNECTIONS: usize = 4096;
/// Ranges of all processes.
pub const RANGES: usize = 65536;
/// Threads of the worker.
pub const THREADS: usize = 4;

/// A process.
#[repr(C)]
pub struct Connection {
    /// The socket's number plus 1; 0: no entry.
    pub socket: AtomicU32,
    /// The userfaultfd's number plus 1; 0: none.
    pub userfault: AtomicU32,
    /// The process's slot.
    pub slot: AtomicU32,
    /// Zero.
    pub reserved: u32,
}

/// A range of a process's memory.
#[repr(C)]
pub struct Range {
    /// Index of the connection plus 1; 0: no entry.
    pub connection: AtomicU64,
    /// First address.
    pub start: AtomicU64,
    /// Bytes.
    pub length: AtomicU64,
    /// The file's byte at `start`.
    pub offset: AtomicU64,
    /// The file.
    pub node: AtomicU64,
    /// Its mount.
    pub mount: AtomicU64,
}

/// What a thread of the worker is at: when the worker dies of it, its successor leaves it alone.
#[repr(C)]
#[derive(Default)]
pub struct Fault {
    /// Index of the connection plus 1; 0: at none.
    pub connection: AtomicU64,
    /// The page.
    pub address: AtomicU64,
}

/// All of it.
#[repr(C)]
pub struct Table {
    /// The processes.
    pub connections: [Connection; CONNECTIONS],
    /// Their ranges.
    pub ranges: [Range; RANGES],
    /// What the threads are at.
    pub faults: [Fault; THREADS],
    /// Ranges without an entry, whose files are not filled yet: a successor does not know them.
    pub unnoted: AtomicU64,
}

impl Table {
    /// A new one, empty.
    pub fn new() -> Result<&'static Self, Errno> {
        let both = Protection::READ | Protection::WRITE;
        let made = Mapping::near(0, Of::Children, size_of::<Self>(), both)?;
        // SAFETY: zeroed memory of that length, mapped for ever; every word may be zero.
        Ok(unsafe { &*made.leak().cast() })
    }

    /// Notes a connection; its index. None: there are too many.
    pub fn add_connection(&self, socket: i32) -> Option<usize> {
        let free = |entry: &Connection| entry.socket.load(Relaxed) == 0;
        let index = self.connections.iter().position(free)?;
        self.name_connection(index, None, 0);
        self.connections[index]
            .socket
            .store(socket as u32 + 1, Release);
        Some(index)
    }

    /// Notes whose connection `index` is.
    pub fn name_connection(&self, index: usize, userfault: Option<i32>, slot: u32) {
        let entry = &self.connections[index];
        entry.slot.store(slot, Relaxed);
        entry
            .userfault
            .store(userfault.map_or(0, |fd| fd as u32 + 1), Release);
    }

    /// Notes a range of connection `connection`; its index. None: there are too many. The last free
    /// entry stays free, for [`Self::replace_range`].
    pub fn add_range(&self, connection: usize, about: &RangeOf) -> Option<usize> {
        let index = self.free_range(0)?;
        self.free_range(index + 1)?;
        self.write_range(index, connection, about);
        Some(index)
    }

    /// Notes `about` instead of the range with this index, of the same connection; its own index.
    /// There is an entry for it always: who is killed in between leaves both.
    pub fn replace_range(&self, old: usize, about: &RangeOf) -> Option<usize> {
        let connection = self.ranges[old].connection.load(Relaxed).checked_sub(1)?;
        let index = self.free_range(0)?;
        self.write_range(index, connection as usize, about);
        self.remove_range(old);
        Some(index)
    }

    /// The range with this index ends earlier.
    pub fn shorten_range(&self, index: usize, length: u64) {
        self.ranges[index].length.store(length, Release);
    }

    /// There is no range with this index any more.
    pub fn remove_range(&self, index: usize) {
        self.ranges[index].connection.store(0, Release);
    }

    fn free_range(&self, from: usize) -> Option<usize> {
        let free = |entry: &Range| entry.connection.load(Relaxed) == 0;
        let index = self.ranges.get(from..)?.iter().position(free)?;
        Some(from + index)
    }

    fn write_range(&self, index: usize, connection: usize, about: &RangeOf) {
        let entry = &self.ranges[index];
        entry.start.store(about.start, Relaxed);
        entry.length.store(about.length, Relaxed);
        entry.offset.store(about.offset, Relaxed);
        entry.node.store(about.node, Relaxed);
        entry.mount.store(about.mount.into(), Relaxed);
        entry.connection.store(connection as u64 + 1, Release);
    }

    /// Whether descriptor `fd` is one of a connection.
    pub fn has(&self, fd: i32) -> bool {
        self.known_connections()
            .any(|(_, socket, userfault, _)| socket == fd || userfault == Some(fd))
    }

    /// All connections: index, socket, userfaultfd, slot.
    pub fn known_connections(
        &self,
    ) -> impl Iterator<Item = (usize, i32, Option<i32>, u32)> + use<'_> {
        let entries = self.connections.iter().enumerate();
        entries.filter_map(|(index, entry)| {
            let socket = entry.socket.load(Acquire).checked_sub(1)? as i32;
            let userfault = entry.userfault.load(Relaxed).checked_sub(1);
            Some((
                index,
                socket,
                userfault.map(|fd| fd as i32),
                entry.slot.load(Relaxed),
            ))
        })
    }

    /// All ranges: index, index of the connection, range.
    pub fn known_ranges(&self) -> impl Iterator<Item = (usize, usize, RangeOf)> + use<'_> {
        let entries = self.ranges.iter().enumerate();
        entries.filter_map(|(index, entry)| {
            let connection = entry.connection.load(Acquire).checked_sub(1)? as usize;
            let range = RangeOf {
                start: entry.start.load(Relaxed),
                length: entry.length.load(Relaxed),
                offset: entry.offset.load(Relaxed),
                node: entry.node.load(Relaxed),
                mount: entry.mount.load(Relaxed) as u16,
            };
            Some((index, connection, range))
        })
    }
}

/// A range as it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeOf {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// The file's byte at `start`.
    pub offset: u64,
    /// The file.
    pub node: u64,
    /// Its mount.
    pub mount: u16,
}

impl RangeOf {
    /// The first address after it.
    pub fn end(&self) -> u64 {
        self.start + self.length
    }
}
