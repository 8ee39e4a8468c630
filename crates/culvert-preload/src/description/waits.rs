//! Who waits for open files that may be unready ([`culvert::Capabilities::polls`]). poll(2) and its
//! kin wait for a descriptor of the driver's in the file's place ([`Waiter`]), and ask the file
//! again when that is readable, as the kernel asks when it was told (`fuse_file_poll`,
//! fs/fuse/file.c).

use super::Description;
use crate::answer::RESTART;
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::*};
use core::task::Waker;
use culvert::{Errno, Readiness, Waiter};
use culvert_run::task::process_number;
use culvert_sys::raw::general::{POLLERR, POLLHUP, POLLIN, pollfd};
use culvert_sys::sync::Mutex;
use culvert_sys::{BorrowedFd, fs, process};

/// What is found also where nobody asks for it (poll(2)).
pub const ALWAYS_FOUND: u16 = (POLLERR | POLLHUP) as u16;

/// As many as wait at once of one open file, usually: what they wait for is used again.
const IDLE: usize = 4;

/// An open file of this process may be unready.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether any open file of this process was one that may be unready.
#[inline]
pub fn any() -> bool {
    ANY.load(Relaxed)
}

/// What one wait waits for.
pub struct Own {
    waiter: Box<dyn Waiter>,
    /// Who has made it: the child of a fork has the same FIFO, and would take what its parent is
    /// told.
    process: u32,
}

impl Own {
    /// Its descriptor.
    pub fn descriptor(&self) -> i32 {
        self.waiter.descriptor()
    }

    /// What becomes readable when nobody tells it anything any more.
    pub fn ended(&self) -> Option<i32> {
        self.waiter.ended()
    }

    /// Whether that is so.
    pub fn has_ended(&self) -> bool {
        let Some(fd) = self.ended() else {
            return false;
        };
        let mut asked = [pollfd {
            fd,
            events: POLLIN as i16,
            revents: 0,
        }];
        process::poll(&mut asked, 0).is_ok_and(|count| count > 0)
    }

    /// Whether this process has made it.
    pub fn is_own(&self) -> bool {
        self.process == process_number()
    }

    /// What it was told by now is forgotten; whether that was anything.
    pub fn clear(&self) -> bool {
        let fifo = BorrowedFd::number(self.descriptor());
        let (mut told, mut is_any) = ([0; 64], false);
        while let Ok(count @ 1..) = fs::read(fifo, &mut told) {
            is_any = true;
            if count < told.len() {
                break;
            }
        }
        is_any
    }

    /// It is told, by whoever waits for it himself.
    pub fn tell(&self) {
        let _ = fs::write(BorrowedFd::number(self.descriptor()), &[0]);
    }
}

/// What a description has for those who wait.
pub struct Waits {
    /// Its driver is asked whether it is ready.
    polls: bool,
    /// An epoll instance has it.
    pub(super) is_watched: AtomicBool,
    idle: Mutex<Vec<Own>>,
}

impl Waits {
    /// Of a file that may be unready, if it `polls`.
    pub fn new(polls: bool) -> Self {
        if polls && !any() {
            ANY.store(true, Relaxed);
        }
        Self {
            polls,
            is_watched: AtomicBool::new(false),
            idle: Mutex::new(Vec::new()),
        }
    }
}

/// A wait for a file, until this is dropped.
pub struct Waiting<'a> {
    description: &'a Description,
    own: Option<Own>,
}

impl Description {
    /// Whether its driver is asked if it is ready.
    #[inline]
    pub fn polls(&self) -> bool {
        self.waits.polls
    }

    /// What a wait for it waits for; none: it is ready always.
    pub fn waiter(&self) -> Option<Own> {
        let waiter = self.file().ok()?.waiter().ok().flatten()?;
        Some(Own {
            waiter,
            process: process_number(),
        })
    }

    /// A wait for it.
    pub fn waiting(&self) -> Waiting<'_> {
        let mut idle = self.waits.idle.lock();
        idle.retain(Own::is_own);
        let own = idle.pop();
        drop(idle);
        Waiting {
            description: self,
            own: own.or_else(|| self.waiter()),
        }
    }

    /// What its driver says that it is ready for; somebody `waits` for more.
    ///
    /// - `RESTART`: a signal came before it said so.
    pub fn ready(&self, waits: bool) -> Result<u16, Errno> {
        let Ok(file) = self.file() else {
            return Ok(POLLERR as u16);
        };
        match file.poll(waits.then_some(Waker::noop())) {
            Ok(ready) => Ok(ready.0),
            Err(error) if error.errno() == Errno::EINTR && culvert_intercept::wait::pending() => {
                Err(RESTART)
            }
            Err(_) => Ok(POLLERR as u16),
        }
    }
}

impl Waiting<'_> {
    /// What is readable when the file may have become ready; none: it is.
    pub fn descriptor(&self) -> Option<i32> {
        self.own.as_ref().map(Own::descriptor)
    }

    /// What is readable when nobody tells that any more.
    pub fn ended(&self) -> Option<i32> {
        self.own.as_ref().and_then(Own::ended)
    }

    /// What the file is ready for now; somebody `waits` for more, and what it was told before is
    /// forgotten.
    pub fn ready(&self, waits: bool) -> Result<u16, Errno> {
        match &self.own {
            Some(own) => {
                own.clear();
                self.description.ready(waits)
            }
            None => Ok(Readiness::ALWAYS.0),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(own) = self.own.take() {
            let mut idle = self.description.waits.idle.lock();
            if idle.len() < IDLE {
                idle.push(own);
            }
        }
    }
}
