//! Changes of metadata: all of them or none, whenever the process is killed.
//!
//! Every store is preceded by an entry in a log in the shared file: where, and what was there. A
//! transaction ends by emptying the log, one store. Whoever takes the lock from a dead owner puts
//! back what the log says, last entry first. x86-64 keeps the order of stores, and a killed
//! process's stores all arrive, so the order of stores in the program is all that is needed.

use super::{
    core::Core,
    image::damaged,
    layout::{self, BLOCK, header},
    lock::Guard,
};
use alloc::{string::String, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::*};
use culvert::{Errno, Result};

/// In the place that an entry of the log names: that of a half word.
const HALF: u64 = 1;

/// A transaction: holds the metadata lock. Dropped without [`Transaction::commit`], it has changed
/// nothing.
pub struct Transaction<'a> {
    /// The file system.
    pub core: &'a Core,
    logged: u64,
    count: &'a AtomicU64,
    sequence: &'a AtomicU64,
    log: &'a [AtomicU64],
    /// An orphan to give back once the transaction is final; 0: none.
    pub later: u32,
    /// Blocks of pointers that may still be visited: fewer than there are blocks, unless they hold
    /// each other.
    pub visits: u64,
    /// What it needs, it needs even where `size=` is reached: nobody could open files otherwise,
    /// not even to remove them.
    pub beyond: bool,
    /// Files of inodes that are given back, to be removed once that is final.
    pub removed: Vec<String>,
    _guard: Guard<'a>,
}

impl Core {
    /// Begins a transaction.
    pub fn change(&self) -> Result<Transaction<'_>> {
        let count = self.image.header(header::LOGGED)?;
        let sequence = self.image.header(header::SEQUENCE)?;
        let log = self.image.log()?;
        let guard = self.lock()?;
        Ok(Transaction {
            core: self,
            logged: 0,
            count,
            sequence,
            log,
            later: 0,
            visits: 0,
            beyond: false,
            removed: Vec::new(),
            _guard: guard,
        })
    }

    /// Makes all changes of `run` final, or none where it fails.
    pub fn transact<'a, R>(
        &'a self,
        run: impl FnOnce(&mut Transaction<'a>) -> Result<R>,
    ) -> Result<R> {
        let mut change = self.change()?;
        let result = run(&mut change)?;
        change.commit();
        Ok(result)
    }

    /// Undoes what the log says, with the lock held.
    pub fn undo(&self) -> Result<()> {
        let (count, sequence) = (
            self.image.header(header::LOGGED)?,
            self.image.header(header::SEQUENCE)?,
        );
        let mut left = count.load(Acquire).min(layout::LOG_ENTRIES);
        while left > 0 {
            left -= 1;
            let entry = self.image.words(layout::LOG * BLOCK + left * 16, 2)?;
            let (offset, value) = (entry[0].load(Acquire), entry[1].load(Acquire));
            match offset & HALF {
                0 => self.image.word(offset)?.store(value, Release),
                _ => self.image.half(offset)?.store(value as u32, Release),
            }
        }
        count.store(0, Release);
        if sequence.load(Acquire) & 1 != 0 {
            sequence.fetch_add(1, AcqRel);
        }
        Ok(())
    }
}

impl Transaction<'_> {
    /// The word at `offset`.
    #[inline]
    pub fn get(&self, offset: u64) -> Result<u64> {
        Ok(self.core.image.word(offset)?.load(Relaxed))
    }

    /// Changes the word at `offset`; `EFBIG` when there are too many changes for one transaction.
    #[inline]
    pub fn set(&mut self, offset: u64, value: u64) -> Result<()> {
        let word = self.core.image.word(offset)?;
        self.set_at(word, offset, value)
    }

    /// The same where `word`, which lies at `offset`, is at hand.
    #[inline]
    pub fn set_at(&mut self, word: &AtomicU64, offset: u64, value: u64) -> Result<()> {
        self.log(offset, word.load(Relaxed))?;
        word.store(value, Release);
        Ok(())
    }

    /// Says in the log that `value` was at `place`, before that changes.
    #[inline]
    fn log(&mut self, place: u64, value: u64) -> Result<()> {
        let at = self.logged;
        if at >= layout::LOG_ENTRIES {
            return Err(culvert::Error::because(
                Errno::EFBIG,
                "too many changes for one transaction",
            ));
        }
        if at == 0 {
            let even = self.sequence.load(Relaxed);
            self.sequence.store(even | 1, Release);
        }
        let entry = self.log.get(at as usize * 2..at as usize * 2 + 2);
        let Some([first, second]) = entry else {
            return Err(damaged("no log"));
        };
        first.store(place, Relaxed);
        second.store(value, Relaxed);
        self.logged = at + 1;
        self.count.store(self.logged, Release);
        Ok(())
    }

    /// Changes the half word at `offset`.
    pub fn set_half(&mut self, offset: u64, value: u32) -> Result<()> {
        let half = self.core.image.half(offset)?;
        self.log(offset | HALF, half.load(Relaxed).into())?;
        half.store(value, Release);
        Ok(())
    }

    /// The half word at `offset`.
    pub fn get_half(&self, offset: u64) -> Result<u32> {
        Ok(self.core.image.half(offset)?.load(Relaxed))
    }

    /// Adds to the word at `offset`.
    pub fn add(&mut self, offset: u64, change: i64) -> Result<()> {
        let old = self.get(offset)?;
        self.set(offset, old.wrapping_add_signed(change))
    }

    /// Word `index` of the header.
    pub fn header(&self, index: u64) -> Result<u64> {
        self.get(index * 8)
    }

    /// Changes word `index` of the header.
    pub fn set_header(&mut self, index: u64, value: u64) -> Result<()> {
        self.set(index * 8, value)
    }

    /// How many changes there is room for.
    pub const fn room(&self) -> u64 {
        layout::LOG_ENTRIES - self.logged
    }

    /// Makes all changes so far final; the lock is kept, and another transaction begins.
    pub fn checkpoint(&mut self) {
        if self.logged > 0 {
            self.logged = 0;
            self.count.store(0, Release);
            // Odd, and nobody else's while the lock is held.
            let odd = self.sequence.load(Relaxed);
            self.sequence.store(odd.wrapping_add(1), Release);
        }
    }

    /// Makes the changes final.
    pub fn commit(mut self) {
        self.checkpoint();
        let (core, later) = (self.core, self.later);
        let removed = core::mem::take(&mut self.removed);
        drop(self);
        if !removed.is_empty() {
            core.remove_external(removed);
        }
        if later != 0 {
            // Final already: what fails now is tried again when the file system is opened.
            let _ = core.release_unused(later);
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.logged > 0 {
            // What was changed could be reached then, so it can now.
            let _ = self.core.undo();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, memory::prepare};
    use culvert::mount::Mount;
    use std::{env, format, fs, os::unix::ffi::OsStrExt, process};

    #[test]
    fn what_is_undone_of_a_half_word_leaves_the_other_half() {
        let directory = env::temp_dir().join(format!("culvert-halves-{}", process::id()));
        fs::create_dir_all(&directory).unwrap();
        let environment = Environment {
            run_directory: Some(directory.as_os_str().as_bytes()),
            ..Environment::default()
        };
        let mount = Mount {
            driver: "memory".into(),
            source: b"memory".to_vec(),
            target: b"/mnt".to_vec(),
            options: Vec::new(),
            branches: Vec::new(),
        };
        let prepared = prepare::prepare(&mount, &environment, &mut |_| ()).unwrap();
        let core = prepare::joined(&prepared.mount.source).unwrap();
        let place = (header::SLOT_CHUNKS + 1) * 8;
        let mut change = core.change().unwrap();
        change.set_half(place, 7).unwrap();
        assert_eq!(change.get_half(place).unwrap(), 7);
        // Another process, in the middle of this one's transaction.
        core.image.half(place + 4).unwrap().store(9, Release);
        drop(change);
        assert_eq!(core.image.half(place).unwrap().load(Acquire), 0);
        assert_eq!(core.image.half(place + 4).unwrap().load(Acquire), 9);
        fs::remove_dir_all(&directory).unwrap();
    }
}
