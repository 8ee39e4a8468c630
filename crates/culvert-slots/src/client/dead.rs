//! Slots of processes that are gone: they are freed, and what has to be is carried out.

use super::{mark, tell_free};
use crate::area::{Area, SLOTS, Slot, State, Word};
use crate::identity::Identity;
use crate::requests::{has_reply, is_release};
use core::sync::atomic::Ordering::*;
use culvert_sys::{AsFd, OwnedFd, fs, process};

impl Slot {
    /// `owner` does not want its reply any more, and who claims the slot next, and is killed at
    /// once, has not asked for it.
    pub(crate) fn empty(&self, owner: Identity) {
        // In this order: a word with its count is one owner's.
        let word = Word(self.word.load(SeqCst));
        if word.state() == Some(State::Done) && self.owner.load(SeqCst) == owner.0 {
            let free = word.to(State::Free).0;
            let _ = self.word.compare_exchange(word.0, free, SeqCst, SeqCst);
        }
    }
}

impl Area {
    /// Frees slots whose owner `is_gone`, but for those that the server has in hand, which are
    /// freed when their reply comes, and of which an INTERRUPT is asked for; what needs no reply is
    /// carried out: how many, each of which wants a byte of the bell. With `spares` all that says,
    /// or may say soon, what is open or was closed is left to the guardian.
    pub(crate) fn free_of_the_dead(
        &self,
        spares: bool,
        is_gone: impl Fn(Identity) -> bool,
    ) -> usize {
        let mut rings = 0;
        self.free_orphans();
        for index in 0..SLOTS {
            let slot = self.slot(index);
            let owner = slot.owner.load(SeqCst);
            if owner == 0 || !is_gone(Identity(owner)) {
                continue;
            }
            let opcode = slot.opcode.load(Relaxed);
            let is_carried_out = is_release(opcode) || !has_reply(opcode);
            let word = Word(slot.word.load(SeqCst));
            // Of what nobody has asked for yet there is only the claim.
            let taken_back = word.state() == Some(State::Posted) && !is_carried_out && {
                let free = word.to(State::Free).0;
                let taken_back = slot.word.compare_exchange(word.0, free, SeqCst, SeqCst);
                taken_back.is_ok()
            };
            let is_asked = matches!(
                word.state(),
                Some(State::Posted | State::Taken | State::Done)
            );
            if spares && is_asked && !taken_back {
                continue;
            }
            // From here on no client's: whoever is second finds another owner.
            let orphan = Identity::orphan(word.count()).0;
            if slot
                .owner
                .compare_exchange(owner, orphan, SeqCst, Relaxed)
                .is_err()
            {
                continue;
            }
            match Word(slot.word.load(SeqCst)).state() {
                Some(State::Taken) => {
                    slot.interrupt.store(word.count(), Release);
                    mark(&self.header().interrupts, index);
                    rings += 1;
                }
                Some(State::Posted) => {
                    mark(&self.header().posted, index);
                    rings += 1;
                }
                _ => self.free_orphan(index, word.count()),
            }
        }
        rings
    }

    /// Frees a slot whose request `count` is over, if nobody waits for that, and nobody has freed
    /// it.
    pub(crate) fn free_orphan(&self, index: usize, count: u32) {
        let (orphan, nobody) = (Identity::orphan(count), Identity::NOBODY);
        let slot = self.slot(index);
        if slot.owner.load(SeqCst) != orphan.0 {
            return;
        }
        slot.empty(orphan);
        let freed = slot
            .owner
            .compare_exchange(orphan.0, nobody.0, SeqCst, Relaxed);
        if freed.is_ok() {
            tell_free(self.header());
        }
    }

    /// Whether the server has a request in hand, or is to have.
    pub(super) fn is_asked(&self) -> bool {
        let is_asked = |index| {
            let word = Word(self.slot(index).word.load(SeqCst));
            matches!(word.state(), Some(State::Posted | State::Taken))
        };
        (0..SLOTS).any(is_asked)
    }

    /// Frees slots whose requests are over, and that nobody waits for. Who frees them else is
    /// killed before that now and then.
    pub fn free_orphans(&self) {
        for index in 0..SLOTS {
            let slot = self.slot(index);
            let owner = Identity(slot.owner.load(SeqCst));
            let word = Word(slot.word.load(SeqCst));
            let is_over = !matches!(word.state(), Some(State::Posted | State::Taken));
            if owner == Identity::orphan(word.count()) && is_over {
                self.free_orphan(index, word.count());
            }
        }
    }

    /// The number of the process that has told the guardian `identity`; none if it is gone, or in
    /// another PID namespace.
    #[must_use]
    pub fn process_of(identity: u64) -> Option<u32> {
        let identity = Identity(identity);
        identity.is_here().then(|| identity.number())
    }

    /// Whether the process that has told the guardian `identity` is known to be gone.
    #[must_use]
    pub fn is_gone(identity: u64) -> bool {
        Identity(identity).is_gone()
    }

    /// Whether the process that reads requests is known to be gone.
    #[must_use]
    pub fn server_is_gone(&self) -> bool {
        self.server_identity().is_gone()
    }

    /// The process that reads requests, opened; none if it is gone, or in another PID namespace.
    #[must_use]
    pub fn open_server(&self) -> Option<OwnedFd> {
        let server = self.server_identity();
        let opened = process::pidfd_open(server.number()).ok()?;
        // It was that process that was opened, if it is there still.
        server.is_here().then_some(opened)
    }

    /// The slots of the process that has told the guardian `identity` are freed, if it is gone,
    /// which is known of no process of another PID namespace. `bell` is rung for INTERRUPTs.
    pub fn died(&self, identity: u64, bell: impl AsFd) {
        let is_its = |owner: Identity| owner.process().0 == identity && owner.is_gone();
        let rings = self.free_of_the_dead(false, is_its);
        if rings > 0 {
            let _ = fs::write(bell, &[0; SLOTS][..rings]);
        }
    }
}
