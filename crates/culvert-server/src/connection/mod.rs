//! A connection: INIT, then requests until it ends.

mod negotiation;

use crate::{
    buffer::{self, Buffer},
    capabilities,
    handover::{Handover, RequestSlot},
    notifications::Notifier,
    pool::{Pool, Turn},
    report::report,
    ring::Rings,
    session::Session,
    transport::Transport,
    worker::Worker,
};
use culvert::{Change, Observed};
use culvert_wire::{InitFlags, Request};
use std::{
    io,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    thread,
    time::Duration,
};

/// The largest write and read, bytes: what `fs.fuse.max_pages_limit` (256 pages) allows.
const MAXIMUM_DATA: usize = 1 << 20;
/// Buffer for header and structures in front of the data.
const MAXIMUM_HEAD: usize = 4096;

/// `FUSE_FORGET`, `FUSE_BATCH_FORGET`.
const FORGET: [u32; 2] = [2, 42];

/// With rings, after a FORGET the device is looked at again after this: those that have come
/// meanwhile come at once, and whoever causes them need not wake a thread for each. An interrupt
/// may be as late.
const AFTER_FORGET: Duration = Duration::from_millis(1);

/// Threads that may be added to those that a session begins with, when all wait for something.
const MOST_THREADS: usize = 64;

/// Why [`Session::serve`] returned.
#[derive(Debug)]
pub enum Ended {
    /// The mount is gone.
    Unmounted,
    /// A channel broke.
    Broken(io::Error),
}

impl Session {
    /// Answers requests until the mount is gone. `transport` is the channel that INIT came by.
    ///
    /// When it ends otherwise, and there is a handover, the session is to be left
    /// ([`Session::leave`]), not dropped.
    pub fn serve(&self, transport: Box<dyn Transport>) -> Ended {
        buffer::keep_together();
        let threads = self.settings.threads();
        let mut channels = Vec::new();
        let mut slots = Vec::new();
        let server = self.server;
        if let Some(handover) = self.settings.handover {
            // The first came with INIT, or stands for it.
            let others = handover.channels().skip(1);
            channels.extend(others.map(|channel| Box::new(channel) as Box<dyn Transport>));
            slots = handover.requests().slots(threads, server);
        }
        while self.settings.handover.is_none() && channels.len() + 1 < threads {
            match transport.another() {
                Ok(channel) => channels.push(channel),
                // One channel can be read by one thread as well.
                Err(_) => break,
            }
        }
        // Whoever reads from a channel, all may write to it: a hand-over's cost no descriptor.
        let kept = self
            .settings
            .handover
            .and_then(|handover| handover.channels().next());
        let notifier = self.notifications.as_ref().map(|_| match kept {
            Some(channel) => Ok(Box::new(channel) as Box<dyn Transport>),
            None => transport.another(),
        });
        let notifier = match notifier.transpose() {
            Ok(notifier) => notifier,
            Err(error) => return Ended::Broken(error),
        };
        let gives_way = !self.settings.without(capabilities::GIVE_WAY);
        let rings = match self.protocol.flags.contains(InitFlags::OVER_IO_URING) {
            true => match transport
                .device()
                .and_then(|device| Rings::new(device, MAXIMUM_DATA, gives_way))
            {
                Ok(rings) => Some(rings),
                Err(error) => return Ended::Broken(error),
            },
            false => None,
        };
        let spare = match self.settings.handover {
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
                    let slots = |handover: &Handover| handover.requests().slots(1, server).pop();
                    let slot = kept
                        .take()
                        .or_else(|| self.settings.handover.and_then(slots));
                    // Not lost with a thread that cannot be made.
                    let given = Arc::new(Mutex::new(Some(channel)));
                    let take = |given: &Mutex<Option<Box<dyn Transport>>>| {
                        given.lock().unwrap_or_else(PoisonError::into_inner).take()
                    };
                    let theirs = Arc::clone(&given);
                    let started = thread::Builder::new().spawn_scoped(scope, move || {
                        let worked = take(&theirs).map(|channel| self.work(pool, &*channel, slot));
                        if let Some(Err(error)) = worked {
                            report(format_args!("a thread ended: {error}"));
                        }
                    });
                    if let Err(error) = started {
                        left.extend(take(&given));
                        kept = slot;
                        return Err(error);
                    }
                    room -= 1;
                    Ok(true)
                });
            });
            if let Some(channel) = notifier {
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
                    let slot = slots.get(number).copied();
                    scope.spawn(move || self.work(pool, &*channel, slot))
                })
                .collect();
            let broken = threads
                .into_iter()
                .filter_map(|thread| thread.join().ok()?.err());
            let ended = broken.last().map_or(Ended::Unmounted, Ended::Broken);
            pool.end();
            if let Some(notifications) = &self.notifications {
                notifications.end();
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

    /// A channel for a thread more. None: no descriptor was left for it at the start, so there will
    /// be none.
    fn another(&self, spare: Option<&dyn Transport>) -> io::Result<Option<Box<dyn Transport>>> {
        Ok(match self.settings.handover {
            Some(handover) => Some(Box::new(handover.another_channel()?)),
            None => spare.map(Transport::another).transpose()?,
        })
    }

    /// One thread: tells the kernel of changes.
    fn notify(&self, transport: &dyn Transport) {
        let Some(notifications) = &self.notifications else {
            return;
        };
        let mut notifier = Notifier::new(transport, self.protocol, self.numbers);
        let mut observed = self.observed;
        while let Err(error) = notifications.run(&*self.filesystem, observed, &mut notifier) {
            report(format_args!("changes are not observed any more: {error}"));
            self.tells.store(false, Relaxed);
            notifier.tell([Change::Everything].into());
            if !matches!(observed, Observed::Descriptor(_)) {
                break;
            }
            observed = Observed::Told;
        }
    }

    /// One thread: takes requests, answers them.
    fn work(
        &self,
        pool: &Pool,
        transport: &dyn Transport,
        slot: Option<RequestSlot>,
    ) -> io::Result<()> {
        let mut turn = Turn::default();
        let mut worker = Worker::new(self, slot);
        let mut buffer = Buffer::new(MAXIMUM_DATA + MAXIMUM_HEAD, buffer::REQUEST)?;
        let mut out = Buffer::new(MAXIMUM_DATA, 0)?;
        let rings = self.protocol.flags.contains(InitFlags::OVER_IO_URING);
        loop {
            let length = pool.next(transport, &mut turn, &mut buffer, &mut || out.give_back())?;
            if length == 0 {
                self.abandon();
                return Ok(());
            }
            worker.carry_out(transport, &buffer[..length], &mut out)?;
            let header = Request::header(&buffer);
            if rings && header.is_some_and(|header| FORGET.contains(&header.opcode)) {
                thread::sleep(AFTER_FORGET);
                turn = Turn::default();
            }
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
