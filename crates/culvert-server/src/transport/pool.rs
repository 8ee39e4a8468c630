//! Which threads wait for requests: as few as keep up with them, so that a program that asks one
//! thing after the other is served by one thread that stays awake and warm, not by each in turn
//! (the kernel wakes the one that has slept longest).
//!
//! A thread that finds a request at once, three times running, calls another in; one that finds
//! nothing while others wait, rests. The last looks for requests a little longer without sleeping,
//! because waking costs several times what most requests do, then sleeps in the kernel. It does so
//! while that finds requests: where the program runs on the same processor, because others have the
//! rest, or thinks for longer, looking is in vain, and sleep is better. Should it be held up by
//! what it does (a driver that waits), the steward calls another in after two ticks, a new one if
//! none rests: of requests that wait, however many, one more must still be taken, if only to hear
//! that they are interrupted. The steward itself sleeps while nothing happens.
//!
//! Nothing here yields its processor: since Linux 6.18 sched_yield(2) gives a whole slice away
//! (`yield_task_fair`, kernel/sched/fair.c), and who has yielded waits for milliseconds when it is
//! wanted next.

use crate::{
    buffer::{self, Buffer},
    channel::RequestChannel,
    retry::Retry,
};
use std::{
    io,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a thread looks for the next request before it sleeps: about what two wake-ups cost on a
/// virtual machine.
const AWAKE: Duration = Duration::from_micros(50);
/// After one search in vain it sleeps at once for the next four requests, after two running for
/// sixteen, and so on up to 4 to this power.
const PATIENCE: u32 = 5;
/// A request that comes sooner than this to a thread that went to sleep was there already.
const AT_ONCE: Duration = Duration::from_micros(2);
/// How often the steward looks.
const TICK: Duration = Duration::from_millis(1);
/// After so long without a request the memory that is held for the next ones is given back.
const IDLE: Duration = Duration::from_secs(1);
/// So many requests found at once mean that one thread more has something to do.
const BACKLOG: u32 = 3;

/// The threads of a connection.
#[derive(Debug)]
pub struct Pool {
    /// Threads that wait for a request, or are about to.
    waiting: AtomicUsize,
    /// Requests taken.
    taken: AtomicU64,
    /// One thread at most stays awake for requests.
    awake: AtomicBool,
    stays_awake: bool,
    /// Requests until one may stay awake again.
    asleep: AtomicUsize,
    /// Searches in vain, running.
    vain: AtomicU32,
    resting: Mutex<Resting>,
    called: Condvar,
    steward: Mutex<Option<thread::Thread>>,
    steward_sleeps: AtomicBool,
    /// How often nothing happened for so long that memory is given back.
    idle: AtomicU32,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Resting {
    threads: usize,
    /// How many of them are to come.
    calls: usize,
}

/// What a thread keeps from one request to the next.
#[derive(Debug, Default)]
pub struct Turn {
    /// Requests found at once, running.
    backlog: u32,
    waits: bool,
}

impl Pool {
    /// A pool whose last thread stays awake a little.
    pub fn new(stays_awake: bool) -> Self {
        let several = thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        Self {
            waiting: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            awake: AtomicBool::new(false),
            stays_awake: stays_awake && several,
            asleep: AtomicUsize::new(0),
            vain: AtomicU32::new(0),
            resting: Mutex::default(),
            called: Condvar::new(),
            steward: Mutex::new(None),
            steward_sleeps: AtomicBool::new(false),
            idle: AtomicU32::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// The next request, in `buffer`; its length, 0 when the connection has ended. `give_back` is
    /// called when a thread rests while nothing happens.
    ///
    /// # Errors
    /// The channel is broken.
    pub fn next(
        &self,
        channel: &dyn RequestChannel,
        turn: &mut Turn,
        buffer: &mut Buffer,
        give_back: &mut dyn FnMut(),
    ) -> io::Result<usize> {
        let found = self.find(channel, turn, buffer, give_back);
        if turn.waits {
            turn.waits = false;
            self.waiting.fetch_sub(1, SeqCst);
        }
        match found {
            Ok(length) if length > 0 => {
                self.taken.fetch_add(1, SeqCst);
                // It sleeps only after it has seen that nothing was taken since it said so.
                if self.steward_sleeps.swap(false, SeqCst) {
                    self.tell_steward();
                }
            }
            _ => self.end(),
        }
        found
    }

    fn find(
        &self,
        channel: &dyn RequestChannel,
        turn: &mut Turn,
        buffer: &mut Buffer,
        give_back: &mut dyn FnMut(),
    ) -> io::Result<usize> {
        loop {
            turn.waits = true;
            let alone = self.waiting.fetch_add(1, SeqCst) == 0;
            let sleeps = alone && !self.may_stay_awake();
            if !sleeps && let Some(length) = channel.receive_now(buffer)? {
                self.at_once(turn, true);
                return Ok(length);
            }
            if sleeps {
                let start = Instant::now();
                let found = channel.receive(buffer)?;
                self.at_once(turn, start.elapsed() < AT_ONCE);
                return Ok(found);
            }
            turn.backlog = 0;
            // Not the last one.
            let leaves = self
                .waiting
                .fetch_update(SeqCst, SeqCst, |count| (count > 1).then(|| count - 1));
            if leaves.is_err() {
                break;
            }
            turn.waits = false;
            let idle = || {
                buffer.give_back();
                give_back();
            };
            if !self.rest(idle) {
                return Ok(0);
            }
        }
        if self.stays_awake && !self.awake.swap(true, SeqCst) {
            let found = self.look(channel, buffer);
            self.awake.store(false, SeqCst);
            if let Some(length) = found? {
                return Ok(length);
            }
        }
        channel.receive(buffer)
    }

    /// A request was there at once, or was not: several that were mean that another thread has
    /// something to do.
    fn at_once(&self, turn: &mut Turn, was: bool) {
        turn.backlog = if was { turn.backlog + 1 } else { 0 };
        if turn.backlog >= BACKLOG {
            turn.backlog = 0;
            self.call();
        }
    }

    fn may_stay_awake(&self) -> bool {
        let less = |count: usize| count.checked_sub(1);
        self.stays_awake && self.asleep.fetch_update(SeqCst, SeqCst, less).is_err()
    }

    /// Looks for a request for a while.
    fn look(&self, channel: &dyn RequestChannel, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let start = Instant::now();
        loop {
            let found = channel.receive_now(buffer)?;
            if found.is_some() {
                self.vain.store(0, SeqCst);
                return Ok(found);
            }
            if start.elapsed() > AWAKE {
                let vain = (self.vain.load(SeqCst) + 1).min(PATIENCE);
                self.vain.store(vain, SeqCst);
                self.asleep.store(4_usize.pow(vain), SeqCst);
                return Ok(None);
            }
        }
    }

    fn tell_steward(&self) {
        if let Some(steward) = &*self.steward.lock().unwrap_or_else(PoisonError::into_inner) {
            steward.unpark();
        }
    }

    fn resting(&self) -> MutexGuard<'_, Resting> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until called, and gives back when nothing happens; false: the connection has ended.
    fn rest(&self, mut give_back: impl FnMut()) -> bool {
        let mut resting = self.resting();
        resting.threads += 1;
        let mut given_back = self.idle.load(SeqCst);
        while resting.calls == 0 && !self.ended.load(SeqCst) {
            if given_back != self.idle.load(SeqCst) {
                given_back = self.idle.load(SeqCst);
                give_back();
                continue;
            }
            resting = self
                .called
                .wait(resting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        resting.threads -= 1;
        resting.calls = resting.calls.saturating_sub(1);
        !self.ended.load(SeqCst)
    }

    /// Calls a thread that rests, if there is one; whether there was.
    fn call(&self) -> bool {
        let mut resting = self.resting();
        let somebody = resting.threads > resting.calls;
        if somebody {
            resting.calls += 1;
            self.called.notify_one();
        }
        somebody
    }

    /// Has all give back what they do not need while nothing happens.
    fn give_back(&self) {
        let resting = self.resting();
        self.idle.fetch_add(1, SeqCst);
        drop(resting);
        self.called.notify_all();
        buffer::trim();
    }

    /// The connection has ended, for all.
    pub fn end(&self) {
        self.ended.store(true, SeqCst);
        // With the lock, so that nobody who has just looked misses it.
        drop(self.resting());
        self.called.notify_all();
        self.tell_steward();
    }

    /// A thread more for requests that wait for one, if `start` makes one; where it fails, it is
    /// tried again in time.
    fn start(&self, start: &mut impl FnMut() -> io::Result<bool>, retry: &mut Retry) -> bool {
        if !retry.wait(Instant::now()).is_zero() {
            return false;
        }
        match start() {
            Ok(started) => {
                retry.worked();
                started
            }
            Err(error) => {
                let line = format_args!("no thread can be added yet: {error}");
                retry.failed(Instant::now(), line);
                false
            }
        }
    }

    /// The steward's life: until the connection ends. `start` starts a thread more; false: there
    /// may be no more.
    pub fn watch(&self, mut start: impl FnMut() -> io::Result<bool>) {
        let mut retry = Retry::default();
        *self.steward.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        let (mut before, mut since) = (u64::MAX, Instant::now());
        // At how many requests memory was given back.
        let mut given_back = 0;
        while !self.ended.load(SeqCst) {
            let now = self.taken.load(SeqCst);
            let still = now == before;
            before = now;
            if !still {
                since = Instant::now();
                thread::park_timeout(TICK);
                continue;
            }
            if self.waiting.load(SeqCst) == 0 && (self.call() || self.start(&mut start, &mut retry))
            {
                // It takes a request if there is one; else it waits for the next.
                before = u64::MAX;
                continue;
            }
            // Nothing happens, or all are busy: whoever has slept for a request tells.
            self.steward_sleeps.store(true, SeqCst);
            if self.taken.load(SeqCst) == now && !self.ended.load(SeqCst) {
                let busy = self.waiting.load(SeqCst) == 0;
                let again = retry.pending(Instant::now()).filter(|_| busy);
                match (again, IDLE.saturating_sub(since.elapsed())) {
                    (Some(again), _) => thread::park_timeout(again),
                    _ if given_back == now => thread::park(),
                    (None, Duration::ZERO) => {
                        self.give_back();
                        given_back = now;
                    }
                    (None, rest) => thread::park_timeout(rest),
                }
            }
            self.steward_sleeps.store(false, SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use culvert_wire::Message;
    use std::sync::mpsc;

    /// Requests are numbers that come by a queue; 0 ends it.
    struct Queue(Mutex<mpsc::Receiver<usize>>);

    impl RequestChannel for std::sync::Arc<Queue> {
        fn receive(&self, _: &mut [u8]) -> io::Result<usize> {
            let queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(queue.recv().unwrap_or(0))
        }
        fn receive_now(&self, _: &mut [u8]) -> io::Result<Option<usize>> {
            let Ok(queue) = self.0.try_lock() else {
                return Ok(None);
            };
            Ok(queue.try_recv().ok())
        }
        fn another(&self) -> io::Result<Box<dyn RequestChannel>> {
            Ok(Box::new(self.clone()))
        }
    }

    impl Channel for std::sync::Arc<Queue> {
        fn send(&self, _: &Message<'_>) -> io::Result<()> {
            Ok(())
        }
    }

    fn room() -> Buffer {
        Buffer::new(1, 0).expect("memory")
    }

    /// Runs `threads` threads of a pool; `serve` does what a request asks. Ends when the sender
    /// that `feed` gets is dropped.
    fn run(threads: usize, serve: impl Fn(usize) + Sync, feed: impl FnOnce(mpsc::Sender<usize>)) {
        let (sender, receiver) = mpsc::channel();
        let queue = std::sync::Arc::new(Queue(Mutex::new(receiver)));
        let pool = Pool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| pool.watch(|| Ok(false)));
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut turn = Turn::default();
                    while let Ok(request @ 1..) =
                        pool.next(&queue, &mut turn, &mut room(), &mut || {})
                    {
                        serve(request);
                    }
                });
            }
            feed(sender);
        });
    }

    #[test]
    fn every_request_is_taken_once() {
        let sum = AtomicUsize::new(0);
        run(
            4,
            |request| {
                sum.fetch_add(request, SeqCst);
            },
            |sender| (1..=10_000).for_each(|request| sender.send(request).expect("they live")),
        );
        assert_eq!(sum.load(SeqCst), 10_000 * 10_001 / 2);
    }

    /// The same with fewer threads than requests: the steward starts what is missing, again where
    /// it cannot at first.
    #[test]
    fn threads_are_started_for_requests_that_wait() {
        const COUNT: usize = 6;
        let (sender, receiver) = mpsc::channel();
        let queue = std::sync::Arc::new(Queue(Mutex::new(receiver)));
        let (pool, done, others) = (Pool::new(true), Mutex::new(0), Condvar::new());
        let serve = || {
            let mut turn = Turn::default();
            while let Ok(1..) = pool.next(&queue, &mut turn, &mut room(), &mut || {}) {
                let mut done = done.lock().expect("no panic");
                *done += 1;
                others.notify_all();
                while *done < COUNT {
                    done = others.wait(done).expect("no panic");
                }
            }
        };
        let serve = &serve;
        thread::scope(|scope| {
            scope.spawn(serve);
            scope.spawn(|| {
                let mut fails = [true, true, true, false].into_iter().cycle();
                pool.watch(|| {
                    // Nothing is taken meanwhile that would make it look again.
                    if fails.next() == Some(true) {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                    scope.spawn(serve);
                    Ok(true)
                });
            });
            (1..=COUNT).for_each(|request| sender.send(request).expect("they live"));
            drop(sender);
        });
        assert_eq!(done.into_inner().expect("no panic"), COUNT);
    }

    /// Each request but the last waits for the one after it: none may hold up the others.
    #[test]
    fn a_request_that_waits_holds_up_nobody() {
        const COUNT: usize = 4;
        let (done, others) = (Mutex::new(0), Condvar::new());
        run(
            COUNT,
            |request| {
                let mut done = done.lock().expect("no panic");
                while request < COUNT && *done <= request {
                    done = others.wait(done).expect("no panic");
                }
                *done = request.max(*done);
                others.notify_all();
            },
            |sender| (1..=COUNT).for_each(|request| sender.send(request).expect("they live")),
        );
    }
}
