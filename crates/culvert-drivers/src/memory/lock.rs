//! The metadata lock: one word for all processes, recovered from those who died with it.
//!
//! The owner is a *slot*, and a slot's proof of life is an OFD lock on one byte that its process
//! holds (see [`super::slots`]): it ends with the process or its program, however these end, and is
//! seen from every pid namespace.

use super::{core::Core, host, layout::header};
use core::sync::atomic::{AtomicU32, Ordering::*};
use culvert::Result;

/// Somebody sleeps on the word.
const WAITED: u32 = 1 << 31;
/// Looks at a held lock before sleeping.
const SPINS: u32 = 200;

/// A held lock.
pub struct Guard<'a> {
    word: &'a AtomicU32,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.word.swap(0, Release) & WAITED != 0 {
            host::wake(self.word);
        }
    }
}

impl Core {
    /// Takes the metadata lock. What a dead owner left half done is undone.
    #[inline]
    pub fn lock(&self) -> Result<Guard<'_>> {
        self.take(header::LOCK)
    }

    /// Takes the lock of those who clean up after the dead.
    pub fn lock_repair(&self) -> Result<Guard<'_>> {
        self.take(header::REPAIR)
    }

    #[inline(always)]
    fn take(&self, index: u64) -> Result<Guard<'_>> {
        let word = self.image.lock(index)?;
        let me = self.attached()?;
        if word.compare_exchange(0, me, Acquire, Relaxed).is_ok() {
            return Ok(Guard { word });
        }
        self.wait_for(word, me, index == header::LOCK)
    }

    #[cold]
    fn wait_for<'a>(&self, word: &'a AtomicU32, me: u32, metadata: bool) -> Result<Guard<'a>> {
        for _ in 0..SPINS {
            if word.load(Relaxed) == 0 && word.compare_exchange(0, me, Acquire, Relaxed).is_ok() {
                return Ok(Guard { word });
            }
            core::hint::spin_loop();
        }
        loop {
            let seen = word.load(Relaxed);
            let owner = seen & !WAITED;
            if owner == 0 {
                // Others may sleep: whoever takes the word now wakes them.
                if word
                    .compare_exchange(seen, me | WAITED, Acquire, Relaxed)
                    .is_ok()
                {
                    return Ok(Guard { word });
                }
                continue;
            }
            if !self.is_alive(owner) {
                let taken = self.while_vacant(owner, || {
                    word.compare_exchange(seen, me | WAITED, Acquire, Relaxed)
                        .is_ok()
                });
                match taken {
                    Some(true) => {
                        let guard = Guard { word };
                        if metadata {
                            self.undo()?;
                        }
                        return Ok(guard);
                    }
                    Some(false) => continue,
                    // Somebody has the slot by now, who frees what the dead one left in it, or
                    // takes it from the dead as here.
                    None => {}
                }
            }
            if seen & WAITED == 0
                && word
                    .compare_exchange(seen, seen | WAITED, Relaxed, Relaxed)
                    .is_err()
            {
                continue;
            }
            host::wait(word, owner | WAITED);
        }
    }

    /// Runs `take` while slot `owner` - 1 is nobody's and cannot become somebody's; none when it is
    /// somebody's. Without that, a lock seen with a dead owner might be held by the next owner of
    /// the same slot when it is taken away.
    fn while_vacant<R>(&self, owner: u32, take: impl FnOnce() -> R) -> Option<R> {
        let slot = u64::from(owner.checked_sub(1)?);
        if owner == self.slot.load(Relaxed) {
            return None;
        }
        // One thread at a time: to the kernel they are all one description.
        let vacant = self.vacant.lock();
        let fd = vacant.as_ref()?.fd();
        host::prove(fd, slot).ok()?;
        let result = take();
        host::unprove(fd, slot);
        Some(result)
    }

    /// Whether slot `owner` - 1 belongs to a process that lives.
    pub fn is_alive(&self, owner: u32) -> bool {
        owner == self.slot.load(Relaxed)
            || host::is_proved(self.image.fd(), u64::from(owner.saturating_sub(1)))
    }
}
