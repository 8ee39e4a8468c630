//! Moving bytes between files inside one call: sendfile, copy_file_range and the calls that only
//! know pipes.
//!
//! Where both ends are the kernel's, or can be made so ([`kernel_has_not`]), the kernel does it.

use super::arguments::{descriptor, kernel_has_not};
use super::done;
use crate::answer::Answer;
use crate::description::{Held, Object, kernel_seek, may_read, may_write, report};
use crate::looked_at;
use crate::memory::{self, MAX_RW_COUNT, Span};
use crate::paging::change::{self, Change, Place};
use crate::paging::{self};
use crate::vfs::write::{finish, room};
use crate::watch::Event;
use alloc::vec;
use culvert::{Errno, FileKind};
use culvert_intercept::{Call, Outcome};
pub(super) use culvert_sys::raw::general::O_APPEND;
use culvert_sys::{nr, syscall};

/// Bytes moved at a time.
pub(super) const CHUNK: usize = 64 << 10;

/// One end of a transfer.
pub(super) struct End<'a> {
    /// The description, where a driver serves it.
    held: Option<&'a Held>,
    fd: usize,
    /// Where the program keeps the offset; 0: the description's own.
    address: usize,
    /// The first byte; none for a foreign description without an offset of ours: the kernel moves
    /// that one itself.
    pub(super) start: Option<u64>,
    pub(super) moved: u64,
}

impl<'a> End<'a> {
    pub(super) fn new(held: Option<&'a Held>, fd: usize, address: usize) -> Result<Self, Errno> {
        let start = match (address, held) {
            (0, Some(held)) => Some(held.at_offset(fd as i32, |offset| *offset)?),
            (0, None) => None,
            (address, _) => {
                let offset: i64 = memory::get(address)?;
                Some(u64::try_from(offset).map_err(|_| Errno::EINVAL)?)
            }
        };
        Ok(Self {
            held,
            fd,
            address,
            start,
            moved: 0,
        })
    }

    /// One whose offset is moved by what arrived at the other end, not by what was read: EINVAL
    /// where there is none.
    fn seekable(held: Option<&'a Held>, fd: usize, address: usize) -> Result<Self, Errno> {
        let mut end = Self::new(held, fd, address)?;
        if end.start.is_none() {
            const SEEK_CUR: usize = 1;
            end.start = Some(kernel_seek(fd as i32, 0, SEEK_CUR).map_err(|_| Errno::EINVAL)?);
        }
        Ok(end)
    }

    pub(super) fn at(&self) -> Option<u64> {
        self.start.map(|start| start + self.moved)
    }

    /// Fills `buffer`; a wait that a signal ends is to be made again, which is seen only when
    /// nothing was moved.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Answer {
        if let (Some(held), Some(at)) = (self.held, self.at()) {
            looked_at::before(&**held);
            let span = Span {
                base: buffer.as_mut_ptr() as usize,
                length: buffer.len(),
            };
            if let Some(answer) = paging::read(&**held, at, &[span], false) {
                return answer.map_err(|error| report(held, "read", &error));
            }
            let mut sink = buffer;
            return held
                .readable()?
                .read_at(at, &mut sink)
                .map_err(|error| report(held, "read", &error));
        }
        let args = [
            self.fd,
            buffer.as_mut_ptr() as usize,
            buffer.len(),
            self.at().unwrap_or(0) as usize,
            0,
            0,
        ];
        let number = if self.start.is_some() {
            nr::PREAD64
        } else {
            nr::READ
        };
        // SAFETY: the buffer is given with its length.
        match unsafe { culvert_intercept::wait::interruptible(number, args) } {
            Ok(result) => Errno::check(result),
            Err(_) => Err(crate::answer::RESTART),
        }
    }

    pub(super) fn write(&self, bytes: &[u8]) -> Answer {
        if let (Some(held), Some(at)) = (self.held, self.at()) {
            let mut source = &bytes[..bytes.len().min(room(at)?.min(usize::MAX as u64) as usize)];
            held.writable()?;
            let failed = |error| report(held, "write", &error);
            let _lock = held.lock_node();
            // Under the lock nothing becomes of it any more.
            let file = held.writable()?;
            let place = Place::Range(at, at.saturating_add(source.len() as u64));
            let mut change = change::before_giving(&**held, place).map_err(failed)?;
            let count = file.write_at(at, &mut source).map_err(failed)?;
            match &mut change {
                Some(change) if change.is_blind() => {
                    change.after_giving(at, bytes.get(..count).unwrap_or(bytes))
                }
                _ => finish(change, at, count),
            }
            .map_err(failed)?;
            return Ok(count);
        }
        write_foreign(self.fd, bytes, self.at())
    }

    /// Tells who watches the file that bytes were moved.
    pub(super) fn tell(&self, event: Event) {
        if let Some(held) = self.held {
            held.tell(event);
        }
    }

    /// Leaves the offset behind what was moved.
    pub(super) fn finish(&self) -> Result<(), Errno> {
        let Some(at) = self.at() else { return Ok(()) };
        match (self.address, self.held) {
            (0, Some(held)) => held.at_offset(self.fd as i32, |offset| *offset = at),
            (0, None) => kernel_seek(self.fd as i32, at as i64, 0).map(|_| ()),
            (address, _) => memory::put(address, at),
        }
    }
}

/// Moves up to `count` bytes between files that both can be sought in, so that what was read and
/// not written is still there; an error counts only when nothing was moved.
fn pump(from: &mut End<'_>, to: &mut End<'_>, count: usize) -> Answer {
    let count = count.min(MAX_RW_COUNT);
    let mut buffer = vec![0u8; count.min(CHUNK)];
    let mut moved = 0;
    while moved < count {
        let want = buffer.len().min(count - moved);
        let got = match from.read(&mut buffer[..want]) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if moved == 0 => return Err(error),
            Err(_) => break,
        };
        let mut sent = 0;
        while sent < got {
            match to.write(&buffer[sent..got]) {
                Ok(0) => break,
                Ok(wrote) => {
                    sent += wrote;
                    to.moved += wrote as u64;
                }
                Err(error) if moved + sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        from.moved += sent as u64;
        moved += sent;
        if sent < got {
            break;
        }
    }
    from.finish()?;
    to.finish()?;
    if moved > 0 {
        from.tell(Event::Access);
        to.tell(Event::Written);
    }
    Ok(moved)
}

/// write(2) to a foreign descriptor; as [`End::read`] about signals.
pub(super) fn write_foreign(fd: usize, bytes: &[u8], at: Option<u64>) -> Answer {
    let args = [
        fd,
        bytes.as_ptr() as usize,
        bytes.len(),
        at.unwrap_or(0) as usize,
        0,
        0,
    ];
    let number = if at.is_some() {
        nr::PWRITE64
    } else {
        nr::WRITE
    };
    // SAFETY: the slice is given with its length.
    match unsafe { culvert_intercept::wait::interruptible(number, args) } {
        Ok(result) => Errno::check(result),
        Err(_) => Err(crate::answer::RESTART),
    }
}

/// The access mode and status flags of a descriptor, ours or not; EBADF for O_PATH.
pub fn flags(held: Option<&Held>, fd: usize) -> Result<u32, Errno> {
    const F_GETFL: usize = 3;
    let flags = match held {
        Some(held) => held.flags(fd as i32)?,
        // SAFETY: F_GETFL only reads.
        None => unsafe { syscall::call(nr::FCNTL, [fd, F_GETFL]) }? as u32,
    };
    match flags & crate::description::O_PATH {
        0 => Ok(flags),
        _ => Err(Errno::EBADF),
    }
}

/// EBADF unless `from` may be read and `to` written.
fn may_move(from: (Option<&Held>, usize), to: (Option<&Held>, usize)) -> Result<u32, Errno> {
    let (input, output) = (flags(from.0, from.1)?, flags(to.0, to.1)?);
    if !may_read(input) || !may_write(output) {
        return Err(Errno::EBADF);
    }
    Ok(output)
}

/// sendfile(2), in the order of errors of `do_sendfile` and `splice_direct_to_actor`
/// (fs/read_write.c, fs/splice.c).
pub fn sendfile(call: &mut Call) -> Outcome {
    let [out, input, offset, count, ..] = call.args;
    let (source, target) = (kernel_has_not(input), kernel_has_not(out));
    if source.is_none() && target.is_none() {
        return Outcome::Forward;
    }
    done((|| {
        let start: Option<i64> = match offset {
            0 => None,
            address => Some(memory::get(address)?),
        };
        if !may_read(flags(source.as_ref(), input)?) {
            return Err(Errno::EBADF);
        }
        // The area that is read is looked at before the other descriptor (`rw_verify_area`); what
        // kind of file it is, only after that.
        if start.is_some() && source.is_none() {
            const SEEK_CUR: usize = 1;
            kernel_seek(input as i32, 0, SEEK_CUR)?;
        }
        let area = (count as isize, start.unwrap_or(0));
        if area.0 < 0 || area.1 < 0 || area.1.checked_add(area.0 as i64).is_none() {
            return Err(Errno::EINVAL);
        }
        let to_flags = flags(target.as_ref(), out)?;
        if !may_write(to_flags) {
            return Err(Errno::EBADF);
        }
        let mut from = End::seekable(source.as_ref(), input, offset)?;
        if to_flags & O_APPEND != 0 || kind(source.as_ref(), input)? != FileKind::Regular {
            return Err(Errno::EINVAL);
        }
        let mut to = End::new(target.as_ref(), out, 0)?;
        pump(&mut from, &mut to, count)
    })())
}

/// copy_file_range(2): inside the driver, else by reading and writing, also between a mount and the
/// real file system. Errors in the order of `generic_copy_file_checks`, fs/read_write.c.
pub fn copy_file_range(call: &mut Call) -> Outcome {
    let [input, input_offset, out, output_offset, count, call_flags] = call.args;
    let (source, target) = (kernel_has_not(input), kernel_has_not(out));
    if source.is_none() && target.is_none() {
        return Outcome::Forward;
    }
    done((|| {
        for address in [input_offset, output_offset] {
            if address != 0 {
                memory::get::<i64>(address)?;
            }
        }
        // An `unsigned int`: syscall(2) may leave anything in the upper half of a sixth argument,
        // which lies on its stack.
        if call_flags as u32 != 0 {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (kind(source.as_ref(), input)?, kind(target.as_ref(), out)?);
        if from == FileKind::Directory || to == FileKind::Directory {
            return Err(Errno::EISDIR);
        }
        if from != FileKind::Regular || to != FileKind::Regular {
            return Err(Errno::EINVAL);
        }
        let to_flags = may_move((source.as_ref(), input), (target.as_ref(), out))?;
        if to_flags & O_APPEND != 0 {
            return Err(Errno::EBADF);
        }
        let mut from = End::seekable(source.as_ref(), input, input_offset)?;
        let mut to = End::new(target.as_ref(), out, output_offset)?;
        let mut count = count;
        if let Some(moved) = copy_inside(&mut from, &mut to, &mut count)? {
            return Ok(moved);
        }
        pump(&mut from, &mut to, count)
    })())
}

/// A copy between two files of one mount, by the driver where it can. `wanted` becomes what there
/// is to copy before anything is: in a copy within one file what was just written is not read
/// again.
fn copy_inside(
    from: &mut End<'_>,
    to: &mut End<'_>,
    wanted: &mut usize,
) -> Result<Option<usize>, Errno> {
    let (Some(source), Some(target), Some(at), Some(to_at)) =
        (from.held, to.held, from.at(), to.at())
    else {
        return Ok(None);
    };
    if source.mount != target.mount {
        return Ok(None);
    }
    let count = (*wanted).min(MAX_RW_COUNT) as u64;
    if at.checked_add(count).is_none() || to_at.checked_add(count).is_none() {
        return Err(Errno::EOVERFLOW);
    }
    looked_at::before(&**source);
    let size = source
        .readable()?
        .attributes()
        .map_err(|error| report(source, "copy_file_range", &error))?
        .size;
    let count = count.min(size.saturating_sub(at));
    if count == 0 {
        return Ok(Some(0));
    }
    let count = count.min(room(to_at)?);
    *wanted = count as usize;
    // What lies beyond the end of the file does not overlap: it is not copied.
    if source.node == target.node && at.abs_diff(to_at) < count {
        return Err(Errno::EINVAL);
    }
    // What was stored in a mapping the driver has not got.
    if paging::holds(&**source) {
        return Ok(None);
    }
    let copied = {
        let _lock = target.lock_node();
        let failed = |error| report(target, "copy_file_range", &error);
        let place = Place::Range(to_at, to_at.saturating_add(count));
        let change = change::before_giving(&**target, place).map_err(failed)?;
        // What the file has got then could not be read.
        if change.as_ref().is_some_and(Change::is_blind) {
            return Ok(None);
        }
        let copied = source
            .readable()?
            .copy_range(at, target.writable()?, to_at, count);
        if let (Ok(moved), Some(change)) = (&copied, change) {
            change.after((to_at, to_at + moved)).map_err(failed)?;
        }
        copied
    };
    match copied {
        Ok(moved) => {
            from.moved = moved;
            to.moved = moved;
            from.finish()?;
            to.finish()?;
            if moved > 0 {
                from.tell(Event::Access);
                to.tell(Event::Written);
            }
            Ok(Some(moved as usize))
        }
        Err(error)
            if matches!(
                error.errno(),
                Errno::EOPNOTSUPP | Errno::EXDEV | Errno::ENOSYS
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(report(source, "copy_file_range", &error)),
    }
}

/// The type of the file behind a descriptor, ours or not; EBADF for O_PATH.
fn kind(held: Option<&Held>, fd: usize) -> Result<FileKind, Errno> {
    match held {
        Some(held) if matches!(held.object, Object::Path) => Err(Errno::EBADF),
        Some(held) => Ok(held.kind),
        None => Ok(
            FileKind::of_mode(crate::run::stat_descriptor(fd as i32)?.st_mode)
                .unwrap_or(FileKind::Socket),
        ),
    }
}

/// tee(2), vmsplice(2): only pipes, so never what a driver serves.
pub fn only_pipes(call: &mut Call) -> Outcome {
    let served = |fd| descriptor(fd).is_some_and(|held| !matches!(held.object, Object::Fifo));
    let ours = served(call.args[0]) || (call.number == nr::TEE && served(call.args[1]));
    let errno = if call.number == nr::TEE {
        Errno::EINVAL
    } else {
        Errno::EBADF
    };
    if ours {
        done(Err(errno))
    } else {
        Outcome::Forward
    }
}
