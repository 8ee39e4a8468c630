//! A server of one thread takes what was asked meanwhile without a ring.
//!
//! While that thread carries out a request nobody else could take the next one: a ring would only
//! be read later. So it says that it is awake, and clients post and sleep, until it finds nothing
//! and is about to wait itself; then it says so, looks once more, and reads the bell.
//!
//! A server that asks by poll(2) whether there is a request needs the bell always. It is known by
//! this: it hardly ever reads where there is nothing. Where the thread does something else for
//! long, a client that has waited for a moment rings all the same, and says that it was not seen;
//! then each request rings for a while.

use super::follow::{Follow, Seen, look_for};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use culvert_intercept::{current, wait};
use culvert_slots::{SLOTS, Server};
use culvert_sys::{BorrowedFd, Errno, fs};

/// How often the thread must have waited for a request before it may be awake, at first and at
/// most.
const NEEDED: [u32; 2] = [8, 4096];

/// How long the thread looks for the next request of several clients, in cycles of the time-stamp
/// counter: about as long as it would take to sleep and to be woken.
const LINGER: u64 = 10_000;
/// Of how many such looks half must have found one, and how many waits go without after that, at
/// least and at most.
const TRIED: u32 = 64;
const RESTS: [u32; 2] = [1024, 65_536];

/// What is known of the threads that take requests.
pub(super) struct Awake {
    /// The first of them; 0: none yet.
    reader: AtomicUsize,
    /// There is another.
    several: AtomicBool,
    /// It has said that it is awake.
    said: AtomicBool,
    /// How often it has waited since the last request that was not seen.
    waits: AtomicU32,
    needed: AtomicU32,
    /// How many requests were not seen, as far as this has heard.
    missed: AtomicU32,
    /// How often it has looked for one of several clients, and how often in vain.
    looks: AtomicU32,
    vain: AtomicU32,
    /// How many waits go without, and how many the next time.
    rests: [AtomicU32; 2],
}

impl Awake {
    pub const fn new() -> Self {
        Self {
            reader: AtomicUsize::new(0),
            several: AtomicBool::new(false),
            said: AtomicBool::new(false),
            waits: AtomicU32::new(0),
            needed: AtomicU32::new(NEEDED[0]),
            missed: AtomicU32::new(0),
            looks: AtomicU32::new(0),
            vain: AtomicU32::new(0),
            rests: [AtomicU32::new(0), AtomicU32::new(RESTS[0])],
        }
    }

    /// Waits until `bell` rings, or until a request is there for which it has not.
    ///
    /// # Errors
    /// Those of read(2) of the bell.
    pub fn wait(&self, slots: &Server, bell: BorrowedFd<'_>, follow: &Follow) -> Result<(), Errno> {
        let looks = follow.looks();
        if !self.is_alone(slots, bell) || !self.has_waited_enough(slots, bell) {
            let is_asked = slots.is_asked();
            wait::read(bell, &mut [0])?;
            // A byte that was left there is none: a server that asks by poll(2) finds such ones.
            if !is_asked && slots.is_asked() {
                let waits = self.waits.load(Relaxed).saturating_add(1);
                self.waits.store(waits, Relaxed);
            }
            return Ok(());
        }
        let is_asked = slots.is_asked() || follow.is_crowded() && self.lingers(slots);
        // A thread that looks on another processor tells clients so itself.
        if !is_asked && (looks || slots.may_sleep()) {
            // Who has rung for what was taken without looking at the bell has left bytes there.
            wait::read(bell, &mut [0; SLOTS])?;
        }
        if looks {
            return Ok(());
        }
        slots.is_awake();
        if !self.said.load(Relaxed) {
            self.said.store(true, SeqCst);
        }
        if self.several.load(SeqCst) {
            self.give_up(slots, bell);
        }
        Ok(())
    }

    /// Looks for a request of several clients for a moment, where that finds one as a rule.
    fn lingers(&self, slots: &Server) -> bool {
        let [rests, next] = &self.rests;
        let resting = rests.load(Relaxed);
        if resting > 0 {
            rests.store(resting - 1, Relaxed);
            return false;
        }
        let found = matches!(look_for(slots, LINGER), Seen::Asked);
        let looks = self.looks.load(Relaxed) + 1;
        let vain = self.vain.load(Relaxed) + u32::from(!found);
        let is_over = looks >= TRIED;
        if is_over {
            let is_worth_it = vain <= looks / 2;
            let rest = next.load(Relaxed);
            rests.store(if is_worth_it { 0 } else { rest }, Relaxed);
            let after = if is_worth_it {
                RESTS[0]
            } else {
                (rest * 2).min(RESTS[1])
            };
            next.store(after, Relaxed);
        }
        self.looks.store(if is_over { 0 } else { looks }, Relaxed);
        self.vain.store(if is_over { 0 } else { vain }, Relaxed);
        found
    }

    fn has_waited_enough(&self, slots: &Server, bell: BorrowedFd<'_>) -> bool {
        let missed = slots.missed();
        if self.missed.load(Relaxed) != missed && self.missed.swap(missed, Relaxed) != missed {
            let needed = self.needed.load(Relaxed);
            self.needed.store((needed * 4).min(NEEDED[1]), Relaxed);
            self.waits.store(0, Relaxed);
            self.give_up(slots, bell);
        }
        self.waits.load(Relaxed) >= self.needed.load(Relaxed)
    }

    /// Whether the calling thread is the only one that has ever waited for a request here.
    fn is_alone(&self, slots: &Server, bell: BorrowedFd<'_>) -> bool {
        let own = core::ptr::from_ref(current()).addr();
        let is_first = self.reader.load(Relaxed) == own || {
            let first = self.reader.compare_exchange(0, own, SeqCst, Relaxed);
            first.is_ok()
        };
        if !is_first && !self.several.swap(true, SeqCst) {
            self.give_up(slots, bell);
        }
        !self.several.load(SeqCst)
    }

    /// Each request rings from here on, and those that have not are rung for.
    fn give_up(&self, slots: &Server, bell: BorrowedFd<'_>) {
        if !self.said.swap(false, SeqCst) {
            return;
        }
        let is_asked = match slots.seems_awake() {
            true => !slots.may_sleep(),
            false => slots.is_asked(),
        };
        if is_asked {
            let _ = fs::write(bell, &[0; SLOTS]);
        }
    }
}
