//! What a server has done, in a file that `culvert list` reads: the server is not woken to tell.

use crate::buffer::io_error;
use culvert_sys::{
    BorrowedFd,
    flags::Protection,
    memory::{Mapping, Of},
};
use culvert_wire::Answer;
use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Requests by the number of their operation (`enum fuse_opcode`), as far as it goes here.
const OPERATIONS: usize = 64;
/// Length of the file, bytes: a page.
const LENGTH: usize = 4096;
/// `FUSE_OPEN`, `FUSE_OPENDIR`, `FUSE_RELEASE`, `FUSE_RELEASEDIR`.
const OPEN: u32 = 14;
const OPENDIR: u32 = 27;
const RELEASE: u32 = 18;
const RELEASEDIR: u32 = 29;

/// The file's content: words of 64 bits in the machine's order.
#[repr(C)]
#[derive(Debug)]
pub struct Counters {
    server: AtomicU64,
    servers: AtomicU64,
    failures: AtomicU64,
    files: AtomicU64,
    directories: AtomicU64,
    operations: [AtomicU64; OPERATIONS],
    extension: AtomicU64,
}

/// The content at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The server's process.
    pub server: u64,
    /// How many servers there were, one after the other.
    pub servers: u64,
    /// Requests answered with an error.
    pub failures: u64,
    /// Open files.
    pub files: u64,
    /// Open directories.
    pub directories: u64,
    /// The operations that were asked for, by name, the most frequent first.
    pub operations: Vec<(&'static str, u64)>,
    /// Bytes of memory that the kernel has for the maps of the mount's extension.
    pub extension: u64,
}

impl Counters {
    /// Counters in `file`, which is new and empty. They stay as long as the process, and its
    /// children, live.
    ///
    /// # Errors
    /// No room, no memory.
    pub fn new(file: &File) -> io::Result<&'static Self> {
        // Buffer that is there cannot be missed later, which would be SIGBUS.
        rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, LENGTH as u64)?;
        let both = Protection::READ | Protection::WRITE;
        let all = Of::Shared(BorrowedFd::number(file.as_raw_fd()), 0);
        let made = Mapping::near(0, all, LENGTH, both).map_err(io_error)?;
        // SAFETY: a new mapping of a whole page of zeroes, which atomics may be; it is never
        // unmapped, and the structure is smaller.
        Ok(unsafe { &*made.leak().cast() })
    }

    /// This process is the server from here on.
    pub fn begin(&self) {
        self.server.store(u64::from(std::process::id()), Relaxed);
        self.servers.fetch_add(1, Relaxed);
    }

    /// The kernel has so many bytes of memory for the extension's maps.
    pub(crate) fn extended(&self, bytes: u64) {
        self.extension.store(bytes, Relaxed);
    }

    /// A request for operation `opcode` was carried out; `answer` is given, where one is due.
    pub(crate) fn count(&self, opcode: u32, answer: Option<&Answer<'_>>) {
        if let Some(count) = self.operations.get(opcode as usize) {
            count.fetch_add(1, Relaxed);
        }
        match (opcode, answer) {
            (_, Some(Answer::Error(_))) => self.failures.fetch_add(1, Relaxed),
            (_, Some(Answer::Created { .. })) | (OPEN, _) => self.files.fetch_add(1, Relaxed),
            (OPENDIR, _) => self.directories.fetch_add(1, Relaxed),
            (RELEASE, _) => self.files.fetch_sub(1, Relaxed),
            (RELEASEDIR, _) => self.directories.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    /// What `bytes`, the file's, say.
    pub fn read(bytes: &[u8]) -> Option<Counted> {
        let mut words = bytes.chunks_exact(8).map(|word| {
            let word = word.try_into().unwrap_or_default();
            u64::from_ne_bytes(word)
        });
        let mut next = || words.next();
        let mut counted = Counted {
            server: next()?,
            servers: next()?,
            failures: next()?,
            files: next()?,
            directories: next()?,
            operations: Vec::new(),
            extension: 0,
        };
        for opcode in 0..OPERATIONS as u32 {
            let count = next()?;
            if count > 0 {
                let name = culvert_wire::Operation::name(opcode);
                counted.operations.push((name, count));
            }
        }
        counted.extension = next()?;
        counted
            .operations
            .sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Some(counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_read() {
        let path = std::env::temp_dir().join(format!("culvert-counters-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        let counters = Counters::new(&file).unwrap();
        counters.begin();
        counters.count(1, None);
        counters.count(1, Some(&Answer::Error(2)));
        counters.count(OPEN, Some(&Answer::Done {}));
        counters.count(OPEN, Some(&Answer::Done {}));
        counters.count(RELEASE, Some(&Answer::Done {}));
        counters.count(4096, None);
        counters.extended(1 << 20);
        let counted = Counters::read(&std::fs::read(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(counted.server, u64::from(std::process::id()));
        assert_eq!((counted.failures, counted.files), (1, 1));
        assert_eq!((counted.operations[0].1, counted.extension), (2, 1 << 20));
        assert!(Counters::read(b"short").is_none());
    }
}
