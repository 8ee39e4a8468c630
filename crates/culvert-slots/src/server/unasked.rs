//! What reaches the server without a client that asks: messages of its own process's, and requests
//! that it wants once more.

use super::{REPLYING, Server};
use crate::area::{Area, SLOTS, State, Word};
use crate::channel::{Body, Caller, Channel, Payload};
use crate::client::{Claim, mark};
use crate::identity::Identity;
use crate::requests::{NOTIFY_REPLY, has_reply};
use core::sync::atomic::{AtomicU64, Ordering::*};
use culvert_sys::Errno;

/// Bytes behind the body of such a message, which say its number.
pub(super) const NUMBER: usize = 8;

/// The memory of an area in which clients cache, for whom its server has given something to cache.
/// Nothing can be asked by it.
#[derive(Debug)]
pub struct Caches<'a>(&'a Area);

impl Channel for Caches<'_> {
    fn largest(&self) -> usize {
        crate::area::LARGEST
    }

    fn call(
        &self,
        _: Caller,
        _: u32,
        _: u64,
        _: usize,
        _: Body<'_>,
        _: Body<'_>,
    ) -> Result<(), Errno> {
        Err(Errno::ENOTCONN)
    }

    fn send(&self, _: Caller, _: u32, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::ENOTCONN)
    }

    fn init_reply(&self) -> [u8; 64] {
        self.0.init_reply()
    }

    fn notifications(&self) -> u64 {
        self.0.header().notifications.load(Acquire)
    }

    fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }

    fn cache_pages(&self) -> usize {
        self.0.cache_pages()
    }

    fn cached(&self, first: usize, count: usize) -> Option<&[AtomicU64]> {
        self.0.cached(first, count)
    }
}

impl Server {
    /// What clients cache in.
    pub const fn caches(&self) -> Caches<'_> {
        Caches(&self.area)
    }

    /// A message NOTIFY_REPLY about `node`, with this number and body, which the server takes when
    /// the bell rings once more.
    ///
    /// # Errors
    /// `ENOMEM`: there is no free slot; `E2BIG`: it is too large; those of its memory.
    pub fn tell(&self, number: u64, node: u64, body: &[u8]) -> Result<(), Errno> {
        let length = body.len() + NUMBER;
        if length > crate::area::LARGEST {
            return Err(Errno::E2BIG);
        }
        let own = Identity::own(self.area.header().namespace.load(Relaxed));
        let is_claimed = |index: &usize| {
            let owner = &self.area.slot(*index).owner;
            owner.compare_exchange(0, own.0, SeqCst, Relaxed).is_ok()
        };
        let index = (0..SLOTS).find(is_claimed).ok_or(Errno::ENOMEM)?;
        let slot = self.area.slot(index);
        let word = Word(slot.word.load(SeqCst)).next();
        slot.word.store(word.0, Relaxed);
        let claim = Claim {
            area: &self.area,
            index,
            own,
            word,
        };
        self.area.secure(index, length)?;
        let payload = self.area.payload(index, length);
        payload.write(0, body);
        payload.write(body.len(), &number.to_ne_bytes());
        slot.opcode.store(NOTIFY_REPLY, Relaxed);
        slot.node.store(node, Relaxed);
        slot.length.store(length as u32, Relaxed);
        slot.pid.store(0, Relaxed);
        slot.extension.store(0, Relaxed);
        slot.sleeps.store(0, Relaxed);
        slot.processor.store(0, Relaxed);
        slot.pause.store(u32::MAX, Relaxed);
        slot.word.store(word.to(State::Posted).0, Release);
        mark(&self.area.header().posted, index);
        claim.leave();
        Ok(())
    }

    /// The number that stands behind the body `payload` of such a message, of `length` bytes in
    /// all.
    pub(super) fn number_of(payload: &Payload<'_>) -> Option<(u64, usize)> {
        let length = payload.len().checked_sub(NUMBER)?;
        let mut number = [0; NUMBER];
        payload.read(length, &mut number);
        Some((u64::from_ne_bytes(number), length))
    }

    /// The server wants all requests again that it has in hand (`fuse_resend`, fs/fuse/dev.c), with
    /// another number, by which alone it may answer them from here on: how many, each of which
    /// wants a byte of the bell.
    pub fn resend(&self) -> usize {
        // First: who has copied what is left out here looks after that.
        self.resends.fetch_add(1, SeqCst);
        (0..SLOTS).filter(|&index| self.resend_one(index)).count()
    }

    pub(super) fn resend_one(&self, index: usize) -> bool {
        let (slot, in_hand) = (self.area.slot(index), &self.in_hand[index]);
        let taken = Word(in_hand.load(SeqCst));
        let is_in_hand = taken.state() == Some(State::Taken);
        if !is_in_hand || !has_reply(slot.opcode.load(Relaxed)) {
            return false;
        }
        // As if it were about to be answered: nobody else does, or takes it for nobody's.
        let replying = taken.0 | REPLYING;
        let claimed = in_hand.compare_exchange(taken.0, replying, SeqCst, Relaxed);
        if claimed.is_err() {
            return false;
        }
        self.again[index].store(taken.0, SeqCst);
        let posted = taken.to(State::Posted).0;
        let again = slot
            .word
            .compare_exchange(taken.0, posted, SeqCst, Relaxed)
            .is_ok();
        if again {
            mark(&self.area.header().posted, index);
        }
        // Another thread may have it in hand again.
        let _ = in_hand.compare_exchange(replying, 0, SeqCst, Relaxed);
        again
    }
}
