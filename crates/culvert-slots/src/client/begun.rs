//! Requests that are made before anybody wants their replies: the slot keeps the reply until then.
//!
//! Its owner says that he does not wait. Who finds no free slot takes such a one that has its
//! reply, and the owner asks anew. What a killed owner has left so is freed as his other slots are.

use super::{Claim, Client, tell_spare};
use crate::area::{SLOTS, Session, State, Word};
use crate::channel::{Begun, Body, Caller};
use crate::held::Held;
use crate::identity::Identity;
use crate::steps::{Step, at};
use core::sync::atomic::Ordering::*;
use culvert_sys::Errno;

/// In how many slots there may be such requests: the others are for those that somebody waits for.
pub(crate) const MOST: usize = SLOTS / 4;

impl<H: Held> Client<H> {
    /// [`crate::Channel::begin`].
    pub(crate) fn begin_request(
        &self,
        caller: Caller,
        opcode: u32,
        node: u64,
        body: &[u8],
    ) -> Result<Begun, Errno> {
        if self.area.session() == Session::Ended {
            return Err(Errno::ENOTCONN);
        }
        let own = self.own(caller.pid);
        // Of another PID namespace nobody could say when it is gone.
        if !own.judges() {
            return Err(Errno::EOPNOTSUPP);
        }
        let claim = self.try_claim_free(own, MOST).ok_or(Errno::EAGAIN)?;
        self.area.secure(claim.index, body.len())?;
        self.area.payload(claim.index, body.len()).write(0, body);
        self.post(&claim, opcode, node, body.len(), caller);
        let begun = Begun {
            index: claim.index as u32,
            word: claim.word.0,
            own: own.0,
        };
        self.put_back(claim);
        self.ring_unless_seen();
        at(Step::Rung);
        Ok(begun)
    }

    /// [`crate::Channel::end`].
    pub(crate) fn end_request(
        &self,
        begun: Begun,
        keeps: bool,
        take: Body<'_>,
    ) -> Result<(), Errno> {
        let claim = self.taken_again(begun).ok_or(Errno::ENOENT)?;
        let slot = claim.slot();
        let is_done = || slot.word.load(Acquire) == claim.word.to(State::Done).0;
        let is_seen = || self.area.header().attention.load(Relaxed) != 0 && self.look(&claim);
        if !is_done() && !is_seen() {
            self.wait(&claim, true)?;
        }
        self.reply(&claim, slot.opcode.load(Relaxed), take)?;
        if keeps {
            self.put_back(claim);
        }
        Ok(())
    }

    /// [`crate::Channel::abandon`].
    pub(crate) fn abandon_request(&self, begun: Begun) {
        if let Some(claim) = self.taken_again(begun)
            && !self.take_back(&claim)
        {
            let _ = self.wait(&claim, true);
        }
    }

    /// The slot of `begun`, unless it has another request by now or is another process's.
    fn taken_again(&self, begun: Begun) -> Option<Claim<'_>> {
        let index = begun.index as usize;
        let (own, word) = (Identity(begun.own), Word(begun.word));
        if self.own.load(Relaxed) != own.0 {
            return None;
        }
        let slot = self.area.slot(index);
        let spare = own.spare().0;
        let again = slot.owner.compare_exchange(spare, own.0, SeqCst, Relaxed);
        again.ok()?;
        let claim = Claim {
            area: &self.area,
            index,
            own,
            word,
        };
        if Word(slot.word.load(SeqCst)).count() == word.count() {
            return Some(claim);
        }
        self.put_back(claim);
        None
    }

    /// Nobody waits for its reply now.
    fn put_back(&self, claim: Claim<'_>) {
        let (own, spare) = (claim.own.0, claim.own.spare().0);
        let owner = &claim.slot().owner;
        let _ = owner.compare_exchange(own, spare, SeqCst, Relaxed);
        at(Step::Left);
        tell_spare(claim.area, claim.index);
        core::mem::forget(claim);
    }
}
