//! Requests by channels that are read: /dev/fuse, or whoever plays the kernel. Each thread has a
//! channel of its own.

use super::{
    Server, Transport, Way,
    pool::{Pool, Turn},
};
use crate::{
    buffer::{self, Buffer},
    channel::{DeviceFuse, RequestChannel},
    handover::RequestSlot,
    report::report,
    session::Session,
    worker::Worker,
};
use culvert::Errno;
use culvert_wire::Request;
use std::{
    io,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    thread::{self, Scope},
    time::Duration,
};

/// The largest write and read, bytes: what `fs.fuse.max_pages_limit` (256 pages) allows.
pub const MAXIMUM_DATA: usize = 1 << 20;
/// Buffer for header and structures in front of the data.
const MAXIMUM_HEAD: usize = 4096;

/// `FUSE_FORGET`, `FUSE_BATCH_FORGET`.
const FORGET: [u32; 2] = [2, 42];

/// With another transport, after a FORGET the device is looked at again after this: those that have
/// come meanwhile come at once, and whoever causes them need not wake a thread for each. An
/// interrupt may be as late.
const AFTER_FORGET: Duration = Duration::from_millis(1);

/// Threads that may be added to those that a session begins with, when all wait for something.
const MOST_THREADS: usize = 64;

/// How requests come where nothing else was agreed on.
pub const WAY: Way = Way {
    word: "device",
    name: DeviceFuse::PATH,
    title: "kernel mounts",
    found: "/dev/fuse, with a descriptor for each thread",
    missed: "culvert mount does not work; culvert run needs none (containers: --device /dev/fuse)",
    available: || {
        let text = |error: io::Error| {
            let number = error
                .raw_os_error()
                .filter(|number| (1..4096).contains(number));
            let why = number.map_or_else(|| error.to_string(), |one| Errno::new(one).text().into());
            format!("{}: {why}", DeviceFuse::PATH)
        };
        DeviceFuse::open().map(drop).map_err(text)
    },
    capability: None,
    fits: |_, _| Ok(()),
    make: None,
};

type Own = Box<dyn RequestChannel>;

/// The threads that read channels.
pub struct Readers {
    pool: Pool,
    /// What the threads get when they start.
    prepared: Mutex<Option<Prepared>>,
}

struct Prepared {
    /// One for each thread to begin with, and where each notes what it does.
    channels: Vec<Own>,
    slots: Vec<RequestSlot>,
    /// Those of threads that an earlier server has added.
    left: Vec<Own>,
    /// Another one is made from it; none: no descriptor was left for it, so there will be none, or
    /// the hand-over makes channels itself.
    spare: Option<Own>,
}

/// The channels for the threads of `session` besides the first, which INIT came by.
pub fn others(session: &Session, first: &dyn RequestChannel) -> Vec<Own> {
    let handover = session.settings.handover;
    // The first came with INIT, or stands for it.
    let others = handover.channels().skip(1);
    let mut channels: Vec<_> = others.map(|channel| Box::new(channel) as Own).collect();
    let threads = session.settings.threads();
    while !handover.has_keeper() && channels.len() + 1 < threads {
        match first.another() {
            Ok(channel) => channels.push(channel),
            // One channel can be read by one thread as well.
            Err(_) => break,
        }
    }
    channels
}

impl Readers {
    /// Threads for `channels`, the last of which is the first of all. One that waits for a request
    /// `stays_awake` a little.
    pub fn new(session: &Session, mut channels: Vec<Own>, stays_awake: bool) -> Self {
        let (settings, threads) = (&session.settings, session.settings.threads());
        let first = channels.last().filter(|_| !settings.handover.has_keeper());
        let spare = first.and_then(|first| first.another().ok());
        let left = channels.split_off(channels.len().min(threads));
        Self {
            pool: Pool::new(stays_awake),
            prepared: Mutex::new(Some(Prepared {
                channels,
                slots: settings.handover.requests.slots(threads, session.server),
                left,
                spare,
            })),
        }
    }

    /// The steward's life: adds threads when all wait for something.
    fn watch<'scope>(
        &'scope self,
        session: &'scope Session,
        mut left: Vec<Own>,
        spare: Option<&dyn RequestChannel>,
        scope: &'scope Scope<'scope, '_>,
    ) {
        let requests = session.settings.handover.requests;
        let (mut most, mut kept) = (MOST_THREADS, None);
        self.pool.watch(|| {
            if most == 0 {
                return Ok(false);
            }
            let channel = match left.pop() {
                Some(channel) => channel,
                None => match another(session, spare)? {
                    Some(channel) => channel,
                    None => return Ok(false),
                },
            };
            let slot = kept
                .take()
                .or_else(|| requests.slots(1, session.server).pop());
            // Not lost with a thread that cannot be made.
            let given = Arc::new(Mutex::new(Some(channel)));
            let take = |given: &Mutex<Option<Own>>| {
                given.lock().unwrap_or_else(PoisonError::into_inner).take()
            };
            let theirs = Arc::clone(&given);
            let started = thread::Builder::new().spawn_scoped(scope, move || {
                let worked = take(&theirs).map(|channel| self.work(session, &*channel, slot));
                if let Some(Err(error)) = worked {
                    report(format_args!("a thread ended: {error}"));
                }
            });
            if let Err(error) = started {
                left.extend(take(&given));
                kept = slot;
                return Err(error);
            }
            most -= 1;
            Ok(true)
        });
    }

    /// One thread: takes requests, answers them.
    fn work(
        &self,
        session: &Session,
        channel: &dyn RequestChannel,
        slot: Option<RequestSlot>,
    ) -> io::Result<()> {
        let mut turn = Turn::default();
        let mut worker = Worker::new(session, slot);
        let mut buffer = Buffer::new(MAXIMUM_DATA + MAXIMUM_HEAD, buffer::REQUEST)?;
        let mut out = Buffer::new(MAXIMUM_DATA, 0)?;
        let others = Way::agreed(&session.protocol).make.is_some();
        loop {
            let length = self
                .pool
                .next(channel, &mut turn, &mut buffer, &mut || out.give_back())?;
            if length == 0 {
                abandon(session);
                return Ok(());
            }
            worker.carry_out(channel, &buffer[..length], &mut out)?;
            let header = Request::header(&buffer);
            if others && header.is_some_and(|header| FORGET.contains(&header.opcode)) {
                thread::sleep(AFTER_FORGET);
                turn = Turn::default();
            }
        }
    }
}

impl Transport for Readers {
    fn start<'scope>(
        &'scope self,
        session: &'scope Session,
        scope: &'scope Scope<'scope, '_>,
    ) -> Vec<Server<'scope>> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(prepared) = prepared.take() else {
            return Vec::new();
        };
        let Prepared {
            channels,
            slots,
            left,
            spare,
        } = prepared;
        scope.spawn(move || self.watch(session, left, spare.as_deref(), scope));
        let threads = channels.into_iter().enumerate().map(|(number, channel)| {
            let slot = slots.get(number).copied();
            scope.spawn(move || self.work(session, &*channel, slot))
        });
        threads.collect()
    }

    fn end(&self) {
        self.pool.end();
    }
}

/// A channel for a thread more; none: there will be none.
fn another(session: &Session, spare: Option<&dyn RequestChannel>) -> io::Result<Option<Own>> {
    match session.settings.handover.another_channel()? {
        Some(channel) => Ok(Some(Box::new(channel))),
        None => spare.map(RequestChannel::another).transpose(),
    }
}

/// The connection has ended: with a time limit, perhaps because of what is in hand.
fn abandon(session: &Session) {
    let Some(seconds) = session.settings.request_timeout else {
        return;
    };
    let late = session.interrupts.abandon().join(", ");
    if !late.is_empty() && !session.abandoned.swap(true, Relaxed) {
        report(format_args!(
            "the kernel has ended the connection while a request was not answered ({late}); \
             request_timeout is {seconds} s"
        ));
    }
}
