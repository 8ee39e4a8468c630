//! What a server leaves to the next one: memory that it shares with the keeper, which outlives it.
//!
//! Keeper and server are two processes with one table of descriptors and this memory. Whatever
//! moment the server dies at, its descriptors stay open, and here stands what each of them is:
//! connection, nodes with the kernel's lookup counts, open files with their backing numbers, and
//! the requests in hand.
//!
//! A record is valid when its commit word is set; that is stored last and cleared first. Only
//! program order counts: the reader begins when the writer is dead.
//!
//! A server that nobody follows has a hand-over without places: what it notes is nowhere, and it
//! finds nothing.

mod locks;
mod nodes;
mod opens;
mod records;
mod requests;

pub use locks::{Holding, Holdings};
pub use nodes::Nodes;
pub use opens::{Open, Opens, Reopen};
pub use requests::{Evidence, Past, RequestSlot, Requests};

use crate::{buffer::io_error, channel::DeviceFuse, mounting::MountIdentity};
use culvert::Node;
use culvert_sys::{
    BorrowedFd,
    fd::{Command, fcntl},
    flags::Protection,
    memory::{Mapping, Of},
    process,
    raw::general::{POLLERR, pollfd},
};
use culvert_wire::{InitFlags, MAJOR, Protocol};
use std::{
    collections::HashSet,
    fs, io,
    os::fd::{IntoRawFd, OwnedFd},
    sync::atomic::{
        AtomicI32, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// As many as a session has threads at most, those included that it adds.
const CHANNELS: usize = 80;
/// Bytes of a failure's text.
const TEXT: usize = 1024;

/// What stands at the beginning.
#[repr(C)]
#[derive(Debug)]
struct Head {
    /// The minor version agreed on; 0: none yet. Commit word.
    minor: AtomicU32,
    channels: AtomicU32,
    flags: AtomicU64,
    numbers: [AtomicI32; CHANNELS],
    /// Which mount it is: its device, and 0 (none yet), 1 (no number), or its number and 2.
    device: AtomicU64,
    mount: AtomicU64,
    /// How many servers there were.
    servers: AtomicU32,
    /// A server is at work.
    up: AtomicU32,
    failure_length: AtomicU32,
    failure: [AtomicU32; TEXT / 4],
}

/// Of a server that nobody follows.
static NONE: Handover = {
    static HEAD: Head = Head {
        minor: AtomicU32::new(0),
        channels: AtomicU32::new(0),
        flags: AtomicU64::new(0),
        numbers: [const { AtomicI32::new(-1) }; CHANNELS],
        device: AtomicU64::new(0),
        mount: AtomicU64::new(0),
        servers: AtomicU32::new(0),
        up: AtomicU32::new(0),
        failure_length: AtomicU32::new(0),
        failure: [const { AtomicU32::new(0) }; TEXT / 4],
    };
    Handover {
        head: &HEAD,
        requests: Requests::none(),
        files: Opens::NONE,
        directories: Opens::NONE,
        nodes: Nodes::none(),
        locks: Holdings::NONE,
    }
};

/// The memory. It is never given back: it lives as long as its processes.
#[derive(Debug)]
pub struct Handover {
    head: &'static Head,
    pub(crate) requests: Requests,
    pub(crate) files: Opens,
    pub(crate) directories: Opens,
    /// Where the driver writes down what its descriptors are.
    pub nodes: Nodes,
    pub(crate) locks: Holdings,
}

/// `count` records of zeroes, shared with the children of this process; memory is used where
/// something is written.
fn shared<T>(count: usize) -> io::Result<&'static [T]> {
    let length = count.max(1) * size_of::<T>();
    let both = Protection::READ | Protection::WRITE;
    let made = Mapping::near(0, Of::Children, length, both).map_err(io_error)?;
    // SAFETY: a new mapping, never unmapped. Its bytes are zero, which all records (of atomics) may
    // be.
    Ok(unsafe { std::slice::from_raw_parts(made.leak().cast(), count) })
}

impl Default for &Handover {
    fn default() -> Self {
        &NONE
    }
}

impl Handover {
    /// For the servers of one connection, which the first of them makes.
    ///
    /// # Errors
    /// No memory.
    pub fn new() -> io::Result<&'static Self> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        // What the kernel allows at most by default (`sysctl_nr_open`, fs/file.c).
        let descriptors = limit.unwrap_or(u64::MAX).min(1 << 20) as usize;
        Ok(Box::leak(Box::new(Self {
            head: &shared::<Head>(1)?[0],
            requests: Requests::new()?,
            files: Opens::new(descriptors)?,
            directories: Opens::new(descriptors)?,
            nodes: Nodes::new(descriptors)?,
            locks: Holdings::new(descriptors)?,
        })))
    }

    /// Whether a keeper starts another server when this one dies.
    pub fn has_keeper(&self) -> bool {
        !std::ptr::eq(self, &NONE)
    }

    /// The connection's channels, which from here on belong to all servers, and are closed with the
    /// last process.
    pub fn set_channels(&self, channels: Vec<OwnedFd>) {
        let head = self.head;
        let count = channels.len().min(CHANNELS);
        for (place, channel) in head.numbers.iter().zip(channels) {
            place.store(channel.into_raw_fd(), Relaxed);
        }
        head.channels.store(count as u32, Release);
    }

    /// One channel more, which from here on belongs to all servers, too; none: there are none
    /// here. To be called by one thread only.
    ///
    /// # Errors
    /// There are as many as may be, or no descriptor is left.
    pub fn another_channel(&self) -> io::Result<Option<DeviceFuse>> {
        let Some(first) = self.channels().next() else {
            return Ok(None);
        };
        let count = self.head.channels.load(Relaxed) as usize;
        let place = self.head.numbers.get(count);
        let place = place.ok_or(io::ErrorKind::QuotaExceeded)?;
        let new = first.clone_device()?;
        // Before a request is read from it.
        let number = new.into_raw_fd();
        place.store(number, Relaxed);
        self.head.channels.store(count as u32 + 1, Release);
        Ok(Some(Self::channel(number)))
    }

    /// Which mount the connection is of, once there is one.
    pub fn mounted(&self) -> Option<MountIdentity> {
        let number = self.head.mount.load(Acquire);
        let device = self.head.device.load(Relaxed);
        (number != 0).then(|| MountIdentity {
            device: ((device >> 32) as u32, device as u32),
            mount: number.checked_sub(2),
        })
    }

    /// Notes it.
    pub fn set_mounted(&self, which: &MountIdentity) {
        let (major, minor) = which.device;
        let device = u64::from(major) << 32 | u64::from(minor);
        self.head.device.store(device, Relaxed);
        let number = which.mount.map_or(1, |number| number + 2);
        self.head.mount.store(number, Release);
    }

    fn numbers(&self) -> impl Iterator<Item = i32> {
        let count = self.head.channels.load(Acquire) as usize;
        let numbers = self.head.numbers.iter().take(count);
        numbers.map(|number| number.load(Relaxed))
    }

    /// The channels, if there are any yet. None is closed when it is dropped: that would take it
    /// from all servers that may come.
    pub fn channels(&self) -> impl Iterator<Item = DeviceFuse> {
        self.numbers().map(Self::channel)
    }

    fn channel(number: i32) -> DeviceFuse {
        // SAFETY: nobody closes what stands in the handover.
        DeviceFuse::kept(unsafe { std::os::fd::BorrowedFd::borrow_raw(number) })
    }

    /// Whether the kernel still has the mount, or somebody who uses it.
    pub fn is_connected(&self) -> bool {
        self.numbers().next().is_some_and(|fd| {
            let mut asked = [pollfd {
                fd,
                events: 0,
                revents: 0,
            }];
            // `fuse_dev_poll`: an error when the connection has ended.
            process::poll(&mut asked, 0).is_ok() && asked[0].revents as u32 & POLLERR == 0
        })
    }

    /// A server begins; its number, from 1; 0: there is one only.
    pub fn begin(&self) -> u32 {
        match self.has_keeper() {
            true => self.head.servers.fetch_add(1, Relaxed) + 1,
            false => 0,
        }
    }

    /// What an earlier server has agreed on with the kernel.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        let minor = self.head.minor.load(Acquire);
        let flags = InitFlags(self.head.flags.load(Relaxed));
        (minor != 0)
            .then(|| Protocol::negotiate(MAJOR, minor, flags))
            .flatten()
    }

    pub(crate) fn set_protocol(&self, protocol: &Protocol) {
        if self.has_keeper() {
            self.head.flags.store(protocol.flags.0, Relaxed);
            self.head.minor.store(protocol.minor, Release);
        }
    }

    /// Whether a server has come to answer requests.
    pub fn is_up(&self) -> bool {
        self.head.up.load(Acquire) != 0
    }

    /// The server answers requests.
    pub fn set_up(&self) {
        self.head.up.store(1, Release);
    }

    /// Why the server ended, for the keeper to say.
    pub fn fail(&self, text: &str) {
        let bytes = &text.as_bytes()[..text.len().min(TEXT)];
        for (place, chunk) in self.head.failure.iter().zip(bytes.chunks(4)) {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            place.store(u32::from_ne_bytes(word), Relaxed);
        }
        self.head.failure_length.store(bytes.len() as u32, Release);
    }

    /// What [`Handover::fail`] was told.
    pub fn failure(&self) -> Option<String> {
        let length = self.head.failure_length.load(Acquire) as usize;
        let words = self.head.failure.iter();
        let bytes: Vec<u8> = words
            .flat_map(|word| word.load(Relaxed).to_ne_bytes())
            .take(length)
            .collect();
        (length > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// How many requests were answered, by all servers.
    pub fn answered(&self) -> u64 {
        self.requests.answered()
    }

    /// How many servers have begun.
    pub fn servers(&self) -> u32 {
        self.head.servers.load(Relaxed)
    }

    /// Whether the last server had begun a request that it has not answered.
    pub fn has_request_in_hand(&self) -> bool {
        let server = self.head.servers.load(Relaxed);
        self.requests.is_in_hand_of(server)
    }

    /// The descriptor that is a file of the kernel's, as a record names it.
    pub(crate) fn identity(&self, file: BorrowedFd<'_>) -> [u64; 2] {
        let kept = self.has_keeper().then(|| identity(file));
        kept.flatten().unwrap_or_default()
    }

    /// Whether the kernel has a file of the driver's node `node` open.
    pub fn has_open(&self, node: Node) -> bool {
        let mut open = self.files.each().map(|(_, open)| open);
        open.any(|open| open.kind != Reopen::Lost && open.node == node.0)
    }

    /// Closes what a dead server has left open and nobody knows: all descriptors but those in `own`
    /// and those that stand here. The server must be dead.
    pub fn sweep(&self, own: &HashSet<i32>) {
        self.drop_unanswered_opens();
        let mut known = own.clone();
        known.extend(self.numbers());
        known.extend(self.files.descriptors());
        known.extend(self.nodes.descriptors());
        known.extend(self.locks.descriptors());
        for number in open_descriptors() {
            if !known.contains(&number) {
                // Whoever opened it is dead, and nothing here refers to it.
                drop(culvert_sys::OwnedFd::from_raw(number));
            }
        }
    }

    /// Opens of which the kernel was never told: made by a request that will be done again.
    fn drop_unanswered_opens(&self) {
        for opens in [&self.files, &self.directories] {
            for (number, open) in opens.each() {
                if self.requests.is_begun(open.request) {
                    opens.clear(number);
                }
            }
        }
    }
}

/// Which file of the kernel's is open in `file`: `st_dev` and `st_ino`. None: it is not open.
///
/// A server that did not die by a signal may have closed what it wrote down, and the number may be
/// another file's by now.
pub fn identity(file: BorrowedFd<'_>) -> Option<[u64; 2]> {
    let status = culvert_sys::fs::fstat(file).ok()?;
    Some([status.st_dev, status.st_ino])
}

/// The descriptors of this process.
///
/// The one that lists them may be among them: it is closed when this returns.
pub fn open_descriptors() -> HashSet<i32> {
    let listed = fs::read_dir("/proc/self/fd");
    let names = listed.into_iter().flatten().flatten();
    let numbers: HashSet<i32> = names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    let open = |&number: &i32| fcntl(BorrowedFd::number(number), Command::GETFD, 0).is_ok();
    numbers.into_iter().filter(open).collect()
}
