//! A message for the server, and the right to answer it.

use super::{COPYING, IN_HEADER, REPLYING, Server};
use crate::area::{State, Word};
use crate::channel::Payload;
use crate::client::tell_spare;
use crate::extension::Bytes;
use crate::processor::{BULK, is_apart_from};
use crate::requests::has_reply;
use core::sync::atomic::Ordering::*;
use culvert_sys::Errno;
use culvert_sys::sync::shared_wake;

/// A message for the server.
pub struct Message<'a> {
    /// `struct fuse_in_header`.
    pub header: [u8; IN_HEADER],
    /// What follows it, in memory that clients write to.
    pub body: Payload<'a>,
    /// What follows it of an INTERRUPT.
    pub interrupted: Option<[u8; 8]>,
    pub(super) extension: Bytes,
    pub(super) server: &'a Server,
    pub(super) index: usize,
    pub(super) word: Word,
    /// How often all was sent again when it was taken.
    pub(super) resends: u32,
    pub(super) opcode: u32,
    pub(super) processor: u32,
    pub(super) pause: u32,
}

impl Message<'_> {
    /// How many bytes it has in all.
    #[must_use]
    pub fn length(&self) -> usize {
        let body = self
            .interrupted
            .map_or(self.body.len(), |bytes| bytes.len());
        IN_HEADER + body + self.extension().len()
    }

    /// What follows the body (`total_extlen` of the header).
    #[must_use]
    pub fn extension(&self) -> &[u8] {
        self.extension.get()
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

    /// Cycles of the time-stamp counter from the last reply that its client has seen to this
    /// request.
    #[must_use]
    pub const fn pause(&self) -> u32 {
        self.pause
    }

    /// Whether its client sleeps until it has the reply.
    #[must_use]
    pub fn sleeps(&self) -> bool {
        self.server.area.slot(self.index).sleeps.load(Relaxed) != 0
    }

    /// It was copied: of a request without a reply that is all.
    pub fn taken(self) {
        if self.interrupted.is_some() {
            return;
        }
        match has_reply(self.opcode) {
            false => self.server.free(self.index, self.word),
            // It may have been answered already.
            true => {
                let (copying, taken) = (self.word.0 | COPYING, self.word.0);
                let in_hand = &self.server.in_hand[self.index];
                let _ = in_hand.compare_exchange(copying, taken, SeqCst, Relaxed);
            }
        }
    }

    /// The same of one that the server may have seen before this says so, and asked for again, when
    /// it passed for one that was still copied: whether it is sent once more, for which the bell is
    /// to be rung. Nobody else takes requests meanwhile.
    #[must_use]
    pub fn handed(self) -> bool {
        let (server, index, resends) = (self.server, self.index, self.resends);
        let is_request = self.has_reply();
        self.taken();
        is_request && server.resends.load(SeqCst) != resends && server.resend_one(index)
    }

    /// The server could not take it: its reply is `errno`.
    pub fn failed(self, errno: Errno) {
        if self.interrupted.is_some() {
            return;
        }
        match has_reply(self.opcode) {
            false => self.server.free(self.index, self.word),
            true => {
                if let Ok(reply) = self.server.reply(self.server.number(self.index, self.word)) {
                    let _ = reply.finish(-errno.raw(), 0);
                }
            }
        }
    }
}

/// The right to answer a request, once.
pub struct Reply<'a> {
    pub(super) server: &'a Server,
    pub(super) index: usize,
    pub(super) word: Word,
}

impl Reply<'_> {
    /// There is memory for a body of `length` bytes.
    ///
    /// # Errors
    /// `ENOSPC`: there is none; others of madvise(2).
    pub fn secure(&self, length: usize) -> Result<(), Errno> {
        self.server.area.secure(self.index, length)
    }

    /// Where its body goes, `length` bytes at most [`crate::LARGEST`], which are secured.
    #[must_use]
    pub fn payload(&self, length: usize) -> Payload<'_> {
        self.server.area.payload(self.index, length)
    }

    /// Whether its client seems to run on another processor than the calling thread.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        is_apart_from(self.server.area.slot(self.index).processor.load(Relaxed))
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
        if length >= BULK {
            slot.is_here();
        }
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
