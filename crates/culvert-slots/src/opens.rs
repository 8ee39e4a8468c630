//! Files that are open at the server, and in which process: a process that is killed closes nothing.
//!
//! An entry is made when the server has answered OPEN, and taken away when RELEASE is posted, from
//! where on the slot says it. So of a process that is gone it is known what is still to be released:
//! what has an entry, and no RELEASE in a slot of the process.

use crate::area::{Area, SLOTS, State, Word};
use crate::channel::Payload;
use crate::client::{Client, Held, mark};
use crate::identity::Identity;
use crate::server::{has_reply, is_release};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::*};
use culvert_sys::sync::shared_wait;

/// How many files are written down; what is more stays open at the server when its process is killed.
pub(crate) const OPENS: usize = 2048;
/// How many places an entry may have: so many are looked at for one.
const PLACES: usize = 16;

/// A file that is open at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Its node.
    pub node: u64,
    /// Its handle.
    pub handle: u64,
    /// How open(2) was asked for it.
    pub flags: u32,
    /// It is a directory.
    pub is_directory: bool,
}

/// An entry: nobody's where its owner is 0, whole where `what` is not 0.
#[repr(C, align(32))]
pub(crate) struct Entry {
    owner: AtomicU64,
    node: AtomicU64,
    handle: AtomicU64,
    what: AtomicU64,
}

const THERE: u64 = 1 << 32;
const DIRECTORY: u64 = 1 << 33;

impl Entry {
    fn read(&self) -> Option<OpenFile> {
        let what = self.what.load(Acquire);
        (what & THERE != 0).then(|| OpenFile {
            node: self.node.load(Relaxed),
            handle: self.handle.load(Relaxed),
            flags: what as u32,
            is_directory: what & DIRECTORY != 0,
        })
    }

    fn clear(&self, owner: Identity) {
        self.what.store(0, Release);
        let _ = self
            .owner
            .compare_exchange(owner.0, Identity::NOBODY.0, SeqCst, Relaxed);
    }
}

/// What a process that is gone has left.
pub trait Heir {
    /// The server has answered its request `opcode` about `node`: nobody else sees the answer.
    fn answered(&self, opcode: u32, node: u64, answer: &Payload<'_>);
    /// It had this open.
    fn open(&self, file: &OpenFile);
}

fn places(node: u64, handle: u64) -> impl Iterator<Item = usize> {
    let mixed = (node ^ handle.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = (mixed >> 40) as usize;
    (0..PLACES).map(move |step| (first + step) % OPENS)
}

impl Area {
    pub(crate) fn note_open(&self, own: Identity, file: &OpenFile) {
        let opens = self.opens();
        let claims = |at: &usize| {
            let owner = &opens[*at].owner;
            let claimed = owner.compare_exchange(0, own.0, SeqCst, Relaxed);
            claimed.is_ok()
        };
        if let Some(at) = places(file.node, file.handle).find(claims) {
            let entry = &opens[at];
            entry.node.store(file.node, Relaxed);
            entry.handle.store(file.handle, Relaxed);
            let kind = if file.is_directory { DIRECTORY } else { 0 };
            let what = THERE | kind | u64::from(file.flags);
            entry.what.store(what, Release);
        }
    }

    pub(crate) fn note_closed(&self, own: Identity, node: u64, handle: u64) {
        let is_it = |entry: &&Entry| {
            let found = entry.read();
            entry.owner.load(Relaxed) == own.0
                && found.is_some_and(|file| file.node == node && file.handle == handle)
        };
        let mut entries = places(node, handle).map(|at| &self.opens()[at]);
        if let Some(entry) = entries.find(is_it) {
            entry.clear(own);
        }
    }
}

/// The handle that the body of RELEASE names.
pub(crate) fn handle_of(body: &Payload<'_>) -> u64 {
    let mut bytes = [0; 8];
    body.read(0, &mut bytes);
    u64::from_ne_bytes(bytes)
}

impl<H: Held> Client<H> {
    /// Whether the process that has told the guardian `identity` has anything of the server's.
    pub fn has_left(&self, identity: u64) -> bool {
        let has = |owner: &AtomicU64| owner.load(SeqCst) == identity;
        (0..SLOTS).any(|index| has(&self.area().slot(index).owner))
            || self.area().opens().iter().any(|entry| has(&entry.owner))
    }

    /// `heir` gets what the process that has told the guardian `identity` has left at the server, and
    /// its slots are free. Nothing for a process that is there, or of another PID namespace. Waits
    /// for what the server has in hand, of which an INTERRUPT is asked for.
    pub fn bury(&self, identity: u64, heir: &dyn Heir) {
        let dead = Identity(identity);
        if dead == Identity::NOBODY || !dead.is_gone() {
            return;
        }
        let (area, own) = (self.area(), self.identity());
        let (mut waited, mut released) = (Vec::new(), Vec::new());
        for index in 0..SLOTS {
            let slot = area.slot(index);
            if slot.owner.load(SeqCst) != dead.0 {
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
                false => Identity::ORPHAN,
            };
            let taken_over = slot.owner.compare_exchange(dead.0, heir.0, SeqCst, SeqCst);
            if taken_over.is_err() {
                continue;
            }
            if heir == Identity::ORPHAN {
                // It is carried out, as after `send`; whoever comes second frees it.
                let word = Word(slot.word.load(SeqCst));
                match word.state() {
                    Some(State::Posted) => {
                        mark(&area.header().posted, index);
                        self.ring();
                    }
                    Some(State::Taken) => {}
                    _ => area.free_orphan(index),
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
                shared_wait(&slot.word, seen.0, crate::client::TICK);
            }
            let is_done = Word(slot.word.load(Acquire)) == word.to(State::Done);
            if is_done && slot.error.load(Relaxed) == 0 {
                let length = slot.length.load(Relaxed) as usize;
                let node = slot.node.load(Relaxed);
                heir.answered(opcode, node, &area.payload(index, length));
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
                    None => heir.open(&file),
                }
            }
            entry.clear(dead);
        }
    }

    /// A slot that is the caller's is nobody's.
    fn give_up(&self, index: usize, own: Identity) {
        let owner = &self.area().slot(index).owner;
        let given = owner.compare_exchange(own.0, Identity::NOBODY.0, SeqCst, Relaxed);
        if given.is_ok() {
            crate::client::tell_free(self.area().header());
        }
    }
}
