//! What else is done to an open file: advice, synchronising, allocating, truncating, ioctl, flock.

use super::arguments::{descriptor, driven, kernel_has_not, metadata};
use crate::answer::{Answer, FORWARD};
use crate::description::{Held, Object, report};
use crate::process::Process;
use crate::vfs::sync::{self, Extent};
use crate::vfs::{ioctl, truncate};
use culvert::Errno;
use culvert_intercept::{Call, user};
use culvert_run::files::{O_PATH, kernel_flags};
use culvert_run::memory;
use culvert_sys::ioctl::OwnSize;
use culvert_sys::nr;
use culvert_sys::raw::general::O_NONBLOCK;
use culvert_sys::raw::ioctl::{
    FICLONE, FICLONERANGE, FIDEDUPERANGE, FIOASYNC, FIOCLEX, FIONBIO, FIONCLEX, FIONREAD,
};

/// fadvise64(2), readahead(2): advice; errors as natively.
pub fn advice(process: &Process, call: &mut Call) -> Answer {
    let held = driven(process, call.args[0]).ok_or(FORWARD)?;
    match (&held.object, call.number) {
        (Object::Path, _) => Err(Errno::EBADF),
        (_, nr::FADVISE64) if call.args[3] > 5 => Err(Errno::EINVAL),
        (Object::Directory, nr::READAHEAD) => Err(Errno::EINVAL),
        (Object::File(_), nr::READAHEAD) => held.readable().map(|_| 0),
        _ => Ok(0),
    }
}

/// fsync(2), fdatasync(2), sync_file_range(2), syncfs(2).
pub fn sync(process: &Process, call: &mut Call) -> Answer {
    // What the kernel has of a FIFO is in another file system.
    let is_fifo = |held: &Held| matches!(held.object, Object::Fifo);
    let (found, extent) = match call.number {
        nr::SYNCFS => (
            descriptor(process, call.args[0])
                .filter(|held| !held.is_direct() || is_fifo(held) || held.is_backed()),
            Extent::FileSystem,
        ),
        nr::FSYNC => (metadata(process, call.args[0]), Extent::File),
        nr::FDATASYNC => (metadata(process, call.args[0]), Extent::Data),
        _ => (driven(process, call.args[0]), Extent::Range),
    };
    let held = found.ok_or(FORWARD)?;
    // Its arguments are the kernel's to check, which writes back what stands for the file: nothing.
    if extent == Extent::Range {
        call.execute()?;
    }
    sync::sync(&held, extent)
}

/// sync(2)
pub fn sync_all(process: &Process, _: &mut Call) -> Answer {
    sync::sync_all(process);
    Err(FORWARD)
}

/// fallocate(2)
pub fn fallocate(process: &Process, call: &mut Call) -> Answer {
    let [fd, mode, offset, length, ..] = call.args;
    let held = driven(process, fd).ok_or(FORWARD)?;
    truncate::allocate(&held, mode as u32, offset, length).map(|()| 0)
}

/// ftruncate(2)
pub fn ftruncate(process: &Process, call: &mut Call) -> Answer {
    let [fd, length, ..] = call.args;
    let held = metadata(process, fd).ok_or(FORWARD)?;
    truncate::by_descriptor(&held, length as i64).map(|()| 0)
}

/// ioctl(2): the requests that every file has, else the driver's.
pub fn ioctl(process: &Process, call: &mut Call) -> Answer {
    let [fd, request, argument, ..] = call.args;
    let held = match descriptor(process, fd) {
        Some(held) if !matches!(held.object, Object::Fifo) => held,
        // The program has no descriptor of that number.
        None if process.run.is_internal(fd as i32) => return Err(Errno::EBADF),
        None => return clone_outside(process, fd as i32, request as u32, argument),
        _ => return Err(FORWARD),
    };
    if matches!(held.object, Object::Path) {
        return Err(Errno::EBADF);
    }
    match request as u32 {
        // About the descriptor: the kernel's, which is real.
        FIOCLEX | FIONCLEX => Err(FORWARD),
        FIONBIO => memory::get::<i32>(argument).and_then(|on| {
            let flags = held.flags(fd as i32)? & !O_NONBLOCK;
            let on = if on != 0 { O_NONBLOCK } else { 0 };
            held.set_flags(fd as i32, flags | on).map(|()| 0)
        }),
        FIONREAD => ioctl::bytes_left(&held, fd as i32)
            .and_then(|left| memory::put(argument, left))
            .map(|()| 0),
        FIOASYNC => Err(Errno::ENOTTY),
        // The program has no descriptor of that number.
        FICLONE if process.run.is_internal(argument as i32) => Err(Errno::EBADF),
        FICLONE | FICLONERANGE | FIDEDUPERANGE => match kernel_has_not(process, fd) {
            // The other file is a descriptor too, which must be the kernel's.
            None => clone_from(process, &held, fd as i32, request as u32, argument),
            Some(_) if request as u32 == FICLONE => {
                let from = descriptor(process, argument);
                Err(ioctl::clone_refused(
                    (&held, fd as i32),
                    (from.as_ref(), argument as i32),
                ))
            }
            Some(_) => Err(Errno::EOPNOTSUPP),
        },
        // Flags of the inode are the layer's to refuse or to see; all else that the kernel's file
        // knows is between it and the program.
        request if held.is_direct() && !(held.is_backed() && OwnSize::new(request).is_some()) => {
            Err(FORWARD)
        }
        _ => other(&held, request as u32, argument),
    }
}

/// ioctl_ficlone(2) into `fd`, which is none of ours: what its driver alone has lies on no file
/// system of the kernel's.
fn clone_outside(process: &Process, fd: i32, request: u32, argument: usize) -> Answer {
    let source = match request {
        FICLONE => argument as i64,
        // A number that is none comes first: the kernel says which.
        FICLONERANGE => memory::get(argument).map_err(|_| FORWARD)?,
        _ => return Err(FORWARD),
    };
    match kernel_has_not(process, source as usize) {
        Some(from) if matches!(from.object, Object::Path) => Err(Errno::EBADF),
        Some(_) if kernel_flags(fd)? & O_PATH == 0 => Err(Errno::EXDEV),
        Some(_) => Err(Errno::EBADF),
        None => Err(FORWARD),
    }
}

/// ioctl_ficlone(2), ioctl_fideduperange(2) of a file that the kernel has: whether it has the other
/// too.
fn clone_from(process: &Process, held: &Held, fd: i32, request: u32, argument: usize) -> Answer {
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
            && let Some(from) = kernel_has_not(process, other as usize)
            && request != FIDEDUPERANGE
        {
            let from = (Some(&from), other as i32);
            return Err(ioctl::clone_refused((held, fd), from));
        }
    }
    Err(FORWARD)
}

/// A request that only the driver may know.
fn other(held: &Held, request: u32, argument: usize) -> Answer {
    // `_IOC_SIZE` and `_IOC_DIR`, include/uapi/asm-generic/ioctl.h
    const IOC_WRITE: u32 = 1;
    const IOC_READ: u32 = 2;
    let (size, direction) = ((request >> 16 & 0x3fff) as usize, request >> 30);
    let file = held.file().map_err(|_| Errno::ENOTTY)?;
    let mut bytes = alloc::vec![0u8; size];
    // The program's is an `int`, whatever the number says (ioctl_iflags(2)).
    let size = match OwnSize::new(request) {
        Some(_) if size == size_of::<u64>() => size_of::<u32>(),
        _ => size,
    };
    if direction & IOC_WRITE != 0 {
        user::copy_in(&mut bytes[..size], argument).map_err(|_| Errno::EFAULT)?;
    }
    let result = file
        .ioctl(request, &mut bytes)
        .map_err(|error| report(held, "ioctl", &error))?;
    if direction & IOC_READ != 0 {
        user::copy_out(argument, &bytes[..size]).map_err(|_| Errno::EFAULT)?;
    }
    Ok(result)
}
