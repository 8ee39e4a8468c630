//! Requests by slots of shared memory, from programs of a run: no kernel mount is there. The bell
//! is read as the device would be; messages are copied once each way.

use crate::{
    buffer::io_error,
    channel::{Channel, RequestChannel},
};
use culvert_slots::{
    Area, BELL, LARGEST, Message as Request, OUT_HEADER, Server, open_fifo, waiters,
};
use culvert_sys::{Errno, OwnedFd, fd, fs, process, trust::Opened};
use culvert_wire::Message;
use std::{
    io,
    sync::{Arc, atomic::AtomicU64},
};

/// `FUSE_NOTIFY_POLL` (include/uapi/linux/fuse.h).
const POLL: i32 = 1;
/// `FUSE_NOTIFY_RETRIEVE`, `FUSE_NOTIFY_RESEND` (include/uapi/linux/fuse.h).
const NEEDS_A_KERNEL: [i32; 2] = [5, 7];

/// Counts a notification (its number and its body), in the words that clients share, as what it
/// names; false: that is all that they believe.
pub type Hears = fn(&[AtomicU64], i32, &[u8]) -> bool;

/// The slots of a mount directory, for one thread.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    server: Server,
    directory: Opened,
    /// The bell, whose reads wait.
    bell: OwnedFd,
    /// The same, whose reads do not.
    hasty: OwnedFd,
    hears: Hears,
}

impl Slots {
    /// The slots in `directory`, of whose clients `hears` knows how they are told. All requests are
    /// its owner's.
    ///
    /// # Errors
    /// Of [`Area::open`] and open(2).
    pub fn open(directory: &Opened, hears: Hears) -> Result<Self, Errno> {
        let (bell, hasty) = (open_fifo(directory, BELL)?, open_fifo(directory, BELL)?);
        fd::fcntl(&bell, fd::Command::SETFL, 0)?;
        let owner = (directory.stat().st_uid, process::getegid());
        Ok(Self(Arc::new(Shared {
            server: Server::new(Area::open(directory)?, owner),
            directory: directory.duplicate()?,
            bell,
            hasty,
            hears,
        })))
    }

    /// Ends the session: whoever waits for a reply gets an error.
    pub fn end(&self) {
        self.0.server.area().end(&self.0.hasty);
    }

    /// The next request, in `buffer`, after a byte of the bell: its length, 0 when the session has
    /// ended. None: there is none.
    fn take(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0.server.take() {
            Ok(Some(request)) => Ok(self.copy(request, buffer)),
            Ok(None) => Ok(None),
            Err(Errno::ENODEV) => Ok(Some(0)),
            Err(errno) => Err(io_error(errno)),
        }
    }

    fn copy(&self, request: Request<'_>, buffer: &mut [u8]) -> Option<usize> {
        let length = request.length();
        let Some((head, body)) = buffer
            .get_mut(..length)
            .and_then(|all| all.split_at_mut_checked(request.header.len()))
        else {
            request.failed(Errno::EIO);
            return None;
        };
        head.copy_from_slice(&request.header);
        match &request.interrupted {
            Some(interrupted) => body.copy_from_slice(interrupted),
            None => {
                let count = request.body.read(0, body);
                if let Some(rest) = body.get_mut(count..) {
                    rest.copy_from_slice(request.extension());
                }
            }
        }
        if request.is_init() {
            self.0.server.serves();
        }
        request.taken();
        Some(length)
    }

    fn answer(&self, unique: u64, error: i32, message: &Message<'_>) -> Result<(), Errno> {
        let reply = self.0.server.reply(unique)?;
        let length = message.length().saturating_sub(OUT_HEADER);
        if length > LARGEST {
            return reply.finish(-Errno::EIO.raw(), 0);
        }
        if length > 0 {
            if let Err(errno) = reply.secure(length) {
                return reply.finish(-errno.raw(), 0);
            }
            let (payload, mut at) = (reply.payload(length), 0);
            let head = message.head().get(OUT_HEADER..).unwrap_or_default();
            for piece in std::iter::once(head).chain(message.pieces().iter().copied()) {
                at += payload.write(at, piece);
            }
        }
        reply.finish(error, length)
    }
}

impl Channel for Slots {
    fn owned(&self) -> io::Result<Box<dyn Channel + Send>> {
        Ok(Box::new(self.clone()))
    }

    fn send(&self, message: &Message<'_>) -> io::Result<()> {
        // `struct fuse_out_header`: length, error, unique.
        let Some(&[_, _, _, _, a, b, c, d, ref unique @ ..]) =
            message.head().first_chunk::<OUT_HEADER>()
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let error = i32::from_ne_bytes([a, b, c, d]);
        match u64::from_ne_bytes(*unique) {
            0 if NEEDS_A_KERNEL.contains(&error) => Err(io::ErrorKind::Unsupported.into()),
            0 => {
                let mut body = message
                    .head()
                    .get(OUT_HEADER..)
                    .unwrap_or_default()
                    .to_vec();
                for piece in message.pieces() {
                    body.extend_from_slice(piece);
                }
                if let (POLL, Ok(number)) = (error, <[u8; 8]>::try_from(&*body)) {
                    waiters::wake(&self.0.directory, Some(u64::from_ne_bytes(number)));
                    return Ok(());
                }
                if !(self.0.hears)(self.0.server.words(), error, &body) {
                    self.0.server.notified();
                }
                Ok(())
            }
            unique => match self.answer(unique, error, message) {
                // Nobody waits for it any more.
                Ok(()) | Err(Errno::ENOENT) => Ok(()),
                Err(errno) => Err(io_error(errno)),
            },
        }
    }
}

impl RequestChannel for Slots {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match fs::read(&self.0.bell, &mut [0]) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(io_error(errno)),
            }
            if let Some(length) = self.take(buffer)? {
                return Ok(length);
            }
        }
    }

    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        // Whoever rings has posted first: so nobody asks the kernel in vain.
        if !self.0.server.is_asked() {
            return Ok(None);
        }
        match fs::read(&self.0.hasty, &mut [0]) {
            Ok(_) => self.take(buffer),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(errno) => Err(io_error(errno)),
        }
    }

    fn another(&self) -> io::Result<Box<dyn RequestChannel>> {
        Ok(Box::new(self.clone()))
    }
}
