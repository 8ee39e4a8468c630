//! Moving bytes between open files inside one call.

use super::read::area;
use super::write::{finish, room};
use crate::answer::Answer;
use crate::description::{Held, Object, described, kernel_seek, may_read, may_write, report};
use crate::process;
use crate::watch::Event;
use alloc::vec;
use culvert::{Caller, Errno, FileKind};
use culvert_cache::change::{self, Change, Place};
use culvert_cache::strangers;
use culvert_intercept::wait;
use culvert_run::files::kernel_flags;
use culvert_run::memory::{MAX_RW_COUNT, Span};
use culvert_sys::BorrowedFd;
pub(super) use culvert_sys::raw::general::O_APPEND;

/// Bytes moved at a time: what the kernel reads ahead, which is one request of a FUSE server.
pub(super) const CHUNK: usize = 128 << 10;

/// An open file to copy from or to.
#[derive(Clone, Copy)]
pub struct OpenFile<'a> {
    /// The description, where a driver serves it.
    pub held: Option<&'a Held>,
    /// The descriptor.
    pub fd: usize,
}

impl OpenFile<'_> {
    /// The access mode and status flags; EBADF for O_PATH.
    pub fn flags(self) -> Result<u32, Errno> {
        let flags = match self.held {
            Some(held) => held.flags(self.fd as i32)?,
            None => kernel_flags(self.fd as i32)?,
        };
        match flags & culvert_sys::raw::general::O_PATH {
            0 => Ok(flags),
            _ => Err(Errno::EBADF),
        }
    }

    /// The type of the file; EBADF for O_PATH.
    pub fn kind(self) -> Result<FileKind, Errno> {
        match self.held {
            Some(held) if matches!(held.object, Object::Path) => Err(Errno::EBADF),
            Some(held) => Ok(held.kind),
            None => {
                let found = culvert_run::stat_descriptor(self.fd as i32)?;
                Ok(FileKind::of_mode(found.st_mode).unwrap_or(FileKind::Socket))
            }
        }
    }
}

/// One end of a transfer.
pub(super) struct End<'a> {
    side: OpenFile<'a>,
    /// The program keeps the offset, not the description.
    own: bool,
    /// The first byte; none for a foreign description without an offset of ours: the kernel moves
    /// that one itself.
    start: Option<u64>,
    pub(super) moved: u64,
}

impl<'a> End<'a> {
    /// From `offset`, or the description's own.
    pub(super) fn new(side: OpenFile<'a>, offset: Option<i64>) -> Result<Self, Errno> {
        let start = match (offset, side.held) {
            (None, Some(held)) => Some(held.at_offset(side.fd as i32, |offset| *offset)?),
            (None, None) => None,
            (Some(offset), _) => Some(u64::try_from(offset).map_err(|_| Errno::EINVAL)?),
        };
        Ok(Self {
            side,
            own: offset.is_some(),
            start,
            moved: 0,
        })
    }

    /// One whose offset is moved by what arrived at the other end, not by what was read: EINVAL
    /// where there is none.
    fn seekable(side: OpenFile<'a>, offset: Option<i64>) -> Result<Self, Errno> {
        let mut end = Self::new(side, offset)?;
        if end.start.is_none() {
            end.start = Some(kernel_seek(side.fd as i32, 0, SEEK_CUR).map_err(|_| Errno::EINVAL)?);
        }
        Ok(end)
    }

    pub(super) fn at(&self) -> Option<u64> {
        self.start.map(|start| start + self.moved)
    }

    /// The first byte, also where the kernel moves the offset itself.
    fn place(&self) -> Result<u64, Errno> {
        self.start
            .map_or_else(|| kernel_seek(self.side.fd as i32, 0, SEEK_CUR), Ok)
    }

    /// Fills `buffer`; a wait that a signal ends is to be made again, which is seen only when
    /// nothing was moved.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Answer {
        if let (Some(held), Some(at)) = (self.side.held, self.at()) {
            strangers::before(&**held).map_err(|error| report(held, "read", &error))?;
            let span = Span {
                base: buffer.as_mut_ptr() as usize,
                length: buffer.len(),
            };
            if let Some(answer) = culvert_cache::read(&**held, at, &[span], false) {
                return answer.map_err(|error| report(held, "read", &error));
            }
            let mut sink = buffer;
            return held
                .readable()?
                .read_at(at, &mut sink)
                .map_err(|error| report(held, "read", &error));
        }
        let fd = BorrowedFd::number(self.side.fd as i32);
        match self.at() {
            Some(at) => wait::pread(fd, buffer, at),
            None => wait::read(fd, buffer),
        }
    }

    pub(super) fn write(&self, bytes: &[u8]) -> Answer {
        if let (Some(held), Some(at)) = (self.side.held, self.at()) {
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
        write_foreign(self.side.fd, bytes, self.at())
    }

    /// Tells who watches the file that bytes were moved.
    pub(super) fn tell(&self, event: Event) {
        if let Some(held) = self.side.held {
            held.tell(event);
        }
    }

    /// Leaves the offset behind what was moved: in `offset` where the program keeps it.
    pub(super) fn finish(&self, offset: &mut Option<i64>) -> Result<(), Errno> {
        match (self.at(), self.side.held) {
            (Some(at), _) if self.own => *offset = Some(at as i64),
            (Some(at), Some(held)) => held.at_offset(self.side.fd as i32, |offset| *offset = at)?,
            (Some(at), None) => kernel_seek(self.side.fd as i32, at as i64, SEEK_SET).map(drop)?,
            (None, _) => {}
        }
        Ok(())
    }
}

const SEEK_SET: usize = 0;
const SEEK_CUR: usize = 1;

/// `moved` bytes were copied: leaves both offsets behind them, and tells who watches.
fn finish_both(
    from: &End<'_>,
    to: &End<'_>,
    [input, output]: [&mut Option<i64>; 2],
    moved: usize,
) -> Answer {
    from.finish(input)?;
    to.finish(output)?;
    if moved > 0 {
        from.tell(Event::Access);
        to.tell(Event::Written);
    }
    Ok(moved)
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
    Ok(moved)
}

/// write(2) to a foreign descriptor; as [`End::read`] about signals.
pub(super) fn write_foreign(fd: usize, bytes: &[u8], at: Option<u64>) -> Answer {
    let fd = BorrowedFd::number(fd as i32);
    match at {
        Some(at) => wait::pwrite(fd, bytes, at),
        None => wait::write(fd, bytes),
    }
}

/// sendfile(2) from `offset`, or that of `from`, which moves; errors in the order of `do_sendfile`
/// and `splice_direct_to_actor` (fs/read_write.c, fs/splice.c).
pub fn send(
    from: OpenFile<'_>,
    to: OpenFile<'_>,
    offset: &mut Option<i64>,
    count: usize,
) -> Answer {
    if !may_read(from.flags()?) {
        return Err(Errno::EBADF);
    }
    // The area that is read is looked at before the other descriptor (`rw_verify_area`); what kind
    // of file it is, only after that.
    if offset.is_some() && from.held.is_none() {
        kernel_seek(from.fd as i32, 0, SEEK_CUR)?;
    }
    if count > isize::MAX as usize {
        return Err(Errno::EINVAL);
    }
    area(offset.unwrap_or(0), count)?;
    let to_flags = to.flags()?;
    if !may_write(to_flags) {
        return Err(Errno::EBADF);
    }
    let mut input = End::seekable(from, *offset)?;
    if to_flags & O_APPEND != 0 {
        return Err(Errno::EINVAL);
    }
    // Nothing is asked of the file then.
    if count == 0 {
        return Ok(0);
    }
    if from.kind()? != FileKind::Regular {
        return Err(Errno::EINVAL);
    }
    let mut output = End::new(to, None)?;
    let moved = pump(&mut input, &mut output, count)?;
    finish_both(&input, &output, [offset, &mut None], moved)
}

/// copy_file_range(2): inside the driver, else by reading and writing, also between a mount and the
/// real file system. Errors in the order of `generic_copy_file_checks`, fs/read_write.c.
pub fn copy(
    from: OpenFile<'_>,
    to: OpenFile<'_>,
    [input_offset, output_offset]: &mut [Option<i64>; 2],
    mut count: usize,
) -> Answer {
    let (source, target) = (from.kind()?, to.kind()?);
    if source == FileKind::Directory || target == FileKind::Directory {
        return Err(Errno::EISDIR);
    }
    if source != FileKind::Regular || target != FileKind::Regular {
        return Err(Errno::EINVAL);
    }
    let (from_flags, to_flags) = (from.flags()?, to.flags()?);
    if !may_read(from_flags) || !may_write(to_flags) || to_flags & O_APPEND != 0 {
        return Err(Errno::EBADF);
    }
    let mut input = End::seekable(from, *input_offset)?;
    let mut output = End::new(to, *output_offset)?;
    let moved = match copy_inside(&input, &output, &mut count)? {
        Some(moved) => {
            (input.moved, output.moved) = (moved, moved);
            moved as usize
        }
        None => {
            let count = within_one_file(&input, &output, count)?;
            pump(&mut input, &mut output, count)?
        }
    };
    finish_both(&input, &output, [input_offset, output_offset], moved)
}

/// How much of `count` is copied within a file of which the kernel has one of the ends, as the file
/// has become its shadow since the other one was opened: EINVAL where the parts overlap, and what
/// was just written is not read again.
fn within_one_file(from: &End<'_>, to: &End<'_>, count: usize) -> Result<usize, Errno> {
    let table = &process::get().table;
    let name = |side: OpenFile<'_>| match side.held {
        Some(held) => Some(held.name()),
        None => table.get(side.fd as i32).map(|held| held.name()),
    };
    if from.side.held.is_some() == to.side.held.is_some() || name(from.side) != name(to.side) {
        return Ok(count);
    }
    let size = match from.side.held {
        Some(held) => described(held)?.size,
        None => culvert_run::stat_descriptor(from.side.fd as i32)?.st_size as u64,
    };
    let (at, to_at) = (from.place()?, to.place()?);
    let count = (count as u64).min(size.saturating_sub(at));
    match at.abs_diff(to_at) < count {
        true => Err(Errno::EINVAL),
        false => Ok(count as usize),
    }
}

/// A copy between two files of one mount, by the driver where it can. `wanted` becomes what there
/// is to copy before anything is: in a copy within one file what was just written is not read
/// again.
fn copy_inside(from: &End<'_>, to: &End<'_>, wanted: &mut usize) -> Result<Option<u64>, Errno> {
    let (Some(source), Some(target), Some(at), Some(to_at)) =
        (from.side.held, to.side.held, from.at(), to.at())
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
    strangers::before(&**source).map_err(|error| report(source, "copy_file_range", &error))?;
    let size = source
        .readable()?
        .attributes(&Caller::SYSTEM)
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
    if culvert_cache::holds(&**source)? {
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
        Ok(moved) => Ok(Some(moved)),
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
