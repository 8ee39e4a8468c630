//! A connection: INIT, then requests until it ends.

use crate::{
    attributes::Numbers,
    belief,
    capabilities::{self, Situation},
    counters::Counters,
    dispatch::{OpenDirectory, OpenFile},
    estate::{Estate, Evidence, Past, Place},
    handles::Handles,
    history::History,
    identity::Identity,
    notices::{self, Notices, Teller},
    passthrough::Backings,
    pool::{Pool, Turn},
    report::report,
    transport::Transport,
    unopened::Unopened,
};
use culvert::{Change, Errno, Error, FileSystem, Observed, Observer, Result, Validity};
use culvert_wire::{
    Answer, InitFlags, MAJOR, Message, NEWEST_MINOR, Notification, Operation, Protocol, Reply,
    Request, UNIQUE_RESEND,
    structures::{InHeader, InitIn, InitOut},
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// The largest write and read, bytes: what `fs.fuse.max_pages_limit` (256 pages) allows.
const MAXIMUM_DATA: usize = 1 << 20;
/// Room for header and structures in front of the data.
const MAXIMUM_HEAD: usize = 4096;

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
    notices: Option<Arc<Notices>>,
    pub(crate) observed: Observed,
    /// The kernel is told of what the driver observes.
    pub(crate) tells: AtomicBool,
    running: Vec<Running>,
}

/// What a thread does just now, for INTERRUPT.
#[derive(Debug, Default)]
struct Running {
    /// The request; 0: none.
    unique: AtomicU64,
    interrupted: AtomicBool,
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
    pub transport: &'a dyn Transport,
    pub interrupted: &'a AtomicBool,
    /// The caller's group that decides about set-group-ID.
    pub groups: Vec<u32>,
    /// Where it stands what is being done, where there is an estate.
    pub place: Option<Place>,
    /// The request was begun by a server that is dead, which saw this first.
    pub evidence: Option<Evidence>,
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
        let situation = Situation::of(&*filesystem, validity, &settings);
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
            answer(init_out(&init, &protocol))?;
            break protocol;
        };
        if let Some(estate) = settings.estate {
            estate.set_protocol(&protocol);
        }
        Ok(Self::new(filesystem, settings, protocol))
    }

    fn new(filesystem: Box<dyn FileSystem>, settings: Settings, protocol: Protocol) -> Self {
        let can = filesystem.capabilities();
        let threads = settings.threads();
        let notices = Notices::new().ok().map(Arc::new);
        let observed = notices.as_ref().map_or(Observed::Never, |notices| {
            filesystem.observe(Arc::clone(notices) as Arc<dyn Observer>)
        });
        // Without a word for "everything" what an overflowing list of changes held would be believed on.
        let seen = matches!(observed, Observed::Descriptor(_));
        let tells = !seen || protocol.minor >= notices::EPOCH;
        let validity = belief::chosen(&*filesystem, &settings);
        Self {
            notices: notices.filter(|_| observed != Observed::Never),
            observed,
            tells: AtomicBool::new(tells),
            numbers: Numbers::new(filesystem.root()),
            validity,
            acts: can.checks_permissions,
            filesystem,
            settings,
            protocol,
            files: Handles::default(),
            directories: Handles::default(),
            backings: Backings::default(),
            history: History::default(),
            unopened: Unopened::default(),
            running: (0..threads).map(|_| Running::default()).collect(),
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
        let mut channels = Vec::new();
        let mut places = Vec::new();
        if let Some(estate) = self.settings.estate {
            // The first came with INIT, or stands for it.
            let mut all = estate.channels();
            std::mem::forget(all.next());
            channels.extend(all.map(|channel| Box::new(channel) as Box<dyn Transport>));
            places = estate.requests().places(self.running.len(), estate.begin());
        }
        while self.settings.estate.is_none() && channels.len() + 1 < self.running.len() {
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
        channels.push(transport);
        let pool = Pool::new(!self.settings.without(capabilities::STAY_AWAKE));
        let pool = &pool;
        thread::scope(|scope| {
            scope.spawn(|| pool.watch());
            if let Some(channel) = teller {
                scope.spawn(move || self.notify(&*channel));
            }
            let threads: Vec<_> = channels
                .into_iter()
                .zip(&self.running)
                .enumerate()
                .map(|(number, (channel, running))| {
                    let place = places.get(number).copied();
                    scope.spawn(move || self.work(pool, &*channel, running, place))
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
            ended
        })
    }

    /// One thread: tells the kernel of changes.
    fn notify(&self, transport: &dyn Transport) {
        let Some(notices) = &self.notices else {
            return;
        };
        let mut teller = Teller::new(transport, self.protocol, self.numbers);
        if let Err(error) = notices.run(&*self.filesystem, self.observed, &mut teller) {
            report(format_args!("changes are not observed any more: {error}"));
            self.tells.store(false, Relaxed);
            teller.tell([Change::Everything].into());
        }
    }

    /// One thread: takes requests, answers them.
    fn work(
        &self,
        pool: &Pool,
        transport: &dyn Transport,
        running: &Running,
        place: Option<Place>,
    ) -> io::Result<()> {
        let mut turn = Turn::default();
        let mut identity = Identity::of_thread();
        let mut buffer = vec![0; MAXIMUM_DATA + MAXIMUM_HEAD];
        let mut out = vec![0; MAXIMUM_DATA];
        loop {
            let length = pool.next(transport, &mut turn, &mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            let request = &buffer[..length];
            let Some(header) = Request::header(request) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            running.interrupted.store(false, Relaxed);
            running.unique.store(header.unique, Relaxed);
            let evidence = match self.past(header.unique, place) {
                Some(Past::Answered(answer)) => {
                    transport.send_again(answer, header.unique)?;
                    place.inspect(|place| place.end());
                    continue;
                }
                Some(Past::Begun { attempts, .. }) if attempts >= ATTEMPTS => {
                    let name = Operation::name(header.opcode);
                    report(format_args!(
                        "{name}: EIO: {attempts} servers have died of this request"
                    ));
                    self.reply(
                        transport,
                        header.unique,
                        Answer::Error(Errno::EIO.raw()),
                        place,
                    )?;
                    continue;
                }
                Some(Past::Begun { evidence, .. }) => evidence,
                None => {
                    place.inspect(|place| place.begin(header.unique));
                    None
                }
            };
            let mut context = Context {
                identity: &mut identity,
                transport,
                interrupted: &running.interrupted,
                groups: Vec::new(),
                place,
                evidence,
            };
            let answer = self.answer(&mut context, request, &header, &mut out);
            running.unique.store(0, Relaxed);
            if let Some(counters) = self.settings.counters {
                counters.count(header.opcode, answer.as_ref());
            }
            match answer {
                Some(answer) => self.reply(transport, header.unique, answer, place)?,
                None => {
                    place.inspect(|place| place.end());
                }
            }
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
            return self.interrupt(interrupt.unique);
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
        answered.then_some(answer)
    }

    /// The caller of request `unique` has a signal. A request that no thread has in hand is being taken or answered: the kernel is to say it again.
    fn interrupt(&self, unique: u64) -> Option<Answer<'static>> {
        let found = self
            .running
            .iter()
            .find(|running| running.unique.load(Relaxed) == unique);
        match found {
            Some(running) => {
                running.interrupted.store(true, Relaxed);
                None
            }
            None => Some(Answer::Error(Errno::EAGAIN.raw())),
        }
    }

    fn reply(
        &self,
        transport: &dyn Transport,
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
        transport.send(&message)?;
        place.inspect(|place| place.end());
        Ok(())
    }
}

/// The server's part of INIT.
fn init_out(init: &InitIn, protocol: &Protocol) -> InitOut {
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
        ..InitOut::default()
    }
}
