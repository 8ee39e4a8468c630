//! Reading and writing on driven descriptors.

use super::arguments::driven;
use super::unbuffered;
use crate::answer::{Answer, FORWARD};
use crate::description::Object;
use crate::fuse_server;
use crate::process::Process;
use crate::vfs::read::{area, may_read, read_at, read_at_offset, total};
use crate::vfs::write::{Manner, RWF_HIPRI, write_at, write_at_offset};
use culvert::Errno;
use culvert_intercept::Call;
use culvert_run::memory::{Span, span, spans};
use culvert_sys::nr;

/// What a call says beside its descriptor.
struct Asked {
    /// Whether the memory is an array of `struct iovec` and not one buffer.
    is_vector: bool,
    /// The place in the file; none: the description's own.
    offset: Option<i64>,
    /// Those of pwritev2(2).
    flags: usize,
}

impl Asked {
    /// Of the call with this number, which is a constant: a small read costs what these questions
    /// cost.
    #[inline(always)]
    fn new<const NUMBER: u32>(call: &Call) -> Self {
        let [.., offset, _, flags] = call.args;
        let own = offset == usize::MAX;
        let offset = Some(offset as i64);
        let (is_vector, offset, flags) = match NUMBER as usize {
            nr::READ | nr::WRITE => (false, None, 0),
            nr::PREAD64 | nr::PWRITE64 => (false, offset, 0),
            nr::READV | nr::WRITEV => (true, None, 0),
            nr::PREADV | nr::PWRITEV => (true, offset, 0),
            // preadv2, pwritev2: the flags are an `int`, so that the upper half of a sixth argument
            // may be anything.
            _ => (true, offset.filter(|_| !own), flags as u32 as usize),
        };
        Self {
            is_vector,
            offset,
            flags,
        }
    }

    /// Runs `run` on the program's memory.
    #[inline(always)]
    fn with_spans(&self, call: &Call, run: impl FnOnce(&[Span]) -> Answer) -> Answer {
        let [_, base, length, ..] = call.args;
        match self.is_vector {
            false => run(&[span(base, length)?]),
            true => run(&spans(base, length)?),
        }
    }
}

/// What `answer` says to a call on a descriptor that no driver serves, in a process that is a FUSE
/// server; none where it has nothing to say.
#[inline(always)]
fn own<const NUMBER: u32>(
    call: &Call,
    answer: fn(usize, fuse_server::Spans<'_>) -> Option<Answer>,
) -> Option<Answer> {
    if !fuse_server::is_one() {
        return None;
    }
    let [fd, base, length, ..] = call.args;
    match NUMBER as usize {
        nr::READ | nr::WRITE => answer(fd, &|run| run(&[span(base, length)?])),
        nr::READV | nr::WRITEV => answer(fd, &|run| run(&spans(base, length)?)),
        _ => None,
    }
}

/// read(2), pread64(2), readv(2), preadv(2), preadv2(2)
pub fn read<const NUMBER: u32>(process: &Process, call: &mut Call) -> Answer {
    let [fd, _, length, ..] = call.args;
    let Some(held) = driven(process, fd) else {
        return own::<NUMBER>(call, fuse_server::read).unwrap_or_else(|| unbuffered::read(call));
    };
    let asked = Asked::new::<NUMBER>(call);
    asked.offset.map_or(Ok(()), |offset| area(offset, 0))?;
    may_read(&held)?;
    if let (Some(offset), false) = (asked.offset, asked.is_vector) {
        area(offset, length)?;
        held.readable()?;
    }
    asked.with_spans(call, |spans| {
        if asked.is_vector && total(spans) == 0 {
            return Ok(0);
        }
        // What has no flags of its own knows none (`do_loop_readv_writev`, fs/read_write.c).
        if !matches!(held.object, Object::File(_)) && asked.flags & !RWF_HIPRI != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        Manner::new(&held, 0, asked.flags)?;
        match asked.offset {
            None => read_at_offset(&held, fd as i32, spans),
            Some(offset) => read_at(&held, offset, spans),
        }
    })
}

/// write(2), pwrite64(2), writev(2), pwritev(2), pwritev2(2)
pub fn write<const NUMBER: u32>(process: &Process, call: &mut Call) -> Answer {
    let fd = call.args[0];
    let Some(held) = driven(process, fd) else {
        return own::<NUMBER>(call, fuse_server::write).unwrap_or(Err(FORWARD));
    };
    let asked = Asked::new::<NUMBER>(call);
    asked.offset.map_or(Ok(()), |offset| area(offset, 0))?;
    held.writable()?;
    asked.with_spans(call, |spans| match asked.offset {
        None => write_at_offset(&held, fd as i32, spans, asked.flags),
        Some(offset) => write_at(&held, fd as i32, offset, spans, asked.flags),
    })
}
