//! The scheduling class of a queue's threads: what keeps a caller on the processor of its queue.
//!
//! When an answer wakes its caller, the kernel looks for an idle processor. It finds another one
//! than the caller's, because on that one the answering thread still runs; the next request then
//! goes to another queue, and each wakes a processor that sleeps: on virtual machines that costs
//! more than the request. A processor that runs nothing but threads of the class SCHED_IDLE counts
//! as idle (`sched_idle_cpu`, kernel/sched/fair.c), and a caller that wakes there runs at once. So
//! the threads of a queue *give way* (are of that class) while requests follow each other quickly.
//!
//! The price: such a thread gets next to nothing of a processor that others want too. So the
//! steward looks after a queue that gives way every tick, and ends it when no request was taken
//! since. If a thread was ready to run meanwhile, it was held up, and its queue does not give way
//! for a pause that doubles. Whatever happens, a request is held up so for about two ticks.

use culvert_sys::process::{gettid, sched_getscheduler, sched_setscheduler};
use std::{
    fs,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

const SCHED_OTHER: u32 = 0;
const SCHED_IDLE: u32 = 5;
/// Threads that a driver starts are not of the class.
const SCHED_RESET_ON_FORK: u32 = 0x4000_0000;

/// A queue gives way when so many requests were taken in a millisecond,
const BRISK: u64 = 4;
/// and no longer when so few were.
const SLACK: u64 = 1;
/// For so long a queue that was held up does not give way again; then twice as long, and so on.
const FIRST_PAUSE: Duration = Duration::from_millis(16);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A queue that has given way for so long without being held up begins with the first pause again.
const LASTING: Duration = Duration::from_millis(200);

/// Whether threads of this process may give way, and may stop doing so: the latter takes
/// CAP_SYS_NICE (`user_check_sched_setscheduler`, kernel/sched/syscalls.c). What was started with
/// another class stays in it.
pub fn available() -> bool {
    let tried = thread::Builder::new().spawn(|| {
        sched_getscheduler(0) == Ok(SCHED_OTHER)
            && sched_setscheduler(0, SCHED_IDLE | SCHED_RESET_ON_FORK).is_ok()
            && sched_setscheduler(0, SCHED_OTHER).is_ok()
    });
    tried.is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// The threads of a queue, by the kernel's numbers.
#[derive(Debug, Default)]
pub struct Members(Mutex<Vec<u32>>);

impl Members {
    /// The calling thread is one until `work` returns.
    pub fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Leaves<'a>(&'a Members, u32);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                self.0.all().retain(|thread| *thread != self.1);
            }
        }
        let own = gettid();
        self.all().push(own);
        let _leaves = Leaves(self, own);
        work()
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While the list is held no thread of it ends, so a number is its thread's.
    fn set_class(&self, class: u32) {
        for thread in self.all().iter() {
            let _ = sched_setscheduler(*thread, class);
        }
    }

    /// Whether one of them runs, or would like to.
    fn any_ready(&self) -> bool {
        self.all().iter().any(|thread| {
            let line = fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
            // The name ends with the last parenthesis. What cannot be read may be ready.
            line.map_or(true, |line| {
                line.rsplit(')')
                    .next()
                    .is_none_or(|rest| rest.trim_start().starts_with('R'))
            })
        })
    }
}

/// Whether a queue gives way, and what the steward has seen of it.
#[derive(Debug)]
pub struct Yielding {
    /// Since when the queue gives way.
    since: Option<Instant>,
    /// Requests that it had taken, and when that was seen.
    taken: u64,
    looked: Instant,
    /// It does not give way before this.
    due: Instant,
    pause: Duration,
}

impl Yielding {
    pub const fn new(now: Instant) -> Self {
        Self {
            since: None,
            taken: 0,
            looked: now,
            due: now,
            pause: Duration::ZERO,
        }
    }

    /// Looks at a queue of `members` that has `taken` so many requests by `now`, and has them give
    /// way or not. Whether it is to be looked at again after a tick.
    pub fn look(&mut self, members: &Members, taken: u64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.looked);
        let count = taken.wrapping_sub(self.taken);
        let rate = count * 1000 / (passed.as_micros() as u64).max(1000);
        (self.taken, self.looked) = (taken, now);
        match self.since {
            None if rate >= BRISK && now >= self.due => {
                members.set_class(SCHED_IDLE | SCHED_RESET_ON_FORK);
                self.since = Some(now);
            }
            Some(began) if rate <= SLACK => {
                let held_up = count == 0 && members.any_ready();
                members.set_class(SCHED_OTHER);
                self.since = None;
                let lasted = now.saturating_duration_since(began);
                if !held_up || lasted >= LASTING {
                    self.pause = Duration::ZERO;
                }
                if held_up {
                    self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                    self.due = now + self.pause;
                }
            }
            _ => {}
        }
        self.since.is_some() || count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    };

    fn class_of(thread: u32) -> u32 {
        sched_getscheduler(thread).expect("it lives")
    }

    /// A member that spins while told to, and what the steward does about it.
    fn with_member(work: impl FnOnce(&Members, u32, &AtomicBool)) {
        let (members, spins, ends) = (
            Members::default(),
            AtomicBool::new(false),
            AtomicBool::new(false),
        );
        let (told, number) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                members.with(|| {
                    let own = gettid();
                    told.send(own).expect("it waits");
                    while !ends.load(SeqCst) {
                        if !spins.load(SeqCst) {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                });
            });
            let number = number.recv().expect("it lives");
            // Not in vain: a member that sleeps is not ready when it is looked at.
            while members.any_ready() {
                thread::yield_now();
            }
            // It ends when `work` fails, too.
            struct Ends<'a>(&'a AtomicBool);
            impl Drop for Ends<'_> {
                fn drop(&mut self) {
                    self.0.store(true, SeqCst);
                }
            }
            let _ends = Ends(&ends);
            work(&members, number, &spins);
        });
        assert!(members.all().is_empty());
    }

    #[test]
    fn a_brisk_queue_gives_way_until_it_rests() {
        if !available() {
            return;
        }
        with_member(|members, number, _| {
            let mut now = Instant::now();
            let mut yielding = Yielding::new(now);
            let mut tick = |yielding: &mut Yielding, taken| {
                now += Duration::from_millis(1);
                yielding.look(members, taken, now)
            };
            assert!(tick(&mut yielding, 2), "it is looked at while it takes");
            assert_eq!(class_of(number), SCHED_OTHER, "two in a tick are few");
            assert!(tick(&mut yielding, 40));
            assert_eq!(class_of(number), SCHED_IDLE | SCHED_RESET_ON_FORK);
            assert!(tick(&mut yielding, 80));
            assert_eq!(class_of(number), SCHED_IDLE | SCHED_RESET_ON_FORK);
            // It rests, so it may give way again at once.
            while members.any_ready() {
                thread::yield_now();
            }
            assert!(!tick(&mut yielding, 80));
            assert_eq!(class_of(number), SCHED_OTHER);
            assert_eq!(yielding.pause, Duration::ZERO);
        });
    }

    #[test]
    fn a_queue_that_was_held_up_pauses() {
        if !available() {
            return;
        }
        with_member(|members, number, spins| {
            spins.store(true, SeqCst);
            let mut now = Instant::now();
            let mut yielding = Yielding::new(now);
            let mut taken = 0;
            let mut pause = Duration::ZERO;
            while pause < LONGEST_PAUSE {
                now = now.max(yielding.due) + Duration::from_millis(1);
                taken += 100_000;
                assert!(yielding.look(members, taken, now));
                assert_eq!(class_of(number), SCHED_IDLE | SCHED_RESET_ON_FORK);
                while !members.any_ready() {
                    thread::yield_now();
                }
                now += Duration::from_millis(1);
                yielding.look(members, taken, now);
                assert_eq!(class_of(number), SCHED_OTHER);
                assert!(yielding.due > now, "it pauses");
                now += Duration::from_millis(1);
                taken += 100_000;
                assert!(yielding.look(members, taken, now));
                assert_eq!(class_of(number), SCHED_OTHER, "brisk, in the pause");
                assert!(yielding.pause > pause, "longer each time");
                pause = yielding.pause;
            }
        });
    }
}
