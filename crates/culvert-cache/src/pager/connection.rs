//! The connection to the pager: made when something is to be said, and again when that pager has
//! died.

use super::message::{self, Kind, Message};
use super::{Part, State, launch, possible, userfault};
use crate::shadow::OwnedFd;
use core::sync::atomic::Ordering::*;
use culvert::Errno;
use culvert_intercept::descriptors as classes;
use culvert_run as run;

impl State {
    pub(crate) fn userfault(&mut self) -> Option<(i32, bool)> {
        if self.userfault.is_none() && possible() {
            let (made, full) = userfault::create()
                .inspect_err(|error| culvert_sys::log!("no userfaultfd: {error}"))
                .ok()?;
            let place = run::get().adopt_internal(made.raw())?;
            let _ = made.into_raw();
            self.userfault = Some((place, full));
        }
        self.userfault
            .map(|(place, full)| (place.load(Acquire), full))
    }

    pub(crate) fn number(&self) -> Option<i32> {
        self.socket
            .map(|place| place.load(Acquire))
            .filter(|&fd| fd >= 0)
    }

    /// A connection to a pager that knows this process and all its ranges.
    pub(crate) fn connect(&mut self) -> Result<i32, Errno> {
        if let Some(socket) = self.number() {
            return Ok(socket);
        }
        if self.impossible {
            return Err(Errno::ENOSYS);
        }
        /// A pager that is being started, or is about to end, is not waited for longer than this,
        /// in milliseconds.
        const PATIENCE: usize = 5000;
        /// How many may die before they answer: a bound of the program's that they inherit does not
        /// let them live.
        const STARTS: usize = 16;
        let mut starts = 0;
        let mut last = Errno::ECONNREFUSED;
        for _ in 0..PATIENCE {
            match launch::connect().and_then(|socket| self.greet(socket)) {
                Ok(socket) => return Ok(socket),
                Err(
                    error @ (Errno::ECONNREFUSED
                    | Errno::ENOENT
                    | Errno::EPIPE
                    | Errno::ECONNRESET
                    | Errno::EAGAIN),
                ) => last = error,
                Err(error) => return Err(self.give_up(error)),
            }
            match launch::start() {
                Ok(()) if starts == STARTS => return Err(self.give_up(last)),
                Ok(()) => starts += 1,
                Err(Errno::EAGAIN) => {
                    let _ = culvert_sys::process::nanosleep(1_000_000);
                }
                // One that is made by others, or by this process in the run's own namespace, is
                // used.
                Err(Errno::EXDEV) => return Err(Errno::EXDEV),
                Err(error) => return Err(self.give_up(error)),
            }
        }
        Err(last)
    }

    pub(crate) fn give_up(&mut self, error: Errno) -> Errno {
        culvert_sys::log!("there is no pager: {error}; mapped files are filled at once");
        self.impossible = true;
        error
    }

    /// Says who we are, and which ranges are ours already (an earlier pager has died).
    pub(crate) fn greet(&mut self, socket: OwnedFd) -> Result<i32, Errno> {
        let userfault = match self.userfault() {
            Some((fd, true)) => Some(fd),
            _ => None,
        };
        let hello = Message {
            slot: run::get().node_locks.owner(),
            ..Message::new(Kind::Hello)
        };
        let mut all = alloc::vec![hello];
        all.extend(self.ranges.iter().map(Part::message));
        // Sent together, so that the child of a fork does not wait for each; no more than the
        // answers find room for.
        const AT_ONCE: usize = 64;
        let mut userfault = userfault;
        let mut left = all.len();
        for messages in all.chunks_mut(AT_ONCE) {
            left -= messages.len();
            let last = left == 0;
            for message in &mut *messages {
                message.number = self.next_number();
                message.send(socket.raw(), userfault.take())?;
            }
            // The child of a fork that has no pages to wait for only says that it lives: its parent
            // was served, so there is somebody who hears it. Where that one ends this very moment,
            // the next user of the file brings what a killed process has stored. Others listen for
            // the answers in `settle`.
            if self.forked && last {
                if !self.ranges.is_empty() {
                    let numbers = messages.iter().map(|message| message.number);
                    self.unheard.extend(numbers);
                }
                break;
            }
            for message in &*messages {
                check(message::answered(socket.raw(), message.number)?)?;
            }
        }
        let place = run::get()
            .adopt_internal(socket.raw())
            .ok_or(Errno::EMFILE)?;
        let _ = socket.into_raw();
        self.socket = Some(place);
        // An earlier pager may have died with faults that it had taken and not answered.
        if let Some(fd) = userfault {
            for range in &self.ranges {
                range.wake(fd);
            }
        }
        Ok(place.load(Acquire))
    }

    /// Forgets the connection to a pager that has died.
    pub(crate) fn look(&mut self) {
        if self.unheard.is_empty() && self.number().is_some_and(message::is_over) {
            self.disconnect();
        }
    }

    /// Waits for the answers that were not waited for. EPIPE: one of them is no good, or there is
    /// no pager.
    pub(crate) fn hear(&mut self) -> Result<(), Errno> {
        let unheard = core::mem::take(&mut self.unheard);
        if unheard.is_empty() {
            return Ok(());
        }
        let socket = self.number().ok_or(Errno::EPIPE)?;
        unheard.iter().try_for_each(|&number| {
            let answer = message::answered(socket, number).and_then(check);
            answer.map_err(|_| Errno::EPIPE)
        })
    }

    pub(crate) fn disconnect(&mut self) {
        self.unheard.clear();
        if let Some(place) = self.socket.take() {
            let fd = place.swap(-1, AcqRel);
            classes::set(fd, classes::UNKNOWN);
            drop(OwnedFd::from_raw(fd));
        }
    }

    /// Sends a message and waits for the answer; a pager that has died is replaced.
    pub(crate) fn ask(&mut self, message: &Message) -> Result<(), Errno> {
        let mut last = Errno::EPIPE;
        for _ in 0..3 {
            let socket = self.connect()?;
            match self.exchange(socket, *message, None) {
                Err(error @ (Errno::EPIPE | Errno::ECONNRESET)) => last = error,
                other => return other,
            }
            self.disconnect();
        }
        Err(last)
    }

    pub(crate) fn next_number(&mut self) -> u32 {
        self.sent = self.sent.wrapping_add(1);
        self.sent
    }

    /// Sends a message and waits for its answer. EPIPE, ECONNRESET: the pager is gone.
    pub(crate) fn exchange(
        &mut self,
        socket: i32,
        message: Message,
        fd: Option<i32>,
    ) -> Result<(), Errno> {
        self.hear()?;
        let message = Message {
            number: self.next_number(),
            ..message
        };
        message.send(socket, fd)?;
        check(message::answered(socket, message.number)?)
    }

    pub(crate) fn attach(&mut self, range: &Part) -> Result<(), Errno> {
        let Some((fd, true)) = self.userfault() else {
            return Err(Errno::EPERM);
        };
        // Before the pager fills anything: it wakes who waits here, or nobody.
        range.register(fd)?;
        self.ask(&range.message()).inspect_err(|_| {
            range.unregister(fd);
        })
    }
}

fn check(errno: i32) -> Result<(), Errno> {
    match errno {
        0 => Ok(()),
        errno => Err(Errno::new(errno)),
    }
}
