//! Records on their way in shared memory, while the process that writes the log is at work.
//!
//! Senders take turns by a word, for as long as it takes to copy a record: what a sender was killed
//! in the middle of is never counted as written, so there is no hole. Nobody waits long for a turn,
//! nor at all where the writer sleeps: then the record goes by the FIFO, which wakes it.
//!
//! ```text
//! read        written              words
//!   |  records   |   free            |    both counts go up for ever
//! ```
//!
//! Any process of the run may scribble here. Senders look at counts only, and stay within; the
//! writer takes what is there for a record only if it looks like one.
//!
//! Where there is no room for records (RLIMIT_FSIZE, a full file system) there are the counts
//! alone, and all goes by the FIFO.

use crate::memory::set_aside;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use culvert::Errno;
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::fs;
use culvert_sys::memory::{Mapping, Of, Shared};

/// Room for records, in words: a megabyte.
const WORDS: usize = 1 << 17;
/// Bytes of a word.
const WORD: usize = size_of::<u64>();
/// How often a sender looks whether it is its turn.
const LOOKS: u32 = 64;

/// What the processes of a run, and the writer, have in common besides the words.
#[repr(C)]
struct Counts {
    /// Records that did not fit, of all processes: the one that counts may end with the ring full.
    dropped: AtomicU64,
    _apart: [AtomicU64; 7],
    /// How many words the writer has read.
    read: AtomicU64,
    _reading: [AtomicU64; 7],
    /// The process whose turn it is to send; 0: nobody's.
    turn: AtomicU32,
    /// Whether the writer looks by itself.
    awake: AtomicU32,
    /// How many words were written.
    written: AtomicU64,
    _writing: [AtomicU64; 6],
}

// SAFETY: atomic words, without padding.
unsafe impl Shared for Counts {}

const _: () = assert!(size_of::<Counts>() == 24 * WORD);

/// What the processes of a run, and the writer, have in common.
#[derive(Clone, Copy)]
pub struct Ring {
    counts: &'static Counts,
    /// Where records lie, if there is room for any.
    words: Option<&'static [AtomicU64; WORDS]>,
}

/// Bytes of a file of counts alone.
const SMALL: usize = size_of::<Counts>();
/// Bytes of a whole one.
const WHOLE: usize = SMALL + WORDS * WORD;

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The writer will see it.
    Written,
    /// There is no room.
    Full,
    /// Nothing: the writer sleeps, or others are in the way.
    NotHere,
}

impl Ring {
    /// Makes the file of one at `path`, with memory for all of it: a store to it never fails. Of
    /// counts alone where there is no room for more.
    ///
    /// # Errors
    /// `EEXIST`, `ENOSPC`, and the like.
    pub fn create(path: &CStr) -> Result<(), Errno> {
        let flags = OFlags::RDWR | OFlags::CREAT | OFlags::EXCL | OFlags::CLOEXEC;
        let file = fs::open(path, flags, 0o600)?;
        let room = |length: usize| set_aside(&file, 0, 0, length as u64);
        room(SMALL)?;
        // A part of the rest is none.
        room(WHOLE).or_else(|_| fs::ftruncate(&file, SMALL as u64))
    }

    /// That of the file `path`.
    ///
    /// # Errors
    /// `EBADMSG`: it is none of such a length.
    pub fn open(path: &CStr) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::open(path, flags, 0)?;
        let length = match usize::try_from(fs::fstat(&file)?.st_size) {
            Ok(length @ (SMALL | WHOLE)) => length,
            _ => return Err(Errno::EBADMSG),
        };
        let both = Protection::READ | Protection::WRITE;
        // Never unmapped: mounts live as long as their process.
        let mapped = Mapping::near(0, Of::file(&file), length, both)?.leak();
        // SAFETY: it is that long and stays; a page is aligned for anything, and any bytes are
        // words.
        let counts = unsafe { &*mapped.cast::<Counts>() };
        let words = (length == WHOLE).then(|| {
            // SAFETY: as above; the words follow the counts.
            unsafe { &*mapped.add(SMALL).cast::<[AtomicU64; WORDS]>() }
        });
        Ok(Self { counts, words })
    }

    /// How many records did not fit.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Relaxed)
    }

    /// One more did not.
    #[cold]
    pub fn drop_one(&self) {
        self.counts.dropped.fetch_add(1, Relaxed);
    }

    fn take_turn(&self, process: u32) -> bool {
        let turn = &self.counts.turn;
        let take = || turn.compare_exchange(0, process, Acquire, Relaxed);
        if take().is_ok() {
            return true;
        }
        for _ in 0..LOOKS {
            core::hint::spin_loop();
            if turn.load(Relaxed) == 0 && take().is_ok() {
                return true;
            }
        }
        false
    }

    /// Ends a turn that a program before this one in process `process` has left: another thread of
    /// it has called execve(2).
    pub fn begin(&self, process: u32) {
        let turn = &self.counts.turn;
        let _ = turn.compare_exchange(process.max(1), 0, AcqRel, Relaxed);
    }

    /// Sends the record `bytes`, which is shorter than the ring, in the name of `process`.
    pub fn send(&self, process: u32, bytes: &[u8]) -> Sent {
        let Some(words) = self.words else {
            return Sent::NotHere;
        };
        if !self.take_turn(process.max(1)) {
            return Sent::NotHere;
        }
        let sent = self.counts.write(words, bytes);
        self.counts.turn.store(0, Release);
        sent
    }
}

impl Counts {
    /// Writes the record `bytes` to `words`, by whose turn it is.
    fn write(&self, words: &[AtomicU64; WORDS], bytes: &[u8]) -> Sent {
        // In this turn: the writer falls asleep in one of its own.
        if self.awake.load(Relaxed) == 0 {
            return Sent::NotHere;
        }
        let needed = bytes.len().div_ceil(WORD) as u64;
        let written = self.written.load(Relaxed);
        let used = written.wrapping_sub(self.read.load(Acquire));
        if used.saturating_add(needed) > WORDS as u64 {
            return Sent::Full;
        }
        let (whole, rest) = bytes.as_chunks::<WORD>();
        let mut at = written;
        let mut put = |word: [u8; WORD]| {
            words[at as usize % WORDS].store(u64::from_ne_bytes(word), Relaxed);
            at = at.wrapping_add(1);
        };
        whole.iter().copied().for_each(&mut put);
        if !rest.is_empty() {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            put(last);
        }
        self.written.store(written.wrapping_add(needed), Release);
        Sent::Written
    }
}

/// The writer's end.
pub struct Reader {
    ring: Ring,
    /// How many words it has read, whatever others say.
    read: u64,
    /// Whose turn it was at the last looks, and how many these were.
    stuck: (u32, u32),
}

/// How many looks a turn lasts before it is asked whether its process lives.
const STUCK: u32 = 200;

impl Reader {
    /// Of `ring`, from here on.
    pub fn new(ring: Ring) -> Self {
        Self {
            ring,
            read: ring.counts.read.load(Relaxed),
            stuck: (0, 0),
        }
    }

    /// How many records did not fit.
    pub fn dropped(&self) -> u64 {
        self.ring.dropped()
    }

    /// From here on senders write to the ring, since somebody looks.
    pub fn wake(&self) {
        self.ring.counts.awake.store(1, Release);
    }

    /// From here on senders use the FIFO. Not where something has come meanwhile.
    pub fn sleep(&self) -> bool {
        if !self.ring.take_turn(u32::MAX) {
            return false;
        }
        let counts = self.ring.counts;
        let is_empty = counts.written.load(Relaxed) == self.read;
        if is_empty {
            counts.awake.store(0, Relaxed);
        }
        counts.turn.store(0, Release);
        is_empty
    }

    /// Adds to `out` what has come: whole records, each from a word on ([`padded`]). False:
    /// somebody has scribbled here, and that is lost.
    pub fn take(&mut self, out: &mut Vec<u8>) -> bool {
        let counts = self.ring.counts;
        let written = counts.written.load(Acquire);
        let count = written.wrapping_sub(self.read);
        let words = self.ring.words.map_or(&[][..], |words| &words[..]);
        let is_good = count <= words.len() as u64;
        for at in 0..if is_good { count } else { 0 } {
            let at = self.read.wrapping_add(at) as usize % WORDS;
            let word = words.get(at).map_or(0, |word| word.load(Relaxed));
            out.extend_from_slice(&word.to_ne_bytes());
        }
        self.read = written;
        counts.read.store(written, Release);
        is_good
    }

    /// Ends the turn of a process that was killed in the middle of it: to be called at each look,
    /// the looks some milliseconds apart. `is_dead` says whether a process is.
    pub fn mend(&mut self, is_dead: impl FnOnce(u32) -> bool) {
        let turn = self.ring.counts.turn.load(Relaxed);
        self.stuck = match self.stuck {
            (same, looks) if same == turn && turn != 0 => (same, looks + 1),
            _ => (turn, 0),
        };
        if self.stuck.1 >= STUCK && is_dead(turn) {
            let word = &self.ring.counts.turn;
            let _ = word.compare_exchange(turn, 0, AcqRel, Relaxed);
            self.stuck = (0, 0);
        }
    }
}

/// How much a record of `length` bytes takes in the ring.
pub const fn padded(length: usize) -> usize {
    length.next_multiple_of(WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{boxed::Box, vec};

    fn words(count: usize) -> *const AtomicU64 {
        let words: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        Box::leak(words).as_ptr()
    }

    fn ring() -> Ring {
        // SAFETY: as many words as they have, left for good.
        unsafe {
            Ring {
                counts: &*words(24).cast(),
                words: Some(&*words(WORDS).cast()),
            }
        }
    }

    #[test]
    fn without_room_all_goes_by_the_fifo() {
        let ring = Ring {
            words: None,
            ..ring()
        };
        let mut reader = Reader::new(ring);
        reader.wake();
        assert_eq!(ring.send(1, b"12345678"), Sent::NotHere);
        let mut out = Vec::new();
        assert!(reader.take(&mut out) && out.is_empty() && reader.sleep());
        ring.drop_one();
        assert_eq!(reader.dropped(), 1);
        ring.counts.written.store(9, Relaxed);
        assert!(!reader.take(&mut out) && out.is_empty());
        assert!(reader.take(&mut out) && out.is_empty() && reader.sleep());
    }

    #[test]
    fn a_turn_ends_with_the_program_that_had_it() {
        let ring = ring();
        let reader = Reader::new(ring);
        reader.wake();
        ring.counts.turn.store(77, Relaxed);
        ring.begin(78);
        assert_eq!(ring.send(78, b"12345678"), Sent::NotHere);
        ring.begin(77);
        assert_eq!(ring.send(77, b"12345678"), Sent::Written);
    }

    #[test]
    fn a_file_of_either_length_is_one() {
        let path = std::env::temp_dir().join(std::format!("culvert-ring-{}", std::process::id()));
        let name = path.clone().into_os_string().into_encoded_bytes();
        let name = std::ffi::CString::new(name).unwrap();
        Ring::create(&name).unwrap();
        let ring = Ring::open(&name).unwrap();
        let mut reader = Reader::new(ring);
        reader.wake();
        let other = Ring::open(&name).unwrap();
        assert_eq!(other.send(1, b"12345678"), Sent::Written);
        let mut out = Vec::new();
        assert!(reader.take(&mut out));
        assert_eq!(out, b"12345678");
        for (length, is_one) in [(SMALL, true), (SMALL + WORD, false)] {
            let small = path.with_extension("small");
            std::fs::write(&small, vec![0; length]).unwrap();
            let name = small.clone().into_os_string().into_encoded_bytes();
            let opened = Ring::open(&std::ffi::CString::new(name).unwrap());
            assert_eq!(opened.is_ok_and(|ring| ring.words.is_none()), is_one);
            std::fs::remove_file(small).unwrap();
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_sent_is_taken_in_order_round_and_round() {
        let ring = ring();
        let mut reader = Reader::new(ring);
        assert_eq!(ring.send(1, b"asleep"), Sent::NotHere);
        reader.wake();
        let record = vec![7; 1001];
        let mut sent = 0;
        for _ in 0..3 {
            let mut here = 0;
            while ring.send(1, &record) == Sent::Written {
                here += 1;
            }
            assert_eq!(here, WORDS / 126);
            assert!(!reader.sleep());
            let mut out = Vec::new();
            assert!(reader.take(&mut out));
            let all = out.chunks_exact(padded(record.len()));
            assert!(all.remainder().is_empty());
            let all: Vec<_> = all.collect();
            assert_eq!(all.len(), here);
            assert!(
                all.iter()
                    .all(|one| one[..1001] == record && one[1001..] == [0; 7])
            );
            sent += here;
        }
        assert!(sent > 2 * WORDS / 126);
        assert!(reader.sleep());
        assert_eq!(ring.send(1, &record), Sent::NotHere);
    }

    #[test]
    fn senders_do_not_mix() {
        let ring = ring();
        let mut reader = Reader::new(ring);
        reader.wake();
        std::thread::scope(|scope| {
            for of in 1..=4_u8 {
                scope.spawn(move || {
                    for _ in 0..1000 {
                        while ring.send(u32::from(of), &[of; 24]) != Sent::Written {
                            std::thread::yield_now();
                        }
                    }
                });
            }
        });
        let mut out = Vec::new();
        assert!(reader.take(&mut out));
        let mut counts = [0; 5];
        for one in out.chunks_exact(24) {
            assert!(one.iter().all(|byte| *byte == one[0]));
            counts[usize::from(one[0])] += 1;
        }
        assert_eq!(counts, [0, 1000, 1000, 1000, 1000]);
    }

    #[test]
    fn a_turn_ends_with_its_process_and_counts_are_not_believed() {
        let ring = ring();
        let mut reader = Reader::new(ring);
        reader.wake();
        ring.counts.turn.store(77, Relaxed);
        assert_eq!(ring.send(1, b"12345678"), Sent::NotHere);
        for _ in 0..=2 * STUCK {
            reader.mend(|process| process != 77);
        }
        assert_eq!(ring.counts.turn.load(Relaxed), 77);
        for _ in 0..=STUCK {
            reader.mend(|process| process == 77);
        }
        assert_eq!(ring.send(1, b"12345678"), Sent::Written);
        ring.counts.written.store(u64::MAX / 2, Relaxed);
        let mut out = Vec::new();
        assert!(!reader.take(&mut out) && out.is_empty());
        assert_eq!(ring.send(1, b"12345678"), Sent::Written);
        ring.counts.read.store(7, Relaxed);
        assert_eq!(ring.send(1, b"12345678"), Sent::Full);
    }
}
