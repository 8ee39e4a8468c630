//! INTERRUPT: who waits for a request has a signal. The thread that carries the request out is
//! told, and what it waits in ends.
//!
//! A driver hears of it in two ways: it asks ([`interrupted`], `Sink::interrupted`), and system
//! calls in which it waits end with `EINTR`, because the thread gets a signal, [`signal`], which
//! does nothing else. A signal that comes just before the wait is lost on it, so it is sent again
//! until the request is done.
//!
//! INTERRUPT may come before its request is taken, by another thread, or by another way (requests
//! of a ring are interrupted by /dev/fuse). The kernel would say it again if it were told `EAGAIN`
//! by the very channel that the request went to, which may not even have read it yet: so it is kept
//! here instead.
//!
//! Of a request that goes by a ring the kernel says nothing when the signal comes before the
//! request was copied to the server (`fuse_uring_prepare_send` does not look at `FR_INTERRUPTED` as
//! `fuse_dev_do_read` does, Linux 6.18), be it for microseconds or because all entries were in use.
//! But the signal then still waits for its thread, which cannot take it before the answer: so for
//! what takes long it is looked for once ([`waiting::signalled`]). Of READ only what kills counts,
//! unless it is said that its caller waits for it ([`Interrupts::is_awaited`]): pages are read
//! ahead on nobody's behalf, which `fuse_dev_do_read` interrupts never, though the one who waits
//! for them is named, and waits with all other signals pending.

mod signal;
mod waiting;

use culvert_wire::Operation;
use std::{
    cell::RefCell,
    fs,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};
use waiting::{is_asleep, signalled};

/// How often it is sent again.
const AGAIN: Duration = Duration::from_millis(10);
/// So many interrupts are kept for requests that have not been taken yet. Those of requests that
/// were answered meanwhile are among them, and go with time.
const EARLY: usize = 64;
/// A request of a ring that takes longer than one to two of these is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// `FUSE_READ`.
const READ: u32 = 15;
/// So long is waited at most for what others have taken.
const LONG: Duration = Duration::from_millis(500);
/// The opcodes of requests by which locks go: RELEASE, FLUSH.
pub const RELEASING: &[u32] = &[18, 25];

/// `FUSE_FORGET`, `FUSE_RELEASE`, `FUSE_RELEASEDIR`, `FUSE_DESTROY`, `FUSE_BATCH_FORGET`: nobody
/// waits for them.
const UNAWAITED: [u32; 5] = [2, 18, 29, 38, 42];

thread_local! {
    static HAND: RefCell<Option<Arc<Hand>>> = const { RefCell::new(None) };
}

/// Whether the request that this thread carries out has been interrupted: for drivers that wait by
/// themselves.
pub fn interrupted() -> bool {
    HAND.with_borrow(|hand| hand.as_ref().is_some_and(|hand| hand.interrupted()))
}

/// What this thread has in hand.
pub fn hand() -> Option<Arc<Hand>> {
    HAND.with_borrow(Clone::clone)
}

/// This thread helps the one whose `hand` it is. It gets no signals.
pub fn lend(hand: Option<Arc<Hand>>) {
    HAND.set(hand);
}

/// What one thread has in hand.
#[derive(Debug)]
pub struct Hand {
    /// The request; 0: none.
    unique: AtomicU64,
    opcode: AtomicU32,
    /// The request that was interrupted last.
    interrupted: AtomicU64,
    /// The thread that waits for the request, by its number; 0: not known.
    caller: AtomicU32,
    /// The request that was in hand when [`Interrupts::look`] came by, and the one whose caller it
    /// has looked at.
    seen: AtomicU64,
    looked: AtomicU64,
    /// The READ whose caller waits for it.
    awaited: AtomicU64,
    thread: i32,
    /// Held while the signal is sent.
    sending: Mutex<()>,
}

impl Hand {
    /// Whether the request in hand was interrupted.
    pub fn interrupted(&self) -> bool {
        let unique = self.unique.load(Relaxed);
        unique != 0 && self.interrupted.load(Relaxed) == unique
    }

    /// The request in hand and its operation, if somebody waits for it.
    fn operation(&self) -> Option<(u64, &'static str)> {
        let unique = self.unique.load(SeqCst);
        let opcode = self.opcode.load(Relaxed);
        (unique != 0 && !UNAWAITED.contains(&opcode)).then(|| (unique, Operation::name(opcode)))
    }

    /// Sends the signal, if the request in hand is interrupted; whether it is.
    fn signal(&self) -> bool {
        let _sending = lock(&self.sending);
        // In this order: a request that is ended in between is ended by who sees the other, see
        // `Interrupts::end`.
        let interrupted = self.interrupted.load(SeqCst);
        let is_in_hand = interrupted != 0 && self.unique.load(SeqCst) == interrupted;
        if is_in_hand {
            signal::send(self.thread);
        }
        is_in_hand
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The threads of a connection, and who of them is interrupted.
#[derive(Debug)]
pub struct Interrupts {
    hands: Mutex<Vec<Arc<Hand>>>,
    early: [AtomicU64; EARLY],
    early_next: AtomicUsize,
    any_early: AtomicBool,
    /// Signals of callers are looked for: requests come by rings.
    looks: AtomicBool,
    /// Nobody looks, until a request begins.
    rests: AtomicBool,
    work: Mutex<Work>,
    told: Condvar,
}

/// What is to be done by [`Interrupts::watch`].
#[derive(Debug, Default)]
struct Work {
    signals: bool,
    looks: bool,
    ended: bool,
}

impl Interrupts {
    /// Of a new connection.
    pub fn new() -> Self {
        signal::handle();
        Self {
            hands: Mutex::default(),
            early: [const { AtomicU64::new(0) }; EARLY],
            early_next: AtomicUsize::new(0),
            any_early: AtomicBool::new(false),
            looks: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            work: Mutex::default(),
            told: Condvar::new(),
        }
    }

    /// This thread takes requests from here on.
    pub fn join(&self) -> Arc<Hand> {
        let hand = Arc::new(Hand {
            unique: AtomicU64::new(0),
            opcode: AtomicU32::new(0),
            interrupted: AtomicU64::new(0),
            caller: AtomicU32::new(0),
            seen: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            awaited: AtomicU64::new(0),
            thread: rustix::thread::gettid().as_raw_nonzero().get(),
            sending: Mutex::new(()),
        });
        lock(&self.hands).push(hand.clone());
        HAND.set(Some(hand.clone()));
        hand
    }

    /// And no longer.
    pub fn leave(&self, hand: &Arc<Hand>) {
        HAND.set(None);
        lock(&self.hands).retain(|other| !Arc::ptr_eq(other, hand));
    }

    /// Requests come by rings: signals that the kernel says nothing of are looked for.
    pub fn look_for_signals(&self) {
        self.looks.store(true, SeqCst);
        self.tell(|work| work.looks = true);
    }

    /// `hand` has taken request `unique`, which thread `caller` waits for.
    pub fn begin(&self, hand: &Hand, unique: u64, opcode: u32, caller: u32) {
        hand.opcode.store(opcode, Relaxed);
        hand.caller.store(caller, Relaxed);
        // An interrupt is kept, then looked for in the hands; here a request is in hand, then
        // looked for among those that are kept: one of both finds the other.
        hand.unique.store(unique, SeqCst);
        if self.any_early.load(SeqCst) && self.early.iter().any(|one| one.load(SeqCst) == unique) {
            hand.interrupted.store(unique, SeqCst);
            self.tell(|work| work.signals = true);
        }
        // Who looks rests only after it has seen that nothing is in hand.
        if self.looks.load(Relaxed) && self.rests.swap(false, SeqCst) {
            self.tell(|work| work.looks = true);
        }
    }

    /// The caller of the READ that `hand` has taken waits for it: any signal of his ends it.
    pub fn is_awaited(&self, hand: &Hand) {
        if !self.looks.load(Relaxed) {
            return;
        }
        let unique = hand.unique.load(SeqCst);
        hand.awaited.store(unique, SeqCst);
        // Who has looked before that was said looks again; in this order one of both sees what the
        // other has stored.
        if hand.looked.load(SeqCst) == unique {
            hand.looked.store(0, SeqCst);
            if self.rests.swap(false, SeqCst) {
                self.tell(|work| work.looks = true);
            }
        }
    }

    /// Looks at the callers of requests that take long, at each once; whether there is more to look
    /// at.
    fn look(&self) -> bool {
        let hands = lock(&self.hands).clone();
        let mut more = false;
        for hand in hands {
            let unique = hand.unique.load(SeqCst);
            if unique == 0 || hand.looked.load(SeqCst) == unique {
                continue;
            }
            if hand.seen.swap(unique, Relaxed) != unique {
                more = true;
                continue;
            }
            hand.looked.store(unique, SeqCst);
            let caller = hand.caller.load(Relaxed);
            let any = hand.opcode.load(Relaxed) != READ || hand.awaited.load(SeqCst) == unique;
            let counted = if any { u64::MAX } else { waiting::KILL };
            let status = fs::read_to_string(format!("/proc/{caller}/status"));
            if status.is_ok_and(|status| signalled(&status, counted)) {
                self.interrupt(unique);
            }
        }
        more
    }

    /// Another thread carries out what `hand` has in hand, and will [`Self::begin`] it. An
    /// interrupt that was for `hand` is kept for that one.
    pub fn hand_over(&self, hand: &Hand) {
        let unique = hand.unique.swap(0, SeqCst);
        if unique != 0 && hand.interrupted.load(SeqCst) == unique {
            drop(lock(&hand.sending));
            self.interrupt(unique);
        }
    }

    /// Returns when what others than `own` had taken before, and is one of `operations`, is done: a
    /// thread that is awake may have taken one that is not in its hand yet.
    pub fn settle(&self, own: &Hand, operations: &[u32]) {
        let hands = lock(&self.hands).clone();
        for hand in hands.iter().filter(|hand| hand.thread != own.thread) {
            let start = Instant::now();
            // What takes long is no release of a lock.
            while start.elapsed() < LONG {
                let is_other = match hand.unique.load(SeqCst) {
                    0 => is_asleep(hand.thread),
                    _ => !operations.contains(&hand.opcode.load(Relaxed)),
                };
                if is_other {
                    break;
                }
                let _ = rustix::process::getppid();
            }
        }
    }

    /// It has carried it out.
    pub fn end(&self, hand: &Hand) {
        let unique = hand.unique.swap(0, SeqCst);
        if hand.interrupted.load(SeqCst) == unique {
            // A signal that is being sent is waited for, and taken at the end of a system call: the
            // next request must not meet it.
            drop(lock(&hand.sending));
            let _ = rustix::process::getppid();
        }
    }

    /// Request `unique` is interrupted.
    pub fn interrupt(&self, unique: u64) {
        if self.find(unique) {
            return;
        }
        let place = self.early_next.fetch_add(1, Relaxed) % EARLY;
        self.early[place].store(unique, SeqCst);
        self.any_early.store(true, SeqCst);
        self.find(unique);
    }

    fn find(&self, unique: u64) -> bool {
        let hands = lock(&self.hands);
        let found = hands.iter().find(|hand| hand.unique.load(SeqCst) == unique);
        if let Some(hand) = found {
            hand.interrupted.store(unique, SeqCst);
            self.tell(|work| work.signals = true);
        }
        found.is_some()
    }

    /// The connection has ended. What is still being done for somebody who waited for it is
    /// interrupted; the operations that are.
    pub fn abandon(&self) -> Vec<&'static str> {
        let hands = lock(&self.hands);
        let awaited = hands.iter().filter_map(|hand| {
            let (unique, operation) = hand.operation()?;
            hand.interrupted.store(unique, SeqCst);
            Some(operation)
        });
        let abandoned = awaited.collect();
        self.tell(|work| work.signals = true);
        abandoned
    }

    /// All threads have left.
    pub fn close(&self) {
        self.tell(|work| work.ended = true);
    }

    fn tell(&self, what: impl FnOnce(&mut Work)) {
        what(&mut lock(&self.work));
        self.told.notify_one();
    }

    /// The life of the thread that sends signals: sleeps while nobody is interrupted.
    pub fn watch(&self) {
        let mut work = lock(&self.work);
        while !work.ended {
            if !work.signals && !work.looks {
                work = self.told.wait(work).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let (signals, looks) = (work.signals, work.looks);
            (work.signals, work.looks) = (false, false);
            drop(work);
            let looks = looks && self.look_or_rest();
            let hands = lock(&self.hands).clone();
            let still = signals && hands.iter().filter(|hand| hand.signal()).count() > 0;
            work = lock(&self.work);
            if still || looks {
                work.signals |= still;
                work.looks |= looks;
                let pause = if still { AGAIN } else { LOOK };
                let waited = self.told.wait_timeout(work, pause);
                work = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// [`Interrupts::look`]; false: there is nothing to look at until a request begins, which
    /// tells.
    fn look_or_rest(&self) -> bool {
        if self.look() {
            return true;
        }
        self.rests.store(true, SeqCst);
        // A request that began before that was said.
        self.look() && self.rests.swap(false, SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A pipe that nobody writes into.
    fn wait_for_ever() -> rustix::io::Errno {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        rustix::io::read(&reader, &mut [0; 1]).unwrap_err()
    }

    #[test]
    fn a_call_that_waits_ends() {
        let interrupts = Interrupts::new();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| interrupts.watch());
            let waiting = scope.spawn(|| {
                let hand = interrupts.join();
                interrupts.begin(&hand, 10, 15, 0);
                tell.send(()).unwrap();
                assert_eq!(wait_for_ever(), rustix::io::Errno::INTR);
                assert!(interrupted());
                interrupts.end(&hand);
                assert!(!interrupted());
                interrupts.leave(&hand);
            });
            told.recv().unwrap();
            interrupts.interrupt(12);
            interrupts.interrupt(10);
            waiting.join().unwrap();
            interrupts.close();
        });
    }

    #[test]
    fn one_that_came_first_is_kept_for_its_request_alone() {
        let interrupts = Interrupts::new();
        std::thread::scope(|scope| {
            scope.spawn(|| interrupts.watch());
            interrupts.interrupt(20);
            let hand = interrupts.join();
            interrupts.begin(&hand, 18, 15, 0);
            assert!(!interrupted());
            interrupts.end(&hand);
            interrupts.begin(&hand, 20, 15, 0);
            assert!(interrupted());
            assert_eq!(wait_for_ever(), rustix::io::Errno::INTR);
            interrupts.end(&hand);
            interrupts.begin(&hand, 22, 15, 0);
            assert!(!interrupted());
            interrupts.end(&hand);
            interrupts.leave(&hand);
            interrupts.close();
        });
    }

    /// The kernel says nothing, but the caller is a stopped process that a signal waits for.
    #[test]
    fn what_the_kernel_does_not_say_is_looked_for() {
        use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).unwrap();
        waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
        let interrupts = Interrupts::new();
        interrupts.look_for_signals();
        std::thread::scope(|scope| {
            scope.spawn(|| interrupts.watch());
            let hand = interrupts.join();
            // Nothing waits for it: what is in hand goes on, and nobody looks twice.
            interrupts.begin(&hand, 10, 20, child.id());
            while hand.looked.load(SeqCst) != 10 {
                std::thread::yield_now();
            }
            assert!(!interrupted());
            interrupts.end(&hand);
            kill_process(pid, Signal::USR1).unwrap();
            interrupts.begin(&hand, 12, READ, child.id());
            while hand.looked.load(SeqCst) != 12 {
                std::thread::yield_now();
            }
            assert!(!interrupted());
            // It has been looked at already.
            interrupts.is_awaited(&hand);
            assert_eq!(wait_for_ever(), rustix::io::Errno::INTR);
            assert!(interrupted());
            interrupts.end(&hand);
            interrupts.begin(&hand, 14, 20, child.id());
            assert_eq!(wait_for_ever(), rustix::io::Errno::INTR);
            assert!(interrupted());
            interrupts.end(&hand);
            interrupts.leave(&hand);
            interrupts.close();
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
