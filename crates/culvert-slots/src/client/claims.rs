//! A slot for a request: whose it becomes, and how it is nobody's again.

use super::{Client, TICK};
use crate::area::{Area, Header, SLOTS, Slot, State, Word};
use crate::held::Held;
use crate::identity::Identity;
use crate::steps::{Step, at};
use core::sync::atomic::Ordering::*;
use culvert_sys::Errno;
use culvert_sys::sync::{shared_wait_outside, shared_wake_one};

/// How many such waits the guardian has for slots of the dead that say what is open; then whoever
/// finds no slot frees these, too.
const PATIENCE: u32 = 10;

/// A slot that is this process's.
pub(crate) struct Claim<'a> {
    pub area: &'a Area,
    pub index: usize,
    pub own: Identity,
    /// Its word, free, with the count of this request.
    pub word: Word,
}

impl Claim<'_> {
    /// Nobody waits for the end of its request, which was posted: whoever of server and client
    /// comes second here frees it.
    pub fn leave(self) {
        let (slot, count) = (self.slot(), self.word.count());
        slot.owner.store(Identity::orphan(count).0, SeqCst);
        at(Step::Left);
        let word = Word(slot.word.load(SeqCst));
        let is_over = matches!(word.state(), Some(State::Free | State::Done));
        if is_over && word.count() == count {
            self.area.free_orphan(self.index, count);
        }
        core::mem::forget(self);
    }

    pub fn slot(&self) -> &Slot {
        self.area.slot(self.index)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let slot = self.slot();
        let (own, nobody) = (self.own.0, Identity::NOBODY.0);
        // Somebody has taken it away: it is not ours to write to.
        if slot.owner.load(SeqCst) != own {
            return;
        }
        slot.word.store(self.word.0, Release);
        at(Step::Emptied);
        let freed = slot.owner.compare_exchange(own, nobody, SeqCst, Relaxed);
        at(Step::Freed);
        if freed.is_ok() {
            tell_free(self.area.header());
        }
    }
}

/// Wakes one who waits for a slot.
pub(crate) fn tell_free(header: &Header) {
    if header.waiting.load(SeqCst) != 0 {
        header.freed.fetch_add(1, SeqCst);
        shared_wake_one(&header.freed);
    }
}

/// Wakes one who waits for a slot if that at `index` has a reply that nobody waits for.
pub(crate) fn tell_spare(area: &Area, index: usize) {
    let slot = area.slot(index);
    let is_done = || Word(slot.word.load(SeqCst)).state() == Some(State::Done);
    if Identity(slot.owner.load(SeqCst)).is_spare() && is_done() {
        tell_free(area.header());
    }
}

impl<H: Held> Client<H> {
    /// A free slot of the first `among`, if there is one.
    pub(crate) fn try_claim_free(&self, own: Identity, among: usize) -> Option<Claim<'_>> {
        let first = self.first.load(Relaxed) as usize;
        let claim = (0..among)
            .map(|step| (first + step) % among)
            .find_map(|index| self.claim_from(index, Identity::NOBODY, own))?;
        self.first.store(claim.index as u32, Relaxed);
        Some(claim)
    }

    /// A free slot, or one that has a reply that nobody waits for, if there is one.
    pub(super) fn try_claim(&self, own: Identity) -> Option<Claim<'_>> {
        self.try_claim_free(own, SLOTS).or_else(|| {
            (0..SLOTS).find_map(|index| {
                let slot = self.area.slot(index);
                let owner = Identity(slot.owner.load(SeqCst));
                let is_done = Word(slot.word.load(SeqCst)).state() == Some(State::Done);
                let may = owner.is_spare() && is_done;
                may.then(|| self.claim_from(index, owner, own)).flatten()
            })
        })
    }

    /// Slot `index`, if it is `owner`'s.
    pub(crate) fn claim_from(
        &self,
        index: usize,
        owner: Identity,
        own: Identity,
    ) -> Option<Claim<'_>> {
        let slot = self.area.slot(index);
        if slot.owner.load(Relaxed) != owner.0 {
            return None;
        }
        let claimed = slot.owner.compare_exchange(owner.0, own.0, SeqCst, Relaxed);
        claimed.ok()?;
        at(Step::Owned);
        let seen = Word(slot.word.load(SeqCst));
        // Who does not wait for it may have begun another request in it meanwhile.
        if owner.is_spare() && seen.state() != Some(State::Done) {
            let _ = slot.owner.compare_exchange(own.0, owner.0, SeqCst, Relaxed);
            tell_spare(&self.area, index);
            return None;
        }
        let word = seen.next();
        slot.word.store(word.0, Relaxed);
        at(Step::Claimed);
        Some(Claim {
            area: &self.area,
            index,
            own,
            word,
        })
    }

    /// A free slot; waits for one.
    pub(super) fn claim(&self, own: Identity) -> Result<Claim<'_>, Errno> {
        let header = self.area.header();
        let mut ticks = 0;
        loop {
            if let Some(claim) = self.try_claim(own) {
                return Ok(claim);
            }
            header.waiting.fetch_add(1, SeqCst);
            let seen = header.freed.load(SeqCst);
            let claim = self.try_claim(own);
            let waited = match claim {
                Some(_) => Ok(()),
                None => shared_wait_outside(&header.freed, seen, TICK),
            };
            header.waiting.fetch_sub(1, SeqCst);
            if let Some(claim) = claim {
                return Ok(claim);
            }
            if self.is_over() {
                return Err(Errno::ENOTCONN);
            }
            if waited == Err(Errno::EINTR) || self.is_interrupted() {
                return Err(Errno::EINTR);
            }
            if waited == Err(Errno::ETIMEDOUT) {
                ticks += 1;
                let spares = ticks < PATIENCE;
                let rings = match own.judges() {
                    true => self.area.free_of_the_dead(spares, Identity::is_gone),
                    false => 0,
                };
                if rings > 0 {
                    self.ring_times(rings);
                }
                if !spares && !self.area.is_asked() {
                    // All are somebody's, and nobody asks anything: somebody writes to slots that
                    // are not his.
                    return Err(Errno::EIO);
                }
            }
        }
    }
}
