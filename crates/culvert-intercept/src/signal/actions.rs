//! What the program wants done with each signal (rt_sigaction), and what the kernel is told
//! instead.

use super::{NEEDED, SIGBUS, SIGILL, SIGKILL, SIGSEGV, SIGSTOP, bit};
use crate::{labels, user};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*, fence};
use culvert_sys::Errno;
use culvert_sys::signal::{self as kernel, Action};
use culvert_sys::sync::{self, AtomicRef, Mutex};

/// One more than the highest signal.
const SIGNALS: usize = 65;
const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;

const SA_SIGINFO: u64 = 4;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
pub(crate) const SA_RESETHAND: u64 = 0x8000_0000;
/// `UAPI_SA_FLAGS` of `include/linux/signal_types.h`, NOCLDSTOP, NOCLDWAIT and EXPOSE_TAGBITS
/// besides those above; the kernel drops all others.
const SA_KNOWN: u64 =
    1 | 2 | SA_SIGINFO | 0x800 | SA_RESTORER | SA_ONSTACK | SA_RESTART | SA_NODEFER | SA_RESETHAND;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    Default,
    Ignore,
    Handler,
}

impl Disposition {
    pub(crate) fn of(handler: usize) -> Self {
        match handler {
            SIG_DFL => Self::Default,
            SIG_IGN => Self::Ignore,
            _ => Self::Handler,
        }
    }
}

/// An action that signal handlers read while other threads change it: a sequence lock, odd during a
/// change. All zeroes: the default.
struct Entry {
    sequence: AtomicUsize,
    handler: AtomicUsize,
    flags: AtomicU64,
    restorer: AtomicUsize,
    mask: AtomicU64,
}

impl Entry {
    const fn new() -> Self {
        Self {
            sequence: AtomicUsize::new(0),
            handler: AtomicUsize::new(SIG_DFL),
            flags: AtomicU64::new(0),
            restorer: AtomicUsize::new(0),
            mask: AtomicU64::new(0),
        }
    }

    fn get(&self) -> Action {
        loop {
            let sequence = self.sequence.load(Acquire);
            let action = Action {
                handler: self.handler.load(Relaxed),
                flags: self.flags.load(Relaxed),
                restorer: self.restorer.load(Relaxed),
                mask: self.mask.load(Relaxed),
            };
            fence(Acquire);
            if sequence & 1 == 0 && self.sequence.load(Relaxed) == sequence {
                return action;
            }
            core::hint::spin_loop();
        }
    }

    /// Only under the table's lock, in a hook, so that no handler of the same thread can read
    /// meanwhile.
    fn set(&self, action: &Action) {
        // Odd already where a vfork child was killed in the middle.
        let odd = self.sequence.load(Relaxed) | 1;
        self.sequence.store(odd, Relaxed);
        fence(Release);
        self.handler.store(action.handler, Relaxed);
        self.flags.store(action.flags, Relaxed);
        self.restorer.store(action.restorer, Relaxed);
        self.mask.store(action.mask, Relaxed);
        self.sequence.store(odd + 1, Release);
    }
}

/// The actions of a process.
pub(crate) struct Actions {
    lock: Mutex<()>,
    /// The signals whose entry holds. Of the others the kernel knows the action, which is SIG_DFL
    /// or SIG_IGN; their entries say SIG_DFL.
    known: AtomicU64,
    entries: [Entry; SIGNALS],
}

/// Those of the process that the engine was installed in, or forked from it.
static PROCESS: Actions = Actions::new();
/// The table that threads without a block use: [`PROCESS`], or in a child of a vfork child the copy
/// it began with.
static CURRENT: AtomicRef<Actions> = AtomicRef::new();

impl Actions {
    const fn new() -> Self {
        Self {
            lock: Mutex::new(()),
            known: AtomicU64::new(0),
            entries: [const { Entry::new() }; SIGNALS],
        }
    }

    pub(crate) fn get(&self, signal: usize) -> Action {
        self.entries[signal].get()
    }

    /// SA_RESTART, or nothing that could interrupt.
    pub(crate) fn restarts(&self, signal: usize) -> bool {
        let action = self.get(signal);
        Disposition::of(action.handler) != Disposition::Handler || action.flags & SA_RESTART != 0
    }

    /// SA_RESETHAND: the handler was called, the next signal finds the default.
    pub(crate) fn reset(&self, signal: usize) {
        let action = Action {
            handler: SIG_DFL,
            ..self.get(signal)
        };
        // From a signal handler, outside hooks, so the lock might be held by a thread that waits
        // for this one; two writers at once are two signals of one number at once, and both write
        // the same.
        self.entries[signal].set(&action);
        tell_kernel(signal, &action);
    }

    /// Becomes a copy of `other`, for a child that shares memory but not actions. Nobody else uses
    /// this table.
    pub(crate) fn copy_from(&self, other: &Self) {
        if self.lock.is_locked() {
            // SAFETY: by a vfork child that was killed.
            unsafe { sync::release_of_another(&self.lock) };
        }
        // First: what becomes known meanwhile is asked for again.
        let known = other.known.load(Acquire);
        for (from, to) in other.entries.iter().zip(&self.entries) {
            to.set(&from.get());
        }
        self.known.store(known, Relaxed);
    }

    /// Notes what is to be done at `signal`.
    fn set(&self, signal: usize, action: &Action) {
        self.entries[signal].set(action);
        self.known.fetch_or(bit(signal), Release);
    }

    /// CLONE_CLEAR_SIGHAND: handlers become SIG_DFL, in the kernel they are already.
    pub(crate) fn clear_handlers(&self) {
        for (signal, entry) in self.entries.iter().enumerate().skip(1) {
            if Disposition::of(entry.get().handler) == Disposition::Handler {
                entry.set(&Action::default());
            }
            if bit(signal) & NEEDED != 0 {
                tell_kernel(signal, &entry.get());
            }
        }
    }

    /// Takes over what the kernel does at `signal`.
    fn adopt(&self, signal: usize) {
        let action = kernel::action(signal as u32).unwrap_or_default();
        // Our own handler serves an action of another table, which this one was copied from just
        // before it was set.
        let ours = action.handler == labels::signal_handler();
        let action = if ours { Action::default() } else { action };
        self.set(signal, &action);
        let has_handler = Disposition::of(action.handler) == Disposition::Handler;
        if has_handler || bit(signal) & NEEDED != 0 {
            tell_kernel(signal, &action);
        }
    }

    /// rt_sigaction(2) as the kernel would do it (`SYSCALL_DEFINE4(rt_sigaction)`, `do_sigaction`):
    /// read, change, then write the old action.
    pub(crate) fn sigaction(&self, args: &[usize; 6]) -> Result<(), Errno> {
        let [signal, new, old, size, ..] = *args;
        let signal = signal as u32 as usize;
        if size != 8 {
            return Err(Errno::EINVAL);
        }
        let new = if new == 0 {
            None
        } else {
            Some(user::read::<Action>(new).map_err(|_| Errno::EFAULT)?)
        };
        if signal == 0
            || signal >= SIGNALS
            || new.is_some() && (signal == SIGKILL || signal == SIGSTOP)
        {
            return Err(Errno::EINVAL);
        }
        let before = {
            let _guard = self.lock.lock();
            if self.known.load(Relaxed) & bit(signal) == 0 {
                self.adopt(signal);
            }
            let before = self.get(signal);
            if let Some(mut new) = new {
                new.flags &= SA_KNOWN;
                new.mask &= !(bit(SIGKILL) | bit(SIGSTOP));
                // Whoever comes between the two finds a handler to call, or one that says "default"
                // or "ignore".
                if Disposition::of(new.handler) == Disposition::Handler {
                    self.set(signal, &new);
                    tell_kernel(signal, &new);
                } else {
                    tell_kernel(signal, &new);
                    self.set(signal, &new);
                }
            }
            before
        };
        if old != 0 {
            user::write(old, &before).map_err(|_| Errno::EFAULT)
        } else {
            Ok(())
        }
    }
}

fn set_in_kernel(signal: usize, action: &Action) {
    // SAFETY: handler and restorer are the engine's or those the program gave.
    let _ = unsafe { kernel::set_action(signal as u32, action) };
}

/// Installs for `signal` what serves `action`.
fn tell_kernel(signal: usize, action: &Action) {
    set_in_kernel(signal, &translated(signal, action));
}

/// What serves `action` in the kernel.
fn translated(signal: usize, action: &Action) -> Action {
    let needed = bit(signal) & NEEDED != 0;
    match Disposition::of(action.handler) {
        Disposition::Handler => Action {
            handler: labels::signal_handler(),
            // A needed signal must arrive from within its own handler too: that may make a call
            // with a bad pointer.
            flags: (action.flags & !SA_RESETHAND)
                | SA_SIGINFO
                | SA_RESTORER
                | if needed { SA_NODEFER } else { 0 },
            restorer: if action.flags & SA_RESTORER != 0 {
                action.restorer
            } else {
                labels::signal_restorer()
            },
            mask: action.mask & !NEEDED,
        },
        _ if needed => Action {
            handler: labels::signal_handler(),
            flags: SA_SIGINFO | SA_RESTORER | SA_NODEFER,
            restorer: labels::signal_restorer(),
            mask: 0,
        },
        _ => *action,
    }
}

/// Makes the kernel do what it does without any handler, whatever the program wants.
pub(crate) fn fall_to_default(signal: usize) {
    let _ = kernel::set_default(signal as u32);
}

/// SIG_IGN for the needed signals, as an exec has to find it in the kernel.
pub(crate) fn before_exec(table: &Actions) {
    for (signal, action) in needed(table) {
        if Disposition::of(action.handler) == Disposition::Ignore {
            set_in_kernel(signal, &action);
        }
    }
}

/// Undoes [`before_exec`].
pub(crate) fn exec_failed(table: &Actions) {
    for (signal, action) in needed(table) {
        if Disposition::of(action.handler) == Disposition::Ignore {
            tell_kernel(signal, &action);
        }
    }
}

fn needed(table: &Actions) -> impl Iterator<Item = (usize, Action)> {
    [SIGILL, SIGBUS, SIGSEGV]
        .map(|signal| (signal, table.get(signal)))
        .into_iter()
}

/// The actions of the process, which hold for threads without a block.
pub(crate) fn of_process() -> &'static Actions {
    CURRENT.get().unwrap_or(&PROCESS)
}

/// In a forked child: `table`, of the thread that forked, is the process's.
pub(crate) fn adopt(table: &'static Actions) {
    CURRENT.set(Some(table));
}

/// Takes over the actions that the process has. `fresh`: nobody has set any since the execve, so
/// that there is no handler, and the kernel is asked for the others when somebody wants to know.
pub(crate) fn install(fresh: bool) {
    if fresh {
        return [SIGILL, SIGBUS, SIGSEGV].into_iter().for_each(take);
    }
    let asked = !(bit(SIGKILL) | bit(SIGSTOP));
    (1..SIGNALS)
        .filter(|signal| bit(*signal) & asked != 0)
        .for_each(|signal| PROCESS.adopt(signal));
}

/// Installs what serves a needed signal, which is the same for SIG_DFL and SIG_IGN, and finds out
/// by the same call which of them it was. If it comes from outside in between, it is ignored.
fn take(signal: usize) {
    let ignored = Action {
        handler: SIG_IGN,
        ..Action::default()
    };
    PROCESS.set(signal, &ignored);
    let ours = translated(signal, &ignored);
    // SAFETY: handler and restorer are the engine's.
    let before = unsafe { kernel::replace_action(signal as u32, &ours) };
    PROCESS.set(signal, &before.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_whole_again_whose_user_was_killed_in_the_middle_of_a_change() {
        let (table, other) = (Actions::new(), Actions::new());
        core::mem::forget(table.lock.lock());
        table.entries[10].sequence.store(7, Relaxed);
        let action = Action {
            handler: 4096,
            ..Action::default()
        };
        other.entries[10].set(&action);
        table.copy_from(&other);
        assert_eq!(table.get(10), action);
        assert!(table.lock.try_lock().is_some());
    }
}
