//! What else is done to an open file: advice, synchronising, allocating, truncating, ioctl, flock.

use super::io::report;
use super::{descriptor, done};
use crate::description::Object;
use crate::memory;
use crate::process;
use culvert::Errno;
use culvert_intercept::{Call, Outcome};
use culvert_sys::nr;

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
        (Object::Broken, _) => Err(Errno::EIO),
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
