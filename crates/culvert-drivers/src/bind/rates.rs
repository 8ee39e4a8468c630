//! At most so many bytes a second, of all together.
//!
//! A word of shared memory says until when the bytes that were moved so far take at the rate. Who
//! has moved more adds their time to it and waits until then; in pieces, so that who asks for much
//! at once has no more than who asks for little often.

use super::options::Settings;
use crate::archive::host::{random, terminated};
use crate::{Environment, waiting};
use alloc::{boxed::Box, format, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering};
use culvert::{Errno, Error, Result};
use culvert_sys::flags::OFlags;
use culvert_sys::memory::Placed;
use culvert_sys::raw::general::CLOCK_MONOTONIC;
use culvert_sys::{fs, process};

/// Until when what was read, and what was written, takes: nanoseconds of CLOCK_MONOTONIC.
type Words = [AtomicU64; 2];

const SECOND: u64 = 1_000_000_000;

/// What is waited for at once: as much as goes in a fiftieth of a second, within these.
const LEAST: u64 = 1;
const MOST: u64 = 1 << 20;

/// Both limits.
pub struct Rates {
    words: &'static Words,
    read: Option<u64>,
    write: Option<u64>,
    interrupted: Option<fn() -> bool>,
}

/// Makes the file that the processes of a run share, in its `directory`.
pub fn create(directory: &[u8]) -> core::result::Result<Vec<u8>, Errno> {
    let path = [directory, format!("/rates-{:x}", random()).as_bytes()].concat();
    let flags = OFlags::RDWR | OFlags::CREAT | OFlags::EXCL | OFlags::CLOEXEC;
    let file = fs::open(&terminated(&path)?, flags, 0o600)?;
    fs::ftruncate(&file, size_of::<Words>() as u64)?;
    Ok(path)
}

fn now() -> u64 {
    let time = process::clock_gettime(CLOCK_MONOTONIC);
    time.map_or(0, |time| time.tv_sec as u64 * SECOND + time.tv_nsec as u64)
}

impl Rates {
    /// Those of `settings`, if there are any.
    pub fn of(settings: &Settings, environment: &Environment<'_>) -> Result<Option<Self>> {
        let (read, write) = (settings.read_rate, settings.write_rate);
        if read.is_none() && write.is_none() {
            return Ok(None);
        }
        let own = || {
            // Leaked: lives as long as the process, once for each mount.
            &*Box::leak(Box::new(Words::default()))
        };
        let words = match &settings.shared_rates {
            None => own(),
            Some(path) => match shared(path) {
                // A program of another user than the run's: for itself.
                Err(Errno::EACCES) => own(),
                words => words.map_err(|errno| Error::from(errno).within("the file of rates"))?,
            },
        };
        Ok(Some(Self {
            words,
            read,
            write,
            interrupted: environment.interrupted,
        }))
    }

    /// Waits for what `count` bytes that were read take.
    pub fn read(&self, count: usize, interrupted: &dyn Fn() -> bool) {
        self.pay(&self.words[0], self.read, count, interrupted);
    }

    /// The same of bytes that were written.
    pub fn written(&self, count: usize, interrupted: &dyn Fn() -> bool) {
        self.pay(&self.words[1], self.write, count, interrupted);
    }

    /// Piece by piece, others between. What a signal leaves is still owed, by who comes next.
    fn pay(
        &self,
        word: &AtomicU64,
        rate: Option<u64>,
        count: usize,
        interrupted: &dyn Fn() -> bool,
    ) {
        let Some(rate) = rate else {
            return;
        };
        let ended = || interrupted() || self.interrupted.is_some_and(|ask| ask());
        let (mut left, mut waits) = (count as u64, true);
        while left > 0 {
            let piece = match waits {
                true => left.min(piece(rate)),
                false => left,
            };
            left -= piece;
            let until = owe(word, piece, rate);
            waits = waits && waiting::wait(until.saturating_sub(now()), &ended).is_ok();
        }
    }
}

/// Adds the time that `count` bytes take at `rate`, and returns until when that is.
fn owe(word: &AtomicU64, count: u64, rate: u64) -> u64 {
    let cost = (u128::from(count) * u128::from(SECOND) / u128::from(rate)) as u64;
    let mut due = word.load(Ordering::Relaxed);
    loop {
        let until = due.max(now()).saturating_add(cost);
        match word.compare_exchange(due, until, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return until,
            Err(other) => due = other,
        }
    }
}

fn piece(rate: u64) -> u64 {
    (rate / 50).clamp(LEAST, MOST)
}

fn shared(path: &[u8]) -> core::result::Result<&'static Words, Errno> {
    Placed::new().get_or_map(|| {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::open(&terminated(path)?, flags, 0)?;
        match fs::fstat(&file)?.st_size as usize >= size_of::<Words>() {
            true => Ok(file),
            false => Err(Errno::EBADMSG),
        }
    })
}
