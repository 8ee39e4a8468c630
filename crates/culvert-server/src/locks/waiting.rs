//! Waiting for locks: a thread for each request, and who waits for whom.

use super::{Asked, LockFamily, Locks, lock};
use crate::{
    channel::Channel,
    interrupts::{Hand, Interrupts},
    report::report,
};
use culvert::{Errno, Error, Result};
use culvert_sys::BorrowedFd;
use culvert_wire::{Answer, Protocol, Reply};
use std::{
    sync::{Arc, Mutex},
    thread,
};

/// As many steps as the kernel goes from one who waits to whom he waits for
/// (`MAX_DEADLK_ITERATIONS`, fs/locks.c).
const STEPS: usize = 10;
/// `FUSE_SETLKW`.
const SETLKW: u32 = 33;
/// Bytes of a waiting thread's stack.
const STACK: usize = 128 << 10;

/// Who waits, for what.
#[derive(Debug, Default)]
pub struct Waiting(pub(super) Mutex<Vec<Asked>>);

/// Takes the place among those who wait away.
struct Waits<'a> {
    locks: &'a Locks,
    asked: Asked,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.locks.waiting.0);
        let same =
            |other: &Asked| other.holder == self.asked.holder && other.lock == self.asked.lock;
        if let Some(place) = waiting.iter().position(same) {
            waiting.swap_remove(place);
        }
    }
}

impl Locks {
    /// Waits until `asked` is set, by the open file `file`.
    ///
    /// # Errors
    /// `EINTR`: `interrupted` said so after a signal; `EDEADLK`: who holds it waits for this
    /// holder.
    pub fn wait(
        &self,
        asked: &Asked,
        file: BorrowedFd<'_>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<()> {
        let _waits = self.begin(asked, file)?;
        loop {
            let Some(description) = self.description(asked, Some(file))? else {
                return Err(Errno::ENOLCK.into());
            };
            let done = match asked.holder.kind {
                LockFamily::Record => description.wait(&asked.lock),
                LockFamily::Flock => description.flock(asked.lock.kind, true).map(drop),
            };
            match done {
                Err(Errno::EINTR) if !interrupted() => continue,
                done => done?,
            }
            let mut holders = lock(&self.holders);
            match holders.get(&asked.holder) {
                Some(held) if Arc::ptr_eq(&held.description, &description) => return Ok(()),
                // Another thread of the holder has locked for writing meanwhile, for which a new
                // description was needed.
                Some(_) => {}
                // Another thread has closed the file: what was held then is gone, this came later.
                None => {
                    self.keep(&mut holders, asked, description);
                    return Ok(());
                }
            }
        }
    }

    /// Enters `asked` among those who wait, unless whoever is waited for waits for its holder.
    fn begin(&self, asked: &Asked, file: BorrowedFd<'_>) -> Result<Waits<'_>> {
        let mut waiting = lock(&self.waiting.0);
        let mut next = (asked.holder.kind == LockFamily::Record).then_some(*asked);
        for _ in 0..STEPS {
            let Some(step) = next else { break };
            let file = (step.holder == asked.holder).then_some(file);
            let Some(description) = self.description(&step, file)? else {
                break;
            };
            let found = self.blocker(step.holder, &description, &step.lock)?;
            let Some((_, Some(blocker))) = found else {
                break;
            };
            // A holder is the same on all files.
            if blocker.owner == asked.holder.owner {
                return Err(Errno::EDEADLK.into());
            }
            let is_blocker = |other: &&Asked| {
                other.holder.owner == blocker.owner && other.holder.kind == LockFamily::Record
            };
            next = waiting.iter().find(is_blocker).copied();
        }
        waiting.push(*asked);
        Ok(Waits {
            locks: self,
            asked: *asked,
        })
    }
}

/// A request that waits, with all that its thread needs.
pub struct Request {
    /// Whose threads' waits end.
    pub interrupts: Arc<Interrupts>,
    /// Where the answer goes: to the channel that the request came by.
    pub channel: Box<dyn Channel + Send>,
    /// How it is written.
    pub protocol: Protocol,
    /// Its number.
    pub unique: u64,
}

impl Request {
    /// Answers the request with what `wait` says, in a thread of its own; `hand` has no more to do
    /// with it.
    ///
    /// # Errors
    /// `ENOLCK`: there can be no more threads.
    pub fn leave_to<W>(self, hand: &Hand, wait: W) -> Result<()>
    where
        W: FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<()> + Send + 'static,
    {
        let interrupts = self.interrupts.clone();
        let made = thread::Builder::new()
            .name("lock".into())
            .stack_size(STACK)
            .spawn(move || self.carry_out(wait));
        made.map_err(|error| {
            Error::because(
                Errno::ENOLCK,
                format!("no thread to wait for a lock: {error}"),
            )
        })?;
        interrupts.hand_over(hand);
        Ok(())
    }

    fn carry_out<W>(self, wait: W)
    where
        W: FnOnce(&(dyn Fn() -> bool + Sync)) -> Result<()>,
    {
        let hand = self.interrupts.join();

        self.interrupts.begin(&hand, self.unique, SETLKW, 0);
        let outcome = wait(&|| hand.interrupted());
        self.interrupts.end(&hand);
        self.interrupts.leave(&hand);
        let answer = match outcome {
            Ok(()) => Answer::Done {},
            Err(error) => {
                if let Some(cause) = error.cause() {
                    report(format_args!("Setlkw: {}: {cause}", error.errno().name()));
                }
                Answer::Error(error.errno().raw())
            }
        };
        let unique = self.unique;
        let reply = Reply { unique, answer };
        if let Ok(message) = reply.encode(&self.protocol) {
            // The caller was killed, or the connection has ended.
            let _ = self.channel.send(&message);
        }
    }
}
