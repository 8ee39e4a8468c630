//! The server's side: what reads and writes of its descriptor for /dev/fuse mean.

mod message;
mod unasked;

pub use message::{Message, Reply};
pub use unasked::Caches;

use crate::area::{ATTENDS, AWAKE, Area, LARGEST, SLOTS, Session, Slot, State, Word};
use crate::client::mark;
use crate::extension::Bytes;
use crate::identity::Identity;
use crate::processor::{BULK, processor};
use crate::requests::{NOTIFY_REPLY, has_reply, is_release};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use culvert_sys::sync::shared_wake;
use culvert_sys::{Errno, PAGE};

/// Bytes of `struct fuse_in_header`.
pub const IN_HEADER: usize = 40;
/// Bytes of `struct fuse_out_header`.
pub const OUT_HEADER: usize = 16;

const INTERRUPT: u32 = 36;

/// The bit that tells the number of an INTERRUPT from that of its request (`FUSE_INT_REQ_BIT`).
const OF_INTERRUPT: u64 = 1;
/// The number of a request that was sent before (`FUSE_UNIQUE_RESEND`).
const AGAIN: u64 = 1 << 63;
/// No number is 0, which is that of notifications.
const NOT_ZERO: u64 = 1 << 48;
const COUNT_BITS: u32 = 9;

/// The number of the request of slot `index` that `word` says.
const fn unique(index: usize, word: Word) -> u64 {
    NOT_ZERO | (word.count() as u64) << COUNT_BITS | (index as u64) << 1
}

// What the server has in hand of a slot, in its own memory, where no client writes: the word of the
// request, and one of these.
/// A thread is about to put its reply.
const REPLYING: u32 = 4;
/// A thread copies it: the server has not seen all of it, so it is not sent again.
const COPYING: u32 = 1;

/// The server of an area.
#[derive(Debug)]
pub struct Server {
    area: Area,
    /// Whose requests they are, user and group: whoever may write to the area is its owner, and no
    /// message says another.
    owner: (u32, u32),
    in_hand: [AtomicU32; SLOTS],
    /// Where there may be such, a bit for each: a hint.
    taken: [AtomicU64; SLOTS / 64],
    /// The words of requests that were in hand before, and are sent again.
    again: [AtomicU32; SLOTS],
    /// How often all that was in hand was sent again.
    resends: AtomicU32,
    /// Where the next look begins, so that all slots have their turn.
    next: AtomicUsize,
}

/// Calls `see` with each bit that is set.
fn each(bits: &[AtomicU64; SLOTS / 64], mut see: impl FnMut(usize)) {
    for (at, word) in bits.iter().enumerate() {
        let mut left = word.load(SeqCst);
        while left != 0 {
            see(at * 64 + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
}

impl Slot {
    /// The server has what is large here, on this processor.
    fn is_here(&self) {
        let on = processor().map_or(0, |number| number + 1);
        self.replied_on.store(on, Relaxed);
    }
}

impl Server {
    /// The server of `area`, whose requests are all those of the user and the group `owner`.
    #[must_use]
    pub const fn new(area: Area, owner: (u32, u32)) -> Self {
        Self {
            area,
            owner,
            in_hand: [const { AtomicU32::new(0) }; SLOTS],
            taken: [const { AtomicU64::new(0) }; SLOTS / 64],
            again: [const { AtomicU32::new(0) }; SLOTS],
            resends: AtomicU32::new(0),
            next: AtomicUsize::new(0),
        }
    }

    /// The area.
    pub const fn area(&self) -> &Area {
        &self.area
    }

    /// This process reads requests.
    pub fn serves(&self) {
        let header = self.area.header();
        let own = Identity::own(header.namespace.load(Relaxed));
        header.server.store(own.0, Release);
    }

    /// Whether it is this process that was the last to say [`Server::serves`].
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.area.server() == culvert_sys::process::getpid()
    }

    /// Whether a request seems to wait, or the session has ended: looked at without a system call.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        let header = self.area.header();
        let marked = |marks: &[AtomicU64]| marks.iter().any(|word| word.load(Acquire) != 0);
        marked(&header.posted)
            || marked(&header.interrupts)
            || self.area.session() == Session::Ended
    }

    /// Whether several requests are under way whose replies are waited for. A RELEASE that nobody
    /// waits for is none: who closes a file and opens the next one is one caller, still.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        let mut in_hand = 0;
        each(&self.taken, |index| {
            if self.in_hand[index].load(Relaxed) != 0 {
                in_hand += usize::from(self.is_waited_for(index));
            } else {
                self.taken[index / 64].fetch_and(!(1 << (index % 64)), Relaxed);
            }
        });
        in_hand + self.posted() > 1
    }

    fn is_waited_for(&self, index: usize) -> bool {
        let owner = Identity(self.area.slot(index).owner.load(Relaxed));
        !owner.is_orphan() && !owner.is_spare()
    }

    /// How many requests seem to be posted whose replies are waited for.
    fn posted(&self) -> usize {
        let mut count = 0;
        each(&self.area.header().posted, |index| {
            let slot = self.area.slot(index);
            let waits = has_reply(slot.opcode.load(Relaxed)) && self.is_waited_for(index);
            count += usize::from(waits);
        });
        count
    }

    /// Clients are told whether a thread of this process looks at the slots by itself.
    pub fn attends(&self, does: bool) {
        self.says(u32::from(does));
    }

    /// A thread looks, and has found something so: it takes what it sees without a ring, and looks
    /// once more when it has said that it does not.
    pub fn attends_without_rings(&self) {
        self.says(ATTENDS);
    }

    /// The only thread that takes requests is awake, and looks once more before it sleeps: until
    /// [`Server::attends`] nobody rings.
    pub fn is_awake(&self) {
        self.says(AWAKE);
    }

    /// Whether that was said last.
    #[must_use]
    pub fn seems_awake(&self) -> bool {
        self.area.header().attention.load(SeqCst) == AWAKE
    }

    /// Clients ring from here on: whether there is nothing for which none has rung.
    #[must_use]
    pub fn may_sleep(&self) -> bool {
        self.says(0);
        !self.is_asked()
    }

    /// How many requests have rung after all, as nobody has seen them for a while.
    #[must_use]
    pub fn missed(&self) -> u32 {
        self.area.header().missed.load(Relaxed)
    }

    fn says(&self, word: u32) {
        let attention = &self.area.header().attention;
        if attention.load(Relaxed) != word {
            attention.store(word, SeqCst);
        }
    }

    /// The next message, if there is one. Each byte of the bell is for one.
    ///
    /// # Errors
    /// `ENODEV` when the session has ended.
    pub fn take(&self) -> Result<Option<Message<'_>>, Errno> {
        if self.area.session() == Session::Ended {
            return Err(Errno::ENODEV);
        }
        let header = self.area.header();
        let interrupt = self.marked(&header.interrupts, |index| self.interrupt(index));
        if interrupt.is_some() {
            return Ok(interrupt);
        }
        if let Some(found) = self.released() {
            return Ok(Some(found));
        }
        if let Some(found) = self.marked(&header.posted, |index| self.try_take(index)) {
            return Ok(Some(found));
        }
        // A client that died may have left a mark out, or a stranger has taken it.
        let first = self.next.load(Relaxed);
        let all = (0..SLOTS).map(|step| (first + step) % SLOTS);
        Ok(all.into_iter().find_map(|index| {
            self.end_what_is_not_in_hand(index);
            self.try_take(index)
        }))
    }

    /// Of several requests a RELEASE, if there is one: nobody waits for it, and who has closed a
    /// file may rely on that when he asks for the next thing.
    fn released(&self) -> Option<Message<'_>> {
        let marks = &self.area.header().posted;
        let several = marks.iter().map(|word| word.load(SeqCst).count_ones());
        if several.sum::<u32>() < 2 {
            return None;
        }
        for (at, word) in marks.iter().enumerate() {
            let mut seen = word.load(SeqCst);
            while seen != 0 {
                let bit = seen & seen.wrapping_neg();
                seen ^= bit;
                let index = at * 64 + bit.trailing_zeros() as usize;
                let is_one = is_release(self.area.slot(index).opcode.load(Relaxed));
                // Else another thread's.
                if is_one && word.fetch_and(!bit, SeqCst) & bit != 0 {
                    let message = self.try_take(index);
                    if message.is_some() {
                        return message;
                    }
                }
            }
        }
        None
    }

    /// What `take` makes of the first marked slot of which it makes anything.
    fn marked<'a>(
        &'a self,
        marks: &[AtomicU64],
        take: impl Fn(usize) -> Option<Message<'a>>,
    ) -> Option<Message<'a>> {
        let first = self.next.load(Relaxed) % SLOTS;
        let words = marks.len();
        // The word of the first slot twice: from there on, and at the end what lies before.
        for step in 0..=words {
            let at = (first / 64 + step) % words;
            let within = match step {
                0 => !0 << (first % 64),
                _ if step == words => !(!0 << (first % 64)),
                _ => !0,
            };
            loop {
                let seen = marks[at].load(SeqCst) & within;
                if seen == 0 {
                    break;
                }
                let bit = seen.trailing_zeros();
                if marks[at].fetch_and(!(1 << bit), SeqCst) & 1 << bit == 0 {
                    // Another thread's.
                    continue;
                }
                let index = at * 64 + bit as usize;
                if let Some(message) = take(index) {
                    self.next.store((index + 1) % SLOTS, Relaxed);
                    return Some(message);
                }
            }
        }
        None
    }

    fn header_of(&self, opcode: u32, number: u64, node: u64, pid: u32, body: usize) -> [u8; 40] {
        let mut bytes = [0; IN_HEADER];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &((IN_HEADER + body) as u32).to_ne_bytes());
        put(4, &opcode.to_ne_bytes());
        put(8, &number.to_ne_bytes());
        put(16, &node.to_ne_bytes());
        put(24, &self.owner.0.to_ne_bytes());
        put(28, &self.owner.1.to_ne_bytes());
        put(32, &pid.to_ne_bytes());
        bytes
    }

    /// The number of the request `taken` of slot `index`, which may have been sent before.
    fn number(&self, index: usize, taken: Word) -> u64 {
        let again = match self.again[index].load(SeqCst) == taken.0 {
            true => AGAIN,
            false => 0,
        };
        unique(index, taken) | again
    }

    fn try_take(&self, index: usize) -> Option<Message<'_>> {
        let resends = self.resends.load(SeqCst);
        let (slot, in_hand) = (self.area.slot(index), &self.in_hand[index]);
        let (posted, taken) = loop {
            let before = in_hand.load(SeqCst);
            let posted = Word(slot.word.load(SeqCst));
            if posted.state() != Some(State::Posted) {
                return None;
            }
            let taken = posted.to(State::Taken);
            // Noted first: what is taken and not in hand is not answered.
            let noted = in_hand.compare_exchange(before, taken.0 | COPYING, SeqCst, Relaxed);
            if noted.is_ok() {
                break (posted, taken);
            }
        };
        if slot
            .word
            .compare_exchange(posted.0, taken.0, SeqCst, Relaxed)
            .is_err()
        {
            // Where another thread has taken it, it is in that one's hand.
            if slot.word.load(SeqCst) != taken.0 {
                let _ = in_hand.compare_exchange(taken.0 | COPYING, 0, SeqCst, Relaxed);
            }
            return None;
        }
        let (word, bit) = (&self.taken[index / 64], 1 << (index % 64));
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
        let opcode = slot.opcode.load(Relaxed);
        let length = (slot.length.load(Relaxed) as usize).min(LARGEST);
        if length >= BULK {
            slot.is_here();
        }
        let (node, pid) = (slot.node.load(Relaxed), slot.pid.load(Relaxed));
        let body = self.area.payload(index, length);
        let told = (opcode == NOTIFY_REPLY).then(|| Self::number_of(&body));
        let (number, length) = told
            .flatten()
            .unwrap_or((self.number(index, taken), length));
        let extension = match slot.extension.load(Relaxed) {
            // What makes a file is short.
            said if said != 0 && length <= 2 * PAGE => Bytes::of(slot, self.owner.1),
            _ => Bytes::default(),
        };
        let all = length + extension.get().len();
        let mut header = self.header_of(opcode, number, node, pid, all);
        // `total_extlen`, in units of 8 bytes.
        let units = (extension.get().len() / 8) as u16;
        header[36..38].copy_from_slice(&units.to_ne_bytes());
        Some(Message {
            header,
            body: self.area.payload(index, length),
            interrupted: None,
            extension,
            server: self,
            index,
            word: taken,
            resends,
            opcode,
            processor: slot.processor.load(Relaxed),
            pause: slot.pause.load(Relaxed),
        })
    }

    /// The INTERRUPT that the client of a slot wants.
    fn interrupt(&self, index: usize) -> Option<Message<'_>> {
        let slot = self.area.slot(index);
        let word = Word(self.in_hand[index].load(SeqCst) & !COPYING);
        let wanted = slot.interrupt.swap(0, AcqRel);
        if word.0 == 0 || wanted != word.count() || word.0 & REPLYING != 0 {
            return None;
        }
        let number = self.number(index, word);
        Some(Message {
            header: self.header_of(INTERRUPT, number | OF_INTERRUPT, 0, 0, 8),
            body: self.area.payload(index, 0),
            interrupted: Some(number.to_ne_bytes()),
            extension: Bytes::default(),
            server: self,
            index,
            word,
            resends: 0,
            opcode: INTERRUPT,
            processor: 0,
            pause: u32::MAX,
        })
    }

    /// A slot says that the server has it in hand, and it has not: somebody writes to slots that
    /// are not his. Whoever waits for it is told.
    fn end_what_is_not_in_hand(&self, index: usize) {
        let slot = self.area.slot(index);
        let seen = Word(slot.word.load(SeqCst));
        let is_in_hand = || self.in_hand[index].load(SeqCst) & !(REPLYING | COPYING) == seen.0;
        let was_in_hand = is_in_hand();
        // Who has replied since has changed the word first; who has taken it again, after a resend,
        // has noted it first.
        let is_still = slot.word.load(SeqCst) == seen.0;
        let is_lost = !was_in_hand && is_still && !is_in_hand();
        if seen.state() == Some(State::Taken) && is_lost {
            slot.error.store(-Errno::EIO.raw(), Relaxed);
            slot.length.store(0, Relaxed);
            let done = seen.to(State::Done).0;
            if slot
                .word
                .compare_exchange(seen.0, done, SeqCst, Relaxed)
                .is_ok()
            {
                shared_wake(&slot.word);
            }
        }
    }

    /// The end of a request without a reply.
    fn free(&self, index: usize, taken: Word) {
        let slot = self.area.slot(index);
        let free = taken.to(State::Free).0;
        let _ = slot.word.compare_exchange(taken.0, free, SeqCst, Relaxed);
        let _ = self.change_hand(index, taken, 0);
        self.area.free_orphan(index, taken.count());
    }

    /// What is in hand of slot `index`, the request `taken`, copied or not, becomes `next`;
    /// `ENOENT` where that is not in hand.
    fn change_hand(&self, index: usize, taken: Word, next: u32) -> Result<(), Errno> {
        let in_hand = self.in_hand.get(index).ok_or(Errno::ENOENT)?;
        let change = |from| in_hand.compare_exchange(from, next, SeqCst, Relaxed);
        // Once more as copied: it may have become that meanwhile.
        let changed = change(taken.0)
            .or_else(|_| change(taken.0 | COPYING))
            .or_else(|_| change(taken.0));
        changed.map(drop).map_err(|_| Errno::ENOENT)
    }

    /// The right to answer request `number`. `ENOENT`: it is not in hand.
    ///
    /// # Errors
    /// As said.
    pub fn reply(&self, number: u64) -> Result<Reply<'_>, Errno> {
        let index = (number >> 1) as usize % (1 << (COUNT_BITS - 1));
        let count = (number & (NOT_ZERO - 1)) >> COUNT_BITS;
        let word = Word::new(count as u32, State::Taken);
        if index >= SLOTS || self.number(index, word) != number {
            return Err(Errno::ENOENT);
        }
        self.change_hand(index, word, word.0 | REPLYING)?;
        Ok(Reply {
            server: self,
            index,
            word,
        })
    }

    /// The server answers an INTERRUPT: that it does not know the request yet (`EAGAIN`), or no
    /// INTERRUPT at all. Whether it wants to be asked again, after a ring.
    #[must_use]
    pub fn answered_interrupt(&self, number: u64, error: i32) -> bool {
        let index = (number >> 1) as usize % (1 << (COUNT_BITS - 1));
        let count = ((number & (NOT_ZERO - 1)) >> COUNT_BITS) as u32;
        let wanted = Word::new(count, State::Taken).0;
        let in_hand = self.in_hand.get(index);
        let is_in_hand = in_hand.is_some_and(|word| word.load(SeqCst) & !COPYING == wanted);
        // The slot may have another request by now, which nobody has interrupted.
        let again = error == -Errno::EAGAIN.raw() && is_in_hand;
        if again {
            self.area.slot(index).interrupt.store(count, Release);
            mark(&self.area.header().interrupts, index);
        }
        again
    }

    /// Whether `number` is that of an INTERRUPT.
    #[must_use]
    pub const fn is_interrupt(number: u64) -> bool {
        number & OF_INTERRUPT != 0
    }

    /// The words that clients share.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.area.words()
    }

    /// The server has told of a change: all that clients have cached is stale.
    pub fn notified(&self) {
        self.area.header().notifications.fetch_add(1, AcqRel);
    }
}
