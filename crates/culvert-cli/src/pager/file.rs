//! A file whose pages are filled on demand: the driver's, its shadow, and how far ahead it is read.

use super::room::{self, Droppable, Dropped, MOST};
use culvert::Caller;
use culvert_cache::{
    evict,
    fill::{self, length_of},
    records, reopen,
    shadow::{OwnedFd, open_shadow},
};
use culvert_run::{ShadowName, node_locks::NodeLock};
use culvert_sys::PAGE64;
use std::sync::{
    Arc, Mutex, OnceLock, Weak,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// What is filled at the first fault, and at each that follows no other, in bytes: 64 KiB take 43
/// us, 4 KiB 10 us, so that what is never looked at costs little. The more of a file has been
/// looked at, the more is filled, so that a program that jumps about in all of it has it soon.
const LEAST: u64 = 64 << 10;

/// An open file and its shadow.
pub struct File {
    /// Which one.
    pub name: ShadowName,
    file: Box<dyn culvert::File>,
    shadow: OwnedFd,
    ahead: Mutex<Ahead>,
    /// The file, open for writing: opened when pages are to be dropped that were stored into. What
    /// keeps it from being opened may pass.
    writable: OnceLock<Box<dyn culvert::File>>,
    /// The log has said that they cannot be.
    said: AtomicBool,
    /// Somebody has begun to fill all of it.
    filling: AtomicBool,
}

/// Where the reader will be next if it goes on as it does, and how much is filled then.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Ahead {
    next: u64,
    window: u64,
    /// Bytes filled since any were dropped.
    filled: u64,
}

impl Ahead {
    /// What is filled for a fault at byte `at` of a file of `length` bytes: `most` bytes, a power
    /// of two, at most.
    fn window(&mut self, at: u64, length: u64, most: u64) -> (u64, u64) {
        let sequential = at == self.next;
        let wanted = match sequential {
            true => (self.window * 2).clamp(LEAST, MOST),
            // Twice as much for each sixteenth of the file.
            false => {
                let sixteenths = self.filled.saturating_mul(16) / length.max(1);
                LEAST << sixteenths.min((MOST / LEAST).ilog2().into())
            }
        };
        self.window = wanted.min(most);
        let from = match sequential {
            true => at,
            false => at & !(self.window - 1),
        };
        self.next = from.saturating_add(self.window);
        self.filled = self.filled.saturating_add(self.window);
        (from, self.next)
    }
}

impl File {
    /// Opens both.
    pub fn open(name: ShadowName) -> culvert::Result<Self> {
        Ok(Self {
            name,
            file: reopen::for_reading(name)?,
            shadow: open_shadow(name, 2)?,
            ahead: Mutex::default(),
            writable: OnceLock::new(),
            said: AtomicBool::new(false),
            filling: AtomicBool::new(false),
        })
    }

    /// Fills what is missing around byte `at`; the bytes that are there now. None: the process
    /// `slot`, which waits for them, has the file's lock. `filled` is told each hole that was
    /// filled, before others may lock the file: not what was there already, which the waiting
    /// process may have stored into.
    ///
    /// The driver's error, or EIO where the file has become shorter.
    pub fn fill(
        self: &Arc<Self>,
        at: u64,
        slot: u32,
        filled: impl Fn((u64, u64)),
    ) -> culvert::Result<Option<(u64, u64)>> {
        let Some(_lock) = self.lock(slot) else {
            return Ok(None);
        };
        let length = length_of(&self.shadow)?;
        // Past the end: the program gets its SIGBUS from the kernel.
        if at >= length {
            return Ok(Some((at, at + PAGE64)));
        }
        let hole = fill::next_hole(self.shadow.raw(), at, at + 1)?;
        // Somebody else has filled it meanwhile.
        if hole.is_none() {
            return Ok(Some((at, at + PAGE64)));
        }
        if at >= self.file.attributes(&Caller::SYSTEM)?.size {
            return Err(culvert::Error::because(
                culvert::Errno::EIO,
                "the file has become shorter",
            ));
        }
        let (from, to) = self.ahead.lock().map_or((at, at + PAGE64), |mut ahead| {
            ahead.window(at, length, room::most())
        });
        let droppable: Weak<dyn Droppable> = Arc::<Self>::downgrade(self);
        room::note(droppable, (from, to));
        match fill::holes(&*self.file, self.shadow.raw(), (from, to)) {
            Ok(holes) => {
                let whole = |(from, to): (u64, u64)| (from, to.next_multiple_of(PAGE64));
                holes.into_iter().map(whole).for_each(filled);
                Ok(Some((from, to)))
            }
            // What was asked for may be readable though what lies around it is not.
            Err(_) if (from, to) != (at, at + PAGE64) => {
                fill::holes(&*self.file, self.shadow.raw(), (at, at + PAGE64))?;
                Ok(Some((at, at + PAGE64)))
            }
            Err(error) => Err(error),
        }
    }

    /// The page at byte `at`, without the file's lock.
    pub fn page(&self, at: u64) -> culvert::Result<Vec<u8>> {
        let mut page = vec![0; PAGE64 as usize];
        fill::read_all(&*self.file, at, &mut page)?;
        Ok(page)
    }

    /// [`Droppable::drop_pages`] under the file's lock. `writable`: the file, where somebody had
    /// stored something.
    fn drop_locked(
        &self,
        range: (u64, u64),
        stored: &[(&records::Record, records::Said)],
        writable: Option<Option<&dyn culvert::File>>,
    ) -> Option<Dropped> {
        if let Ok(mut ahead) = self.ahead.lock() {
            ahead.filled = 0;
        }
        if stored.is_empty() {
            return fill::drop_clean(self.shadow.raw(), range)
                .ok()
                .map(Dropped::Bytes);
        }
        let writable = writable??;
        // Another file that got its number must not get what was stored.
        let identity = records::identity(&writable.attributes(&Caller::SYSTEM).ok()?);
        let other =
            |said: &records::Said| said.identity != 0 && identity != 0 && said.identity != identity;
        if stored.iter().any(|(_, said)| other(said)) {
            return None;
        }
        let evicted = evict::write_back_and_drop(writable, self.shadow.raw(), range)
            .inspect_err(|error| self.stays(error))
            .ok()?;
        Some(match evicted.all {
            true => Dropped::Bytes(evicted.bytes),
            false => Dropped::Part(evicted.bytes),
        })
    }

    /// The file, open for writing. None: it cannot be opened so, which the log says once.
    fn writable(&self) -> Option<&dyn culvert::File> {
        if self.writable.get().is_none() {
            let opened = reopen::for_writing(self.name).inspect_err(|error| self.stays(error));
            // Another thread may have opened it meanwhile.
            let _ = self.writable.set(opened.ok()?);
        }
        self.writable.get().map(|file| &**file)
    }

    /// What programs have stored in it cannot be brought to the file, so that its pages cannot be
    /// dropped.
    fn stays(&self, error: &culvert::Error) {
        if !self.said.swap(true, Relaxed) {
            culvert_sys::log!("what was stored in {} keeps its memory: {error}", self.name);
        }
    }

    /// Whether the caller is the first that is going to fill all of it.
    pub fn is_first_to_fill(&self) -> bool {
        !self.filling.swap(true, Relaxed)
    }

    /// Fills all of it, holes included.
    pub fn fill_all(&self) -> culvert::Result<()> {
        let Some(_lock) = self.lock(0) else {
            return Ok(());
        };
        fill::all_pages(&*self.file, self.shadow.raw())
    }

    fn lock(&self, slot: u32) -> Option<NodeLock<'static>> {
        let locks = &culvert_run::get().node_locks;
        locks.lock_unless(self.name, slot)
    }
}

impl Droppable for File {
    fn name(&self) -> ShadowName {
        self.name
    }

    /// Drops the pages of `range`, after what was stored in them is in the file. `slot`: a process
    /// that waits for it, and may have the file's lock.
    fn drop_pages(&self, range: (u64, u64), slot: u32) -> Dropped {
        let overlaps = |said: &records::Said| said.range.0 < range.1 && range.0 < said.range.1;
        let stored = || records::all(|said| said.name == self.name && overlaps(said));
        // Opened before the file's lock is taken.
        let Ok(before) = stored() else {
            return Dropped::Not;
        };
        let writable = (!before.is_empty()).then(|| self.writable());
        let Some(_lock) = self.lock(slot) else {
            return Dropped::Locked;
        };
        let dropped = stored().ok();
        let dropped = dropped.and_then(|stored| self.drop_locked(range, &stored, writable));
        dropped.unwrap_or(Dropped::Not)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_with_sequential_faults_and_shrinks_with_others() {
        const LARGE: u64 = 1 << 40;
        let mut ahead = Ahead::default();
        let mut at = 0;
        for want in [
            64 << 10,
            128 << 10,
            256 << 10,
            512 << 10,
            1 << 20,
            MOST,
            MOST,
        ] {
            let (from, to) = ahead.window(at, LARGE, MOST);
            assert_eq!((from, to - from), (at, want));
            at = to;
        }
        let far = (1 << 30) + PAGE64;
        assert_eq!(ahead.window(far, LARGE, MOST), (1 << 30, (1 << 30) + LEAST));
        assert_eq!(ahead.window(5 * PAGE64, LARGE, MOST), (0, LEAST));
        assert_eq!(ahead.window(LEAST, LARGE, MOST), (LEAST, LEAST + 2 * LEAST));
    }

    #[test]
    fn the_window_grows_with_the_part_of_the_file_that_was_looked_at() {
        const LENGTH: u64 = 128 << 20;
        let mut ahead = Ahead::default();
        let (mut faults, mut at) = (0, 1 << 20);
        while ahead.filled < LENGTH {
            let (from, to) = ahead.window(at, LENGTH, MOST);
            assert!(from <= at && at < to && to - from <= MOST);
            (faults, at) = (faults + 1, (to + (40 << 20) + PAGE64) % LENGTH);
        }
        assert!((200..400).contains(&faults), "{faults}");
        assert_eq!(ahead.window, MOST);
    }
}
