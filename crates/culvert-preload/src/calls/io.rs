//! Reading and writing on driven descriptors.

use super::arguments::driven;
use super::{done, unbuffered};
use crate::description::Object;
use crate::memory::{Span, span, spans};
use crate::vfs::read::{area, may_read, read_at, read_at_offset, total};
use crate::vfs::write::{Manner, RWF_HIPRI, write_at, write_at_offset};
use culvert::Errno;
use culvert_intercept::{Call, Outcome};

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
