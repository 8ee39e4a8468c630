//! Reading, writing and seeking on driven descriptors.

use super::{Answer, descriptor, done};
use crate::description::{Description, Held, Object};
use crate::memory::{self, MAX_RW_COUNT, Span, UserSink, UserSource, span, spans};
use crate::process;
use crate::shadow::copy_to_descriptor;
use culvert::{Errno, FileKind, Whence};
use culvert_intercept::{Call, Outcome};
use culvert_sys::{nr, syscall};

/// O_APPEND.
const O_APPEND: u32 = 0o2000;
/// The flags of preadv2 and pwritev2 that mean nothing on our files: RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT (never blocks: data is at hand).
const RWF_HARMLESS: usize = 1 | 2 | 4 | 8;
/// RWF_APPEND.
const RWF_APPEND: usize = 0x10;

/// Logs a driver's error and gives its errno to the program.
pub fn report(description: &Description, what: &str, error: &culvert::Error) -> Errno {
    if let Some(cause) = error.cause() {
        crate::log!(
            "{what} of node {:x} of mount {}: {cause}",
            description.node.0,
            description.mount.0
        );
    }
    error.errno()
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
        None => held.at_offset(fd, run)?,
        Some(offset) => {
            let mut offset = offset as u64;
            let moved = run(&mut offset)?;
            memory::put(offset_address, offset)?;
            Ok(moved)
        }
    }
}

/// write(2) to a foreign descriptor; a wait that a signal ends is EINTR here, seen only when nothing was moved.
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
        Err(_) => Err(Errno::EINTR),
    }
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
    let [input, input_offset, out, output_offset, count, _flags] = call.args;
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
            // One pipe's worth: splice returns what fits without waiting for a reader twice.
            done(pour(
                &held,
                input as i32,
                input_offset,
                count.min(64 << 10),
                &mut |bytes| write_foreign(out, bytes, None),
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

/// fadvise64(2), readahead(2): advice; errors as natively.
pub fn advice(call: &mut Call) -> Outcome {
    let Some(held) = descriptor(call.args[0]) else {
        return Outcome::Forward;
    };
    done(match (&held.object, call.number) {
        (Object::Path, _) => Err(Errno::EBADF),
        (_, nr::FADVISE64) if call.args[3] > 5 => Err(Errno::EINVAL),
        (Object::Directory, nr::READAHEAD) => Err(Errno::EINVAL),
        (Object::File(_), nr::READAHEAD) => held.readable().map(|_| 0),
        _ => Ok(0),
    })
}

/// fsync(2), fdatasync(2), sync_file_range(2), syncfs(2).
pub fn sync(call: &mut Call) -> Outcome {
    let Some(held) = descriptor(call.args[0]) else {
        return Outcome::Forward;
    };
    done(match (&held.object, call.number) {
        (Object::Path, _) => Err(Errno::EBADF),
        (_, nr::SYNCFS) => held
            .file_system()
            .and_then(|fs| fs.sync().map_err(|error| report(&held, "syncfs", &error)))
            .map(|()| 0),
        (Object::File(file), number) => file
            .sync(number != nr::FSYNC)
            .map(|()| 0)
            .map_err(|error| report(&held, "fsync", &error)),
        (Object::Directory, _) => Ok(0),
    })
}

/// fallocate(2)
pub fn fallocate(call: &mut Call) -> Outcome {
    let [fd, mode, offset, length, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    done((|| {
        if matches!(held.object, Object::Path) {
            return Err(Errno::EBADF);
        }
        if (offset as i64) < 0 || (length as i64) <= 0 {
            return Err(Errno::EINVAL);
        }
        let file = held.writable()?;
        file.allocate(mode as u32, offset as u64, length as u64)
            .map(|()| 0)
            .map_err(|error| report(&held, "fallocate", &error))
    })())
}

/// ftruncate(2): EINVAL for a descriptor that is not open for writing.
pub fn ftruncate(call: &mut Call) -> Outcome {
    let [fd, length, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    done((|| {
        if (length as i64) < 0 {
            return Err(Errno::EINVAL);
        }
        if matches!(held.object, Object::Path) {
            return Err(Errno::EBADF);
        }
        let file = held.writable().map_err(|_| Errno::EINVAL)?;
        let changes = culvert::SetAttributes {
            size: Some(length as u64),
            ..Default::default()
        };
        file.set_attributes(&changes)
            .map(|_| 0)
            .map_err(|error| report(&held, "ftruncate", &error))
    })())
}

/// ioctl(2): the requests that every file has, else the driver's.
pub fn ioctl(call: &mut Call) -> Outcome {
    let [fd, request, argument, ..] = call.args;
    let Some(held) = descriptor(fd) else {
        return Outcome::Forward;
    };
    const FIOCLEX: u32 = 0x5451;
    const FIONCLEX: u32 = 0x5450;
    const FIONREAD: u32 = 0x541b;
    const FIONBIO: u32 = 0x5421;
    const FIOASYNC: u32 = 0x5452;
    if matches!(held.object, Object::Path) {
        return done(Err(Errno::EBADF));
    }
    match request as u32 {
        // About the descriptor: the kernel's, which is real.
        FIOCLEX | FIONCLEX => Outcome::Forward,
        FIONBIO => done((|| {
            let on: i32 = memory::get(argument)?;
            let flags = held.flags(fd as i32)?;
            held.set_flags(
                fd as i32,
                if on != 0 {
                    flags | 0o4000
                } else {
                    flags & !0o4000
                },
            )
            .map(|()| 0)
        })()),
        FIONREAD => done((|| {
            let file = held.file().map_err(|_| Errno::ENOTTY)?;
            let size = file
                .attributes()
                .map_err(|error| report(&held, "ioctl", &error))?
                .size;
            let left = held.at_offset(fd as i32, |offset| size.wrapping_sub(*offset))? as i32;
            memory::put(argument, left)
                .map(|()| 0)
                .map_err(|_| Errno::EFAULT)
        })()),
        FIOASYNC => done(Err(Errno::ENOTTY)),
        _ => done(Err(Errno::ENOTTY)),
    }
}

/// flock(2) and the like on a description: the kernel keeps locks, on the shadow.
pub fn flock(call: &mut Call) -> Outcome {
    let fd = call.args[0] as i32;
    let Some(held) = descriptor(call.args[0]) else {
        return Outcome::Forward;
    };
    if matches!(held.object, Object::Path) {
        return done(Err(Errno::EBADF));
    }
    match process::get().table.promote(fd) {
        Ok(()) => Outcome::Forward,
        Err(error) => done(Err(error)),
    }
}
