//! The memory that clients and server share, and the files of the mount directory that hold it.
//!
//! ```text
//! area    the header, the slots, words that clients share, a payload for each slot, and memory for
//!         what clients cache
//! bell    a FIFO: a byte for each request that was posted, which the server's descriptor for
//!         /dev/fuse reads, so that poll, signals and cancellation are the kernel's own
//! guard   a FIFO: processes that use slots tell the guardian of themselves
//! ```

use crate::channel::Payload;
use crate::entries::Entries;
use crate::identity::{Identity, namespace};
use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::memory::{Mapping, Of, populate_write};
use culvert_sys::raw::general::{S_IFIFO, S_IFMT};
use culvert_sys::sync::shared_wake;
use culvert_sys::trust::{self, Opened};
use culvert_sys::{AsFd, BorrowedFd, Errno, OwnedFd, PAGE, fs};

/// How many requests may be under way at once.
pub const SLOTS: usize = 128;
/// The most bytes of a request's or a reply's body: 1 MiB of data, and what stands before it.
pub const LARGEST: usize = (1 << 20) + 2 * PAGE;

/// Of `attention`: a thread of the server takes what it sees without a ring, and looks again when
/// it has said that it does so no longer.
pub(crate) const ATTENDS: u32 = 2;
/// Of `attention`: the only thread that takes requests is awake, and looks once more before it
/// sleeps. Who wants a reply does not ring, and does not look for it either.
pub(crate) const AWAKE: u32 = 3;

const MAGIC: u64 = u64::from_le_bytes(*b"culvslot");
const VERSION: u32 = 10;

/// The name of the area in the mount directory.
pub const AREA: &CStr = c"area";
/// The name of the FIFO that the server reads.
pub const BELL: &CStr = c"bell";
/// The name of the FIFO that the guardian reads.
pub const GUARD: &CStr = c"guard";

/// What has become of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Session {
    /// It has not answered INIT yet.
    Starting = 0,
    /// It serves.
    Ready = 1,
    /// It has ended, or is to end: no request is taken any more.
    Ended = 2,
}

/// Where a request is. The word of a slot says it in its lowest bits; above them is a count of the
/// requests that the slot has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody's, or its owner's to write to.
    Free,
    /// It waits for the server.
    Posted,
    /// The server has it.
    Taken,
    /// Its reply waits for its owner.
    Done,
}

const STATE_BITS: u32 = 3;

/// The word of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub u32);

impl Word {
    pub const fn new(count: u32, state: State) -> Self {
        Self(count << STATE_BITS | state as u32)
    }

    pub const fn count(self) -> u32 {
        self.0 >> STATE_BITS
    }

    /// None for what no party writes.
    pub const fn state(self) -> Option<State> {
        match self.0 & ((1 << STATE_BITS) - 1) {
            0 => Some(State::Free),
            1 => Some(State::Posted),
            2 => Some(State::Taken),
            3 => Some(State::Done),
            _ => None,
        }
    }

    /// The same request in another state.
    pub const fn to(self, state: State) -> Self {
        Self::new(self.count(), state)
    }

    /// The first state of the next request.
    pub const fn next(self) -> Self {
        Self(((self.count().wrapping_add(1)) << STATE_BITS) | State::Free as u32)
    }
}

/// What all slots have in common.
#[repr(C, align(64))]
pub(crate) struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    slots: AtomicU32,
    largest: AtomicU64,
    /// The PID namespace in which numbers of processes mean something.
    pub namespace: AtomicU64,
    /// A [`Session`].
    pub session: AtomicU32,
    /// Counts slots that have become free while somebody waited for one.
    pub freed: AtomicU32,
    /// How many wait for one.
    pub waiting: AtomicU32,
    /// Not 0: a thread of the server looks at the slots by itself, before it sleeps; [`ATTENDS`]:
    /// it has found something so; [`AWAKE`].
    pub attention: AtomicU32,
    /// Counts requests that were not seen though [`AWAKE`] was said.
    pub missed: AtomicU32,
    pub server: AtomicU64,
    pub notifications: AtomicU64,
    /// `struct fuse_init_out`.
    pub init: [AtomicU64; 8],
    /// Which slots were posted: where to look first.
    pub posted: [AtomicU64; SLOTS / 64],
    /// Which slots want an INTERRUPT.
    pub interrupts: [AtomicU64; SLOTS / 64],
    /// How many pages clients may cache.
    cache: AtomicU32,
}

/// A request and its reply.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// A [`Word`]; the futex on which the owner waits.
    pub word: AtomicU32,
    pub opcode: AtomicU32,
    /// An [`Identity`]: who may write what the word does not forbid. Only the server changes a word
    /// without being the owner.
    pub owner: AtomicU64,
    pub node: AtomicU64,
    /// Bytes of the request's body, then of the reply's.
    pub length: AtomicU32,
    /// What the reply says: 0 or a negative errno.
    pub error: AtomicI32,
    pub pid: AtomicU32,
    /// Of the request with this count an INTERRUPT is wanted.
    pub interrupt: AtomicU32,
    /// The processor on which the owner has posted it, plus one; 0: not known.
    pub processor: AtomicU32,
    /// Not 0: the owner sleeps, and wants to be woken.
    pub sleeps: AtomicU32,
    /// Cycles from the last reply that its process has seen to this request.
    pub pause: AtomicU32,
    /// The processor on which the server had the last large request or reply here, plus one; 0:
    /// not known.
    pub replied_on: AtomicU32,
    /// A [`crate::Extension`]: which of its parts there are, and the group.
    pub extension: AtomicU32,
    pub group: AtomicU32,
}

const HEADER: usize = PAGE;
const TABLE: usize = size_of::<Slot>() * SLOTS;
/// Words that clients share, whatever they mean.
const WORDS: usize = 1 << 18;
const WORDS_AT: usize = HEADER + TABLE.next_multiple_of(PAGE);
const OPENS_AT: usize = WORDS_AT + size_of::<[AtomicU64; WORDS]>();
/// Where the payloads begin.
pub(crate) const PAYLOADS: usize = OPENS_AT + size_of::<Entries>();
const CACHE_AT: usize = PAYLOADS + SLOTS * LARGEST;
/// The most pages that clients may cache: 64 MiB.
const MOST_CACHED: usize = 1 << 14;
/// The part of the free memory that the cache may take.
const CACHED_PART: u64 = 16;
const SIZE: usize = CACHE_AT + MOST_CACHED * PAGE;
const _: () = assert!(size_of::<Header>() <= HEADER && size_of::<Slot>() == 64);
const _: () = assert!(OPENS_AT.is_multiple_of(PAGE) && PAYLOADS.is_multiple_of(PAGE));

/// The area of a mount, mapped.
#[derive(Debug)]
pub struct Area {
    mapping: Mapping,
    /// How much of each payload has its memory, as this process knows.
    secured: [AtomicU32; SLOTS],
    /// Which pages of the cache have, a bit for each.
    cached: [AtomicU64; MOST_CACHED / 64],
}

impl Area {
    /// Makes the files of a mount in its directory, which is this user's alone.
    ///
    /// # Errors
    /// Of open(2), mknod(2), ftruncate(2), fallocate(2) and mmap(2).
    pub fn create(directory: impl AsFd) -> Result<Self, Errno> {
        let directory = directory.as_fd();
        for name in [BELL, GUARD] {
            fs::mknodat(directory, name, S_IFIFO | 0o600, 0)?;
        }
        let flags = OFlags::RDWR | OFlags::CREAT | OFlags::EXCL | OFlags::CLOEXEC;
        let file = fs::openat(directory, AREA, flags, 0o600)?;
        fs::ftruncate(&file, SIZE as u64)?;
        // Where there is no room, now: later it would be SIGBUS.
        match fs::fallocate(&file, 0, 0, PAYLOADS as u64) {
            Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {}
            Err(errno) => return Err(errno),
        }
        let area = Self::map(file.borrow())?;
        let header = area.header();
        header.version.store(VERSION, Relaxed);
        header.slots.store(SLOTS as u32, Relaxed);
        header.largest.store(LARGEST as u64, Relaxed);
        // What is free of /dev/shm is also others'.
        let free = fs::fstatfs(file.borrow()).map_or(0, |found| found.f_bavail as u64);
        let cache = (free / CACHED_PART).min(MOST_CACHED as u64);
        header.cache.store(cache as u32, Relaxed);
        header.namespace.store(namespace(), Relaxed);
        header.magic.store(MAGIC, Release);
        Ok(area)
    }

    /// The area in `directory`, a mount directory that is trusted.
    ///
    /// # Errors
    /// `EIO` for a file that is no area of this version, and those of open(2) and mmap(2).
    pub fn open(directory: &Opened) -> Result<Self, Errno> {
        let file = trust::file(directory, AREA, OFlags::RDWR).map_err(|why| why.errno())?;
        if file.stat().st_size != SIZE as i64 {
            return Err(Errno::EIO);
        }
        let area = Self::map(file.as_fd())?;
        let header = area.header();
        let fits = header.magic.load(Acquire) == MAGIC
            && header.version.load(Relaxed) == VERSION
            && header.slots.load(Relaxed) == SLOTS as u32
            && header.largest.load(Relaxed) == LARGEST as u64;
        fits.then_some(area).ok_or(Errno::EIO)
    }

    fn map(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let rights = Protection::READ | Protection::WRITE;
        let mapping = Mapping::new(Of::Shared(file, 0), SIZE, rights)?;
        let secured = [const { AtomicU32::new(0) }; SLOTS];
        let cached = [const { AtomicU64::new(0) }; MOST_CACHED / 64];
        Ok(Self {
            mapping,
            secured,
            cached,
        })
    }

    /// Where it is mapped: address and bytes.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.mapping.address(), self.mapping.len())
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping begins with it, aligned; all of it is atomic words.
        unsafe { &*self.mapping.start().cast() }
    }

    pub(crate) fn slot(&self, index: usize) -> &Slot {
        assert!(index < SLOTS);
        // SAFETY: within the table, which lies behind the header; all of it is atomic words.
        unsafe { &*self.mapping.start().add(HEADER).cast::<Slot>().add(index) }
    }

    /// Words that clients share.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: they lie behind the table; all of them are atomic words.
        unsafe {
            &*self
                .mapping
                .start()
                .add(WORDS_AT)
                .cast::<[AtomicU64; WORDS]>()
        }
    }

    /// What is open at the server.
    pub(crate) fn opens(&self) -> &Entries {
        // SAFETY: they lie behind the words; all of it is atomic words.
        unsafe { &*self.mapping.start().add(OPENS_AT).cast() }
    }

    /// The first `length` bytes of a slot's payload.
    pub(crate) fn payload(&self, index: usize, length: usize) -> Payload<'_> {
        assert!(index < SLOTS);
        let start = self
            .mapping
            .start()
            .wrapping_add(PAYLOADS + index * LARGEST);
        // SAFETY: within the mapping, whose bytes nobody makes references to.
        unsafe { Payload::new(start, length.min(LARGEST)) }
    }

    /// The first `length` bytes of a slot's payload can be written to: without memory for them the
    /// process would be ended (SIGBUS). Before Linux 5.14 this is not known.
    ///
    /// # Errors
    /// `ENOSPC`: there is no memory for them; others of madvise(2).
    pub(crate) fn secure(&self, index: usize, length: usize) -> Result<(), Errno> {
        let payload = self.payload(index, length.next_multiple_of(PAGE));
        let (length, secured) = (payload.len() as u32, &self.secured[index]);
        if secured.load(Relaxed) >= length {
            return Ok(());
        }
        match populate_write(payload.start(), payload.len()) {
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(Errno::EFAULT) => return Err(Errno::ENOSPC),
            Err(errno) => return Err(errno),
        }
        secured.fetch_max(length, Relaxed);
        Ok(())
    }

    /// How many pages clients may cache.
    #[must_use]
    pub fn cache_pages(&self) -> usize {
        (self.header().cache.load(Relaxed) as usize).min(MOST_CACHED)
    }

    /// The words of `count` pages of the cache from page `first` on; none where there are no such,
    /// or no memory for them, which before Linux 5.14 is not known.
    #[must_use]
    pub fn cached(&self, first: usize, count: usize) -> Option<&[AtomicU64]> {
        let end = first.checked_add(count)?;
        if end > self.cache_pages() {
            return None;
        }
        let at = |page: usize| self.mapping.start().wrapping_add(CACHE_AT + page * PAGE);
        let bit = |page: usize| Some((self.cached.get(page / 64)?, 1_u64 << (page % 64)));
        let has = |page| bit(page).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0);
        if !(first..end).all(has) {
            populate_write(at(first), count * PAGE).ok()?;
            for (word, bit) in (first..end).filter_map(bit) {
                word.fetch_or(bit, Relaxed);
            }
        }
        // SAFETY: within the mapping (`end`), aligned to pages, with memory that was there just
        // now; all of it is atomic words.
        Some(unsafe { core::slice::from_raw_parts(at(first).cast(), count * PAGE / 8) })
    }

    /// What has become of the server.
    #[must_use]
    pub fn session(&self) -> Session {
        match self.header().session.load(Acquire) {
            0 => Session::Starting,
            1 => Session::Ready,
            _ => Session::Ended,
        }
    }

    /// The process that reads requests; 0 before the first one was read.
    #[must_use]
    pub fn server(&self) -> u32 {
        self.server_identity().number()
    }

    pub(crate) fn server_identity(&self) -> Identity {
        Identity(self.header().server.load(Acquire))
    }

    /// From here on the mount can be used: the server has answered INIT by `reply`.
    pub fn begin(&self, reply: &[u8; 64]) {
        for (word, bytes) in self.header().init.iter().zip(reply.chunks_exact(8)) {
            let bytes = bytes.try_into().unwrap_or([0; 8]);
            word.store(u64::from_ne_bytes(bytes), Relaxed);
        }
        let header = self.header();
        let (starting, ready) = (Session::Starting as u32, Session::Ready as u32);
        let _ = header
            .session
            .compare_exchange(starting, ready, AcqRel, Relaxed);
    }

    /// What the server has answered to INIT.
    pub(crate) fn init_reply(&self) -> [u8; 64] {
        let mut reply = [0; 64];
        let words = self.header().init.iter();
        for (word, bytes) in words.zip(reply.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        reply
    }

    /// How many requests there were, and how many files are open at the server, as far as that is
    /// written down.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let slots = (0..SLOTS).map(|index| Word(self.slot(index).word.load(Relaxed)).count());
        let open = self.opens().iter().filter(|entry| entry.read().is_some());
        (slots.map(u64::from).sum(), open.count() as u64)
    }

    /// Nothing that clients believe is sure any more: as a notification of the server that says so.
    pub fn all_may_have_changed(&self) {
        self.header().notifications.fetch_add(1, AcqRel);
    }

    /// No request is answered any more: whoever waits is told, and the server, which reads `bell`.
    pub fn end(&self, bell: impl AsFd) {
        let header = self.header();
        header.session.store(Session::Ended as u32, Release);
        for index in 0..SLOTS {
            shared_wake(&self.slot(index).word);
        }
        header.freed.fetch_add(1, Release);
        shared_wake(&header.freed);
        // One for each thread that may wait, now or later.
        let _ = fs::write(bell, &[0; 4096]);
    }
}

/// The FIFO `name` of a mount directory, for reading and writing, and not waiting: a writer alone
/// would be told of a server that is gone by SIGPIPE.
///
/// # Errors
/// `EIO` for what is no FIFO of the directory's owner; those of open(2).
pub fn open_fifo(directory: &Opened, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fifo = fs::openat(directory, name, flags, 0)?;
    let found = fs::fstat(&fifo)?;
    let right = found.st_mode & S_IFMT == S_IFIFO && found.st_uid == directory.stat().st_uid;
    right.then_some(fifo).ok_or(Errno::EIO)
}
