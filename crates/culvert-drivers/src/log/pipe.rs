//! The way to the process that writes the log: a FIFO in the run directory, and a ring of shared
//! memory.
//!
//! By the FIFO comes what wakes the writer, by the [ring](super::ring) what is sent while it is at
//! work. Both keep what was sent, bounded by their size, whatever becomes of the sender. A record
//! that does not fit is dropped and counted, since a program never waits for its log.

use super::record::{LONGEST, Record, What};
use super::ring::{Ring, Sent};
use crate::{Keeper, KeptFd};
use alloc::{ffi::CString, format, vec, vec::Vec};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use culvert::{Errno, Node};
use culvert_sys::clock::Clock;
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, process};

/// Bytes of a record that is made on the stack.
const SHORT: usize = 256;

/// As many processes are remembered that have been introduced.
const OTHERS: usize = 256;

/// The sending end, of one process.
pub struct Pipe {
    end: KeptFd,
    clock: Clock,
    ring: Ring,
    /// The process that has introduced itself.
    process: AtomicU32,
    /// Others that were introduced, who use a mount of the kernel's: the last one at each place.
    others: [AtomicU32; OTHERS],
    root: AtomicU64,
}

impl Pipe {
    /// Opens the FIFO `path`. For reading, too: so it has a reader whatever becomes of the writer
    /// of the log, and no write is SIGPIPE.
    ///
    /// - `EBADMSG`: it is no FIFO of this user's.
    pub fn open(path: &[u8], keeper: Keeper) -> Result<Self, Errno> {
        let ring = CString::new(ring_path(path)).map_err(|_| Errno::ENOENT)?;
        let ring = Ring::open(&ring)?;
        let path = CString::new(path).map_err(|_| Errno::ENOENT)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let end = fs::open(&path, flags, 0)?;
        let found = fs::fstat(&end)?;
        if found.st_mode & linux::S_IFMT != linux::S_IFIFO || found.st_mode & 0o077 != 0 {
            return Err(Errno::EBADMSG);
        }
        Ok(Self {
            end: keeper.keep(end),
            clock: Clock::new(),
            ring,
            process: AtomicU32::new(0),
            others: [const { AtomicU32::new(0) }; OTHERS],
            root: AtomicU64::new(0),
        })
    }

    /// The time, nanoseconds since the epoch.
    pub fn now(&self) -> u64 {
        let (seconds, nanoseconds) = self.clock.now();
        seconds as u64 * 1_000_000_000 + u64::from(nanoseconds)
    }

    /// Sends `record`, if it fits.
    pub fn send(&self, record: Record<'_>) {
        let length = record.length();
        let (mut short, mut long);
        let place: &mut [u8] = match length {
            ..=SHORT => {
                short = [0; SHORT];
                &mut short
            }
            _ => {
                long = vec![0; LONGEST];
                &mut long
            }
        };
        let bytes = record.encode(place);
        let is_full = match self.ring.send(self.process.load(Relaxed), bytes) {
            Sent::Written => false,
            Sent::Full => true,
            Sent::NotHere => fs::write(self.end.fd(), bytes).is_err(),
        };
        if is_full {
            self.ring.drop_one();
        }
    }

    /// Says which program this process is, and which node is the `root`.
    pub fn introduce(&self, root: Node) {
        let process = process::getpid();
        self.process.store(process, Relaxed);
        self.ring.begin(process);
        self.root.store(root.0, Relaxed);
        self.tell_program(process, b"self");
    }

    /// Says which program `process` is, at the first operation on its behalf. It may execute
    /// another one later; that is not seen.
    pub fn meet(&self, process: u32) {
        if process == self.process.load(Relaxed) || process == 0 {
            return;
        }
        let last = &self.others[process as usize % OTHERS];
        if last.swap(process, Relaxed) != process {
            self.tell_program(process, format!("{process}").as_bytes());
        }
    }

    /// Says which program `process` is, which proc(5) has as `name`.
    fn tell_program(&self, process: u32, name: &[u8]) {
        let mut read = [0; 256];
        let path = CString::new([b"/proc/", name, b"/cmdline"].concat()).unwrap_or_default();
        let length =
            fs::open(&path, OFlags::CLOEXEC, 0).and_then(|file| fs::read(&file, &mut read));
        let words = &read[..length.unwrap_or(0)];
        let name = words.split(|&byte| byte == 0).next().unwrap_or_default();
        self.send(Record {
            caller: (process, 0, 0),
            began: self.now(),
            name,
            ..Record::new(What::Process, Node(self.root.load(Relaxed)))
        });
    }

    /// Says that this process is the child of the one that was here before.
    pub fn forked(&self) {
        let process = process::getpid();
        let parent = self.process.swap(process, Relaxed);
        self.send(Record {
            caller: (process, 0, 0),
            began: self.now(),
            numbers: [u64::from(parent), 0, 0, 0],
            ..Record::new(What::Forked, Node(0))
        });
    }
}

/// Where the ring beside the FIFO `path` is.
pub fn ring_path(path: &[u8]) -> Vec<u8> {
    [path, b".ring"].concat()
}

/// Makes a FIFO in `directory`, with its ring, and returns its path.
pub fn create(directory: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut number = 0;
    loop {
        let path = [directory, format!("/log.{number}").as_bytes()].concat();
        let path = CString::new(path).map_err(|_| Errno::ENOENT)?;
        match fs::mknod(&path, linux::S_IFIFO | 0o600, 0) {
            Err(Errno::EEXIST) => number += 1,
            Err(errno) => return Err(errno),
            Ok(()) => {
                let path = path.into_bytes();
                let ring = CString::new(ring_path(&path)).map_err(|_| Errno::ENOENT)?;
                Ring::create(&ring)?;
                return Ok(path);
            }
        }
    }
}
