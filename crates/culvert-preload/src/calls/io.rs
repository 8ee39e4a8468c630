//! Reading, writing and seeking on driven descriptors.

use super::{Answer, RESTART, descriptor, done};
use crate::description::{Description, Held, Object};
use crate::memory::{Span, UserSink, UserSource, span, spans};
use culvert::{Errno, Whence};
use culvert_intercept::{Call, Outcome};

/// O_APPEND.
const O_APPEND: u32 = 0o2000;
/// The flags of preadv2 and pwritev2 that mean nothing on our files: RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT (never blocks: data is at hand).
const RWF_HARMLESS: usize = 1 | 2 | 4 | 8;
/// RWF_APPEND.
const RWF_APPEND: usize = 0x10;

/// Logs a driver's error and gives its errno to the program; a wait that a signal ended is made again where the program wants that (SA_RESTART).
pub fn report(description: &Description, what: &str, error: &culvert::Error) -> Errno {
    if let Some(cause) = error.cause() {
        crate::log!(
            "{what} of node {:x} of mount {}: {cause}",
            description.node.0,
            description.mount.0
        );
    }
    match error.errno() {
        Errno::EINTR if culvert_intercept::wait::pending() => RESTART,
        errno => errno,
    }
}

fn read_at_offset(held: &Held, fd: i32, spans: &[Span]) -> Answer {
    let file = held.readable()?;
    held.at_offset(fd, |offset| {
        let mut sink = UserSink::new(spans);
        let count = file
            .read_at(*offset, &mut sink)
            .map_err(|error| report(held, "read", &error))?;
        *offset += count as u64;
        Ok(count)
    })?
}

fn read_at(held: &Held, offset: i64, spans: &[Span]) -> Answer {
    positioned(
        held,
        offset as usize,
        spans.iter().map(|span| span.length).sum(),
        false,
    )?;
    let file = held.readable()?;
    let mut sink = UserSink::new(spans);
    file.read_at(offset as u64, &mut sink)
        .map_err(|error| report(held, "read", &error))
}

fn write_at_offset(held: &Held, fd: i32, spans: &[Span], append: bool) -> Answer {
    let file = held.writable()?;
    let append = append || held.flags(fd)? & O_APPEND != 0;
    held.at_offset(fd, |offset| {
        let mut source = UserSource::new(spans);
        let wrote = if append {
            file.append(&mut source)
        } else {
            file.write_at(*offset, &mut source)
                .map(|count| (*offset, count))
        };
        let (at, count) = wrote.map_err(|error| report(held, "write", &error))?;
        *offset = at + count as u64;
        Ok(count)
    })?
}

fn write_at(held: &Held, fd: i32, offset: i64, spans: &[Span], append: bool) -> Answer {
    if offset < 0 {
        return Err(Errno::EINVAL);
    }
    let file = held.writable()?;
    let mut source = UserSource::new(spans);
    // pwrite(2), BUGS: on Linux O_APPEND wins over the offset.
    let wrote = if append || held.flags(fd)? & O_APPEND != 0 {
        file.append(&mut source).map(|(_, count)| count)
    } else {
        file.write_at(offset as u64, &mut source)
    };
    wrote.map_err(|error| report(held, "write", &error))
}

/// What a positioned call checks first: EINVAL for a negative offset, or an end past the largest (`rw_verify_area`); EBADF, EISDIR as for read and write.
fn positioned(held: &Held, offset: usize, length: usize, write: bool) -> Result<(), Errno> {
    if (offset as i64) < 0 {
        return Err(Errno::EINVAL);
    }
    if write {
        held.writable().map(|_| ())?
    } else {
        held.readable().map(|_| ())?
    }
    if offset
        .checked_add(length)
        .is_none_or(|end| end > i64::MAX as usize)
    {
        Err(Errno::EINVAL)
    } else {
        Ok(())
    }
}

/// read(2)
pub fn read(call: &mut Call) -> Outcome {
    let [fd, base, length, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    done(
        held.readable()
            .and_then(|_| span(base, length))
            .and_then(|span| read_at_offset(&held, fd as i32, &[span])),
    )
}

/// write(2)
pub fn write(call: &mut Call) -> Outcome {
    let [fd, base, length, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    done(
        held.writable()
            .and_then(|_| span(base, length))
            .and_then(|span| write_at_offset(&held, fd as i32, &[span], false)),
    )
}

/// pread64(2)
pub fn pread64(call: &mut Call) -> Outcome {
    let [fd, base, length, offset, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    done(
        positioned(&held, offset, length, false)
            .and_then(|()| span(base, length))
            .and_then(|span| read_at(&held, offset as i64, &[span])),
    )
}

/// pwrite64(2)
pub fn pwrite64(call: &mut Call) -> Outcome {
    let [fd, base, length, offset, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    done(
        positioned(&held, offset, length, true)
            .and_then(|()| span(base, length))
            .and_then(|span| write_at(&held, fd as i32, offset as i64, &[span], false)),
    )
}

/// readv(2)
pub fn readv(call: &mut Call) -> Outcome {
    let [fd, vector, count, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    done(
        held.readable()
            .and_then(|_| spans(vector, count))
            .and_then(|spans| read_at_offset(&held, fd as i32, &spans)),
    )
}

/// writev(2)
pub fn writev(call: &mut Call) -> Outcome {
    let [fd, vector, count, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    done(
        held.writable()
            .and_then(|_| spans(vector, count))
            .and_then(|spans| write_at_offset(&held, fd as i32, &spans, false)),
    )
}

/// preadv(2)
pub fn preadv(call: &mut Call) -> Outcome {
    let [fd, vector, count, offset, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    if (offset as i64) < 0 {
        return done(Err(Errno::EINVAL));
    }
    done(
        held.readable()
            .and_then(|_| spans(vector, count))
            .and_then(|spans| read_at(&held, offset as i64, &spans)),
    )
}

/// pwritev(2)
pub fn pwritev(call: &mut Call) -> Outcome {
    let [fd, vector, count, offset, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    if (offset as i64) < 0 {
        return done(Err(Errno::EINVAL));
    }
    done(
        held.writable()
            .and_then(|_| spans(vector, count))
            .and_then(|spans| write_at(&held, fd as i32, offset as i64, &spans, false)),
    )
}

/// preadv2(2): offset -1 means the description's own.
pub fn preadv2(call: &mut Call) -> Outcome {
    let [fd, vector, count, offset, _, flags] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    if flags & !RWF_HARMLESS != 0 {
        return done(Err(Errno::EOPNOTSUPP));
    }
    let read = |spans: &[Span]| {
        if offset as i64 == -1 {
            read_at_offset(&held, fd as i32, spans)
        } else {
            read_at(&held, offset as i64, spans)
        }
    };
    done(
        held.readable()
            .and_then(|_| spans(vector, count))
            .and_then(|spans| read(&spans)),
    )
}

/// pwritev2(2): offset -1 means the description's own.
pub fn pwritev2(call: &mut Call) -> Outcome {
    let [fd, vector, count, offset, _, flags] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    if flags & !(RWF_HARMLESS | RWF_APPEND) != 0 {
        return done(Err(Errno::EOPNOTSUPP));
    }
    let append = flags & RWF_APPEND != 0;
    let write = |spans: &[Span]| match offset as i64 {
        -1 => write_at_offset(&held, fd as i32, spans, append),
        offset => write_at(&held, fd as i32, offset, spans, append),
    };
    done(
        held.writable()
            .and_then(|_| spans(vector, count))
            .and_then(|spans| write(&spans)),
    )
}

/// lseek(2). On directories the offset is a position of getdents64.
pub fn lseek(call: &mut Call) -> Outcome {
    let [fd, offset, whence, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    done(seek(&held, fd as i32, offset as i64, whence as u32))
}

fn seek(held: &Held, fd: i32, offset: i64, whence: u32) -> Answer {
    const SET: u32 = 0;
    const CUR: u32 = 1;
    const END: u32 = 2;
    const DATA: u32 = 3;
    const HOLE: u32 = 4;
    if matches!(held.object, Object::Path) {
        return Err(Errno::EBADF);
    }
    let base = match whence {
        SET => 0,
        CUR => return held.at_offset(fd, |at| move_to(at, (*at as i64).checked_add(offset)))?,
        END => match &held.object {
            Object::File(file) => {
                file.attributes()
                    .map_err(|error| report(held, "lseek", &error))?
                    .size as i64
            }
            _ => return Err(Errno::EINVAL),
        },
        DATA | HOLE => {
            let whence = if whence == DATA {
                Whence::Data
            } else {
                Whence::Hole
            };
            let file = held.file().map_err(|_| Errno::EINVAL)?;
            if offset < 0 {
                return Err(Errno::ENXIO);
            }
            let found = file
                .seek(offset as u64, whence)
                .map_err(|error| report(held, "lseek", &error))?;
            return held.at_offset(fd, |at| move_to(at, Some(found as i64)))?;
        }
        _ => return Err(Errno::EINVAL),
    };
    held.at_offset(fd, |at| move_to(at, base.checked_add(offset)))?
}

fn move_to(at: &mut u64, to: Option<i64>) -> Answer {
    match to {
        Some(to) if to >= 0 => {
            *at = to as u64;
            Ok(to as usize)
        }
        Some(_) => Err(Errno::EINVAL),
        None => Err(Errno::EINVAL),
    }
}
