//! Descriptors that travel through sockets (SCM_RIGHTS, unix(7)).

use super::{Answer, done};
use crate::memory;
use crate::{process, strangers};
use alloc::vec;
use culvert::Errno;
use culvert_intercept::{Call, Outcome, user};

/// EADDRINUSE, which file systems do not know.
pub const EADDRINUSE: Errno = Errno::new(98);
/// `struct mmsghdr`: a `struct msghdr` of 56 bytes and the count received.
const SIZE_OF_MMSGHDR: usize = 64;
/// More control data than this no kernel takes (`optmem_max` is 128 KiB at most by default).
const MOST_CONTROL: usize = 1 << 20;

/// Calls `visit` with each descriptor in the control data of the `struct msghdr` at `header`.
fn each_descriptor(
    header: usize,
    visit: &mut dyn FnMut(i32) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let (Ok(control), Ok(length)) = (
        memory::get::<usize>(header + 32),
        memory::get::<usize>(header + 40),
    ) else {
        return Ok(());
    };
    if control == 0 || !(16..=MOST_CONTROL).contains(&length) {
        return Ok(());
    }
    let mut bytes = vec![0u8; length];
    if user::copy_in(&mut bytes, control).is_err() {
        return Ok(());
    }
    let word = |at: usize| i32::from_ne_bytes(core::array::from_fn(|i| bytes[at + i]));
    let mut at = 0;
    while at + 16 <= length {
        let size = usize::from_ne_bytes(core::array::from_fn(|i| bytes[at + i]));
        if size < 16 || size > length - at {
            break;
        }
        const SOL_SOCKET: i32 = 1;
        const SCM_RIGHTS: i32 = 1;
        if word(at + 8) == SOL_SOCKET && word(at + 12) == SCM_RIGHTS {
            for place in (at + 16..at + size)
                .step_by(4)
                .filter(|place| place + 4 <= at + size)
            {
                visit(word(place))?;
            }
        }
        at += size.next_multiple_of(8);
    }
    Ok(())
}

/// Makes what goes out through `socket` by SCM_RIGHTS known to the kernel: EBADF for a descriptor of Culvert's own.
pub fn hand_over(socket: i32, header: usize) -> Result<(), Errno> {
    let mut strangers = None;
    each_descriptor(header, &mut |fd| {
        hand_over_one(
            fd,
            *strangers.get_or_insert_with(|| strangers::may_receive(socket)),
        )
    })
}

/// The same of one descriptor, however it goes; `strangers`: it may come to one who reads it without us.
pub fn hand_over_one(fd: i32, strangers: bool) -> Result<(), Errno> {
    let table = &process::get().table;
    if table.is_internal(fd) {
        return Err(Errno::EBADF);
    }
    table.promote(fd)?;
    if let Some(held) = table.get(fd) {
        crate::gone::hand_over(&held);
        if strangers {
            strangers::give(&held, fd, "sendmsg")?;
        }
    }
    Ok(())
}

/// sendmsg(2)
pub fn sendmsg(call: &mut Call) -> Outcome {
    match hand_over(call.args[0] as i32, call.args[1]) {
        Ok(()) => Outcome::Forward,
        Err(error) => done(Err(error)),
    }
}

/// sendmmsg(2)
pub fn sendmmsg(call: &mut Call) -> Outcome {
    for i in 0..(call.args[2] as u32 as usize).min(1024) {
        if let Err(error) = hand_over(call.args[0] as i32, call.args[1] + i * SIZE_OF_MMSGHDR) {
            return done(Err(error));
        }
    }
    Outcome::Forward
}

/// Does the call here, so that what arrives can be looked at; a signal ends its wait.
fn receive(call: &Call) -> Result<Answer, ()> {
    // SAFETY: the program's own call with its own arguments.
    match unsafe { culvert_intercept::wait::interruptible(call.number, call.args) } {
        Ok(result) => Ok(Errno::check(result)),
        Err(_) => Err(()),
    }
}

fn learn(header: usize) {
    let _ = each_descriptor(header, &mut |fd| {
        let table = &process::get().table;
        table.forget(fd);
        // Now, for the kernel does not say what it is once this process has another root.
        table.get(fd);
        Ok(())
    });
}

fn has_room(header: usize) -> bool {
    memory::get::<usize>(header + 40).is_ok_and(|length| length != 0)
}

/// recvmsg(2)
pub fn recvmsg(call: &mut Call) -> Outcome {
    if !has_room(call.args[1]) {
        return Outcome::Forward;
    }
    match receive(call) {
        Err(()) => Outcome::Restart,
        Ok(answer) => {
            if answer.is_ok() {
                learn(call.args[1]);
            }
            done(answer)
        }
    }
}

/// recvmmsg(2)
pub fn recvmmsg(call: &mut Call) -> Outcome {
    let count = (call.args[2] as u32 as usize).min(1024);
    if !(0..count).any(|i| has_room(call.args[1] + i * SIZE_OF_MMSGHDR)) {
        return Outcome::Forward;
    }
    match receive(call) {
        Err(()) => Outcome::Restart,
        Ok(answer) => {
            for i in 0..answer.unwrap_or(0) {
                learn(call.args[1] + i * SIZE_OF_MMSGHDR);
            }
            done(answer)
        }
    }
}
