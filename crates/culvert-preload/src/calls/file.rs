//! What else is done to an open file: advice, synchronising, allocating, truncating, ioctl, flock.

use super::arguments::{descriptor, driven, kernel_has_not};
use super::done;
use crate::answer::Answer;
use crate::description::{Held, Object, may_read, may_write, report};
use crate::vfs::truncate;
use crate::{memory, paging};
use culvert::{Errno, FileKind};
use culvert_intercept::{Call, Outcome, user};
use culvert_sys::raw::general::O_APPEND;
use culvert_sys::raw::ioctl::{
    FICLONE, FICLONERANGE, FIDEDUPERANGE, FIOASYNC, FIOCLEX, FIONBIO, FIONCLEX, FIONREAD,
};
use culvert_sys::{nr, syscall};

/// fadvise64(2), readahead(2): advice; errors as natively.
pub fn advice(call: &mut Call) -> Outcome {
    let Some(held) = driven(call.args[0]) else {
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
    // What the kernel has of a FIFO is in another file system.
    let is_fifo = |held: &Held| matches!(held.object, Object::Fifo);
    let found = match call.number {
        nr::SYNCFS => descriptor(call.args[0]).filter(|held| !held.is_direct() || is_fifo(held)),
        _ => driven(call.args[0]),
    };
    let Some(held) = found else {
        return Outcome::Forward;
    };
    // Its arguments are the kernel's to check, which writes back what stands for the file: nothing.
    if call.number == nr::SYNC_FILE_RANGE
        && let Err(errno) = super::arguments::native(call)
    {
        return done(Err(errno));
    }
    done(match (&held.object, call.number) {
        (Object::Path, _) => Err(Errno::EBADF),
        (_, nr::SYNCFS) => crate::process::file_system(held.mount)
            .and_then(|fs| {
                paging::write_back_all();
                fs.sync().map_err(|error| report(&held, "syncfs", &error))
            })
            .map(|()| 0),
        (Object::File(file), number) => paging::write_back(&*held)
            .and_then(|()| file.sync(number != nr::FSYNC))
            .map(|()| 0)
            .map_err(|error| report(&held, "fsync", &error)),
        (Object::Directory, nr::SYNC_FILE_RANGE) => Ok(0),
        (Object::Directory, number) => crate::process::file_system(held.mount)
            .and_then(|fs| {
                let data_only = number == nr::FDATASYNC;
                let synced = match &held.listing {
                    Some(listing) => listing.sync(data_only),
                    None => fs.sync_directory(held.node, data_only),
                };
                synced.map_err(|error| report(&held, "fsync", &error))
            })
            .map(|()| 0),
        (Object::Fifo | Object::Broken, _) => Err(Errno::EIO),
    })
}

/// sync(2): what was stored in mappings goes to their drivers, and what these delay to where they
/// keep it; the rest is the kernel's. It tells of no errors.
pub fn sync_all(_: &mut Call) -> Outcome {
    paging::write_back_all();
    let mounts = &crate::process::get().mounts;
    for mount in mounts.ids() {
        // A tree of the kernel's is written by the call itself.
        let driver = mounts.driver_if_open(mount);
        if let Some(driver) = driver.filter(|driver| driver.backing().is_none())
            && let Err(error) = driver.sync()
        {
            crate::log!("sync of mount {}: {error}", mount.0);
        }
    }
    Outcome::Forward
}

/// fallocate(2)
pub fn fallocate(call: &mut Call) -> Outcome {
    let [fd, mode, offset, length, ..] = call.args;
    let Some(held) = driven(fd) else {
        return Outcome::Forward;
    };
    done(truncate::allocate(&held, mode as u32, offset, length).map(|()| 0))
}

/// ftruncate(2)
pub fn ftruncate(call: &mut Call) -> Outcome {
    let [fd, length, ..] = call.args;
    let Some(held) = driven(fd) else {
        return Outcome::Forward;
    };
    done(truncate::by_descriptor(&held, length as i64).map(|()| 0))
}

/// ioctl(2): the requests that every file has, else the driver's.
pub fn ioctl(call: &mut Call) -> Outcome {
    let [fd, request, argument, ..] = call.args;
    let Some(held) = descriptor(fd).filter(|held| !matches!(held.object, Object::Fifo)) else {
        return Outcome::Forward;
    };
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
        FICLONE | FICLONERANGE | FIDEDUPERANGE => match kernel_has_not(fd) {
            // The other file is a descriptor too, which must be the kernel's.
            None => clone_from(&held, fd as i32, request as u32, argument),
            Some(_) if request as u32 == FICLONE => {
                done(Err(clone_refused(&held, fd as i32, argument as i32)))
            }
            Some(_) => done(Err(Errno::EOPNOTSUPP)),
        },
        _ if held.is_direct() => Outcome::Forward,
        _ => done(other(&held, request as u32, argument)),
    }
}

const F_GETFD: usize = 1;

/// Why nothing is cloned into `to`, in the kernel's order (fs/remap_range.c,
/// `vfs_clone_file_range`).
fn clone_refused(to: &Held, target: i32, source: i32) -> Errno {
    // SAFETY: plain numbers.
    if let Err(errno) = unsafe { syscall::call(nr::FCNTL, [source as usize, F_GETFD]) } {
        return errno;
    }
    let from = match super::arguments::descriptor(source as usize) {
        Some(from) if from.mount == to.mount => from,
        _ => return Errno::EXDEV,
    };
    if from.kind == FileKind::Directory || to.kind == FileKind::Directory {
        return Errno::EISDIR;
    }
    let flags = |held: &Held, fd| held.flags(fd).unwrap_or(1);
    let (source, target) = (flags(&from, source), flags(to, target));
    if !may_read(source) || !may_write(target) || target & O_APPEND != 0 {
        return Errno::EBADF;
    }
    Errno::EOPNOTSUPP
}

/// ioctl_ficlone(2), ioctl_fideduperange(2) of a file that the kernel has: whether it has the other
/// too.
fn clone_from(held: &Held, fd: i32, request: u32, argument: usize) -> Outcome {
    let others = match request {
        FICLONE => 1,
        FICLONERANGE => memory::get::<i64>(argument).map_or(0, |_| 1),
        _ => usize::from(memory::get::<u32>(argument + 16).unwrap_or(0) as u16),
    };
    for i in 0..others {
        let other = match request {
            FICLONE => Ok(argument as i64),
            FICLONERANGE => memory::get::<i64>(argument),
            // `struct file_dedupe_range` has 24 bytes, each `struct file_dedupe_range_info` behind
            // it 32.
            _ => memory::get::<i64>(argument + 24 + i * 32),
        };
        // What is wrong with one of several is said in its own status, by the kernel.
        if let Ok(other) = other
            && kernel_has_not(other as usize).is_some()
            && request != FIDEDUPERANGE
        {
            return done(Err(clone_refused(held, fd, other as i32)));
        }
    }
    Outcome::Forward
}

/// A request that only the driver may know.
fn other(held: &Held, request: u32, argument: usize) -> Answer {
    let file = held.file().map_err(|_| Errno::ENOTTY)?;
    // `_IOC_SIZE` and `_IOC_DIR`, include/uapi/asm-generic/ioctl.h
    const IOC_WRITE: u32 = 1;
    const IOC_READ: u32 = 2;
    let (size, direction) = ((request >> 16 & 0x3fff) as usize, request >> 30);
    let mut bytes = alloc::vec![0u8; size];
    if direction & IOC_WRITE != 0 {
        user::copy_in(&mut bytes, argument).map_err(|_| Errno::EFAULT)?;
    }
    let result = file
        .ioctl(request, &mut bytes)
        .map_err(|error| report(held, "ioctl", &error))?;
    if direction & IOC_READ != 0 {
        user::copy_out(argument, &bytes).map_err(|_| Errno::EFAULT)?;
    }
    Ok(result)
}
