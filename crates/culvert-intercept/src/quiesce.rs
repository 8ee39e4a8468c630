//! No other thread is inside a hook while the process forks, so no lock of the engine or the
//! embedder is ever copied held. Those count as outside that wait in there with nothing held
//! (`wait`, `culvert_sys::waits`).
//!
//! Entering a hook costs nothing for this but one load: the thread sets its state, then looks
//! whether somebody forks. The one who forks makes all processors order these two (membarrier(2))
//! and looks at every thread's state.

use crate::config::config;
use crate::thread::{self, INSIDE, ThreadBlock};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*, compiler_fence};
use culvert_sys::flags::OFlags;
use culvert_sys::process::{self, membarrier};
use culvert_sys::{
    fs, sync,
    waits::{self, Seam},
};

const MEMBARRIER_CMD_GLOBAL: u32 = 1;
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: u32 = 8;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: u32 = 16;

/// How long a fork waits for a hook of another thread: nanoseconds of sleep.
const PATIENCE: u64 = 10_000_000_000;
/// How long others wait, who can do without, for all threads together: the rest of the program
/// stands still meanwhile, and would again each time that it tries anew.
const SHORT: u64 = 1_000_000_000;

/// Which threads are in nobody's way.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Others {
    /// Those outside, and those that are away (`ThreadBlock::away`): what they will use when they
    /// come back stays as it is.
    Away = 1,
    /// Those outside: who is away knows numbers of descriptors.
    Outside = 2,
}

/// Not 0 while a thread forks, or must be alone: the [`Others`] that it does not wait for.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Whether some thread was in a hook all the same when this process last forked, or was forked.
static BESIDE: AtomicBool = AtomicBool::new(false);

/// 1 once there was a second thread.
static THREADED: AtomicBool = AtomicBool::new(false);

/// Whether some thread forks.
#[inline]
pub(crate) fn is_forking() -> bool {
    FORKING.load(Relaxed) != 0
}

/// Waits at the beginning of a hook until nobody forks.
#[cold]
pub(crate) fn wait(block: &ThreadBlock) {
    block.waits.store(1, SeqCst);
    come_back(block);
}

/// Ends a time in which the thread counted as outside.
pub(crate) fn come_back(block: &ThreadBlock) {
    loop {
        block.waits.store(0, SeqCst);
        let forking = FORKING.load(SeqCst);
        if forking == 0 {
            return;
        }
        block.waits.store(1, SeqCst);
        sync::futex_wait(&FORKING, forking);
    }
}

/// What threads do around calls of drivers that may wait.
static SEAM: Seam = Seam {
    leave,
    come_back: come_home,
};

/// The calling thread waits from here on. Not while there is one thread only, outside hooks, and
/// with something held.
fn leave() -> bool {
    let block = thread::current();
    let may = multi_threaded()
        && block.holds.load(Relaxed) == 0
        && block.frame.state.load(Relaxed) == INSIDE
        && block.waits.load(Relaxed) == 0;
    if may {
        block.away.store(1, Release);
    }
    may
}

/// The end of that. As at the beginning of a hook, whoever forks makes processors order the store
/// and the load. Who must be alone waits for this thread, which goes on then.
fn come_home() {
    const AWAY: u32 = Others::Away as u32;
    let block = thread::current();
    loop {
        block.away.store(0, Release);
        compiler_fence(SeqCst);
        if FORKING.load(Acquire) != AWAY {
            return;
        }
        block.away.store(1, SeqCst);
        sync::futex_wait(&FORKING, AWAY);
    }
}

/// Whether this process has ever had more than one thread. Set before the second one exists, so
/// that a hook that finds it false stays alone to its end; a forked child starts again.
#[inline]
pub fn multi_threaded() -> bool {
    THREADED.load(Relaxed)
}

/// Forgets other threads, in a forked child.
pub(crate) fn alone() {
    THREADED.store(false, Relaxed);
}

/// Before the first further thread is made: registering is cheap only while there is one.
/// `by_clone`: by this one, with nothing held.
pub(crate) fn before_thread(by_clone: bool) {
    let first = !THREADED.swap(true, SeqCst);
    if thread::used() == 1 {
        let _ = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        if first && by_clone {
            // SAFETY: the GS base is a block, or nobody's: what a program does with it ends the
            // counting (`adopt`, arch_prctl(2)).
            unsafe { waits::begin(&SEAM, offset_of!(ThreadBlock, holds)) };
        }
    }
}

/// Whether, when this process was forked, another thread of its parent's was in a hook: what it had
/// begun there nobody goes on with.
pub fn forked_beside_others() -> bool {
    BESIDE.load(Relaxed)
}

/// Returns when the calling thread is the only one inside a hook but for `others`; these wait from
/// now on at the beginning of theirs. A thread that does not leave its hook is waited for
/// patiently, then no longer.
pub(crate) fn begin(own: &ThreadBlock, others: Others) {
    close(own, others);
    let mut beside = false;
    for block in thread::all() {
        let left = is_left(block, own, others, &mut { PATIENCE });
        beside |= !left || block.is_used() && block.away.load(Relaxed) != 0;
        if !left {
            // A process that shared our memory may have been killed inside a hook; nothing will
            // ever clear its state.
            (config().log)(b"a thread has been inside a hook for 10 s: forking beside it");
        }
    }
    BESIDE.store(beside, Relaxed);
}

/// From here on the others wait at the beginning of hooks, and who is inside one is seen to be.
fn close(own: &ThreadBlock, others: Others) {
    while FORKING
        .compare_exchange(0, others as u32, SeqCst, SeqCst)
        .is_err()
    {
        wait(own);
    }
    // It does not wait for itself when it comes back from somewhere.
    own.holds.fetch_add(1, Relaxed);
    if thread::used() <= 1 {
        return;
    }
    if membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED).is_err()
        && (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED).is_err()
            || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED).is_err())
        && membarrier(MEMBARRIER_CMD_GLOBAL).is_err()
    {
        // A kernel or seccomp filter without it: a store buffer is empty long before this has
        // passed.
        pause(1_000_000);
    }
}

/// Waits until the thread of `block` is in no hook, or is one of the `others`, or the `own` one;
/// false: it is in one still, and nothing is left of the `patience`, nanoseconds.
fn is_left(block: &ThreadBlock, own: &ThreadBlock, others: Others, patience: &mut u64) -> bool {
    let mut nanoseconds = 0;
    while !core::ptr::eq(block, own)
        && block.is_used()
        && block.frame.state.load(Acquire) == INSIDE
        && block.waits.load(Acquire) == 0
        && (others == Others::Outside || block.away.load(Acquire) == 0)
    {
        if *patience == 0 {
            return false;
        }
        // A hook's way out wakes nobody, so look again, soon at first.
        pause(nanoseconds);
        *patience = patience.saturating_sub(nanoseconds);
        nanoseconds = (nanoseconds * 2 + 1_000).min(200_000);
    }
    true
}

fn pause(nanoseconds: u64) {
    let _ = process::nanosleep(nanoseconds);
}

/// Lets the others go on.
pub(crate) fn end() {
    thread::current().holds.fetch_sub(1, Relaxed);
    FORKING.store(0, SeqCst);
    // A thread that waits has set this before it saw that somebody forks.
    if THREADED.load(SeqCst) {
        sync::futex_wake(&FORKING, i32::MAX as usize);
    }
}

/// Runs `run`, in a hook, while no other thread is inside one.
pub fn exclusively<R>(run: impl FnOnce() -> R) -> R {
    begin(thread::current(), Others::Outside);
    let result = run();
    end();
    result
}

/// The process ends: no other thread begins a hook any more, and those inside are waited for,
/// though not for long (the kernel would not wait at all).
pub fn stop_others() {
    if !multi_threaded() {
        return;
    }
    let (own, mut patience) = (thread::current(), SHORT);
    // Who is away never comes back.
    close(own, Others::Away);
    for block in thread::all() {
        is_left(block, own, Others::Away, &mut patience);
    }
}

/// Whether the calling thread is the only one of its process.
pub fn is_last_thread() -> bool {
    if thread::used() > 1 {
        return false;
    }
    if !multi_threaded() {
        return true;
    }
    // A thread that has never been in a hook has no block: the kernel says how many there are.
    let links = fs::stat(c"/proc/self/task").map_or(0, |found| found.st_nlink);
    // `.`, `..` and one for each (`proc_task_getattr`, fs/proc/base.c). The first counts until the
    // process ends.
    links == 3 || links == 4 && first_has_ended()
}

/// Whether the thread that the process began with has ended by itself: it is a zombie then, until
/// the last one ends (`/proc/self/stat`, proc(5)).
fn first_has_ended() -> bool {
    let mut text = [0u8; 128];
    let length = fs::open(c"/proc/self/stat", OFlags::CLOEXEC, 0)
        .and_then(|file| fs::read(&file, &mut text))
        .unwrap_or(0);
    // The name, in brackets, has 15 bytes at most, any among them.
    let line = text.get(..length).unwrap_or_default();
    let end = line.iter().rposition(|&byte| byte == b')');
    end.and_then(|at| line.get(at + 2)) == Some(&b'Z')
}

/// The same; not run at all (none) where the others do not leave their hooks soon.
pub fn if_alone<R>(run: impl FnOnce() -> R) -> Option<R> {
    let (own, mut patience) = (thread::current(), SHORT);
    close(own, Others::Outside);
    let alone = thread::all().all(|block| is_left(block, own, Others::Outside, &mut patience));
    if !alone {
        (config().log)(b"another thread stays inside a hook: a number is not moved away");
    }
    let result = alone.then(run);
    end();
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::OUTSIDE;

    #[test]
    fn patience_is_for_all_threads_together() {
        const ALL: u64 = 1_000_000;
        let [own, stuck, other] = [(); 3].map(|()| ThreadBlock::inside());
        let mut patience = ALL;
        assert!(is_left(&own, &own, Others::Away, &mut patience));
        assert_eq!(patience, ALL);
        assert!(!is_left(&stuck, &own, Others::Away, &mut patience));
        assert_eq!(patience, 0);
        assert!(!is_left(&other, &own, Others::Away, &mut patience));
        // Who waits where a fork may go on, or has left, is not waited for.
        stuck.waits.store(1, SeqCst);
        other.frame.state.store(OUTSIDE, SeqCst);
        for others in [Others::Away, Others::Outside] {
            assert!(is_left(&stuck, &own, others, &mut patience));
            assert!(is_left(&other, &own, others, &mut patience));
        }
    }

    #[test]
    fn who_is_away_is_in_the_way_of_descriptors_only() {
        let [own, away] = [(); 2].map(|()| ThreadBlock::inside());
        away.away.store(1, SeqCst);
        assert!(is_left(&away, &own, Others::Away, &mut 0));
        assert!(!is_left(&away, &own, Others::Outside, &mut 0));
    }
}
