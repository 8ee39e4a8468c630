//! No other thread is inside a hook while the process forks, so no lock of the engine or the embedder is ever copied held.
//!
//! Entering a hook costs nothing for this but one load: the thread sets its state, then looks whether somebody forks. The one who forks makes all
//! processors order these two (membarrier(2)) and looks at every thread's state.

use crate::dispatch;
use crate::thread::{self, INSIDE, ThreadBlock};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use culvert_sys::{nr, sync, syscall};

const MEMBARRIER_CMD_GLOBAL: usize = 1;
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: usize = 8;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: usize = 16;

/// How long a fork waits for a hook of another thread: nanoseconds of sleep.
const PATIENCE: u64 = 10_000_000_000;
/// How long others wait, who can do without, for all threads together: the rest of the program stands still meanwhile, and would again each time that it tries anew.
const SHORT: u64 = 1_000_000_000;

/// 1 while a thread forks.
static FORKING: AtomicU32 = AtomicU32::new(0);

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
        if FORKING.load(SeqCst) == 0 {
            return;
        }
        block.waits.store(1, SeqCst);
        sync::futex_wait(&FORKING, 1);
    }
}

/// Whether this process has ever had more than one thread. Set before the second one exists, so that a hook that finds it false stays alone
/// to its end; a forked child starts again.
#[inline]
pub fn multi_threaded() -> bool {
    THREADED.load(Relaxed)
}

/// Forgets other threads, in a forked child.
pub(crate) fn alone() {
    THREADED.store(false, Relaxed);
}

/// Before the first further thread is made: registering is cheap only while there is one.
pub(crate) fn before_thread() {
    THREADED.store(true, Relaxed);
    if thread::used() == 1 {
        let _ = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    }
}

fn membarrier(command: usize) -> Result<usize, culvert_sys::Errno> {
    // SAFETY: numbers only.
    unsafe { syscall::call(nr::MEMBARRIER, [command, 0, 0]) }
}

/// Returns when the calling thread is the only one inside a hook; others wait from now on at the beginning of theirs. A thread that does not leave its hook is waited
/// for patiently, then no longer.
pub(crate) fn begin(own: &ThreadBlock) {
    close(own);
    for block in thread::all() {
        if !is_left(block, own, &mut { PATIENCE }) {
            // A process that shared our memory may have been killed inside a hook; nothing will ever clear its state.
            (dispatch::config().log)(
                b"a thread has been inside a hook for 10 s: forking beside it",
            );
        }
    }
}

/// From here on the others wait at the beginning of hooks, and who is inside one is seen to be.
fn close(own: &ThreadBlock) {
    while FORKING.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
        wait(own);
    }
    if thread::used() <= 1 {
        return;
    }
    if membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED).is_err()
        && (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED).is_err()
            || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED).is_err())
        && membarrier(MEMBARRIER_CMD_GLOBAL).is_err()
    {
        // A kernel or seccomp filter without it: a store buffer is empty long before this has passed.
        pause(1_000_000);
    }
}

/// Waits until the thread of `block` is in no hook, or is the `own` one; false: it is in one still, and nothing is left of the `patience`, nanoseconds.
fn is_left(block: &ThreadBlock, own: &ThreadBlock, patience: &mut u64) -> bool {
    let mut nanoseconds = 0;
    while !core::ptr::eq(block, own)
        && block.is_used()
        && block.state().load(Acquire) == INSIDE
        && block.waits.load(Acquire) == 0
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
    let time = [0u64, nanoseconds];
    // SAFETY: a timespec of ours.
    let _ = unsafe { syscall::call(nr::NANOSLEEP, [time.as_ptr() as usize, 0]) };
}

/// Lets the others go on.
pub(crate) fn end() {
    FORKING.store(0, SeqCst);
    sync::futex_wake(&FORKING, i32::MAX as usize);
}

/// Runs `run`, in a hook, while no other thread is inside one.
pub fn exclusively<R>(run: impl FnOnce() -> R) -> R {
    begin(thread::current());
    let result = run();
    end();
    result
}

/// The process ends: no other thread begins a hook any more, and those inside are waited for, though
/// not for long (the kernel would not wait at all).
pub fn stop_others() {
    if !multi_threaded() {
        return;
    }
    let (own, mut patience) = (thread::current(), SHORT);
    close(own);
    for block in thread::all() {
        is_left(block, own, &mut patience);
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
    let mut found = core::mem::MaybeUninit::<culvert_sys::raw::general::stat>::zeroed();
    let path = c"/proc/self/task".as_ptr() as usize;
    // SAFETY: the path ends in NUL; the kernel fills the structure, which is plain data.
    let links = unsafe {
        match syscall::call(nr::STAT, [path, found.as_mut_ptr() as usize]) {
            Ok(_) => found.assume_init().st_nlink,
            Err(_) => return false,
        }
    };
    // `.`, `..` and one for each (`proc_task_getattr`, fs/proc/base.c). The first counts until the process
    // ends.
    links == 3 || links == 4 && first_has_ended()
}

/// Whether the thread that the process began with has ended by itself: it is a zombie then, until the
/// last one ends (`/proc/self/stat`, proc(5)).
fn first_has_ended() -> bool {
    const O_CLOEXEC: usize = 0o2000000;
    let path = c"/proc/self/stat".as_ptr() as usize;
    let mut text = [0u8; 128];
    // SAFETY: the path ends in NUL; the kernel writes at most the length into the array; the descriptor is
    // closed by who has opened it.
    let length = unsafe {
        let Ok(fd) = syscall::call(nr::OPEN, [path, O_CLOEXEC, 0]) else {
            return false;
        };
        let read = syscall::call(nr::READ, [fd, text.as_mut_ptr() as usize, text.len()]);
        let _ = syscall::call(nr::CLOSE, [fd]);
        read.unwrap_or(0)
    };
    // The name, in brackets, has 15 bytes at most, any among them.
    let line = text.get(..length).unwrap_or_default();
    let end = line.iter().rposition(|&byte| byte == b')');
    end.and_then(|at| line.get(at + 2)) == Some(&b'Z')
}

/// The same; not run at all (none) where the others do not leave their hooks soon.
pub fn if_alone<R>(run: impl FnOnce() -> R) -> Option<R> {
    let (own, mut patience) = (thread::current(), SHORT);
    close(own);
    let alone = thread::all().all(|block| is_left(block, own, &mut patience));
    if !alone {
        (dispatch::config().log)(b"another thread stays inside a hook: a number is not moved away");
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
        assert!(is_left(&own, &own, &mut patience));
        assert_eq!(patience, ALL);
        assert!(!is_left(&stuck, &own, &mut patience));
        assert_eq!(patience, 0);
        assert!(!is_left(&other, &own, &mut patience));
        // Who waits where a fork may go on, or has left, is not waited for.
        stuck.waits.store(1, SeqCst);
        other.state().store(OUTSIDE, SeqCst);
        assert!(is_left(&stuck, &own, &mut patience) && is_left(&other, &own, &mut patience));
    }
}
