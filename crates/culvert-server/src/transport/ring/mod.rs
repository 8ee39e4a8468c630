//! FUSE over io_uring (Linux 6.14): requests and replies by rings, one queue for each processor,
//! one system call for each request.
//!
//! A request goes to the queue of the processor that its caller runs on. Each queue has threads
//! bound to that processor, so that caller and server take turns on it: nobody is woken on another
//! one, which on virtual machines costs more than the request. Each thread has one entry (see
//! `entry`); of those that wait the kernel takes the one that has waited the shortest. A queue
//! whose threads are all held up gets another one from the steward.
//!
//! FORGET and INTERRUPT, notifications and INIT go by /dev/fuse
//! (Documentation/filesystems/fuse/fuse-io-uring.rst).

mod class;
mod entry;
mod uring;

use super::{Server, Transport, Way, readers::MAXIMUM_DATA};
use crate::{
    buffer,
    capabilities::{self, Capability, LOCKS},
    channel::{Channel, DeviceFuse, RequestChannel},
    report::report,
    retry::Retry,
    session::Session,
    settings::Settings,
    worker::Worker,
};
use class::{Members, Yielding};
use culvert_wire::InitFlags;
use entry::Entry;
use rustix::thread::CpuSet;
use std::{
    fmt, fs, io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Mutex, OnceLock, PoisonError, RwLock,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
        mpsc,
    },
    thread::{self, Scope, Thread},
    time::{Duration, Instant},
};

/// Processors there may be: each has its queue, and each queue wants threads and memory.
const MOST_QUEUES: usize = 64;
/// Threads that a queue begins with: one is in hand, one waits.
const FIRST_THREADS: usize = 2;
/// Descriptors that a server needs besides: for its channels of the device, and for some files.
const OTHERS: usize = 32;
/// Threads that a queue may have: so many of its requests may wait for others.
const MOST_THREADS: usize = 64;
/// The steward is told of a queue that takes requests after each so many of them.
const OFTEN: u64 = 64;
/// How often the steward looks while there is something to do.
const TICK: Duration = Duration::from_millis(1);

/// Why a mount whose server is started again is served by /dev/fuse: `fuse_uring_send_in_task` with
/// `IO_URING_F_TASK_DEAD`, `fuse_resend`, fs/fuse.
const RESTART: &str = "not with restart: a request that is on its way into a ring when the server \
    dies is not sent again, and its caller would wait for ever";

/// FUSE over io_uring.
pub const WAY: Way = Way {
    word: "ring",
    name: "io_uring",
    title: "FUSE over io_uring",
    found: "offered: mounts use it where they can (transport=auto)",
    missed: "",
    available,
    capability: Some(Capability {
        flag: InitFlags::OVER_IO_URING,
        name: "over-io-uring",
        reason: "requests and answers by rings of shared memory, one for each processor: one \
            system call for each, and nobody is woken on another processor",
        honoured: capabilities::always,
        switchable: true,
    }),
    fits,
    make: Some(|session, channel| {
        let gives_way = !session.settings.without(capabilities::GIVE_WAY);
        Ok(Box::new(Rings::new(
            channel.device()?,
            MAXIMUM_DATA,
            gives_way,
        )?))
    }),
};

/// Whether this process may serve by rings, on this machine; if not, why.
///
/// # Errors
/// The reason.
fn available() -> Result<(), String> {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    match fs::read_to_string(SWITCH).as_deref().map(str::trim) {
        Ok("Y" | "1") => {}
        Ok(_) => return Err(format!("switched off (root: echo 1 > {SWITCH})")),
        Err(_) => return Err("the kernel has none (Linux 6.14, CONFIG_FUSE_IO_URING)".into()),
    }
    let count = queues().map_err(|error| format!("processors cannot be counted: {error}"))?;
    if count > MOST_QUEUES {
        return Err(format!(
            "the machine may have {count} processors, each of which would need a queue; \
            {MOST_QUEUES} are the most"
        ));
    }
    match uring::Uring::new() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("io_uring: {error}")),
    }
}

/// Whether a session of `settings` is to be served so; if not, why. Where the user has not chosen
/// it is wherever it can be: by its medians it was nowhere slower (docs/performance.md).
///
/// # Errors
/// The reason.
///
/// Not with locks that are the server's ([`LOCKS`]).
fn fits(settings: &Settings, channel: &dyn RequestChannel) -> Result<(), String> {
    if settings.handover.has_keeper() {
        return Err(RESTART.into());
    }
    if LOCKS
        .iter()
        .any(|name| settings.with.iter().any(|with| with == name))
    {
        return Err("requests that wait for locks would keep the places of a ring".into());
    }
    available()?;
    if settings.transport.is_none() {
        beginning().map_err(|error| format!("not enough for its threads: {error}"))?;
    }
    // Whoever plays the kernel (tests, fuzzing) has no device for rings.
    channel
        .device()
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Makes what all queues need at first, and gives it back: once INIT is answered a queue without a
/// thread would end the mount, where /dev/fuse does with fewer.
fn beginning() -> io::Result<()> {
    buffer::keep_together();
    let count = queues()? * FIRST_THREADS;
    let others = (0..OTHERS).map(|_| io::stderr().as_fd().try_clone_to_owned());
    let _others: Vec<_> = others.collect::<io::Result<_>>()?;
    let (told, all) = mpsc::channel::<io::Result<()>>();
    let gate = RwLock::new(());
    // Each keeps what it has made until all have made theirs.
    let closed = gate.write().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        let started = (0..count).try_for_each(|_| {
            let (told, gate) = (told.clone(), &gate);
            let make = move || {
                // A second descriptor in place of the device's.
                let made = uring::Uring::new()
                    .and_then(|ring| Ok((ring, io::stderr().as_fd().try_clone_to_owned()?)));
                let result = made.as_ref().map(|_| ());
                let _ = told.send(result.map_err(|error| error.kind().into()));
                drop(gate.read());
            };
            thread::Builder::new().spawn_scoped(scope, make).map(|_| ())
        });
        let made = started.and_then(|()| all.iter().take(count).collect());
        drop(closed);
        made
    })
}

/// As many queues as the kernel makes: one for each possible processor (`fuse_uring_create`,
/// fs/fuse/dev_uring.c).
fn queues() -> io::Result<usize> {
    let listed = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = listed.trim().rsplit([',', '-']).next();
    let last = last.and_then(|number| number.parse::<usize>().ok());
    Ok(last.ok_or(io::ErrorKind::InvalidData)? + 1)
}

/// A queue's threads.
#[derive(Debug, Default)]
struct Queue {
    threads: AtomicUsize,
    /// Those that have a request in hand.
    busy: AtomicUsize,
    /// Requests taken.
    taken: AtomicU64,
    members: Members,
}

/// All queues of a connection.
#[derive(Debug)]
pub struct Rings {
    queues: Vec<Queue>,
    device: OwnedFd,
    /// Bytes of an entry's payload.
    payload: usize,
    /// The regular file that was opened last, by the kernel's number; 0: none.
    file: AtomicU64,
    steward: OnceLock<Thread>,
    steward_sleeps: AtomicBool,
    /// Queues may give way (see `class`).
    gives_way: bool,
    /// When a queue may get another thread, after one could not be made.
    retry: Mutex<Retry>,
    ended: AtomicBool,
}

impl Rings {
    /// For the connection of `device`, with requests and answers of up to `payload` bytes.
    /// `gives_way`: its threads may, see `class`.
    ///
    /// # Errors
    /// The processors cannot be counted.
    pub fn new(device: OwnedFd, payload: usize, gives_way: bool) -> io::Result<Self> {
        let gives_way = gives_way && class::available();
        Ok(Self {
            queues: (0..queues()?).map(|_| Queue::default()).collect(),
            device,
            payload,
            file: AtomicU64::new(0),
            steward: OnceLock::new(),
            steward_sleeps: AtomicBool::new(false),
            gives_way,
            retry: Mutex::default(),
            ended: AtomicBool::new(false),
        })
    }

    /// Starts a thread for queue `number`, where requests wait if it `is_full`.
    fn add<'scope>(
        &'scope self,
        number: usize,
        is_full: bool,
        session: &'scope Session,
        scope: &'scope Scope<'scope, '_>,
    ) {
        let queue = &self.queues[number];
        queue.threads.fetch_add(1, SeqCst);
        let thread = thread::Builder::new().name(format!("queue {number}"));
        let started = thread.spawn_scoped(scope, move || {
            let outcome = queue.members.with(|| self.serve(number, is_full, session));
            let last = queue.threads.fetch_sub(1, SeqCst) == 1;
            match outcome {
                Ok(()) => self.stop(),
                Err(error) => {
                    self.failed(format_args!("a thread of queue {number} ended: {error}"));
                    Self::end_without(last);
                }
            }
        });
        if let Err(error) = started {
            let last = queue.threads.fetch_sub(1, SeqCst) == 1;
            self.failed(format_args!("queue {number} has a thread less: {error}"));
            Self::end_without(last);
        }
    }

    fn retry(&self) -> std::sync::MutexGuard<'_, Retry> {
        self.retry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, line: fmt::Arguments<'_>) {
        self.retry().failed(Instant::now(), line);
    }

    /// Ends the server if the `last` thread of a queue is gone: the kernel would wait for that
    /// queue for ever, with all that asks it. ENOTCONN is better.
    fn end_without(last: bool) {
        if last {
            report(format_args!(
                "a queue without threads cannot be served: the server ends; use transport=device"
            ));
            std::process::exit(1);
        }
    }

    /// One thread's life.
    fn serve(&self, number: usize, is_full: bool, session: &Session) -> io::Result<()> {
        let mut processor = CpuSet::new();
        processor.set(number);
        // Elsewhere it serves as well, if more slowly: where the processor is not online, or not
        // allowed.
        let _ = rustix::thread::sched_setaffinity(None, &processor);
        let device = DeviceFuse::new(self.device.try_clone()?);
        let mut entry = Entry::register(device, number as u16, self.payload)?;
        self.retry().worked();
        if is_full {
            let file = self.file.load(Relaxed);
            if let Err(error) = entry.call_those_that_wait(file, &session.protocol) {
                self.retry().failed(
                    Instant::now(),
                    format_args!("requests of queue {number} wait: {error}"),
                );
            }
        }
        let mut worker = Worker::new(session, None);
        let queue = &self.queues[number];
        while let Some(taken) = entry.next()? {
            let count = queue.taken.fetch_add(1, Relaxed);
            if let Some(file) = taken.opened() {
                self.file.store(file, Relaxed);
            }
            queue.busy.fetch_add(1, SeqCst);
            // It sleeps only after it has seen that no queue is full.
            let wanted = self.is_full(queue) || self.gives_way && count.is_multiple_of(OFTEN);
            if wanted && self.steward_sleeps.load(SeqCst) {
                self.tell_steward();
            }
            let channel: &dyn Channel = &taken.channel;
            let done = worker.carry_out(channel, taken.request, taken.out);
            queue.busy.fetch_sub(1, SeqCst);
            done?;
        }
        Ok(())
    }

    fn is_full(&self, queue: &Queue) -> bool {
        let threads = queue.threads.load(SeqCst);
        (1..MOST_THREADS).contains(&threads) && queue.busy.load(SeqCst) >= threads
    }

    fn tell_steward(&self) {
        if let Some(steward) = self.steward.get() {
            steward.unpark();
        }
    }

    /// The connection has ended.
    fn stop(&self) {
        self.ended.store(true, SeqCst);
        self.tell_steward();
    }

    /// The steward's life: gives a thread to a queue that has been full for a tick and took nothing
    /// meanwhile; has those give way that are brisk; sleeps while none is either.
    fn watch<'scope>(&'scope self, session: &'scope Session, scope: &'scope Scope<'scope, '_>) {
        let _ = self.steward.set(thread::current());
        let mut full: Vec<Option<u64>> = vec![None; self.queues.len()];
        let mut all_yielding: Vec<Yielding> = Vec::new();
        all_yielding.resize_with(self.queues.len(), || Yielding::new(Instant::now()));
        while !self.ended.load(SeqCst) {
            let (mut brisk, mut any) = (false, false);
            if self.gives_way {
                let now = Instant::now();
                for (queue, yielding) in self.queues.iter().zip(&mut all_yielding) {
                    brisk |= yielding.look(&queue.members, queue.taken.load(Relaxed), now);
                }
            }
            for (number, queue) in self.queues.iter().enumerate() {
                let before = full[number].take();
                if !self.is_full(queue) {
                    continue;
                }
                any = true;
                let now = queue.taken.load(Relaxed);
                match before == Some(now) && self.retry().wait(Instant::now()).is_zero() {
                    true => self.add(number, true, session, scope),
                    false => full[number] = Some(now),
                }
            }
            if brisk || any {
                // The lock is given back before: threads that are made ask for it.
                let wait = self.retry().wait(Instant::now());
                // Who gives way must not wait for memory.
                thread::park_timeout(if brisk { TICK } else { wait.max(TICK) });
                continue;
            }
            self.steward_sleeps.store(true, SeqCst);
            if !self.queues.iter().any(|queue| self.is_full(queue)) && !self.ended.load(SeqCst) {
                thread::park();
            }
            self.steward_sleeps.store(false, SeqCst);
        }
    }
}

impl Transport for Rings {
    fn start<'scope>(
        &'scope self,
        session: &'scope Session,
        scope: &'scope Scope<'scope, '_>,
    ) -> Vec<Server<'scope>> {
        session.interrupts.look_for_signals();
        for number in 0..self.queues.len() {
            for _ in 0..FIRST_THREADS {
                self.add(number, false, session, scope);
            }
        }
        scope.spawn(|| self.watch(session, scope));
        // What ends the connection is seen by who reads the device.
        Vec::new()
    }

    fn end(&self) {
        self.stop();
    }
}
