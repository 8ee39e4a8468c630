//! Where the server's threads run, and when one looks for requests instead of sleeping.
//!
//! A wake-up on another processor costs several times what the request itself does. While requests
//! come one by one from one processor, threads that wait for one wait there. Where they follow each
//! other fast and a processor is idle, one thread goes to another processor than the caller's, and
//! looks at the slots for a moment after each reply; the caller looks for its reply meanwhile. It
//! goes on as long as that finds something. As soon as requests overlap, all threads run where the
//! program lets them.
//!
//! The kernel wakes the caller on an idle processor, where there is one, because on its own the
//! thread that answers still runs. Then following would be in vain, and cost more than the
//! wake-ups: after few such strays it rests.
//!
//! The program does not see it: what it asks of its threads' processors is answered as it has set
//! them, and threads, children and programs that it starts begin with those.

use super::processors::{self, Moved};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use culvert_intercept::wait;
use culvert_slots::{LOOK, Message, Server, Session, cycles};

/// Requests without looking or following after some that overlapped.
const CROWD: u32 = 64;
/// How often a caller must have asked from one processor before threads go there.
const SAME: u32 = 3;
/// How many requests must follow each other fast before a thread looks, at least and at most.
const NEEDED: [u32; 2] = [64, 4096];
/// How many of them one takes away that was slow: now and then the caller is interrupted.
const SLOW: u32 = 16;
/// How many looks must have found a request for each that was in vain: one costs as much as two
/// wake-ups save.
const WORTH: u32 = 16;
/// How many strays end following, and for how many requests, at least and at most.
const STRAYS: u32 = 3;
const UNFOLLOWED: [u32; 2] = [1024, 65_536];
/// After how many requests from one processor following has been worth it.
const FOLLOWED: u32 = 256;
/// How many requests may come before the first one that was looked for is found.
const UNFOUND: u32 = 8;

// In cycles of the time-stamp counter, which has two to four in a nanosecond.
/// From a reply to the caller's next request, where they follow each other fast.
const FAST: u32 = 60_000;
/// How long a thread looks for the first time.
const FIRST_LOOK: u64 = 300_000;
/// Nobody looks twice so far apart, unless others need the processor.
const TAKEN_AWAY: u64 = 60_000;

/// What is known of the last requests.
pub(super) struct Follow {
    pub moved: Moved,
    crowd: AtomicU32,
    /// The last caller's processor, plus one, and how often it was that.
    caller: AtomicU32,
    same: AtomicU32,
    /// How often a caller that was followed has asked from another processor.
    strays: AtomicU32,
    /// How many requests are not followed, and how many the next time.
    unfollowed: AtomicU32,
    rest: AtomicU32,
    fast: AtomicU32,
    needed: AtomicU32,
    /// A thread looks for requests, on another processor than the caller's.
    apart: AtomicBool,
    /// It is about it now.
    looks: AtomicBool,
    /// It has ended, and a request may be there that was posted without a ring.
    ended: AtomicBool,
    /// How often it has found one, and how often one was there already before the first.
    found: AtomicU32,
    there: AtomicU32,
}

/// What a look has found.
pub(super) enum Seen {
    Asked,
    Nothing,
    Signal,
    /// Another thread has had the processor meanwhile.
    Away,
}

impl Follow {
    pub const fn new() -> Self {
        Self {
            moved: Moved::new(),
            crowd: AtomicU32::new(0),
            caller: AtomicU32::new(0),
            same: AtomicU32::new(0),
            strays: AtomicU32::new(0),
            unfollowed: AtomicU32::new(0),
            rest: AtomicU32::new(UNFOLLOWED[0]),
            fast: AtomicU32::new(0),
            needed: AtomicU32::new(NEEDED[0]),
            apart: AtomicBool::new(false),
            looks: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            found: AtomicU32::new(0),
            there: AtomicU32::new(0),
        }
    }

    /// `request` was taken.
    pub fn took(&self, slots: &Server, request: &Message<'_>) {
        if slots.is_crowded() {
            if self.crowd.swap(CROWD, Relaxed) == 0 {
                self.end_apart(slots);
                self.moved.release_all();
            }
            self.fast.store(0, Relaxed);
            return;
        }
        let crowd = self.crowd.load(Relaxed);
        if crowd > 0 {
            self.crowd.store(crowd - 1, Relaxed);
            return;
        }
        let Some(processor) = request.processor() else {
            return;
        };
        let less = self.unfollowed.load(Relaxed).saturating_sub(1);
        self.unfollowed.store(less, Relaxed);
        if self.caller.swap(processor + 1, Relaxed) == processor + 1 {
            let same = self.same.load(Relaxed).saturating_add(1);
            self.same.store(same, Relaxed);
            if same == FOLLOWED && less == 0 {
                self.strays.store(0, Relaxed);
                self.rest.store(UNFOLLOWED[0], Relaxed);
            }
        } else if self.same.swap(0, Relaxed) >= SAME && less == 0 && !self.apart.load(Relaxed) {
            self.strayed();
        }
        let fast = self.fast.load(Relaxed);
        let fast = match request.pause() < FAST {
            true => fast.saturating_add(1),
            false => fast.saturating_sub(SLOW),
        };
        self.fast.store(fast, Relaxed);
        // Now, while its caller sleeps: later it would be one that runs.
        if request.sleeps() {
            self.may_begin();
        }
    }

    /// Whether requests have overlapped lately.
    pub fn is_crowded(&self) -> bool {
        self.crowd.load(Relaxed) > 0
    }

    /// Whether a thread looks for requests, or is to.
    pub fn looks(&self) -> bool {
        self.apart.load(Relaxed)
    }

    /// The caller has left the processor to which a thread has followed it.
    fn strayed(&self) {
        if self.strays.fetch_add(1, Relaxed) + 1 < STRAYS {
            return;
        }
        self.strays.store(0, Relaxed);
        let rest = self.rest.load(Relaxed);
        self.unfollowed.store(rest, Relaxed);
        self.rest.store((rest * 2).min(UNFOLLOWED[1]), Relaxed);
        self.moved.release_all();
    }

    /// The calling thread is about to wait for a request. True: there is one, for which the bell
    /// may not have rung.
    pub fn await_asked(&self, slots: &Server) -> bool {
        if self.ended.load(Relaxed) && self.ended.swap(false, SeqCst) && slots.is_asked() {
            return true;
        }
        if self.crowd.load(Relaxed) > 0 {
            return false;
        }
        let Some(caller) = self.caller.load(Relaxed).checked_sub(1) else {
            return false;
        };
        let free = || {
            let taken = self.looks.compare_exchange(false, true, AcqRel, Relaxed);
            taken.is_ok()
        };
        if self.apart.load(Relaxed) && free() {
            let asked = match self.moved.place(true, caller) {
                true => self.look(slots),
                false => self.end_unplaced(slots),
            };
            self.looks.store(false, Release);
            if asked || self.apart.load(Relaxed) {
                return asked;
            }
        }
        let stays = self.same.load(Relaxed) >= SAME;
        if stays && self.unfollowed.load(Relaxed) == 0 {
            self.moved.place(false, caller);
        }
        false
    }

    /// Goes to another processor from the next look on, where that may be worth it.
    fn may_begin(&self) {
        let needed = self.needed.load(Relaxed);
        if self.fast.load(Relaxed) < needed || self.apart.load(Relaxed) {
            return;
        }
        self.fast.store(0, Relaxed);
        if !processors::is_one_idle() {
            self.needed.store((needed * 2).min(NEEDED[1]), Relaxed);
            return;
        }
        self.found.store(0, Relaxed);
        self.there.store(0, Relaxed);
        self.apart.store(true, Relaxed);
    }

    fn look(&self, slots: &Server) -> bool {
        let is_first = self.found.load(Relaxed) == 0;
        match is_first {
            true => slots.attends(true),
            false => slots.attends_without_rings(),
        }
        if slots.is_asked() {
            // Who asks by poll(2) whether there is a request never looks for one here, and has to
            // find the bell's byte gone afterwards.
            if !is_first {
                return true;
            }
            if self.there.fetch_add(1, Relaxed) >= UNFOUND {
                self.end_in_vain(slots, 2);
            }
            return false;
        }
        let limit = if is_first { FIRST_LOOK } else { LOOK };
        match look_for(slots, limit) {
            Seen::Asked => {
                self.found.fetch_add(1, Relaxed);
                return true;
            }
            // The wait that follows ends by it.
            Seen::Signal => slots.attends(false),
            Seen::Nothing => self.end_in_vain(slots, 2),
            Seen::Away => self.end_in_vain(slots, 8),
        }
        slots.is_asked()
    }

    /// Looking has found nothing: the next time comes later by `factor`, unless it was worth it.
    fn end_in_vain(&self, slots: &Server, factor: u32) {
        let [least, most] = NEEDED;
        let next = match self.found.load(Relaxed) / factor >= WORTH / 2 {
            true => least,
            false => self.needed.load(Relaxed).saturating_mul(factor).min(most),
        };
        self.needed.store(next, Relaxed);
        self.end_apart(slots);
    }

    /// The thread cannot go where it would look. Whether a request is there that was posted without
    /// a ring; none is before a look has found one.
    fn end_unplaced(&self, slots: &Server) -> bool {
        self.end_apart(slots);
        self.found.load(Relaxed) != 0 && slots.is_asked()
    }

    fn end_apart(&self, slots: &Server) {
        self.apart.store(false, Relaxed);
        self.fast.store(0, Relaxed);
        slots.attends(false);
        self.ended.store(true, SeqCst);
    }
}

/// Looks for a request, `limit` cycles at most.
pub(super) fn look_for(slots: &Server, limit: u64) -> Seen {
    let start = cycles();
    let mut last = start;
    loop {
        if slots.is_asked() {
            return Seen::Asked;
        }
        if wait::pending() || slots.area().session() == Session::Ended {
            return Seen::Signal;
        }
        let now = cycles();
        if now.wrapping_sub(last) > TAKEN_AWAY {
            return Seen::Away;
        }
        if now.wrapping_sub(start) > limit {
            return Seen::Nothing;
        }
        last = now;
        core::hint::spin_loop();
    }
}
