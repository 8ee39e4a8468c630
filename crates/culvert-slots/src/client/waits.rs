//! The wait for a reply: a look, while the server looks as well, and a sleep.

use super::{Claim, Client, TICK, mark};
use crate::area::{AWAKE, SLOTS, Session, State, Word};
use crate::held::Held;
use crate::identity::Identity;
use crate::processor::{LOOK, cycles};
use crate::requests::is_release;
use crate::steps::{Step, at};
use core::sync::atomic::Ordering::*;
use culvert_sys::Errno;
use culvert_sys::sync::shared_wait_outside;

/// How long the first of these waits is: who was stopped or killed between posting a request and
/// ringing for it has his taken for another's byte.
const FIRST_TICK: u32 = 5_000_000;

/// How many requests go without such looks after one that they were in vain for, at first and at
/// most.
pub(super) const REST: [u32; 2] = [1, 1024];

impl<H: Held> Client<H> {
    /// Looks for the reply for a moment, where the server looks for the request: whether it is
    /// there. The bell has rung for the request if it has not been taken.
    pub(crate) fn look(&self, claim: &Claim<'_>) -> bool {
        let (attention, word) = (&self.area.header().attention, &claim.slot().word);
        let [rest, next] = &self.rests;
        let posted = claim.word.to(State::Posted).0;
        match attention.load(SeqCst) {
            AWAKE => return false,
            0 => {
                self.ring();
                return false;
            }
            _ => {}
        }
        let resting = rest.load(Relaxed);
        if resting > 0 {
            rest.store(resting - 1, Relaxed);
            self.ring();
            return false;
        }
        let done = claim.word.to(State::Done).0;
        let start = cycles();
        while cycles().wrapping_sub(start) < LOOK {
            if word.load(Acquire) == done {
                next.store((next.load(Relaxed) / 2).max(REST[0]), Relaxed);
                return true;
            }
            match attention.load(SeqCst) {
                AWAKE => return false,
                0 => break,
                _ => core::hint::spin_loop(),
            }
        }
        let pause = next.load(Relaxed);
        rest.store(pause, Relaxed);
        next.store((pause * 2).min(REST[1]), Relaxed);
        if word.load(SeqCst) == posted {
            self.ring();
        }
        false
    }

    /// Waits for the reply. A signal takes the request back, if it may and has not been taken.
    pub(crate) fn wait(&self, claim: &Claim<'_>, may_be_taken_back: bool) -> Result<(), Errno> {
        let slot = claim.slot();
        let (mut interrupted, mut tick) = (false, FIRST_TICK);
        at(Step::Rung);
        loop {
            let seen = Word(slot.word.load(Acquire));
            if seen.count() != claim.word.count() {
                // Somebody writes to slots that are not his.
                return Err(Errno::EIO);
            }
            let state = match seen.state() {
                Some(State::Done) => return Ok(()),
                Some(state @ (State::Posted | State::Taken)) => state,
                _ => return Err(Errno::EIO),
            };
            if self.area.session() == Session::Ended {
                match state {
                    State::Posted if self.take_back(claim) => return Err(Errno::ENOTCONN),
                    State::Posted => continue,
                    _ => return Err(Errno::ECONNABORTED),
                }
            }
            slot.sleeps.store(1, SeqCst);
            at(Step::Sleeps);
            let waited = match interrupted || !self.is_interrupted() {
                true => shared_wait_outside(&slot.word, seen.0, tick),
                false => Err(Errno::EINTR),
            };
            if !interrupted && (waited == Err(Errno::EINTR) || self.is_interrupted()) {
                if !may_be_taken_back || self.take_back(claim) {
                    return Err(Errno::EINTR);
                }
                interrupted = true;
                slot.interrupt.store(claim.word.count(), Release);
                mark(&self.area.header().interrupts, claim.index);
                self.ring();
            }
            if waited == Err(Errno::ETIMEDOUT) {
                let is_first = core::mem::replace(&mut tick, TICK) != TICK;
                let is_posted = slot.word.load(SeqCst) == claim.word.to(State::Posted).0;
                if is_first && is_posted || !is_first && !self.is_over() {
                    // The server looks at all slots when it finds none that was posted.
                    mark(&self.area.header().posted, claim.index);
                    match is_posted {
                        true => self.ring_for_what_was_not_seen(),
                        // It was, and takes long.
                        false => self.ring(),
                    }
                }
            }
        }
    }

    /// Returns when each RELEASE of a file of `node`, or of any, that nobody waits for, and that is
    /// under way now, has its reply, whichever process has sent it; `EAGAIN` after a signal.
    pub(super) fn await_releases(&self, node: Option<u64>) -> Result<(), Errno> {
        for index in 0..SLOTS {
            let slot = self.area.slot(index);
            let mut first = None;
            while Identity(slot.owner.load(SeqCst)).is_orphan() {
                let seen = Word(slot.word.load(SeqCst));
                let waits = *first.get_or_insert(seen.count()) == seen.count()
                    && matches!(seen.state(), Some(State::Posted | State::Taken))
                    && is_release(slot.opcode.load(Relaxed))
                    && node.is_none_or(|node| slot.node.load(Relaxed) == node);
                if !waits {
                    break;
                }
                slot.sleeps.store(1, SeqCst);
                // It may have been posted without a ring.
                if seen.state() == Some(State::Posted) {
                    self.ring();
                }
                let waited = shared_wait_outside(&slot.word, seen.0, TICK);
                if self.area.session() == Session::Ended {
                    return Err(Errno::ENOTCONN);
                }
                if waited == Err(Errno::EINTR) || self.is_interrupted() {
                    return Err(Errno::EAGAIN);
                }
                if waited == Err(Errno::ETIMEDOUT) && !self.is_over() {
                    mark(&self.area.header().posted, index);
                    self.ring();
                }
            }
        }
        Ok(())
    }

    /// Takes a request back that the server has not taken.
    pub(crate) fn take_back(&self, claim: &Claim<'_>) -> bool {
        let posted = claim.word.to(State::Posted).0;
        let word = &claim.slot().word;
        word.compare_exchange(posted, claim.word.0, AcqRel, Relaxed)
            .is_ok()
    }
}
