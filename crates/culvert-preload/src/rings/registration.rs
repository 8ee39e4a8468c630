//! io_uring_register(2): descriptors that are registered are copied, looked at, and the copies
//! given to the kernel, so that registered files are none of a mount's.

use super::operations::{self, Treatment};
use super::submission::domain;
use crate::answer::{Answer, FORWARD};
use crate::descriptors::rings::restrictions::{self, Restrictions};
use crate::descriptors::rings::{DescriptorKind, find};
use crate::process::Process;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culvert::Errno;
use culvert_cache::nodes;
use culvert_intercept::{Call, user};
use culvert_run::memory;

// `enum io_uring_register_op`
const BUFFERS: u32 = 0;
const FILES: u32 = 2;
const FILES_UPDATE: u32 = 6;
const PROBE: u32 = 8;
const RESTRICTIONS: u32 = 11;
const ENABLE_RINGS: u32 = 12;
const FILES2: u32 = 13;
const FILES_UPDATE2: u32 = 14;
const BUFFERS2: u32 = 15;
const BUFFERS_UPDATE: u32 = 16;
const RING_FDS: u32 = 20;
const SEND_MSG_RING: u32 = 31;
const RESIZE_RINGS: u32 = 33;
/// `IORING_REGISTER_QUERY`, the last that is known (Linux 6.18).
const LAST: u32 = 35;
/// `IORING_REGISTER_USE_REGISTERED_RING`
const REGISTERED_RING: u32 = 1 << 31;
/// `IORING_MAX_FIXED_FILES`, `IORING_MAX_REG_BUFFERS`
const MOST: usize = 1 << 20;

/// io_uring_register(2)
pub fn register(process: &Process, call: &mut Call) -> Answer {
    let [fd, operation, argument, count, ..] = call.args;
    let fd = fd as i32;
    if operation as u32 & REGISTERED_RING != 0 || process.run.is_internal(fd) {
        return Err(Errno::EBADF);
    }
    let count = count as u32 as usize;
    match operation as u32 {
        FILES => {
            let mut files = files(process, fd, argument, count)?;
            // SAFETY: as many descriptors as the call says.
            unsafe { call.replacing().room(2, &mut files) }.execute()
        }
        // `struct io_uring_files_update`: offset, reserved, descriptors.
        FILES_UPDATE => update(process, call, 16, 8, count),
        // `struct io_uring_rsrc_register`: count, flags, reserved, descriptors, tags.
        FILES2 => match memory::get::<u32>(argument) {
            Ok(inner) => update(process, call, 32, 16, inner as usize),
            Err(errno) => Err(errno),
        },
        // `struct io_uring_rsrc_update2`: offset, reserved, descriptors, tags, count, reserved.
        FILES_UPDATE2 => match memory::get::<u32>(argument.wrapping_add(24)) {
            Ok(inner) => update(process, call, 32, 8, inner as usize),
            Err(errno) => Err(errno),
        },
        BUFFERS => buffers(call, argument, count),
        BUFFERS2 => buffers_of(call, 16, 0),
        BUFFERS_UPDATE => buffers_of(call, 8, 24),
        PROBE => probe(call, argument, count),
        RESTRICTIONS => restrict(call, fd, argument, count),
        ENABLE_RINGS => enable(call, fd),
        // What is sent by them, or where the requests are then, nobody could look at.
        RING_FDS | SEND_MSG_RING | RESIZE_RINGS | LAST.. if operation as u32 != LAST => {
            culvert_sys::log!("io_uring_register: operation {operation} is refused");
            Err(Errno::EINVAL)
        }
        _ => Err(FORWARD),
    }
}

/// A copy of `count` descriptors, none of which is a mount's; and what is remembered of them.
///
/// EBADF: one of them is, as it is for descriptors of rings themselves (io_uring_register(2)).
fn files(process: &Process, ring: i32, at: usize, count: usize) -> Result<Vec<u8>, Errno> {
    if count > MOST {
        return Err(Errno::EMFILE);
    }
    let mut files = vec![0u8; count * 4];
    user::copy_in(&mut files, at).map_err(|_| Errno::EFAULT)?;
    let numbers = files.as_chunks().0.iter().copied();
    for fd in numbers.map(i32::from_ne_bytes).filter(|&fd| fd >= 0) {
        if process.run.is_internal(fd) {
            return Err(Errno::EBADF);
        }
        if crate::syscalls::arguments::kernel_has_not(process, fd as usize).is_some() {
            culvert_sys::log!("io_uring_register: descriptor {fd} of a mount is not registered");
            return Err(Errno::EBADF);
        }
        if crate::syscalls::arguments::metadata(process, fd as usize).is_some()
            && let DescriptorKind::Ring(ring) = find(ring)
        {
            ring.layered.store(true, Relaxed);
        }
        const AF_UNIX: i32 = 1;
        if domain(fd) == Some(AF_UNIX)
            && let DescriptorKind::Ring(ring) = find(ring)
        {
            ring.unix.store(true, Relaxed);
        }
    }
    Ok(files)
}

/// A structure of `size` bytes that has the address of descriptors at `place`; 0: it has none.
fn update(process: &Process, call: &Call, size: usize, place: usize, count: usize) -> Answer {
    let mut bytes = [0u8; 32];
    user::copy_in(&mut bytes[..size], call.args[2]).map_err(|_| Errno::EFAULT)?;
    let at = usize::from_ne_bytes(core::array::from_fn(|i| bytes[place + i]));
    let mut copied = Vec::new();
    if at != 0 {
        copied = files(process, call.args[0] as i32, at, count)?;
        bytes[place..place + 8].copy_from_slice(&(copied.as_ptr() as usize).to_ne_bytes());
    }
    // SAFETY: no operation's structure is larger, and `copied` has the descriptors that it names.
    let answer = unsafe { call.replacing().room(2, &mut bytes) }.execute();
    // Which slots were chosen (`IORING_FILE_INDEX_ALLOC`), or why one was not.
    if at != 0 && answer.is_ok() {
        let _ = user::copy_out(at, &copied);
    }
    answer
}

/// Buffers in memory in which files of mounts are mapped: what the kernel stores there later, by
/// pages that it holds, nobody would notice (`syscalls/unbuffered.rs`).
fn buffers(call: &Call, at: usize, count: usize) -> Answer {
    if nodes::any() && count <= MOST {
        for i in 0..count {
            let (Ok(base), Ok(length)) = (
                memory::get::<usize>(at.wrapping_add(i * 16)),
                memory::get::<usize>(at.wrapping_add(i * 16 + 8)),
            ) else {
                break;
            };
            if length != 0 && !nodes::between(base & !4095, length.saturating_add(4096)).is_empty()
            {
                culvert_sys::log!(
                    "io_uring_register: a buffer in a mapped file of a mount is refused"
                );
                return Err(Errno::EOPNOTSUPP);
            }
        }
    }
    call.execute()
}

/// The same of a structure that has their address at `place`, and how many there are at `count`.
fn buffers_of(call: &Call, place: usize, count: usize) -> Answer {
    let at = memory::get::<usize>(call.args[2].wrapping_add(place));
    let count = memory::get::<u32>(call.args[2].wrapping_add(count));
    match (at, count) {
        (Ok(at), Ok(count)) if at != 0 => buffers(call, at, count as usize),
        _ => call.execute(),
    }
}

/// `struct io_uring_probe`: 16 bytes, then 8 for each operation, the third a word of flags: what is
/// refused is not there.
fn probe(call: &Call, argument: usize, count: usize) -> Answer {
    let answer = call.execute()?;
    let told: u16 = memory::get::<u32>(argument)? as u16;
    for i in 0..count.min(usize::from(told >> 8)) {
        let at = argument + 16 + i * 8;
        let operation: u32 = memory::get(at)?;
        if operations::treatment(operation as u8) == Treatment::Refused {
            memory::put(at, operation & 0xffff)?;
        }
    }
    Ok(answer)
}

/// The program's own restrictions, and NOPs.
fn restrict(call: &Call, fd: i32, argument: usize, count: usize) -> Answer {
    // `IORING_MAX_RESTRICTIONS` is below this.
    let DescriptorKind::Ring(ring) = find(fd) else {
        return call.execute();
    };
    if argument == 0 || count > 255 {
        return call.execute();
    }
    let mut list = vec![0u8; count * restrictions::SIZE];
    user::copy_in(&mut list, argument).map_err(|_| Errno::EFAULT)?;
    let own = Restrictions::of(&list);
    list.extend_from_slice(&restrictions::NOPS);
    let mut state = ring.state.lock();
    // SAFETY: the list holds one more than the program's; `NOPS` is what follows.
    let call = unsafe { call.replacing().bytes(2, &list) }.word(3, count + 1);
    let answer = call.execute()?;
    state.restrictions = Some(own);
    Ok(answer)
}

fn enable(call: &Call, fd: i32) -> Answer {
    let answer = call.execute()?;
    if let DescriptorKind::Ring(ring) = find(fd) {
        // Where one thread alone may submit it is this one (`io_register_enable_rings`,
        // io_uring/register.c).
        ring.take();
        ring.state.lock().disabled = false;
    }
    Ok(answer)
}
