//! SIGSEGV, SIGBUS and SIGILL in signal masks: never blocked in the kernel, but the program reads
//! back what it has set.

use crate::{
    Outcome,
    signal::{
        NEEDED, SIG_BLOCK, SIG_SETMASK, SIG_UNBLOCK, SIGBUS, SIGILL, SIGSEGV, bit,
        information::Information, raise,
    },
    thread::{ThreadBlock, Word},
    user,
    verdict::Verdict,
    wait,
};
use culvert_sys::{Errno, nr};

pub(crate) fn is_blocked(block: &ThreadBlock, signal: usize) -> bool {
    block.needed.blocked() & bit(signal) != 0
}

/// A needed signal was sent while the program blocks it: it stays pending.
pub(crate) fn keep_back(block: &ThreadBlock, information: &Information) {
    // The thread's own, in its signal handler outside hooks.
    block.needed.keep(information);
}

fn set_blocked(block: &ThreadBlock, blocked: u64) {
    // The thread's own, in a hook, where `keep_back` does not run.
    block.needed.set_blocked(blocked);
    for signal in [SIGILL, SIGBUS, SIGSEGV] {
        if blocked & bit(signal) == 0
            && let Some(information) = block.needed.take(signal)
        {
            raise(&information); // recorded at once
        }
    }
}

/// rt_sigprocmask. Masks without the needed signals go to the kernel as they are.
pub(crate) fn sigprocmask(block: &ThreadBlock, args: &[usize; 6]) -> Verdict {
    let [how, set, old, size, ..] = *args;
    let new = (set != 0).then(|| user::read::<u64>(set).ok()).flatten();
    let blocked = block.needed.blocked();
    let plain = blocked == 0 && new.is_none_or(|new| new & NEEDED == 0);
    if plain || size != 8 || set != 0 && (new.is_none() || how as u32 > SIG_SETMASK) {
        return Verdict::Outcome(Outcome::Forward);
    }
    let real = new.unwrap_or(0) & !NEEDED;
    let mut before = 0u64;
    let real_at = new.map_or(0, |_| (&raw const real) as usize);
    // Not after a signal was recorded: the mask is not the program's then.
    // SAFETY: two masks of ours.
    let done = unsafe {
        wait::interruptible(
            nr::RT_SIGPROCMASK,
            [how, real_at, (&raw mut before) as usize, 8, 0, 0],
        )
    };
    if done.is_err() {
        return Verdict::Again;
    }
    if let Some(new) = new {
        let new = new & NEEDED;
        set_blocked(
            block,
            match how as u32 {
                SIG_BLOCK => blocked | new,
                SIG_UNBLOCK => blocked & !new,
                _ => new,
            },
        );
    }
    if old != 0 && user::write(old, &(before | blocked)).is_err() {
        return Verdict::Outcome(Outcome::Return(Errno::EFAULT.negated()));
    }
    Verdict::Outcome(Outcome::Return(0))
}

/// Replaces the temporary mask of a call by one without the needed signals, if it has any.
pub(crate) fn lend(block: &ThreadBlock, number: usize, args: &mut [usize; 6]) {
    // The kernel reads it before the thread comes here again.
    let lent = &block.lent;
    let (position, size) = match number {
        nr::RT_SIGSUSPEND => (0, args[1]),
        nr::PPOLL => (3, args[4]),
        nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => (4, args[5]),
        _ => {
            // pselect6 points to an address and a size.
            if let Ok([mask, size]) = user::read::<[usize; 2]>(args[5])
                && let Some(mask) = stripped(lent, mask, size)
            {
                lent[0].set(mask);
                lent[1].set(8);
                args[5] = lent.as_ptr() as usize;
            }
            return;
        }
    };
    if let Some(mask) = stripped(lent, args[position], size) {
        args[position] = mask;
    }
}

fn stripped(lent: &[Word; 3], mask: usize, size: usize) -> Option<usize> {
    if mask == 0 || size != 8 {
        return None;
    }
    let mask = user::read::<u64>(mask).ok()?;
    if mask & NEEDED == 0 {
        return None;
    }
    lent[2].set((mask & !NEEDED) as usize);
    Some((&raw const lent[2]) as usize)
}

/// Blocks in the kernel what the program has blocked, for an exec, which keeps the mask.
pub(crate) fn before_exec(block: &ThreadBlock) {
    change(SIG_BLOCK, block.needed.blocked());
}

/// Undoes [`before_exec`].
pub(crate) fn exec_failed(block: &ThreadBlock) {
    change(SIG_UNBLOCK, block.needed.blocked());
}

fn change(how: u32, mask: u64) {
    if mask != 0 {
        let _ = culvert_sys::process::sigprocmask(how, mask);
    }
}
