//! Moving bytes between files inside one call: sendfile, copy_file_range, splice and the calls that only know pipes.

use super::io::report;
use super::{Answer, descriptor, done};
use crate::description::{Held, Object};
use crate::memory::{self, MAX_RW_COUNT};
use crate::shadow::copy_to_descriptor;
use culvert::{Errno, FileKind};
use culvert_intercept::{Call, Outcome};
use culvert_sys::{nr, syscall};

/// Reads the `loff_t` behind `address`, or none for a null pointer; EINVAL for a negative one.
fn offset_argument(address: usize) -> Result<Option<i64>, Errno> {
    if address == 0 {
        return Ok(None);
    }
    let offset: i64 = memory::get(address)?;
    if offset < 0 {
        Err(Errno::EINVAL)
    } else {
        Ok(Some(offset))
    }
}

/// Moves up to `length` bytes of a driven file into a foreign descriptor, from the offset behind `offset_address` or the description's own.
fn pour(
    held: &Held,
    fd: i32,
    offset_address: usize,
    length: usize,
    write: &mut dyn FnMut(&[u8]) -> Result<usize, Errno>,
) -> Answer {
    let file = held.readable()?;
    let length = length.min(MAX_RW_COUNT);
    let mut run = |offset: &mut u64| {
        let mut moved = 0;
        let result = copy_to_descriptor(file, *offset, length, write, &mut moved);
        *offset += moved as u64;
        match result {
            Err(error) if moved == 0 => Err(report(held, "sendfile", &error)),
            _ => Ok(moved),
        }
    };
    match offset_argument(offset_address)? {
        // As do_sendfile: the offset is not held while the target makes us wait for its reader.
        None => {
            let mut offset = held.at_offset(fd, |offset| *offset)?;
            let moved = run(&mut offset)?;
            held.at_offset(fd, |now| *now = offset)?;
            Ok(moved)
        }
        Some(offset) => {
            let mut offset = offset as u64;
            let moved = run(&mut offset)?;
            memory::put(offset_address, offset)?;
            Ok(moved)
        }
    }
}

/// write(2) to a foreign descriptor; a wait that a signal ends is to be made again, seen only when nothing was moved.
fn write_foreign(fd: usize, bytes: &[u8], at: Option<i64>) -> Result<usize, Errno> {
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
        Err(_) => Err(super::RESTART),
    }
}

/// SPLICE_F_NONBLOCK.
const SPLICE_F_NONBLOCK: usize = 2;
/// What one buffer of a pipe holds: a page (pipe(7)).
const PIPE_BUFFER: usize = 4096;

/// Writes what a foreign pipe takes at once; EAGAIN when that is nothing.
fn write_at_once(fd: usize, bytes: &[u8]) -> Result<usize, Errno> {
    const RWF_NOWAIT: usize = 8;
    let vector = [bytes.as_ptr() as usize, bytes.len()];
    let arguments = [fd, vector.as_ptr() as usize, 1, usize::MAX, 0, RWF_NOWAIT];
    // SAFETY: one vector over the slice.
    unsafe { syscall::call(nr::PWRITEV2, arguments) }
}

/// sendfile(2)
pub fn sendfile(call: &mut Call) -> Outcome {
    let [out, input, offset, count, ..] = call.args;
    match (descriptor(out), descriptor(input)) {
        (None, None) => Outcome::Forward,
        (None, Some(held)) => done(pour(&held, input as i32, offset, count, &mut |bytes| {
            write_foreign(out, bytes, None)
        })),
        (Some(target), source) => done(fill_from(
            &target,
            out as i32,
            source.as_ref(),
            input,
            offset,
            0,
            count,
        )),
    }
}

/// copy_file_range(2): by reading and writing, also between a mount and the real file system.
pub fn copy_file_range(call: &mut Call) -> Outcome {
    let [input, input_offset, out, output_offset, count, flags] = call.args;
    let (source, target) = (descriptor(input), descriptor(out));
    if source.is_none() && target.is_none() {
        return Outcome::Forward;
    }
    done((|| {
        for address in [input_offset, output_offset] {
            if address != 0 {
                memory::get::<i64>(address)?;
            }
        }
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (kind(source.as_ref(), input)?, kind(target.as_ref(), out)?);
        if from == FileKind::Directory || to == FileKind::Directory {
            return Err(Errno::EISDIR);
        }
        if from != FileKind::Regular || to != FileKind::Regular {
            return Err(Errno::EINVAL);
        }
        match (&source, &target) {
            (source, Some(target)) => fill_from(
                target,
                out as i32,
                source.as_ref(),
                input,
                input_offset,
                output_offset,
                count,
            ),
            (Some(source), None) => {
                let mut at = offset_argument(output_offset)?;
                let moved = pour(source, input as i32, input_offset, count, &mut |bytes| {
                    let wrote = write_foreign(out, bytes, at)?;
                    at = at.map(|at| at + wrote as i64);
                    Ok(wrote)
                })?;
                if let Some(at) = at {
                    memory::put(output_offset, at)?;
                }
                Ok(moved)
            }
            (None, None) => Err(Errno::EBADF),
        }
    })())
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

/// Moves bytes into a driven file that is open for writing.
fn fill_from(
    target: &Held,
    fd: i32,
    source: Option<&Held>,
    input: usize,
    input_offset: usize,
    output_offset: usize,
    count: usize,
) -> Answer {
    target.writable()?;
    let mut to = offset_argument(output_offset)?;
    let mut store = |bytes: &[u8]| {
        let mut from = bytes;
        let wrote = match &mut to {
            Some(to) => {
                let count = target
                    .writable()?
                    .write_at(*to as u64, &mut from)
                    .map_err(|error| report(target, "write", &error))?;
                *to += count as i64;
                count
            }
            None => target.at_offset(fd, |at| {
                let count = target
                    .writable()?
                    .write_at(*at, &mut from)
                    .map_err(|error| report(target, "write", &error))?;
                *at += count as u64;
                Ok::<usize, Errno>(count)
            })??,
        };
        Ok(wrote)
    };
    let moved = match source {
        Some(source) => pour(source, input as i32, input_offset, count, &mut store)?,
        None => {
            let mut buffer = alloc::vec![0u8; count.min(64 << 10)];
            let mut from = offset_argument(input_offset)?;
            let mut moved = 0;
            while moved < count {
                let want = buffer.len().min(count - moved);
                let number = if from.is_some() {
                    nr::PREAD64
                } else {
                    nr::READ
                };
                // SAFETY: the buffer is given with its length.
                let got = unsafe {
                    syscall::call(
                        number,
                        [
                            input,
                            buffer.as_mut_ptr() as usize,
                            want,
                            from.unwrap_or(0) as usize,
                        ],
                    )
                };
                match got {
                    Ok(0) => break,
                    Ok(got) => {
                        store(&buffer[..got])?;
                        moved += got;
                        from = from.map(|from| from + got as i64);
                    }
                    Err(error) if moved == 0 => return Err(error),
                    Err(_) => break,
                }
            }
            if let Some(from) = from {
                memory::put(input_offset, from)?;
            }
            moved
        }
    };
    if let Some(to) = to {
        memory::put(output_offset, to)?;
    }
    Ok(moved)
}

/// splice(2): from a driven file into a pipe by writing, from a pipe into one by reading.
pub fn splice(call: &mut Call) -> Outcome {
    let [input, input_offset, out, output_offset, count, flags] = call.args;
    match (descriptor(input), descriptor(out)) {
        (None, None) => Outcome::Forward,
        (Some(_), Some(_)) => done(Err(Errno::EINVAL)),
        (Some(held), None) => {
            if !is_pipe(out) {
                return done(Err(Errno::EINVAL));
            }
            if output_offset != 0 {
                return done(Err(Errno::ESPIPE));
            }
            // splice(2) waits for room once, then moves what fits.
            let mut wait = flags & SPLICE_F_NONBLOCK == 0;
            done(pour(
                &held,
                input as i32,
                input_offset,
                count.min(64 << 10),
                &mut |bytes| match core::mem::take(&mut wait) {
                    true => write_foreign(out, &bytes[..bytes.len().min(PIPE_BUFFER)], None),
                    false => write_at_once(out, bytes),
                },
            ))
        }
        (None, Some(target)) => {
            if !is_pipe(input) {
                return done(Err(Errno::EINVAL));
            }
            if input_offset != 0 {
                return done(Err(Errno::ESPIPE));
            }
            done(fill_from(
                &target,
                out as i32,
                None,
                input,
                0,
                output_offset,
                count.min(64 << 10),
            ))
        }
    }
}

fn is_pipe(fd: usize) -> bool {
    crate::run::stat_descriptor(fd as i32).is_ok_and(|found| found.st_mode & 0o170000 == 0o010000)
}

/// tee(2), vmsplice(2): only pipes, so never ours.
pub fn only_pipes(call: &mut Call) -> Outcome {
    let ours = descriptor(call.args[0]).is_some()
        || (call.number == nr::TEE && descriptor(call.args[1]).is_some());
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
