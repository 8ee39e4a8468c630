//! A connection: INIT, then requests until it ends.

mod negotiation;
mod worker;

pub(crate) use worker::Worker;

use crate::{
    attributes::Numbers,
    belief, capabilities,
    counters::Counters,
    dispatch::{OpenDirectory, OpenFile},
    estate::{Estate, Evidence, Place},
    groups::Permitted,
    handles::Handles,
    history::History,
    identity::Identity,
    interrupts::{Hand, Interrupts},
    locks::Locks,
    notices::{self, Notices, Teller},
    passthrough::Backings,
    pool::{Pool, Turn},
    report::report,
    ring::Rings,
    room::{self, Room},
    stores::Stores,
    transport::{Channel, Transport},
    unopened::Unopened,
};
use culvert::{Change, FileSystem, Layered, Observed, Observer, Validity};
use culvert_wire::{InitFlags, Protocol};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// The largest write and read, bytes: what `fs.fuse.max_pages_limit` (256 pages) allows.
const MAXIMUM_DATA: usize = 1 << 20;
/// Room for header and structures in front of the data.
const MAXIMUM_HEAD: usize = 4096;

/// Threads that may be added to those that a session begins with, when all wait for something.
const MOST_THREADS: usize = 64;

/// What the user may choose.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Capabilities (by [`capabilities::Capability::name`]) that are not to be used.
    pub without: Vec<String>,
    /// Capabilities of [`capabilities::ON_REQUEST`] that are to be used.
    pub with: Vec<String>,
    /// The mount is read-only, whatever the driver could.
    pub read_only: bool,
    /// How long names and attributes may be believed after others than this mount have changed
    /// them; none: as the driver says.
    pub valid: Option<Duration>,
    /// The same for names that do not exist.
    pub absent: Option<Duration>,
    /// Threads; 0: one for each processor, at least 4.
    pub threads: usize,
    /// Every request is printed to standard error.
    pub trace: bool,
    /// What outlives this server, should it be killed, and what an earlier one has left. Its
    /// channels are the session's.
    pub estate: Option<&'static Estate>,
    /// Where it is counted what is done.
    pub counters: Option<&'static Counters>,
    /// How requests come.
    pub requests: Requests,
    /// Seconds after which the kernel ends the connection for a request that was not answered.
    pub request_timeout: Option<u16>,
}

/// How requests come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Requests {
    /// By the faster way of those that there are.
    #[default]
    Auto,
    /// By /dev/fuse.
    Device,
    /// By io_uring, or the mount is not made.
    Ring,
}

impl Settings {
    /// How many threads a session has.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => thread::available_parallelism().map_or(4, |count| count.get().clamp(4, 16)),
            threads => threads,
        }
    }
}

impl Settings {
    /// Whether `capability` is not to be used.
    pub fn without(&self, capability: &str) -> bool {
        self.without.iter().any(|name| name == capability)
    }
}

/// A driver and its connection with a kernel.
pub struct Session {
    pub(crate) filesystem: Box<dyn FileSystem>,
    pub(crate) settings: Settings,
    pub(crate) numbers: Numbers,
    pub(crate) validity: Validity,
    /// The driver acts by the kernel's calls, which judge by the thread's user.
    pub(crate) acts: bool,
    pub(crate) protocol: Protocol,
    pub(crate) files: Handles<OpenFile>,
    pub(crate) directories: Handles<OpenDirectory>,
    pub(crate) backings: Backings,
    pub(crate) stores: Stores,
    pub(crate) history: History,
    pub(crate) unopened: Unopened,
    pub(crate) notices: Option<Arc<Notices>>,
    /// The driver is asked whether its files are ready.
    pub(crate) polls: bool,
    pub(crate) observed: Observed,
    /// The kernel is told of what the driver observes.
    pub(crate) tells: AtomicBool,
    pub(crate) interrupts: Arc<Interrupts>,
    pub(crate) locks: Arc<Locks>,
    /// Which of the connection's it is, from 1; 0: there is one only.
    server: u32,
    /// It was said what was in hand when the connection ended.
    abandoned: AtomicBool,
}

/// Why [`Session::serve`] returned.
#[derive(Debug)]
pub enum Ended {
    /// The mount is gone.
    Unmounted,
    /// A channel broke.
    Broken(io::Error),
}

/// A request that is being answered.
pub(crate) struct Context<'a> {
    pub identity: &'a mut Identity,
    pub transport: &'a dyn Channel,
    /// Tells whether the request is interrupted.
    pub hand: &'a Hand,
    /// The caller's group that decides about set-group-ID.
    pub groups: Vec<u32>,
    /// Where it stands what is being done, where there is an estate.
    pub place: Option<Place>,
    /// The request was begun by a server that is dead, which saw this first.
    pub evidence: Option<Evidence>,
    /// Another thread will answer it.
    pub left: bool,
}

impl Session {
    fn new(filesystem: Box<dyn FileSystem>, settings: Settings, protocol: Protocol) -> Self {
        let can = filesystem.capabilities();
        let notices = Notices::new().ok().map(Arc::new);
        let observed = notices.as_ref().map_or(Observed::Never, |notices| {
            filesystem.observe(Arc::clone(notices) as Arc<dyn Observer>)
        });
        // Without a word for "everything" what an overflowing list of changes held would be
        // believed on.
        let seen = matches!(observed, Observed::Descriptor(_));
        let tells = !seen || protocol.minor >= notices::EPOCH;
        let validity = belief::chosen(&*filesystem, &settings);
        let locks = Arc::new(Locks::of(settings.estate));
        let server = settings.estate.map_or(0, Estate::begin);
        let polls = can.polls && !settings.without(capabilities::POLL);
        Self {
            notices: notices.filter(|_| polls || observed != Observed::Never),
            polls,
            observed,
            tells: AtomicBool::new(tells),
            numbers: Numbers::new(filesystem.root()),
            validity,
            acts: can.checks_permissions,
            filesystem: match can.checks_permissions {
                true => Box::new(Layered(Permitted(filesystem))),
                false => filesystem,
            },
            settings,
            protocol,
            files: Handles::new(server),
            directories: Handles::new(server),
            server,
            backings: Backings::default(),
            stores: Stores::default(),
            history: History::default(),
            unopened: Unopened::default(),
            interrupts: Arc::new(Interrupts::new()),
            locks,
            abandoned: AtomicBool::new(false),
        }
    }

    /// What was agreed on.
    pub const fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Answers requests until the mount is gone. `transport` is the channel that INIT came by.
    ///
    /// When it ends otherwise, and there is an estate, the session is to be left
    /// ([`Session::leave`]), not dropped.
    pub fn serve(&self, transport: Box<dyn Transport>) -> Ended {
        room::keep_together();
        let threads = self.settings.threads();
        let mut channels = Vec::new();
        let mut places = Vec::new();
        let server = self.server;
        if let Some(estate) = self.settings.estate {
            // The first came with INIT, or stands for it.
            let others = estate.channels().skip(1);
            channels.extend(others.map(|channel| Box::new(channel) as Box<dyn Transport>));
            places = estate.requests().places(threads, server);
        }
        while self.settings.estate.is_none() && channels.len() + 1 < threads {
            match transport.another() {
                Ok(channel) => channels.push(channel),
                // One channel can be read by one thread as well.
                Err(_) => break,
            }
        }
        // Whoever reads from a channel, all may write to it: those of an estate cost no descriptor.
        let kept = self
            .settings
            .estate
            .and_then(|estate| estate.channels().next());
        let teller = self.notices.as_ref().map(|_| match kept {
            Some(channel) => Ok(Box::new(channel) as Box<dyn Transport>),
            None => transport.another(),
        });
        let teller = match teller.transpose() {
            Ok(teller) => teller,
            Err(error) => return Ended::Broken(error),
        };
        let rings = match self.protocol.flags.contains(InitFlags::OVER_IO_URING) {
            true => match transport
                .device()
                .and_then(|device| Rings::new(device, MAXIMUM_DATA))
            {
                Ok(rings) => Some(rings),
                Err(error) => return Ended::Broken(error),
            },
            false => None,
        };
        let spare = match self.settings.estate {
            // It gives channels itself.
            Some(_) => None,
            None => transport.another().ok(),
        };
        channels.push(transport);
        // Those of threads that an earlier server has added.
        let mut left = channels.split_off(channels.len().min(threads));
        // By the device come only FORGET and INTERRUPT where there are rings: nobody waits for
        // them, and a thread that stays awake would take the processor from those who do wait.
        let stays_awake = rings.is_none() && !self.settings.without(capabilities::STAY_AWAKE);
        let pool = Pool::new(stays_awake);
        let (pool, rings) = (&pool, rings.as_ref());
        let ended = thread::scope(|scope| {
            let (mut room, mut kept) = (MOST_THREADS, None);
            scope.spawn(move || {
                pool.watch(|| {
                    if room == 0 {
                        return Ok(false);
                    }
                    let channel = match left.pop() {
                        Some(channel) => channel,
                        None => match self.another(spare.as_deref())? {
                            Some(channel) => channel,
                            None => return Ok(false),
                        },
                    };
                    let places = |estate: &Estate| estate.requests().places(1, server).pop();
                    let place = kept
                        .take()
                        .or_else(|| self.settings.estate.and_then(places));
                    // Not lost with a thread that cannot be made.
                    let given = Arc::new(Mutex::new(Some(channel)));
                    let take = |given: &Mutex<Option<Box<dyn Transport>>>| {
                        given.lock().unwrap_or_else(PoisonError::into_inner).take()
                    };
                    let theirs = Arc::clone(&given);
                    let started = thread::Builder::new().spawn_scoped(scope, move || {
                        let worked = take(&theirs).map(|channel| self.work(pool, &*channel, place));
                        if let Some(Err(error)) = worked {
                            report(format_args!("a thread ended: {error}"));
                        }
                    });
                    if let Err(error) = started {
                        left.extend(take(&given));
                        kept = place;
                        return Err(error);
                    }
                    room -= 1;
                    Ok(true)
                });
            });
            if let Some(channel) = teller {
                scope.spawn(move || self.notify(&*channel));
            }
            scope.spawn(|| self.interrupts.watch());
            if let Some(rings) = rings {
                self.interrupts.look_for_signals();
                rings.start(self, scope);
            }
            let threads: Vec<_> = channels
                .into_iter()
                .take(threads)
                .enumerate()
                .map(|(number, channel)| {
                    let place = places.get(number).copied();
                    scope.spawn(move || self.work(pool, &*channel, place))
                })
                .collect();
            let broken = threads
                .into_iter()
                .filter_map(|thread| thread.join().ok()?.err());
            let ended = broken.last().map_or(Ended::Unmounted, Ended::Broken);
            pool.end();
            if let Some(notices) = &self.notices {
                notices.end();
            }
            if let Some(rings) = rings {
                rings.end();
            }
            self.interrupts.close();
            ended
        });
        if matches!(ended, Ended::Unmounted) {
            self.filesystem.finish();
        }
        ended
    }

    /// Leaves what is open to the next server: to drop the session would close it, while the estate
    /// says that it is open.
    pub fn leave(self) {
        std::mem::forget(self);
    }

    /// A channel for a thread more. None: no descriptor was left for it at the start, so there will
    /// be none.
    fn another(&self, spare: Option<&dyn Transport>) -> io::Result<Option<Box<dyn Transport>>> {
        Ok(match self.settings.estate {
            Some(estate) => Some(Box::new(estate.another_channel()?)),
            None => spare.map(Transport::another).transpose()?,
        })
    }

    /// One thread: tells the kernel of changes.
    fn notify(&self, transport: &dyn Transport) {
        let Some(notices) = &self.notices else {
            return;
        };
        let mut teller = Teller::new(transport, self.protocol, self.numbers);
        let mut observed = self.observed;
        while let Err(error) = notices.run(&*self.filesystem, observed, &mut teller) {
            report(format_args!("changes are not observed any more: {error}"));
            self.tells.store(false, Relaxed);
            teller.tell([Change::Everything].into());
            if !matches!(observed, Observed::Descriptor(_)) {
                break;
            }
            observed = Observed::Told;
        }
    }

    /// One thread: takes requests, answers them.
    fn work(&self, pool: &Pool, transport: &dyn Transport, place: Option<Place>) -> io::Result<()> {
        let mut turn = Turn::default();
        let mut worker = Worker::new(self, place);
        let mut buffer = Room::new(MAXIMUM_DATA + MAXIMUM_HEAD, room::REQUEST)?;
        let mut out = Room::new(MAXIMUM_DATA, 0)?;
        loop {
            let length = pool.next(transport, &mut turn, &mut buffer, &mut || out.give_back())?;
            if length == 0 {
                self.abandon();
                return Ok(());
            }
            worker.carry_out(transport, &buffer[..length], &mut out)?;
        }
    }

    /// The connection has ended: with a time limit, perhaps because of what is in hand.
    fn abandon(&self) {
        let Some(seconds) = self.settings.request_timeout else {
            return;
        };
        let late = self.interrupts.abandon().join(", ");
        if !late.is_empty() && !self.abandoned.swap(true, Relaxed) {
            report(format_args!(
                "the kernel has ended the connection while a request was not answered ({late}); request_timeout is {seconds} s"
            ));
        }
    }
}
