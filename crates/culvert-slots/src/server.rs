//! The server's side: what reads and writes of its descriptor for /dev/fuse mean.

use crate::area::{ATTENDS, Area, LARGEST, SLOTS, Session, State, Word};
use crate::channel::Payload;
use crate::client::{mark, tell_spare};
use crate::identity::Identity;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use culvert_sys::Errno;
use culvert_sys::sync::shared_wake;

/// Bytes of `struct fuse_in_header`.
pub const IN_HEADER: usize = 40;
/// Bytes of `struct fuse_out_header`.
pub const OUT_HEADER: usize = 16;

const FORGET: u32 = 2;
const RELEASE: u32 = 18;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
pub(crate) const BATCH_FORGET: u32 = 42;

/// The bit that tells the number of an INTERRUPT from that of its request (`FUSE_INT_REQ_BIT`).
const OF_INTERRUPT: u64 = 1;
/// No number is 0, which is that of notifications.
const NOT_ZERO: u64 = 1 << 48;
const COUNT_BITS: u32 = 9;

/// Whether a request has a reply.
pub(crate) const fn has_reply(opcode: u32) -> bool {
    !matches!(opcode, FORGET | BATCH_FORGET)
}

/// Whether a request closes a file.
pub(crate) const fn is_release(opcode: u32) -> bool {
    matches!(opcode, RELEASE | RELEASEDIR)
}

const fn unique(index: usize, word: Word) -> u64 {
    NOT_ZERO | (word.count() as u64) << COUNT_BITS | (index as u64) << 1
}

/// What the server has in hand of a slot, in its own memory, where no client writes: the word of
/// the request, and whether a thread is about to put its reply.
const REPLYING: u32 = 4;

/// The server of an area.
#[derive(Debug)]
pub struct Server {
    area: Area,
    /// Whose requests they are, user and group: whoever may write to the area is its owner, and no
    /// message says another.
    owner: (u32, u32),
    in_hand: [AtomicU32; SLOTS],
    /// Where the next look begins, so that all slots have their turn.
    next: AtomicUsize,
}

/// A message for the server.
pub struct Message<'a> {
    /// `struct fuse_in_header`.
    pub header: [u8; IN_HEADER],
    /// What follows it, in memory that clients write to.
    pub body: Payload<'a>,
    /// What follows it of an INTERRUPT.
    pub interrupted: Option<[u8; 8]>,
    server: &'a Server,
    index: usize,
    word: Word,
    opcode: u32,
    processor: u32,
    pause: u32,
}

impl Message<'_> {
    /// How many bytes it has in all.
    #[must_use]
    pub fn length(&self) -> usize {
        let body = self
            .interrupted
            .map_or(self.body.len(), |bytes| bytes.len());
        IN_HEADER + body
    }

    /// Whether it is INIT.
    #[must_use]
    pub const fn is_init(&self) -> bool {
        const INIT: u32 = 26;
        self.opcode == INIT
    }

    /// Whether it has a reply.
    #[must_use]
    pub fn has_reply(&self) -> bool {
        self.interrupted.is_none() && has_reply(self.opcode)
    }

    /// The processor on which its client has posted it, where that is known.
    #[must_use]
    pub const fn processor(&self) -> Option<u32> {
        self.processor.checked_sub(1)
    }

    /// Cycles of the time-stamp counter from the last reply that its client has seen to this request.
    #[must_use]
    pub const fn pause(&self) -> u32 {
        self.pause
    }

    /// It was copied: of a request without a reply that is all.
    pub fn taken(self) {
        if self.interrupted.is_none() && !has_reply(self.opcode) {
            self.server.free(self.index, self.word);
        }
    }

    /// The server could not take it: its reply is `errno`.
    pub fn failed(self, errno: Errno) {
        if self.interrupted.is_some() {
            return;
        }
        match has_reply(self.opcode) {
            false => self.server.free(self.index, self.word),
            true => {
                if let Ok(reply) = self.server.reply(unique(self.index, self.word)) {
                    let _ = reply.finish(-errno.raw(), 0);
                }
            }
        }
    }
}

/// The right to answer a request, once.
pub struct Reply<'a> {
    server: &'a Server,
    index: usize,
    word: Word,
}

impl Reply<'_> {
    /// There is memory for a body of `length` bytes.
    ///
    /// # Errors
    /// `ENOSPC`: there is none; others of madvise(2).
    pub fn secure(&self, length: usize) -> Result<(), Errno> {
        self.server.area.secure(self.index, length)
    }

    /// Where its body goes, `length` bytes at most [`LARGEST`], which are secured.
    #[must_use]
    pub fn payload(&self, length: usize) -> Payload<'_> {
        self.server.area.payload(self.index, length)
    }

    /// The reply is there: an errno, negative, or 0 and a body of `length` bytes. `ENOENT`: its
    /// client does not wait any more.
    ///
    /// # Errors
    /// As said.
    pub fn finish(self, error: i32, length: usize) -> Result<(), Errno> {
        let Self {
            server,
            index,
            word,
        } = self;
        let slot = server.area.slot(index);
        slot.error.store(error, Relaxed);
        slot.length.store(length as u32, Relaxed);
        let taken = word.to(State::Taken).0;
        let done = word.to(State::Done).0;
        let replied = slot.word.compare_exchange(taken, done, SeqCst, Relaxed);
        // Another thread may have the next request of the slot in hand already.
        let replying = word.0 | REPLYING;
        let _ = server.in_hand[index].compare_exchange(replying, 0, SeqCst, Relaxed);
        match replied {
            Ok(_) => {
                // Who goes to sleep says so first, and looks at the word again then. The next owner
                // says anew that he does.
                if slot.sleeps.load(SeqCst) != 0 {
                    shared_wake(&slot.word);
                }
                server.area.free_orphan(index, word.count());
                tell_spare(&server.area, index);
                Ok(())
            }
            Err(_) => Err(Errno::ENOENT),
        }
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
        let is_waited_for = |(index, word): (usize, &AtomicU32)| {
            word.load(Relaxed) != 0 && self.is_waited_for(index)
        };
        let in_hand = self.in_hand.iter().enumerate().map(is_waited_for);
        in_hand.filter(|is| *is).count() + self.posted() > 1
    }

    fn is_waited_for(&self, index: usize) -> bool {
        let owner = Identity(self.area.slot(index).owner.load(Relaxed));
        !owner.is_orphan() && !owner.is_spare()
    }

    /// How many requests seem to be posted whose replies are waited for.
    fn posted(&self) -> usize {
        let marks = self.area.header().posted.iter().enumerate();
        let of_word = |(at, word): (usize, &AtomicU64)| {
            let mut marked = word.load(SeqCst);
            let mut count = 0;
            while marked != 0 {
                let index = at * 64 + marked.trailing_zeros() as usize;
                let slot = self.area.slot(index);
                let waits = has_reply(slot.opcode.load(Relaxed)) && self.is_waited_for(index);
                count += usize::from(waits);
                marked &= marked - 1;
            }
            count
        };
        marks.map(of_word).sum()
    }

    /// Clients are told whether a thread of this process looks at the slots by itself.
    pub fn attends(&self, does: bool) {
        self.says(u32::from(does));
    }

    /// A thread looks, and has found something so: it takes what it sees without a ring, and looks once
    /// more when it has said that it does not.
    pub fn attends_without_rings(&self) {
        self.says(ATTENDS);
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

    /// Of several requests a RELEASE, if there is one: nobody waits for it, and who has closed a file
    /// may rely on that when he asks for the next thing.
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

    fn try_take(&self, index: usize) -> Option<Message<'_>> {
        let (slot, in_hand) = (self.area.slot(index), &self.in_hand[index]);
        let (posted, taken) = loop {
            let before = in_hand.load(SeqCst);
            let posted = Word(slot.word.load(SeqCst));
            if posted.state() != Some(State::Posted) {
                return None;
            }
            let taken = posted.to(State::Taken);
            // Noted first: what is taken and not in hand is not answered.
            let noted = in_hand.compare_exchange(before, taken.0, SeqCst, Relaxed);
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
                let _ = in_hand.compare_exchange(taken.0, 0, SeqCst, Relaxed);
            }
            return None;
        }
        let opcode = slot.opcode.load(Relaxed);
        let length = (slot.length.load(Relaxed) as usize).min(LARGEST);
        let (node, pid) = (slot.node.load(Relaxed), slot.pid.load(Relaxed));
        let number = unique(index, taken);
        Some(Message {
            header: self.header_of(opcode, number, node, pid, length),
            body: self.area.payload(index, length),
            interrupted: None,
            server: self,
            index,
            word: taken,
            opcode,
            processor: slot.processor.load(Relaxed),
            pause: slot.pause.load(Relaxed),
        })
    }

    /// The INTERRUPT that the client of a slot wants.
    fn interrupt(&self, index: usize) -> Option<Message<'_>> {
        let slot = self.area.slot(index);
        let word = Word(self.in_hand[index].load(SeqCst));
        let wanted = slot.interrupt.swap(0, AcqRel);
        if word.0 == 0 || wanted != word.count() || word.0 & REPLYING != 0 {
            return None;
        }
        let number = unique(index, word);
        Some(Message {
            header: self.header_of(INTERRUPT, number | OF_INTERRUPT, 0, 0, 8),
            body: self.area.payload(index, 0),
            interrupted: Some(number.to_ne_bytes()),
            server: self,
            index,
            word,
            opcode: INTERRUPT,
            processor: 0,
            pause: u32::MAX,
        })
    }

    /// A slot says that the server has it in hand, and it has not: somebody writes to slots that are
    /// not his. Whoever waits for it is told.
    fn end_what_is_not_in_hand(&self, index: usize) {
        let slot = self.area.slot(index);
        let seen = Word(slot.word.load(SeqCst));
        let in_hand = Word(self.in_hand[index].load(SeqCst) & !REPLYING);
        // Who has replied since has changed the word first.
        let is_still = slot.word.load(SeqCst) == seen.0;
        if seen.state() == Some(State::Taken) && in_hand != seen && is_still {
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
        let _ = self.in_hand[index].compare_exchange(taken.0, 0, SeqCst, Relaxed);
        self.area.free_orphan(index, taken.count());
    }

    /// The right to answer request `number`. `ENOENT`: it is not in hand.
    ///
    /// # Errors
    /// As said.
    pub fn reply(&self, number: u64) -> Result<Reply<'_>, Errno> {
        let index = (number >> 1) as usize % (1 << (COUNT_BITS - 1));
        let in_hand = self.in_hand.get(index).ok_or(Errno::ENOENT)?;
        let count = (number & (NOT_ZERO - 1)) >> COUNT_BITS;
        let word = Word::new(count as u32, State::Taken);
        if unique(index, word) != number {
            return Err(Errno::ENOENT);
        }
        let replying = word.0 | REPLYING;
        in_hand
            .compare_exchange(word.0, replying, SeqCst, Relaxed)
            .map_err(|_| Errno::ENOENT)?;
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
        let is_in_hand = in_hand.is_some_and(|word| word.load(SeqCst) == wanted);
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
