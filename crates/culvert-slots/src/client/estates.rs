//! What a process has left at the server that is gone: requests, and files that it had open.

use super::{Client, TICK, mark, tell_free};
use crate::area::{SLOTS, State, Word};
use crate::channel::{OpenFile, Payload, handle_of};
use crate::entries::has_noted;
use crate::held::Held;
use crate::identity::Identity;
use crate::requests::{has_reply, is_release};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::*};
use culvert_sys::sync::shared_wait;

/// What a process that is gone has left.
pub trait Heir {
    /// What `answer`, the server's to request `opcode` about `node`, says is open.
    fn opened(&self, opcode: u32, node: u64, answer: &Payload<'_>) -> Option<OpenFile>;
    /// The process had this open: it is to be released.
    fn release(&self, file: &OpenFile);
}

impl<H: Held> Client<H> {
    /// Whether the process that has told the guardian `identity` has anything of the server's.
    pub fn has_left(&self, identity: u64) -> bool {
        let has = |owner: &AtomicU64| Identity(owner.load(SeqCst)).process().0 == identity;
        (0..SLOTS).any(|index| has(&self.area().slot(index).owner))
            || self.area().opens().iter().any(|entry| has(&entry.owner))
    }

    /// Whether file `handle` of `node` is noted as open in the process `identity`.
    pub fn is_noted(&self, identity: u64, node: u64, handle: u64) -> bool {
        let file = OpenFile {
            node,
            handle,
            flags: 0,
            is_directory: false,
        };
        has_noted(self.area().opens(), Identity(identity), &file)
    }

    /// Whether the server has a request in hand, or is about to, whose process is gone, or that
    /// nobody waits for but this process, which may have it from one that is.
    pub fn has_orphans(&self) -> bool {
        let own = self.identity();
        (0..SLOTS).any(|index| {
            let slot = self.area().slot(index);
            let owner = Identity(slot.owner.load(SeqCst));
            let asked = matches!(
                Word(slot.word.load(SeqCst)).state(),
                Some(State::Posted | State::Taken)
            );
            asked && (owner.is_orphan() || owner == own || owner.is_gone())
        })
    }

    /// `heir` gets what the process that has told the guardian `identity` has left at the server,
    /// and its slots are free. Nothing for a process that is there, or of another PID namespace.
    /// Waits for what the server has in hand, of which an INTERRUPT is asked for.
    pub fn bury(&self, identity: u64, heir: &dyn Heir) {
        let dead = Identity(identity);
        if dead == Identity::NOBODY || !dead.is_gone() {
            return;
        }
        let (area, own) = (self.area(), self.identity());
        let (mut waited, mut released) = (Vec::new(), Vec::new());
        for index in 0..SLOTS {
            let slot = area.slot(index);
            let owner = Identity(slot.owner.load(SeqCst));
            if owner.process() != dead {
                continue;
            }
            let word = Word(slot.word.load(SeqCst));
            let opcode = slot.opcode.load(Relaxed);
            let state = word.state();
            let is_asked = matches!(state, Some(State::Posted | State::Taken | State::Done));
            let stays = is_release(opcode) || !has_reply(opcode);
            if is_asked && is_release(opcode) {
                let node = slot.node.load(Relaxed);
                released.push((node, handle_of(&area.payload(index, 8))));
            }
            let heir = match is_asked && !stays {
                true => own,
                false => Identity::orphan(word.count()),
            };
            let taken_over = slot.owner.compare_exchange(owner.0, heir.0, SeqCst, SeqCst);
            if taken_over.is_err() {
                continue;
            }
            if heir.is_orphan() {
                // It is carried out, as after `send`; whoever comes second frees it.
                let now = Word(slot.word.load(SeqCst));
                match now.state() {
                    Some(State::Posted) => {
                        mark(&area.header().posted, index);
                        self.ring();
                    }
                    Some(State::Taken) => {}
                    _ => area.free_orphan(index, word.count()),
                }
                continue;
            }
            let posted = word.to(State::Posted).0;
            let free = word.to(State::Free).0;
            let taken_back = slot.word.compare_exchange(posted, free, SeqCst, SeqCst);
            if taken_back.is_ok() {
                self.give_up(index, own);
                continue;
            }
            slot.interrupt.store(word.count(), Release);
            mark(&area.header().interrupts, index);
            self.ring();
            waited.push((index, word, opcode));
        }
        for (index, word, opcode) in waited {
            let slot = area.slot(index);
            loop {
                let seen = Word(slot.word.load(Acquire));
                if seen != word.to(State::Taken) || self.is_over() {
                    break;
                }
                slot.sleeps.store(1, SeqCst);
                shared_wait(&slot.word, seen.0, TICK);
                // The server looks at all slots when it finds none that was posted, and ends what
                // it does not have.
                mark(&area.header().posted, index);
                self.ring();
            }
            let is_done = Word(slot.word.load(Acquire)) == word.to(State::Done);
            if is_done && slot.error.load(Relaxed) == 0 {
                let length = slot.length.load(Relaxed) as usize;
                let node = slot.node.load(Relaxed);
                let file = heir.opened(opcode, node, &area.payload(index, length));
                // Who was killed after it had seen the answer has noted what was opened.
                if let Some(file) = file.filter(|file| !has_noted(area.opens(), dead, file)) {
                    heir.release(&file);
                }
            }
            self.give_up(index, own);
        }
        for entry in area.opens() {
            if entry.owner.load(SeqCst) != dead.0 {
                continue;
            }
            if let Some(file) = entry.read() {
                let is_it = |one: &(u64, u64)| *one == (file.node, file.handle);
                match released.iter().position(is_it) {
                    Some(at) => drop(released.swap_remove(at)),
                    None => heir.release(&file),
                }
            }
            entry.clear(dead);
        }
    }

    /// A slot that is the caller's is nobody's.
    fn give_up(&self, index: usize, own: Identity) {
        let slot = self.area().slot(index);
        slot.empty(own);
        let owner = &slot.owner;
        let given = owner.compare_exchange(own.0, Identity::NOBODY.0, SeqCst, Relaxed);
        if given.is_ok() {
            tell_free(self.area().header());
        }
    }
}
