//! A connection: INIT, then requests until it ends.

use crate::{
    attributes::Numbers,
    belief,
    capabilities::{self, Situation},
    counters::Counters,
    dispatch::{OpenDirectory, OpenFile},
    estate::{Estate, Evidence, Past, Place},
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
    ring::{self, Rings},
    room::{self, Room},
    transport::{Channel, Transport},
    unopened::Unopened,
};
use culvert::{Change, Errno, Error, FileSystem, Layered, Observed, Observer, Result, Validity};
use culvert_wire::{
    Answer, InitFlags, MAJOR, Message, NEWEST_MINOR, Notification, Operation, Protocol, Reply,
    Request, UNIQUE_RESEND,
    structures::{InHeader, InitIn, InitOut},
};
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

/// After so many servers that died while they had a request in hand, it is answered with EIO.
const ATTEMPTS: u32 = 3;

/// What the user may choose.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Capabilities (by [`capabilities::Capability::name`]) that are not to be used.
    pub without: Vec<String>,
    /// Capabilities of [`capabilities::ON_REQUEST`] that are to be used.
    pub with: Vec<String>,
    /// The mount is read-only, whatever the driver could.
    pub read_only: bool,
    /// How long names and attributes may be believed after others than this mount have changed them; none: as the driver says.
    pub valid: Option<Duration>,
    /// The same for names that do not exist.
    pub absent: Option<Duration>,
    /// Threads; 0: one for each processor, at least 4.
    pub threads: usize,
    /// Every request is printed to standard error.
    pub trace: bool,
    /// What outlives this server, should it be killed, and what an earlier one has left. Its channels are the session's.
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
    /// Answers INIT on `transport`, so that the mount can be used.
    ///
    /// # Errors
    /// `EPROTO`: the kernel speaks no version that this server does, or not FUSE at all; `EIO`: the channel broke; `ENODEV`: it ended.
    pub fn negotiate(
        filesystem: Box<dyn FileSystem>,
        settings: Settings,
        transport: &dyn Transport,
    ) -> Result<Self> {
        let earlier = settings.estate.and_then(Estate::protocol);
        if let Some(protocol) = earlier {
            return Self::new(filesystem, settings, protocol).continued(transport);
        }
        let broken = |error: io::Error| Error::because(Errno::EIO, format!("/dev/fuse: {error}"));
        let validity = belief::chosen(&*filesystem, &settings);
        let ring = ring::chosen(&settings);
        if let (Requests::Ring, Err(reason)) = (settings.requests, &ring) {
            let text = format!("transport=ring: {reason}");
            return Err(Error::because(Errno::EOPNOTSUPP, text));
        }
        if settings.trace || ring.is_ok() {
            report(format_args!(
                "requests come by {}",
                match &ring {
                    Ok(()) => "io_uring".to_owned(),
                    Err(reason) => format!("/dev/fuse: {reason}"),
                }
            ));
        }
        let situation = Situation::of(&*filesystem, validity, &settings, ring.is_ok());
        let mut buffer = vec![0; culvert_wire::MINIMUM_BUFFER];
        let protocol = loop {
            let length = transport.receive(&mut buffer).map_err(broken)?;
            if length == 0 {
                return Err(Error::because(
                    Errno::ENODEV,
                    "the mount ended before it began",
                ));
            }
            let request = Request::decode(&buffer[..length], &Protocol::UNNEGOTIATED);
            let Ok(Request {
                header,
                operation: Operation::Init { init },
                ..
            }) = request
            else {
                return Err(Error::because(
                    Errno::EPROTO,
                    "the first request is not INIT",
                ));
            };
            let answer = |init| {
                let answer = Answer::Init { init };
                let unique = header.unique;
                let reply = Reply { unique, answer }.encode(&Protocol::UNNEGOTIATED);
                let reply = reply.map_err(|_| Error::from(Errno::EPROTO))?;
                transport.send(&reply).map_err(broken)
            };
            if init.major > MAJOR {
                // The kernel asks again with ours.
                answer(InitOut {
                    major: MAJOR,
                    minor: NEWEST_MINOR,
                    ..InitOut::default()
                })?;
                continue;
            }
            let offered = InitFlags::from_words(init.flags, init.flags2);
            let flags = capabilities::agreed(&situation, offered, &settings);
            let Some(protocol) = Protocol::negotiate(init.major, init.minor, flags) else {
                return Err(Error::because(
                    Errno::EPROTO,
                    format!(
                        "the kernel speaks FUSE {}.{}; 7.31 (Linux 5.4) is the oldest that is served",
                        init.major, init.minor
                    ),
                ));
            };
            if settings.requests == Requests::Ring && !flags.contains(InitFlags::OVER_IO_URING) {
                let text = "transport=ring: the kernel does not offer it for this mount";
                return Err(Error::because(Errno::EOPNOTSUPP, text));
            }
            answer(init_out(&init, &protocol, settings.request_timeout))?;
            break protocol;
        };
        if let Some(estate) = settings.estate {
            estate.set_protocol(&protocol);
        }
        Ok(Self::new(filesystem, settings, protocol))
    }

    fn new(filesystem: Box<dyn FileSystem>, settings: Settings, protocol: Protocol) -> Self {
        let can = filesystem.capabilities();
        let notices = Notices::new().ok().map(Arc::new);
        let observed = notices.as_ref().map_or(Observed::Never, |notices| {
            filesystem.observe(Arc::clone(notices) as Arc<dyn Observer>)
        });
        // Without a word for "everything" what an overflowing list of changes held would be believed on.
        let seen = matches!(observed, Observed::Descriptor(_));
        let tells = !seen || protocol.minor >= notices::EPOCH;
        let validity = belief::chosen(&*filesystem, &settings);
        let locks = Arc::new(Locks::of(settings.estate));
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
            files: Handles::default(),
            directories: Handles::default(),
            backings: Backings::default(),
            history: History::default(),
            unopened: Unopened::default(),
            interrupts: Arc::new(Interrupts::new()),
            locks,
            abandoned: AtomicBool::new(false),
        }
    }

    /// Takes up what an earlier server has left, and asks the kernel for the requests that it had in hand.
    fn continued(self, transport: &dyn Transport) -> Result<Self> {
        self.take_over();
        let resend = Notification::Resend {}.encode(&self.protocol);
        let resend = resend.map_err(|_| Error::from(Errno::EPROTO))?;
        transport.send(&resend).map_err(|error| {
            Error::because(
                Errno::EIO,
                format!("the kernel does not send requests again: {error}"),
            )
        })?;
        Ok(self)
    }

    /// What was agreed on.
    pub const fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Answers requests until the mount is gone. `transport` is the channel that INIT came by.
    pub fn serve(&self, transport: Box<dyn Transport>) -> Ended {
        room::keep_together();
        let threads = self.settings.threads();
        let mut channels = Vec::new();
        let mut places = Vec::new();
        let mut server = 0;
        if let Some(estate) = self.settings.estate {
            // The first came with INIT, or stands for it.
            let others = estate.channels().skip(1);
            channels.extend(others.map(|channel| Box::new(channel) as Box<dyn Transport>));
            server = estate.begin();
            places = estate.requests().places(threads, server);
        }
        while self.settings.estate.is_none() && channels.len() + 1 < threads {
            match transport.another() {
                Ok(channel) => channels.push(channel),
                // One channel can be read by one thread as well.
                Err(_) => break,
            }
        }
        let teller = self.notices.as_ref().map(|_| transport.another());
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
        let pool = Pool::new(!self.settings.without(capabilities::STAY_AWAKE));
        let (pool, rings) = (&pool, rings.as_ref());
        thread::scope(|scope| {
            let (mut room, mut kept) = (MOST_THREADS, None);
            scope.spawn(move || {
                pool.watch(|| {
                    let free =
                        (room > 0).then(|| left.pop().or_else(|| self.another(spare.as_deref())));
                    let Some(channel) = free.flatten() else {
                        return false;
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
                        report(format_args!("no thread can be added: {error}"));
                        left.extend(take(&given));
                        kept = place;
                        return false;
                    }
                    room -= 1;
                    true
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
        })
    }

    /// A channel for a thread more.
    fn another(&self, spare: Option<&dyn Transport>) -> Option<Box<dyn Transport>> {
        match self.settings.estate {
            Some(estate) => Some(Box::new(estate.another_channel().ok()?)),
            None => spare?.another().ok(),
        }
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
        let mut buffer = Room::new(MAXIMUM_DATA + MAXIMUM_HEAD)?;
        let mut out = Room::new(MAXIMUM_DATA)?;
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

    /// What an earlier server did of request `unique`, where it comes again.
    fn past(&self, unique: u64, place: Option<Place>) -> Option<Past> {
        if unique & UNIQUE_RESEND == 0 {
            return None;
        }
        self.settings.estate?.requests().past(unique, place?)
    }

    /// The answer to a request; none where none is due.
    fn answer<'o>(
        &self,
        context: &mut Context<'_>,
        request: &[u8],
        header: &InHeader,
        out: &'o mut [u8],
    ) -> Option<Answer<'o>> {
        let name = Operation::name(header.opcode);
        let request = match Request::decode(request, &self.protocol) {
            Ok(request) => request,
            Err(error) => {
                report(format_args!("request {name} {}: {error}", header.opcode));
                return Some(Answer::Error(Errno::EIO.raw()));
            }
        };
        if let Operation::Interrupt { interrupt } = request.operation {
            self.interrupts.interrupt(interrupt.unique);
            return None;
        }
        let answered = request.operation.is_answered();
        let result = self.dispatch(context, &request, out);
        if self.settings.trace {
            let outcome = match &result {
                Ok(_) => "ok",
                Err(error) => error.errno().name(),
            };
            report(format_args!(
                "{name} node {} by {}: {outcome}",
                header.nodeid, header.uid
            ));
        }
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                if let Some(cause) = error.cause() {
                    report(format_args!("{name}: {}: {cause}", error.errno().name()));
                }
                Answer::Error(error.errno().raw())
            }
        };
        (answered && !context.left).then_some(answer)
    }

    fn reply(
        &self,
        channel: &dyn Channel,
        unique: u64,
        answer: Answer<'_>,
        place: Option<Place>,
    ) -> io::Result<()> {
        let message: Message<'_> = Reply { unique, answer }
            .encode(&self.protocol)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if let Some(place) = place {
            place.carried_out(&message);
        }
        channel.send(&message)?;
        place.inspect(|place| place.end());
        Ok(())
    }
}

/// A thread that carries requests out.
pub(crate) struct Worker<'a> {
    session: &'a Session,
    hand: Arc<Hand>,
    identity: Identity,
    place: Option<Place>,
}

impl<'a> Worker<'a> {
    /// The calling thread. `place`: where it stands what it does, where there is an estate.
    pub fn new(session: &'a Session, place: Option<Place>) -> Self {
        Self {
            session,
            hand: session.interrupts.join(),
            identity: Identity::of_thread(),
            place,
        }
    }

    /// Carries `request` out, and answers it by `channel`; the answer's data may lie in `out`.
    ///
    /// # Errors
    /// What came is no request, or the answer does not go out.
    pub fn carry_out(
        &mut self,
        channel: &dyn Channel,
        request: &[u8],
        out: &mut [u8],
    ) -> io::Result<()> {
        let (session, place) = (self.session, self.place);
        let Some(header) = Request::header(request) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let evidence = match session.past(header.unique, place) {
            Some(Past::Answered(answer)) => {
                channel.send_again(answer, header.unique)?;
                place.inspect(|place| place.end());
                return Ok(());
            }
            Some(Past::Begun { attempts, .. }) if attempts >= ATTEMPTS => {
                let name = Operation::name(header.opcode);
                report(format_args!(
                    "{name}: EIO: {attempts} servers have died of this request"
                ));
                let answer = Answer::Error(Errno::EIO.raw());
                return session.reply(channel, header.unique, answer, place);
            }
            Some(Past::Begun { evidence, .. }) => evidence,
            None => {
                place.inspect(|place| place.begin(header.unique));
                None
            }
        };
        let interrupts = &session.interrupts;
        interrupts.begin(&self.hand, header.unique, header.opcode, header.pid);
        let mut context = Context {
            identity: &mut self.identity,
            transport: channel,
            hand: &self.hand,
            groups: Vec::new(),
            place,
            evidence,
            left: false,
        };
        let answer = session.answer(&mut context, request, &header, out);
        interrupts.end(&self.hand);
        if let Some(counters) = session.settings.counters {
            counters.count(header.opcode, answer.as_ref());
        }
        match answer {
            Some(answer) => session.reply(channel, header.unique, answer, place)?,
            None => {
                place.inspect(|place| place.end());
            }
        }
        Ok(())
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        self.session.interrupts.leave(&self.hand);
    }
}

/// The server's part of INIT.
fn init_out(init: &InitIn, protocol: &Protocol, timeout: Option<u16>) -> InitOut {
    let (flags, flags2) = protocol.flags.words();
    let has = |flag| protocol.flags.contains(flag);
    const PAGE: usize = 4096;
    let max_write = match has(InitFlags::MAX_PAGES) {
        true => MAXIMUM_DATA,
        // `FUSE_DEFAULT_MAX_PAGES_PER_REQ`.
        false => 32 * PAGE,
    };
    InitOut {
        major: MAJOR,
        minor: protocol.minor,
        max_readahead: init.max_readahead,
        flags,
        flags2,
        // Linux's own defaults are 12 and 9: too few for several readers.
        max_background: 64,
        congestion_threshold: 48,
        max_write: max_write as u32,
        time_gran: 1,
        max_pages: (max_write / PAGE) as u16,
        // Backing files on a stacked file system are refused; in exchange this mount may lie below one.
        max_stack_depth: u32::from(has(InitFlags::PASSTHROUGH)),
        request_timeout: timeout
            .filter(|_| has(InitFlags::REQUEST_TIMEOUT))
            .unwrap_or(0),
        ..InitOut::default()
    }
}
