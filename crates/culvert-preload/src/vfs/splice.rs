//! splice(2) between a pipe and a driven file, by reading and writing; with the checks, and their
//! order, of `__do_splice` and `do_splice` (fs/splice.c).

use super::copy::{CHUNK, End, O_APPEND, OpenFile, write_foreign};
use super::write::room;
use crate::answer::Answer;
use crate::description::{Held, Object, may_read, may_write};
use crate::watch::Event;
use alloc::vec;
use culvert::{Errno, FileKind};
use culvert_run::memory::MAX_RW_COUNT;
use culvert_sys::fd::pipe;
use culvert_sys::raw::general::{O_CLOEXEC, O_NONBLOCK, RWF_NOWAIT};
use culvert_sys::{BorrowedFd, OwnedFd, fs};

/// SPLICE_F_MOVE, NONBLOCK, MORE and GIFT (`SPLICE_F_ALL`).
const KNOWN_FLAGS: u32 = 15;
/// SPLICE_F_NONBLOCK.
const NONBLOCK: u32 = 2;
/// What one buffer of a pipe holds: a page (pipe(7)).
const PIPE_BUFFER: usize = 4096;

/// A splice(2) whose ends may be used.
pub struct Splicing<'a> {
    from: OpenFile<'a>,
    to: OpenFile<'a>,
    flags: u32,
    from_flags: u32,
    to_flags: u32,
    from_pipe: bool,
    to_pipe: bool,
}

impl<'a> Splicing<'a> {
    /// Between these, with these flags.
    pub fn new(from: OpenFile<'a>, to: OpenFile<'a>, flags: u32) -> Result<Self, Errno> {
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        let (from_flags, to_flags) = (from.flags()?, to.flags()?);
        let is_pipe = |side: OpenFile<'_>| side.held.is_none() && side.kind() == Ok(FileKind::Fifo);
        Ok(Self {
            from,
            to,
            flags,
            from_flags,
            to_flags,
            from_pipe: is_pipe(from),
            to_pipe: is_pipe(to),
        })
    }

    /// ESPIPE for an offset of a pipe, before it is read.
    pub fn may_have_offsets(&self, from: bool, to: bool) -> Result<(), Errno> {
        match self.from_pipe && from || self.to_pipe && to {
            true => Err(Errno::ESPIPE),
            false => Ok(()),
        }
    }

    /// Moves up to `count` bytes from and to the offsets given, which move, or the descriptions'.
    pub fn run(&self, offsets: &mut [Option<i64>; 2], count: usize) -> Answer {
        if !may_read(self.from_flags) || !may_write(self.to_flags) {
            return Err(Errno::EBADF);
        }
        let waits = |pipe_flags: u32| self.flags & NONBLOCK == 0 && pipe_flags & O_NONBLOCK == 0;
        let [input, output] = offsets;
        match (self.from.held, self.to.held) {
            (Some(held), None) if self.to_pipe => {
                let mut from = end(self.from, held, *input, count)?;
                let sent = into_pipe(&mut from, self.to.fd, count, waits(self.to_flags))?;
                if sent > 0 {
                    from.tell(Event::Access);
                }
                from.finish(input).map(|()| sent)
            }
            (None, Some(held)) if self.from_pipe => {
                if self.to_flags & O_APPEND != 0 {
                    return Err(Errno::EINVAL);
                }
                let mut to = end(self.to, held, *output, count)?;
                let moved = out_of_pipe(self.from.fd, &mut to, count, waits(self.from_flags));
                if moved.is_ok_and(|moved| moved > 0) {
                    to.tell(Event::Written);
                }
                to.finish(output).and(moved)
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The driven end: EINVAL where the area is none (`rw_verify_area`), or the file is no regular one,
/// which has no way to splice.
fn end<'a>(
    side: OpenFile<'a>,
    held: &Held,
    offset: Option<i64>,
    count: usize,
) -> Result<End<'a>, Errno> {
    let end = End::new(side, offset)?;
    let last = end
        .at()
        .and_then(|at| at.checked_add(count as u64))
        .is_some_and(|last| last <= i64::MAX as u64);
    match held.object {
        Object::File(_) if last => Ok(end),
        Object::Broken => Err(Errno::EIO),
        _ => Err(Errno::EINVAL),
    }
}

/// Waits for room once, then moves what fits.
fn into_pipe(from: &mut End<'_>, out: usize, count: usize, mut wait: bool) -> Answer {
    let mut buffer = vec![0u8; count.min(CHUNK)];
    let got = from.read(&mut buffer)?;
    let mut sent = 0;
    while sent < got {
        let bytes = &buffer[sent..got];
        let wrote = match core::mem::take(&mut wait) {
            true => write_foreign(out, &bytes[..bytes.len().min(PIPE_BUFFER)], None),
            // What the pipe takes at once; EAGAIN when that is nothing.
            false => fs::write_with(BorrowedFd::number(out as i32), bytes, RWF_NOWAIT),
        };
        match wrote {
            Ok(wrote) => sent += wrote,
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        }
    }
    from.moved = sent as u64;
    Ok(sent)
}

/// Moves what a pipe holds into a file. As in `iter_file_splice_write`, only what was written
/// leaves the pipe: bytes that the file has no room for are still there. So the pipe is looked at
/// by tee(2), and read only when the file has them.
fn out_of_pipe(input: usize, to: &mut End<'_>, count: usize, mut wait: bool) -> Answer {
    let (count, input) = (count.min(MAX_RW_COUNT), BorrowedFd::number(input as i32));
    let between = Pipe::new().inspect_err(|error| {
        culvert_sys::log!("splice from a pipe wants two descriptors for a moment: {error:?}");
    })?;
    let mut buffer = vec![0u8; count.min(CHUNK)];
    let mut taken = vec![0u8; buffer.len()];
    let mut moved = 0;
    let mut failed = None;
    while moved < count {
        let want = buffer.len().min(count - moved);
        let got = match between.look(input, &mut buffer[..want], core::mem::take(&mut wait)) {
            Ok(got) => got,
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        let at = to.at().unwrap_or(0);
        let wrote = match room(at) {
            _ if got == 0 => break,
            Ok(room) => to.write(&buffer[..got.min(room.min(usize::MAX as u64) as usize)]),
            Err(error) => Err(error),
        };
        let wrote = match wrote {
            Ok(wrote) => wrote,
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        let took = between.take(input, &mut taken[..wrote])?;
        // Somebody else read the pipe between the look and the taking: what was taken is what
        // belongs here.
        if taken[..took] != buffer[..took] {
            write_all(to, &taken[..took])?;
        }
        to.moved += took as u64;
        moved += took;
        if took < wrote || wrote < got {
            break;
        }
    }
    match failed {
        Some(error) if moved == 0 => Err(error),
        _ => Ok(moved),
    }
}

/// Writes all of `bytes` over bytes that the file has.
fn write_all(to: &mut End<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let before = to.moved;
    let mut result = Ok(());
    let mut left = bytes;
    while !left.is_empty() {
        match to.write(left) {
            Ok(wrote) if wrote > 0 => {
                to.moved += wrote as u64;
                left = &left[wrote.min(left.len())..];
            }
            Ok(_) => result = Err(Errno::EIO),
            Err(error) => result = Err(error),
        }
        if result.is_err() {
            break;
        }
    }
    to.moved = before;
    result
}

/// A pipe of our own for the time of one call.
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    fn new() -> Result<Self, Errno> {
        // splice(2) knows no want of descriptors.
        let (read, write) = pipe(O_CLOEXEC).map_err(|_| Errno::ENOMEM)?;
        Ok(Self { read, write })
    }

    /// Copies what `input` holds to `buffer`, and leaves it there; waits for the first byte if told
    /// to.
    fn look(&self, input: BorrowedFd<'_>, buffer: &mut [u8], wait: bool) -> Answer {
        let how = if wait { 0 } else { NONBLOCK };
        let got = culvert_intercept::wait::tee(input, &self.write, buffer.len(), how)?;
        self.empty(&mut buffer[..got])?;
        Ok(got)
    }

    /// Takes what `buffer` has room for from `input`; less where it has less by now.
    fn take(&self, input: BorrowedFd<'_>, buffer: &mut [u8]) -> Answer {
        let mut taken = 0;
        while taken < buffer.len() {
            let rest = &mut buffer[taken..];
            // Our pipe is empty, so that it has room.
            match fs::splice(input, &self.write, rest.len(), NONBLOCK) {
                Ok(0) | Err(_) => break,
                Ok(got) => {
                    self.empty(&mut rest[..got])?;
                    taken += got;
                }
            }
        }
        Ok(taken)
    }

    /// Reads what was just put into our pipe, to the last byte.
    fn empty(&self, mut buffer: &mut [u8]) -> Result<(), Errno> {
        while !buffer.is_empty() {
            // Nobody waits: the bytes are there, and nobody else has the pipe.
            let read = fs::read(&self.read, buffer)?;
            buffer = &mut buffer[read..];
        }
        Ok(())
    }
}
