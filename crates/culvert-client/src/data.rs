//! Bytes of a file: READ and WRITE, from and to a program's memory without a copy in between.

use crate::file::FuseFile;
use alloc::vec::Vec;
use culvert::{Errno, Error, Result, Shared, SharedMut, Sink, Source};
use culvert_slots::{BULK, Payload};
use culvert_wire::{
    InitFlags, Operation, Plain,
    structures::{OutHeader, ReadIn, WriteIn, WriteOut},
};

/// What a message carries from `offset` on.
fn rest(payload: &Payload<'_>, offset: usize) -> (*mut u8, usize) {
    let offset = offset.min(payload.len());
    // SAFETY: `offset` is not past the end of the payload.
    (
        unsafe { payload.start().add(offset) },
        payload.len() - offset,
    )
}

/// Puts those of `reply` from `offset` on, at most `most`.
pub fn put_from(
    reply: &Payload<'_>,
    offset: usize,
    most: usize,
    out: &mut dyn Sink,
) -> Result<usize> {
    let (start, length) = rest(reply, offset);
    // SAFETY: the payload is mapped while this runs, and no reference reaches it (Payload::new).
    out.put_shared(unsafe { Shared::new(start, length.min(most)) })
}

impl FuseFile {
    /// The most bytes of one READ.
    pub fn most(&self) -> usize {
        let connection = &self.core.connection;
        let asked = connection.settings.max_read as usize;
        match asked {
            0 => connection.agreed.max_read,
            asked => connection.agreed.max_read.min(asked.max(4096)),
        }
    }

    /// READs until `out` is full or the server gives less than was asked for: the end of the file
    /// (`fuse_short_read`, fs/fuse/file.c).
    pub fn read_through(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let mut done = 0;
        loop {
            let wanted = out.remaining().min(self.most());
            if wanted == 0 {
                break;
            }
            match self.read_once(offset.saturating_add(done as u64), wanted, out) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
                Ok(count) => {
                    done += count;
                    if count < wanted {
                        break;
                    }
                }
            }
        }
        self.was_read(done);
        Ok(done)
    }

    /// The server was asked for `count` bytes.
    pub fn was_read(&self, count: usize) {
        if count > 0 && !self.flags.no_atime() {
            self.core.words().node_read(self.node);
        }
    }

    /// What READ asks for `wanted` bytes.
    pub fn read_operation(&self, offset: u64, wanted: usize) -> Operation<'static> {
        let read = ReadIn {
            fh: self.fh(),
            offset,
            size: wanted as u32,
            flags: self.flags.0,
            ..ReadIn::default()
        };
        Operation::Read { read }
    }

    /// One READ of `wanted` bytes.
    pub fn read_once(&self, offset: u64, wanted: usize, out: &mut dyn Sink) -> Result<usize> {
        let connection = &self.core.connection;
        let protocol = &connection.agreed.protocol;
        let operation = self.read_operation(offset, wanted);
        let (opcode, body) = operation.body(protocol).map_err(|_| Errno::EIO)?;
        let (who, mut taken) = (self.who()?, Ok(0));
        connection.channel.call(
            who.sent,
            opcode,
            self.node,
            body.length(),
            &mut |place| match place.write(0, body.head()) == body.length() {
                true => Ok(()),
                false => Err(Errno::EIO),
            },
            &mut |reply| {
                if reply.len() > wanted {
                    return Err(Errno::EIO);
                }
                taken = put_from(reply, 0, reply.len(), out);
                Ok(())
            },
        )?;
        taken
    }

    /// WRITEs all of `from`, or as much as the server takes.
    pub fn write_through(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let most = self.core.connection.agreed.max_write;
        let mut done = 0;
        loop {
            let wanted = from.remaining().min(most);
            if wanted == 0 {
                return Ok(done);
            }
            match self.write_once(offset.saturating_add(done as u64), wanted, from) {
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
                Ok(count) => {
                    done += count;
                    if count < wanted {
                        return Ok(done);
                    }
                }
            }
        }
    }

    fn write_once(&self, offset: u64, wanted: usize, from: &mut dyn Source) -> Result<usize> {
        // The length of a message is said before its bytes are there: those that could be taken
        // before a fault go in a message of their own.
        let (mut bad, mut taken) = (None, Vec::new());
        let is_apart = wanted >= BULK && self.core.connection.channel.is_apart();
        let written = self.write_message(offset, wanted, &mut |place| {
            let (start, length) = place;
            // SAFETY: the payload is mapped while this runs, and no reference reaches it
            // (Payload::new).
            let into = unsafe { SharedMut::new(start, length) };
            let into = if is_apart { into.for_another() } else { into };
            match from.take_shared(into) {
                Ok(count) if count == wanted => Ok(()),
                Ok(count) => {
                    taken = into.part(0, count).shared().to_vec();
                    Err(Errno::EFAULT)
                }
                Err(error) => {
                    let errno = error.errno();
                    bad = Some(error);
                    Err(errno)
                }
            }
        });
        if let Some(error) = bad {
            return Err(error);
        }
        if taken.is_empty() {
            return written;
        }
        self.write_message(offset, taken.len(), &mut |(start, length)| {
            // SAFETY: as above.
            let into = unsafe { SharedMut::new(start, length) };
            match into.copy_from(&taken) == taken.len() {
                true => Ok(()),
                false => Err(Errno::EIO),
            }
        })
    }

    /// One WRITE of `count` bytes, which `put` puts.
    fn write_message(
        &self,
        offset: u64,
        count: usize,
        put: &mut dyn FnMut((*mut u8, usize)) -> core::result::Result<(), Errno>,
    ) -> Result<usize> {
        const WRITE: u32 = 16;
        let connection = &self.core.connection;
        let protocol = &connection.agreed.protocol;
        let who = self.who()?;
        let kills = connection.agreed.has(InitFlags::HANDLE_KILLPRIV_V2) && !who.keeps_privileges;
        let write = WriteIn {
            fh: self.fh(),
            offset,
            size: u32::try_from(count).map_err(|_| Errno::EINVAL)?,
            write_flags: if kills { WriteIn::KILL_SUIDGID } else { 0 },
            lock_owner: 0,
            flags: self.flags.0,
            padding: 0,
        };
        let head = write.bytes().get(..WriteIn::wire_size(protocol));
        let head = head.ok_or(Errno::EIO)?;
        let mut out = [0; size_of::<WriteOut>()];
        connection.channel.call(
            who.sent,
            WRITE,
            self.node,
            head.len() + count,
            &mut |place| {
                if place.len() != head.len() + count || place.write(0, head) != head.len() {
                    return Err(Errno::EIO);
                }
                put(rest(place, head.len()))
            },
            &mut |reply| match reply.len() == out.len() && reply.read(0, &mut out) == out.len() {
                true => Ok(()),
                false => Err(Errno::EIO),
            },
        )?;
        let written = WriteOut::from_prefix(&out).size as usize;
        match written <= count {
            true => Ok(written),
            false => Err(Error::because(
                Errno::EIO,
                "the server says that it has written more than it was given",
            )),
        }
    }
}

// A reply's body has no header: it is the channel's.
const _: () = assert!(size_of::<OutHeader>() == 16);
