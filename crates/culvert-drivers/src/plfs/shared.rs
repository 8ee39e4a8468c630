//! What the processes of a run tell each other: that a container has changed.
//!
//! Counters in the run's directory, which all map. Who has changed a container counts on,
//! so that who reads one asks the back end only after that, and otherwise a few times a second, for
//! what strangers write.

use super::host;
use crate::OwnedFd;
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use culvert::Result;
use culvert_sys::fd::CWD;
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::fs;
use culvert_sys::memory::{Mapping, Of};

/// Counters of each kind; containers share them by their number.
const SLOTS: usize = 512;
/// Bytes of the file.
const LENGTH: usize = WORDS * size_of::<AtomicU64>();
/// Counters of both kinds, and what is told of droppings and of moves.
const WORDS: usize = 2 * SLOTS + OF_DROPPINGS + OF_MOVES;
/// Words of what is told of droppings: three for each of 1,024.
pub const OF_DROPPINGS: usize = 3 * 1024;
/// Words of what is told of moves: 64 for each of 128.
pub const OF_MOVES: usize = 64 * 128;

/// The counters.
pub enum Shared {
    /// Of all processes of the run.
    Mapped(Mapping),
    /// Of this process, which is the only one.
    Alone(Box<[AtomicU64]>),
    /// None: whoever asks is told that there was a change.
    Unknown(AtomicU64),
}

impl Shared {
    /// Makes the file at `path`.
    pub fn prepare(path: &[u8]) -> Result<()> {
        let flags = OFlags::RDWR | OFlags::CREAT | OFlags::EXCL | OFlags::CLOEXEC;
        let file = fs::openat(CWD, &host::terminated(path)?, flags, 0o600)?;
        Ok(fs::ftruncate(&file, LENGTH as u64)?)
    }

    /// The counters in the file at `path`; those of this process where there is none to be.
    pub fn open(path: Option<&[u8]>) -> Self {
        let Some(path) = path else {
            return Self::Alone(
                (0..WORDS - OF_MOVES)
                    .map(|_| AtomicU64::new(0))
                    .collect::<Vec<_>>()
                    .into(),
            );
        };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let map = |file: OwnedFd| {
            let long = fs::fstat(&file)?.st_size as usize >= LENGTH;
            let both = Protection::READ | Protection::WRITE;
            long.then(|| Mapping::new(Of::file(&file), LENGTH, both))
                .transpose()
        };
        let opened = host::terminated(path).and_then(|path| fs::openat(CWD, &path, flags, 0));
        match opened.and_then(map) {
            Ok(Some(mapping)) => Self::Mapped(mapping),
            _ => Self::Unknown(AtomicU64::new(1)),
        }
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        match self {
            // SAFETY: `at` is below WORDS, so the word lies in the mapping, which lives as long
            // as `self` and is only ever reached as atomic words.
            Self::Mapped(mapping) => unsafe { &*mapping.start().cast::<AtomicU64>().add(at) },
            Self::Alone(counters) => &counters[at],
            Self::Unknown(counter) => {
                counter.fetch_add(2, SeqCst);
                counter
            }
        }
    }

    /// Word `at` of what is told of droppings; none where nobody tells.
    pub fn growth_word(&self, at: usize) -> Option<&AtomicU64> {
        match self {
            Self::Unknown(_) => None,
            _ => Some(self.counter(2 * SLOTS + at % OF_DROPPINGS)),
        }
    }

    /// Word `at` of what is told of moves; none where nobody tells, and where there is nobody to be
    /// told.
    pub fn move_word(&self, at: usize) -> Option<&AtomicU64> {
        match self {
            Self::Mapped(_) => Some(self.counter(2 * SLOTS + OF_DROPPINGS + at % OF_MOVES)),
            _ => None,
        }
    }

    fn slot(inode: u64) -> usize {
        (inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % SLOTS
    }

    /// How often the container `inode` was changed.
    pub fn changes(&self, inode: u64) -> u64 {
        self.counter(Self::slot(inode)).load(SeqCst)
    }

    /// How often records of it were taken back, as truncate(2) does.
    pub fn cuts(&self, inode: u64) -> u64 {
        match self {
            // Nobody tells.
            Self::Unknown(_) => 0,
            _ => self.counter(SLOTS + Self::slot(inode)).load(SeqCst),
        }
    }

    /// It has changed; how often before.
    pub fn changed(&self, inode: u64) -> u64 {
        self.counter(Self::slot(inode)).fetch_add(1, SeqCst)
    }

    /// Records were taken back.
    pub fn cut(&self, inode: u64) {
        self.counter(SLOTS + Self::slot(inode)).fetch_add(1, SeqCst);
        self.changed(inode);
    }
}
