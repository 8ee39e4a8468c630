//! When the thread that has put a reply looks for the next request itself, without a system call
//! and without a switch of thread: where requests come one by one and fast, and a processor is
//! idle.

use culvert_slots::{LOOK, Message, Server, Session, cycles};
use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    thread,
};

/// So many requests follow each other fast before, at first and at most.
const NEEDED: [u32; 2] = [64, 1 << 16];
/// How many of them one takes away that was slow: now and then the caller is interrupted.
const SLOW: u32 = 16;
/// From a reply to the caller's next request, where they follow each other fast: cycles.
const FAST: u32 = 60_000;

/// What is known of the last requests.
#[derive(Debug)]
pub struct Look {
    fast: AtomicU32,
    needed: AtomicU32,
    /// After the next reply one looks, as there seems to be a processor for that.
    may: AtomicBool,
    /// Not 0: one looks; how often it has found one.
    found: AtomicU32,
}

impl Look {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            fast: AtomicU32::new(0),
            needed: AtomicU32::new(NEEDED[0]),
            may: AtomicBool::new(false),
            found: AtomicU32::new(0),
        }
    }

    /// `request` was taken.
    pub fn took(&self, slots: &Server, request: &Message<'_>) {
        if !request.has_reply() {
            return;
        }
        let fast = self.fast.load(Relaxed);
        let fast = match request.pause() < FAST {
            true => fast.saturating_add(1),
            false => fast.saturating_sub(SLOW),
        };
        let fast = if slots.is_crowded() { 0 } else { fast };
        self.fast.store(fast, Relaxed);
        let needed = self.needed.load(Relaxed);
        if fast < needed || self.found.load(Relaxed) != 0 || !request.sleeps() {
            return;
        }
        // Now, while its caller sleeps: later it would be one that runs.
        self.fast.store(0, Relaxed);
        match is_one_idle() {
            true => self.may.store(true, Relaxed),
            false => self.needed.store((needed * 2).min(NEEDED[1]), Relaxed),
        }
    }

    /// A reply was put. Whether there is a request, for which nobody may have rung.
    pub fn finds(&self, slots: &Server) -> bool {
        let found = self.found.load(Relaxed);
        match found {
            0 if !self.may.swap(false, Relaxed) => return false,
            0 => {}
            _ if slots.is_crowded() => {
                self.end(slots);
                return false;
            }
            _ => {}
        }
        slots.attends(true);
        self.found.store(found.saturating_add(1), Relaxed);
        let start = cycles();
        // The first look waits for a client that does not know of it yet.
        let limit = if found == 0 { 4 * LOOK } else { LOOK };
        while cycles().wrapping_sub(start) < limit {
            if slots.is_asked() {
                return slots.area().session() != Session::Ended;
            }
            std::hint::spin_loop();
        }
        self.end(slots);
        // One that came just now may not have been rung for.
        slots.is_asked()
    }

    /// It was in vain: the next time comes later, unless it was worth it before.
    fn end(&self, slots: &Server) {
        slots.attends(false);
        let (needed, found) = (self.needed.load(Relaxed), self.found.swap(0, Relaxed));
        let next = match found / 4 > needed {
            true => NEEDED[0],
            false => needed.saturating_mul(2).min(NEEDED[1]),
        };
        self.needed.store(next, Relaxed);
        self.fast.store(0, Relaxed);
    }
}

/// Whether a processor seems to have nothing to do; this thread is one that runs.
fn is_one_idle() -> bool {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    // "0.20 0.18 0.12 1/80 11206": the fourth word (proc_loadavg(5)).
    let running = text
        .split(' ')
        .nth(3)
        .and_then(|word| word.split('/').next());
    let running = running.and_then(|word| word.parse::<usize>().ok());
    processors > 1 && running.is_some_and(|running| running < processors)
}
