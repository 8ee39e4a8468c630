//! Reading and writing on driven descriptors.

use super::arguments::driven;
use super::{done, unbuffered};
use crate::answer::Answer;
use crate::description::Object;
use crate::process::Process;
use crate::vfs::read::{area, may_read, read_at, read_at_offset, total};
use crate::vfs::write::{Manner, RWF_HIPRI, write_at, write_at_offset};
use culvert::Errno;
use culvert_intercept::{Call, Outcome};
use culvert_run::memory::{Span, span, spans};

/// The program's memory that a call names.
#[derive(Clone, Copy)]
enum Memory {
    /// Address and length of a buffer.
    Buffer(usize, usize),
    /// Address and length of an array of `struct iovec`.
    Vector(usize, usize),
}

impl Memory {
    #[inline(always)]
    fn with_spans(self, run: impl FnOnce(&[Span]) -> Answer) -> Answer {
        match self {
            Self::Buffer(base, length) => run(&[span(base, length)?]),
            Self::Vector(base, count) => run(&spans(base, count)?),
        }
    }
}

/// Reads from the file of argument 0, at `offset` or that of the description.
#[inline(always)]
fn read_into(
    process: &Process,
    call: &Call,
    memory: Memory,
    offset: Option<usize>,
    flags: usize,
) -> Outcome {
    let fd = call.args[0];
    let Some(held) = driven(process, fd) else {
        return unbuffered::read(call);
    };
    let offset = offset.map(|offset| offset as i64);
    done((|| {
        offset.map_or(Ok(()), |offset| area(offset, 0))?;
        may_read(&held)?;
        if let (Some(offset), Memory::Buffer(_, length)) = (offset, memory) {
            area(offset, length)?;
            held.readable()?;
        }
        memory.with_spans(|spans| {
            if matches!(memory, Memory::Vector(..)) && total(spans) == 0 {
                return Ok(0);
            }
            // What has no flags of its own knows none (`do_loop_readv_writev`, fs/read_write.c).
            if !matches!(held.object, Object::File(_)) && flags & !RWF_HIPRI != 0 {
                return Err(Errno::EOPNOTSUPP);
            }
            Manner::new(0, flags)?;
            match offset {
                None => read_at_offset(&held, fd as i32, spans),
                Some(offset) => read_at(&held, offset, spans),
            }
        })
    })())
}

/// Writes to the file of argument 0, at `offset` or that of the description.
#[inline(always)]
fn write_from(
    process: &Process,
    call: &Call,
    memory: Memory,
    offset: Option<usize>,
    flags: usize,
) -> Outcome {
    let fd = call.args[0];
    let Some(held) = driven(process, fd) else {
        return Outcome::Forward;
    };
    let offset = offset.map(|offset| offset as i64);
    done((|| {
        offset.map_or(Ok(()), |offset| area(offset, 0))?;
        held.writable()?;
        memory.with_spans(|spans| match offset {
            None => write_at_offset(&held, fd as i32, spans, flags),
            Some(offset) => write_at(&held, fd as i32, offset, spans, flags),
        })
    })())
}

/// read(2)
pub fn read(process: &Process, call: &mut Call) -> Outcome {
    let [_, base, length, ..] = call.args;
    read_into(process, call, Memory::Buffer(base, length), None, 0)
}

/// write(2)
pub fn write(process: &Process, call: &mut Call) -> Outcome {
    let [_, base, length, ..] = call.args;
    write_from(process, call, Memory::Buffer(base, length), None, 0)
}

/// pread64(2)
pub fn pread64(process: &Process, call: &mut Call) -> Outcome {
    let [_, base, length, offset, ..] = call.args;
    read_into(process, call, Memory::Buffer(base, length), Some(offset), 0)
}

/// pwrite64(2)
pub fn pwrite64(process: &Process, call: &mut Call) -> Outcome {
    let [_, base, length, offset, ..] = call.args;
    write_from(process, call, Memory::Buffer(base, length), Some(offset), 0)
}

/// readv(2)
pub fn readv(process: &Process, call: &mut Call) -> Outcome {
    let [_, vector, count, ..] = call.args;
    read_into(process, call, Memory::Vector(vector, count), None, 0)
}

/// writev(2)
pub fn writev(process: &Process, call: &mut Call) -> Outcome {
    let [_, vector, count, ..] = call.args;
    write_from(process, call, Memory::Vector(vector, count), None, 0)
}

/// preadv(2)
pub fn preadv(process: &Process, call: &mut Call) -> Outcome {
    let [_, vector, count, offset, ..] = call.args;
    read_into(
        process,
        call,
        Memory::Vector(vector, count),
        Some(offset),
        0,
    )
}

/// pwritev(2)
pub fn pwritev(process: &Process, call: &mut Call) -> Outcome {
    let [_, vector, count, offset, ..] = call.args;
    write_from(
        process,
        call,
        Memory::Vector(vector, count),
        Some(offset),
        0,
    )
}

/// The offset and the flags of preadv2(2) and pwritev2(2): offset -1 means the description's own,
/// and the flags are an `int`, so that the upper half of a sixth argument may be anything.
fn offset_and_flags(call: &Call) -> (Option<usize>, usize) {
    let [.., offset, _, flags] = call.args;
    let own = offset == usize::MAX;
    ((!own).then_some(offset), flags as u32 as usize)
}

/// preadv2(2)
pub fn preadv2(process: &Process, call: &mut Call) -> Outcome {
    let (offset, flags) = offset_and_flags(call);
    let [_, vector, count, ..] = call.args;
    read_into(process, call, Memory::Vector(vector, count), offset, flags)
}

/// pwritev2(2)
pub fn pwritev2(process: &Process, call: &mut Call) -> Outcome {
    let (offset, flags) = offset_and_flags(call);
    let [_, vector, count, ..] = call.args;
    write_from(process, call, Memory::Vector(vector, count), offset, flags)
}
