//! Writing an open file: what is checked, how the bytes get to the file and to what is cached of
//! it, and who is told.

use super::read::{area, total};
use crate::answer::Answer;
use crate::description::offset::Turn;
use crate::description::{Held, report};
use crate::watch::Event;
use alloc::vec::Vec;
use culvert::{Caller, Errno, File, Source};
use culvert_cache::change::{self, Change, Place};
use culvert_run::memory::{Span, UserSource};
use culvert_run::node_shares::Together;
use culvert_run::task::limits;
use culvert_sys::raw::general::{O_APPEND, O_DSYNC};

/// What O_SYNC has more than O_DSYNC (open(2)).
const O_SYNC_ONLY: u32 = 0o4000000;

/// The largest file (`MAX_LFS_FILESIZE`).
const LARGEST: u64 = i64::MAX as u64;

/// The flags of preadv2 and pwritev2 (`RWF_SUPPORTED`): HIPRI means nothing on our files, and
/// NOWAIT nothing where the data are at hand.
pub const RWF_HIPRI: usize = 1;
const RWF_DSYNC: usize = 2;
const RWF_SYNC: usize = 4;
const RWF_NOWAIT: usize = 8;
const RWF_APPEND: usize = 0x10;
const RWF_NOAPPEND: usize = 0x20;
const RWF_KNOWN: usize = RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND | RWF_NOAPPEND;

/// How the bytes of a write get to the file.
#[derive(Clone, Copy)]
pub struct Manner {
    append: bool,
    /// `O_DSYNC` or `O_SYNC`, of the description or of this write: whether the data alone must be
    /// durable.
    sync: Option<bool>,
}

impl Manner {
    /// By the flags of the call, and those of the description where it writes.
    pub fn new(held: &Held, description_flags: u32, call_flags: usize) -> Result<Self, Errno> {
        // `kiocb_set_rw_flags`, include/linux/fs.h
        if call_flags & !RWF_KNOWN != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if call_flags & (RWF_APPEND | RWF_NOAPPEND) == RWF_APPEND | RWF_NOAPPEND {
            return Err(Errno::EINVAL);
        }
        // `FMODE_NOWAIT`, which no file of a FUSE server has.
        let waits = || held.file_system().is_ok_and(|it| it.capabilities().waits);
        if call_flags & RWF_NOWAIT != 0 && waits() {
            return Err(Errno::EOPNOTSUPP);
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
pub fn room(offset: u64) -> Result<u64, Errno> {
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

/// Writes at `offset`, or at the end; returns where and how much.
fn put(
    held: &Held,
    file: &dyn File,
    offset: u64,
    spans: &[Span],
    manner: Manner,
    turn: &Turn,
) -> Result<(u64, usize), Errno> {
    if total(spans) == 0 {
        return Ok((offset, 0));
    }
    // In its turn: what the file is may have changed since it was asked for.
    let file = match held.may_go() {
        true => held.file()?,
        false => file,
    };
    let failed = |error| report(held, "write", &error);
    let before = |place| match turn {
        Turn::Alone(_) => change::before_giving(&**held, place).map_err(failed),
        Turn::Beside(_) => Ok(None),
    };
    let mut kept = Vec::new();
    let (at, count) = if manner.append {
        // Others may append between this look and the write: the limit is then passed by what they
        // wrote.
        let spans = match limits::file_size() {
            u64::MAX => spans,
            _ => first(
                spans,
                room(file.attributes(&Caller::SYSTEM).map_err(failed)?.size)?,
                &mut kept,
            ),
        };
        // Nobody else in the run appends meanwhile, where it has its turn alone.
        match before(Place::Behind(total(spans) as u64))? {
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
        match before(place)? {
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
pub fn finish(change: Option<Change<'_>>, at: u64, count: usize) -> culvert::Result<()> {
    change.map_or(Ok(()), |change| change.after((at, at + count as u64)))
}

/// write(2), writev(2): at the offset of the description, which moves, or at the end; `flags` are
/// those of pwritev2(2).
pub fn write_at_offset(held: &Held, fd: i32, spans: &[Span], flags: usize) -> Answer {
    let file = held.writable()?;
    if total(spans) == 0 {
        return Ok(0);
    }
    let manner = Manner::new(held, held.flags(fd)?, flags)?;
    if manner.append {
        held.to_offset(fd, |before, turn| {
            // The offset does not matter but for this (`rw_verify_area`, before `O_APPEND` is
            // looked at).
            area(before.unwrap_or(0) as i64, total(spans))?;
            let (at, count) = put(held, file, 0, spans, manner, turn)?;
            Ok((at + count as u64, count))
        })
    } else {
        held.at_offset_writing(fd, |offset, turn| {
            area(*offset as i64, total(spans))?;
            let (at, count) = put(held, file, *offset, spans, manner, turn)?;
            *offset = at + count as u64;
            Ok(count)
        })?
    }
}

/// pwrite(2), pwritev(2), with the flags of pwritev2(2).
pub fn write_at(held: &Held, fd: i32, offset: i64, spans: &[Span], flags: usize) -> Answer {
    if offset < 0 {
        return Err(Errno::EINVAL);
    }
    let file = held.writable()?;
    if total(spans) == 0 {
        return Ok(0);
    }
    area(offset, total(spans))?;
    // pwrite(2), BUGS: on Linux O_APPEND wins over the offset.
    let manner = Manner::new(held, held.flags(fd)?, flags)?;
    let turn = held.turn_to_write(match manner.append {
        true => Together::Append,
        false => Together::Write,
    });
    put(held, file, offset as u64, spans, manner, &turn).map(|(_, count)| count)
}
