//! On which processors threads may run: as the program has set it, and as it is for a while.

use super::STATE;
use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use alloc::vec::Vec;
use core::ptr::{from_mut, from_ref};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use culvert_intercept::{Call, current};
use culvert_run::memory;
use culvert_sys::flags::OFlags;
use culvert_sys::process::{getpid, gettid, tgkill};
use culvert_sys::sync::Mutex;
use culvert_sys::{Errno, fs};

/// As many processors as a set names; threads of machines with more stay where they are.
const WORDS: usize = 16;
type Set = [u64; WORDS];

/// Which of a thread's words of the engine says where it was put; 0: where the program wants it.
const PLACE: usize = 2;

culvert_sys::calls! {
    fn get_affinity(thread: u32, into: &mut Set) -> usize
        = SCHED_GETAFFINITY[thread, size_of::<Set>(), from_mut(into)];
    fn set_affinity(thread: u32, set: &Set) -> ()
        = SCHED_SETAFFINITY[thread, size_of::<Set>(), from_ref(set)];
}

struct One {
    thread: u32,
    /// As the program has set it.
    own: Set,
    given: Set,
}

impl One {
    /// Whether it is that thread still, of this process, and where it was put.
    fn is_there(&self) -> bool {
        let mut now = [0; WORDS];
        let is_as_given = get_affinity(self.thread, &mut now).is_ok() && now == self.given;
        is_as_given && tgkill(getpid(), self.thread, 0).is_ok()
    }

    fn restore(&self) {
        if self.is_there() {
            let _ = set_affinity(self.thread, &self.own);
        }
    }
}

/// The threads that were put somewhere.
pub(super) struct Moved {
    threads: Mutex<Vec<One>>,
    /// Counts how often all were put back.
    times: AtomicU32,
}

impl Moved {
    /// None yet.
    pub(super) const fn new() -> Self {
        Self {
            threads: Mutex::new(Vec::new()),
            times: AtomicU32::new(1),
        }
    }

    /// The calling thread runs on `processor` alone from here on; or, `apart`, on any other that it
    /// may run on. Whether it does.
    pub(super) fn place(&self, apart: bool, processor: u32) -> bool {
        let times = self.times.load(Relaxed);
        let wanted = (times as usize) << 32 | usize::from(apart) << 31 | (processor as usize + 1);
        let place: &AtomicUsize = &current().slot[PLACE];
        let before = place.load(Relaxed);
        if before == wanted {
            return true;
        }
        if processor as usize >= WORDS * 64 {
            return false;
        }
        let thread = gettid();
        let mut threads = self.threads.lock();
        let at = threads.iter().position(|one| one.thread == thread);
        let known = at.map(|at| threads.swap_remove(at));
        // Others may have set it since.
        let known = known.filter(|one| before >> 32 == times as usize && one.is_there());
        let own = match &known {
            Some(one) => one.own,
            None => {
                let mut own = [0; WORDS];
                if get_affinity(thread, &mut own).is_err() {
                    return false;
                }
                own
            }
        };
        let bit = |set: &Set| set[processor as usize / 64] & 1 << (processor % 64);
        let mut given = if apart { own } else { [0; WORDS] };
        given[processor as usize / 64] = match apart {
            true => own[processor as usize / 64] & !(1 << (processor % 64)),
            false => bit(&own),
        };
        let is_possible = given.iter().any(|&word| word != 0);
        if is_possible && given == own && known.is_none() {
            place.store(wanted, Relaxed);
            return true;
        }
        let target = if is_possible { given } else { own };
        let put = set_affinity(thread, &target).is_ok();
        match put && is_possible && threads.try_reserve(1).is_ok() {
            true => {
                threads.push(One { thread, own, given });
                place.store(wanted, Relaxed);
                true
            }
            false => {
                let _ = set_affinity(thread, &own);
                place.store(0, Relaxed);
                false
            }
        }
    }

    /// The calling thread runs where the program wants it.
    fn restore(&self) {
        let place = &current().slot[PLACE];
        if place.load(Relaxed) == 0 {
            return;
        }
        place.store(0, Relaxed);
        let thread = gettid();
        let mut threads = self.threads.lock();
        if let Some(at) = threads.iter().position(|one| one.thread == thread) {
            threads.swap_remove(at).restore();
        }
    }

    /// All threads do.
    pub(super) fn release_all(&self) {
        self.times.fetch_add(1, Relaxed);
        let mut threads = self.threads.lock();
        threads.iter().for_each(One::restore);
        threads.clear();
    }

    fn own_of(&self, thread: u32) -> Option<Set> {
        let threads = self.threads.lock();
        let one = threads.iter().find(|one| one.thread == thread)?;
        one.is_there().then_some(one.own)
    }
}

/// The calling thread is about to make a thread or a process, or to become another program.
#[inline]
pub fn restore() {
    if let Some(state) = STATE.get() {
        state.follow.moved.restore();
    }
}

/// sched_setaffinity(2): what the program sets holds from here on.
pub fn set(_: &Process, _: &mut Call) -> Answer {
    if let Some(state) = STATE.get() {
        state.follow.moved.release_all();
    }
    Err(FORWARD)
}

/// sched_getaffinity(2): as the program has set it.
pub fn get(_: &Process, call: &mut Call) -> Answer {
    let Some(state) = STATE.get() else {
        return Err(FORWARD);
    };
    let [thread, _, into, ..] = call.args;
    let thread = match thread as u32 {
        0 => gettid(),
        thread => thread,
    };
    let length = call.execute()?;
    if let Some(own) = state.follow.moved.own_of(thread) {
        for (at, word) in own.iter().take(length / 8).enumerate() {
            memory::put(into + at * 8, *word)?;
        }
    }
    Ok(length)
}

/// Whether a processor that the calling thread may run on seems to have nothing to do.
pub(super) fn is_one_idle() -> bool {
    fn running() -> Result<u32, Errno> {
        let file = fs::open(c"/proc/loadavg", OFlags::RDONLY | OFlags::CLOEXEC, 0)?;
        let mut text = [0; 128];
        let length = fs::read(&file, &mut text)?;
        // "0.20 0.18 0.12 1/80 11206": the fourth word (proc_loadavg(5)).
        let word = text[..length].split(|&byte| byte == b' ').nth(3);
        let word = word.and_then(|word| word.split(|&byte| byte == b'/').next());
        let word = word.and_then(|word| str::from_utf8(word).ok());
        word.and_then(|word| word.parse().ok()).ok_or(Errno::EIO)
    }
    let thread = gettid();
    let own = STATE
        .get()
        .and_then(|state| state.follow.moved.own_of(thread));
    let mut set = [0; WORDS];
    let own = match own {
        Some(own) => own,
        None if get_affinity(thread, &mut set).is_ok() => set,
        None => return false,
    };
    let processors: u32 = own.iter().map(|word| word.count_ones()).sum();
    // This thread is one that runs.
    processors > 1 && running().is_ok_and(|running| running < processors)
}
