//! The descriptor for /dev/fuse: requests are read from it, and replies written to it, as
//! `fuse_dev_do_read` and `fuse_dev_do_write` (fs/fuse/dev.c) have it.

use super::{STATE, State, of, trusted};
use crate::answer::Answer;
use crate::descriptors::{self, fuse_devices};
use alloc::vec::Vec;
use culvert::{Errno, Sink, Source};
use culvert_client::notices::{self, Heard};
use culvert_intercept::Call;
use culvert_run::memory::{self, Span, UserSink, UserSource};
use culvert_slots::{BULK, LARGEST, Message, OUT_HEADER, SLOTS, Server, Session, waiters};
use culvert_sys::fd::{Command, fcntl};
use culvert_sys::raw::general::{O_CLOEXEC, O_NONBLOCK};
use culvert_sys::{BorrowedFd, PAGE, Shared, SharedMut, fs};

/// A buffer may not be shorter (`FUSE_MIN_READ_BUFFER`).
const SHORTEST: usize = 8192;

/// Runs a function on the program's memory of a read or write.
pub type Spans<'a> = &'a dyn Fn(&mut dyn FnMut(&[Span]) -> Answer) -> Answer;

/// open(2) of `path`, with `flags`; none where that is not the device.
pub fn open(path: &[u8], flags: u32) -> Option<Answer> {
    let state = STATE.get()?;
    (path == b"/dev/fuse").then(|| state.open(flags))
}

/// read(2), readv(2); none where `fd` is not the device.
#[inline]
pub fn read(fd: usize, spans: Spans<'_>) -> Option<Answer> {
    let state = of(fd)?;
    Some(spans(&mut |spans| state.read(fd as i32, spans)))
}

/// write(2), writev(2); none where `fd` is not the device.
#[inline]
pub fn write(fd: usize, spans: Spans<'_>) -> Option<Answer> {
    let state = of(fd)?;
    Some(spans(&mut |spans| {
        let length = spans.iter().map(|span| span.length).sum();
        let mut source = UserSource::new(spans);
        let mut take = |into: SharedMut<'_>| match source.take_shared(into) {
            Ok(count) if count == into.len() => Ok(()),
            _ => Err(Errno::EFAULT),
        };
        state.answered(fd as i32, length, &mut take)
    }))
}

/// ioctl(2); none where `fd` is not the device.
pub fn ioctl(call: &Call) -> Option<Answer> {
    const FUSE_DEV_IOC_CLONE: u32 = 0x8004_e500;
    const FUSE_DEV_IOC_BACKING_OPEN: u32 = 0x4010_e501;
    const FUSE_DEV_IOC_BACKING_CLOSE: u32 = 0x4004_e502;
    let [fd, request, argument, ..] = call.args;
    let state = of(fd)?;
    Some(match request as u32 {
        // Every descriptor takes from all slots.
        FUSE_DEV_IOC_CLONE => match memory::get::<i32>(argument) {
            Ok(other) if fuse_devices::is_device(other) => Ok(0),
            Ok(_) => Err(Errno::EINVAL),
            Err(errno) => Err(errno),
        },
        FUSE_DEV_IOC_BACKING_OPEN => state.open_backing(argument),
        FUSE_DEV_IOC_BACKING_CLOSE => state.close_backing(argument),
        _ => Err(Errno::ENOTTY),
    })
}

/// A descriptor for the device was closed: with the last one of the process that serves, the
/// session ends.
pub fn closed() {
    if let Some(state) = STATE.get()
        && state.slots.is_own()
        && !fuse_devices::are_any()
    {
        state.end();
    }
}

impl State {
    fn open(&self, flags: u32) -> Answer {
        let bell = self.bell()?;
        let nonblocking = flags & O_NONBLOCK;
        fcntl(&bell, Command::SETFL, nonblocking as usize)?;
        let close_on_exec = flags & O_CLOEXEC != 0;
        fcntl(&bell, Command::SETFD, usize::from(close_on_exec))?;
        let table = descriptors::table();
        let fd = table.opened_by_kernel(bell.into_raw(), close_on_exec);
        table.note_fuse(fd);
        Ok(fd as usize)
    }

    fn read(&self, fd: i32, spans: &[Span]) -> Answer {
        let room = spans.iter().map(|span| span.length).sum::<usize>();
        if room < SHORTEST {
            return Err(Errno::EINVAL);
        }
        self.next(fd, room, |message| {
            let mut sink = UserSink::new(spans);
            let mut put = |bytes: Shared<'_>| match sink.put_shared(bytes) {
                Ok(count) if count == bytes.len() => Ok(()),
                _ => Err(Errno::EFAULT),
            };
            put_message(message, &mut put)
        })
    }

    /// Waits for the next message that has `room`, and has `put` copy it: its length.
    pub(super) fn next(
        &self,
        fd: i32,
        room: usize,
        put: impl FnOnce(&Message<'_>) -> Result<(), Errno>,
    ) -> Answer {
        loop {
            if self.slots.area().session() == Session::Ended {
                return Err(Errno::ENODEV);
            }
            let bell = BorrowedFd::number(fd);
            if !self.follow.await_asked(&self.slots) {
                self.awake.wait(&self.slots, bell, &self.follow)?;
            }
            // Taken back meanwhile.
            let Some(message) = self.slots.take()? else {
                continue;
            };
            if message.has_reply() {
                self.follow.took(&self.slots, &message);
            }
            let length = message.length();
            if length > room {
                message.failed(Errno::EIO);
                continue;
            }
            if message.is_init() {
                self.slots.serves();
            }
            return match put(&message) {
                Ok(()) => {
                    message.taken();
                    Ok(length)
                }
                Err(errno) => {
                    message.failed(Errno::EIO);
                    Err(errno)
                }
            };
        }
    }

    /// The server writes `length` bytes, which `take` copies.
    pub(super) fn answered(
        &self,
        fd: i32,
        length: usize,
        take: &mut dyn FnMut(SharedMut<'_>) -> Result<(), Errno>,
    ) -> Answer {
        if length < OUT_HEADER {
            return Err(Errno::EINVAL);
        }
        let mut header = [0; OUT_HEADER];
        take((&mut header[..]).into())?;
        let [said, error] = [0, 4].map(|at| {
            i32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        });
        let number = u64::from_ne_bytes(core::array::from_fn(|at| header[8 + at]));
        if said as u32 as usize != length {
            return Err(Errno::EINVAL);
        }
        if number == 0 {
            self.notified(fd, error, length - OUT_HEADER, take)?;
            return Ok(length);
        }
        if !(-511..=0).contains(&error) {
            return Err(Errno::EINVAL);
        }
        if Server::is_interrupt(number) {
            if self.slots.answered_interrupt(number, error) {
                let _ = fs::write(BorrowedFd::number(fd), &[0]);
            }
            return Ok(length);
        }
        let reply = self.slots.reply(number)?;
        let body = length - OUT_HEADER;
        if body > LARGEST || error != 0 && body != 0 {
            let _ = reply.finish(-Errno::EIO.raw(), 0);
            return Err(Errno::EINVAL);
        }
        if body != 0 {
            if let Err(errno) = reply.secure(body) {
                let _ = reply.finish(-errno.raw(), 0);
                return Err(errno);
            }
            let payload = reply.payload(body);
            // SAFETY: the slot's payload, mapped while the process lives, which only copies touch.
            let into = unsafe { SharedMut::new(payload.start(), payload.len()) };
            let into = match body >= BULK && reply.is_apart() {
                true => into.for_another(),
                false => into,
            };
            if let Err(errno) = take(into) {
                let _ = reply.finish(-Errno::EIO.raw(), 0);
                return Err(errno);
            }
        }
        reply.finish(error, body).map(|()| length)
    }

    /// Notification `code`, whose body has `length` bytes, written to `fd`.
    fn notified(
        &self,
        fd: i32,
        code: i32,
        length: usize,
        take: &mut dyn FnMut(SharedMut<'_>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let most = match notices::wants_all(code) {
            true => LARGEST,
            false => notices::SEEN,
        };
        let mut body = Vec::new();
        let seen = length.min(most);
        body.try_reserve_exact(seen).map_err(|_| Errno::ENOMEM)?;
        body.resize(seen, 0);
        take((&mut body[..]).into())?;
        // A pipe has to be empty behind it.
        let (mut rest, mut dropped) = (length - body.len(), [0; PAGE]);
        while rest > 0 {
            let part = &mut dropped[..rest.min(PAGE)];
            rest -= part.len();
            take(part.into())?;
        }
        let ring = |times: usize| {
            let _ = fs::write(BorrowedFd::number(fd), &[0; SLOTS][..times.min(SLOTS)]);
        };
        match notices::hear_all(&self.slots.caches(), code, &body) {
            Heard::Counted => Ok(()),
            Heard::All => {
                self.slots.notified();
                Ok(())
            }
            Heard::Ready(number) => {
                waiters::wake(&trusted(&self.directory)?, Some(number));
                Ok(())
            }
            Heard::Resend => {
                ring(self.slots.resend());
                Ok(())
            }
            Heard::Retrieved(found) => {
                self.slots.tell(found.number, found.node, &found.body)?;
                ring(1);
                Ok(())
            }
            Heard::Refused(errno) => Err(errno),
            Heard::Question | Heard::Malformed => Err(Errno::EINVAL),
        }
    }
}

/// Has `put` copy all of `message`.
pub(super) fn put_message(
    message: &Message<'_>,
    put: &mut dyn FnMut(Shared<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    put((&message.header[..]).into())?;
    if let Some(interrupted) = &message.interrupted {
        return put((&interrupted[..]).into());
    }
    let body = &message.body;
    // SAFETY: the slot's payload, mapped while the process lives, which only copies touch.
    put(unsafe { Shared::new(body.start(), body.len()) })?;
    match message.extension() {
        [] => Ok(()),
        extension => put(extension.into()),
    }
}
