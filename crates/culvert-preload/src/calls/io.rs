//! Reading and writing on driven descriptors.

use super::arguments::driven;
use super::{done, unbuffered};
use crate::answer::Answer;
use crate::description::{Held, Object, report};
use crate::looked_at;
use crate::memory::{Span, UserSink, UserSource, span, spans};
use crate::paging::change::{self, Change, Place};
use crate::paging::{self, follow};
use crate::process::limits;
use crate::watch::Event;
use alloc::vec::Vec;
use culvert::{Errno, File, Source};
use culvert_intercept::{Call, Outcome};
use culvert_sys::raw::general::{O_APPEND, O_DSYNC};

const O_SYNC_ONLY: u32 = 0o4000000;
/// The largest file (`MAX_LFS_FILESIZE`).
const LARGEST: u64 = i64::MAX as u64;

/// The flags of preadv2 and pwritev2 (`RWF_SUPPORTED`): HIPRI and NOWAIT mean nothing on our files,
/// whose data are at hand.
const RWF_HIPRI: usize = 1;
const RWF_DSYNC: usize = 2;
const RWF_SYNC: usize = 4;
const RWF_NOWAIT: usize = 8;
const RWF_APPEND: usize = 0x10;
const RWF_NOAPPEND: usize = 0x20;
const RWF_KNOWN: usize = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND | RWF_NOAPPEND;

/// What a read may come to before it is looked at where it begins: EBADF.
fn may_read(held: &Held) -> Result<(), Errno> {
    match held.readable() {
        Err(Errno::EISDIR) => Ok(()),
        other => other.map(|_| ()),
    }
}

fn read_at_offset(held: &Held, fd: i32, spans: &[Span]) -> Answer {
    let file = match held.readable() {
        // Where it stands is looked at first (`vfs_read`, fs/read_write.c): the end of a directory
        // of ext4 is the largest position.
        Err(Errno::EISDIR) => {
            held.at_offset(fd, |offset| area(*offset as i64, total(spans)))??;
            return Err(Errno::EISDIR);
        }
        readable => readable?,
    };
    looked_at::before(held);
    held.at_offset(fd, |offset| {
        area(*offset as i64, total(spans))?;
        // The offset of a shared description is kept under its node's lock.
        let count = get(held, file, *offset, spans, held.is_shared())?;
        *offset += count as u64;
        Ok(count)
    })?
}

fn read_at(held: &Held, offset: i64, spans: &[Span]) -> Answer {
    area(offset, total(spans))?;
    let file = held.readable()?;
    looked_at::before(held);
    get(held, file, offset as u64, spans, false)
}

/// Reads at `offset`: from the shadow where that holds the truth. `locked`: under the node's lock.
#[inline]
fn get(held: &Held, file: &dyn File, offset: u64, spans: &[Span], locked: bool) -> Answer {
    let count = match paging::read(held, offset, spans, locked) {
        Some(answer) => answer?,
        None => file
            .read_at(offset, &mut UserSink::new(spans))
            .map_err(|error| report(held, "read", &error))?,
    };
    if count > 0 {
        held.tell(Event::Access);
    }
    Ok(count)
}

#[inline]
fn total(spans: &[Span]) -> usize {
    match spans {
        [one] => one.length,
        spans => spans.iter().map(|span| span.length).sum(),
    }
}

/// What a positioned call checks: EINVAL for a negative offset, or an end past the largest
/// (`rw_verify_area`, fs/read_write.c).
#[inline]
fn area(offset: i64, length: usize) -> Result<(), Errno> {
    match offset >= 0 && offset.checked_add_unsigned(length as u64).is_some() {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

/// How the bytes of a write get to the file.
#[derive(Clone, Copy)]
struct Manner {
    append: bool,
    /// `O_DSYNC` or `O_SYNC`, of the description or of this write: whether the data alone must be
    /// durable.
    sync: Option<bool>,
}

impl Manner {
    fn new(description_flags: u32, call_flags: usize) -> Result<Self, Errno> {
        // `kiocb_set_rw_flags`, include/linux/fs.h
        if call_flags & !RWF_KNOWN != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if call_flags & (RWF_APPEND | RWF_NOAPPEND) == RWF_APPEND | RWF_NOAPPEND {
            return Err(Errno::EINVAL);
        }
        let append = (description_flags & O_APPEND != 0 || call_flags & RWF_APPEND != 0)
            && call_flags & RWF_NOAPPEND == 0;
        let data = description_flags & O_DSYNC != 0 || call_flags & (RWF_DSYNC | RWF_SYNC) != 0;
        let all = description_flags & O_SYNC_ONLY != 0 || call_flags & RWF_SYNC != 0;
        Ok(Self {
            append,
            sync: data.then_some(!all),
        })
    }
}

/// How many bytes a write at `offset` may have (`generic_write_checks`, fs/read_write.c): EFBIG and
/// SIGXFSZ at the process's limit, EFBIG at the end of all offsets.
pub(super) fn room(offset: u64) -> Result<u64, Errno> {
    let limit = limits::file_size();
    if offset >= limit {
        return Err(limits::too_large());
    }
    match limit.min(LARGEST) - offset.min(LARGEST) {
        0 => Err(Errno::EFBIG),
        room => Ok(room),
    }
}

/// The first `most` bytes of `spans`; `kept` holds them where they are fewer.
fn first<'a>(spans: &'a [Span], most: u64, kept: &'a mut Vec<Span>) -> &'a [Span] {
    if total(spans) as u64 <= most {
        return spans;
    }
    let mut left = most as usize;
    for span in spans {
        let length = span.length.min(left);
        left -= length;
        kept.push(Span {
            base: span.base,
            length,
        });
    }
    kept
}

/// Writes at `offset`, or at the end; returns where and how much. Under the node's lock, where its
/// shadow may follow.
fn put(
    held: &Held,
    file: &dyn File,
    offset: u64,
    spans: &[Span],
    manner: Manner,
) -> Result<(u64, usize), Errno> {
    if total(spans) == 0 {
        return Ok((offset, 0));
    }
    // Under the lock: what the file is may have changed since it was asked for.
    let file = match held.may_go() {
        true => held.file()?,
        false => file,
    };
    let failed = |error| report(held, "write", &error);
    let mut kept = Vec::new();
    let (at, count) = if manner.append {
        // Others may append between this look and the write: the limit is then passed by what they
        // wrote.
        let spans = match limits::file_size() {
            u64::MAX => spans,
            _ => first(
                spans,
                room(file.attributes().map_err(failed)?.size)?,
                &mut kept,
            ),
        };
        // Nobody else in the run appends meanwhile.
        let place = Place::Behind(total(spans) as u64);
        let change = change::before_giving(held, place).map_err(failed)?;
        match change {
            Some(change) if change.is_blind() => {
                give(change, spans, |_, mut bytes| file.append(&mut bytes)).map_err(failed)?
            }
            change => {
                let (at, count) = file.append(&mut UserSource::new(spans)).map_err(failed)?;
                finish(change, at, count).map_err(failed)?;
                (at, count)
            }
        }
    } else {
        let spans = first(spans, room(offset)?, &mut kept);
        let place = Place::Range(offset, offset.saturating_add(total(spans) as u64));
        let change = change::before_giving(held, place).map_err(failed)?;
        match change {
            Some(change) if change.is_blind() => give(change, spans, |done, mut bytes| {
                let at = offset + done as u64;
                file.write_at(at, &mut bytes).map(|count| (at, count))
            })
            .map_err(failed)?,
            change => {
                let mut source = UserSource::new(spans);
                let count = file.write_at(offset, &mut source).map_err(failed)?;
                finish(change, offset, count).map_err(failed)?;
                (offset, count)
            }
        }
    };
    if let Some(data_only) = manner.sync
        && count > 0
    {
        file.sync(data_only).map_err(failed)?;
    }
    if count > 0 {
        held.tell(Event::Written);
    }
    Ok((at, count))
}

/// Writes where the file cannot be read, so that its shadow gets the program's bytes: by way of a
/// copy, which no other thread changes between the two. `write` is told how many bytes were written
/// before, and says where it has put those that it is given, and how many.
fn give(
    mut change: Change<'_>,
    spans: &[Span],
    mut write: impl FnMut(usize, &[u8]) -> culvert::Result<(u64, usize)>,
) -> culvert::Result<(u64, usize)> {
    const STEP: usize = 64 << 10;
    let (mut source, mut done, mut start) = (UserSource::new(spans), 0, None);
    let mut copy = alloc::vec![0u8; total(spans).min(STEP)];
    while source.remaining() > 0 {
        let wrote = source
            .take(&mut copy)
            .and_then(|taken| write(done, &copy[..taken]).map(|(at, count)| (at, count, taken)));
        let (at, count, taken) = match wrote {
            Ok(wrote) => wrote,
            // It is met again by the next call.
            Err(_) if done != 0 => break,
            Err(error) => return Err(error),
        };
        // What a driver says is not taken for more than it was given.
        let count = count.min(taken);
        start = start.or(Some(at));
        change.after_giving(at, &copy[..count])?;
        done += count;
        if count < taken {
            break;
        }
    }
    Ok((start.unwrap_or(0), done))
}

/// The shadow follows a write of `count` bytes at `at`.
pub(super) fn finish(change: Option<Change<'_>>, at: u64, count: usize) -> culvert::Result<()> {
    change.map_or(Ok(()), |change| change.after((at, at + count as u64)))
}

fn write_at_offset(held: &Held, fd: i32, spans: &[Span], flags: usize) -> Answer {
    let file = held.writable()?;
    if total(spans) == 0 {
        return Ok(0);
    }
    let manner = Manner::new(held.flags(fd)?, flags)?;
    if manner.append {
        // The offset before does not matter.
        held.to_offset(fd, || {
            let (at, count) = put(held, file, 0, spans, manner)?;
            Ok((at + count as u64, count))
        })
    } else {
        held.at_offset_changing(fd, |offset| {
            area(*offset as i64, total(spans))?;
            let (at, count) = put(held, file, *offset, spans, manner)?;
            *offset = at + count as u64;
            Ok(count)
        })?
    }
}

fn write_at(held: &Held, fd: i32, offset: i64, spans: &[Span], flags: usize) -> Answer {
    if offset < 0 {
        return Err(Errno::EINVAL);
    }
    let file = held.writable()?;
    if total(spans) == 0 {
        return Ok(0);
    }
    area(offset, total(spans))?;
    // pwrite(2), BUGS: on Linux O_APPEND wins over the offset.
    let manner = Manner::new(held.flags(fd)?, flags)?;
    let _lock = follow::lock(held);
    put(held, file, offset as u64, spans, manner).map(|(_, count)| count)
}

/// read(2)
pub fn read(call: &mut Call) -> Outcome {
    let [fd, base, length, ..] = call.args;
    let Some(held) = driven(fd) else {
        return unbuffered::read(call);
    };
    done(
        may_read(&held)
            .and_then(|()| span(base, length))
            .and_then(|span| read_at_offset(&held, fd as i32, &[span])),
    )
}

/// write(2)
pub fn write(call: &mut Call) -> Outcome {
    let [fd, base, length, ..] = call.args;
    let Some(held) = driven(fd) else {
        return Outcome::Forward;
    };
    done(
        held.writable()
            .and_then(|_| span(base, length))
            .and_then(|span| write_at_offset(&held, fd as i32, &[span], 0)),
    )
}

/// pread64(2)
pub fn pread64(call: &mut Call) -> Outcome {
    let [fd, base, length, offset, ..] = call.args;
    let Some(held) = driven(fd) else {
        return unbuffered::read(call);
    };
    done(
        area(offset as i64, 0)
            .and_then(|()| may_read(&held))
            .and_then(|()| area(offset as i64, length))
            .and_then(|()| held.readable())
            .and_then(|_| span(base, length))
            .and_then(|span| read_at(&held, offset as i64, &[span])),
    )
}

/// pwrite64(2)
pub fn pwrite64(call: &mut Call) -> Outcome {
    let [fd, base, length, offset, ..] = call.args;
    let Some(held) = driven(fd) else {
        return Outcome::Forward;
    };
    done(
        area(offset as i64, 0)
            .and_then(|()| held.writable())
            .and_then(|_| span(base, length))
            .and_then(|span| write_at(&held, fd as i32, offset as i64, &[span], 0)),
    )
}

/// readv(2)
pub fn readv(call: &mut Call) -> Outcome {
    let [fd, vector, count, ..] = call.args;
    let Some(held) = driven(fd) else {
        return unbuffered::read(call);
    };
    done(
        may_read(&held)
            .and_then(|()| spans(vector, count))
            .and_then(|spans| match total(&spans) {
                0 => Ok(0),
                _ => read_at_offset(&held, fd as i32, &spans),
            }),
    )
}

/// writev(2)
pub fn writev(call: &mut Call) -> Outcome {
    let [fd, vector, count, ..] = call.args;
    let Some(held) = driven(fd) else {
        return Outcome::Forward;
    };
    done(
        held.writable()
            .and_then(|_| spans(vector, count))
            .and_then(|spans| write_at_offset(&held, fd as i32, &spans, 0)),
    )
}

/// preadv(2)
pub fn preadv(call: &mut Call) -> Outcome {
    let [fd, vector, count, offset, ..] = call.args;
    let Some(held) = driven(fd) else {
        return unbuffered::read(call);
    };
    done(
        area(offset as i64, 0)
            .and_then(|()| may_read(&held))
            .and_then(|()| spans(vector, count))
            .and_then(|spans| match total(&spans) {
                0 => Ok(0),
                _ => read_at(&held, offset as i64, &spans),
            }),
    )
}

/// pwritev(2)
pub fn pwritev(call: &mut Call) -> Outcome {
    let [fd, vector, count, offset, ..] = call.args;
    let Some(held) = driven(fd) else {
        return Outcome::Forward;
    };
    done(
        area(offset as i64, 0)
            .and_then(|()| held.writable())
            .and_then(|_| spans(vector, count))
            .and_then(|spans| write_at(&held, fd as i32, offset as i64, &spans, 0)),
    )
}

/// The flags of preadv2 and pwritev2, an `int`: the upper half of a sixth argument may be anything.
fn rw_flags(call: &Call) -> usize {
    call.args[5] as u32 as usize
}

/// preadv2(2): offset -1 means the description's own.
pub fn preadv2(call: &mut Call) -> Outcome {
    let [fd, vector, count, offset, ..] = call.args;
    let flags = rw_flags(call);
    let Some(held) = driven(fd) else {
        return unbuffered::read(call);
    };
    let read = |spans: &[Span]| {
        if total(spans) == 0 {
            return Ok(0);
        }
        // What has no flags of its own knows none (`do_loop_readv_writev`, fs/read_write.c).
        if !matches!(held.object, Object::File(_)) && flags & !RWF_HIPRI != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        Manner::new(0, flags)?;
        match offset as i64 {
            -1 => read_at_offset(&held, fd as i32, spans),
            offset => read_at(&held, offset, spans),
        }
    };
    done(
        may_read(&held)
            .and_then(|()| spans(vector, count))
            .and_then(|spans| read(&spans)),
    )
}

/// pwritev2(2): offset -1 means the description's own.
pub fn pwritev2(call: &mut Call) -> Outcome {
    let [fd, vector, count, offset, ..] = call.args;
    let flags = rw_flags(call);
    let Some(held) = driven(fd) else {
        return Outcome::Forward;
    };
    let write = |spans: &[Span]| match offset as i64 {
        -1 => write_at_offset(&held, fd as i32, spans, flags),
        offset => write_at(&held, fd as i32, offset, spans, flags),
    };
    done(
        held.writable()
            .and_then(|_| spans(vector, count))
            .and_then(|spans| write(&spans)),
    )
}
