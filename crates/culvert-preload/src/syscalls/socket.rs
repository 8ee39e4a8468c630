//! Descriptors that travel through sockets (SCM_RIGHTS, unix(7)).

use super::socket_paths;
use super::unix_sockets::{self, NAME_LENGTH, SIZE_OF_MSGHDR};
use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use crate::strangers;
use crate::vfs::unix_sockets::are_named;
use alloc::vec;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_intercept::{Call, user};
use culvert_run::memory;
use culvert_sys::nr;

/// `struct mmsghdr`: a `struct msghdr` and the count sent or received.
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

/// Makes what goes out through `socket` by SCM_RIGHTS known to the kernel: EBADF for a descriptor
/// of Culvert's own.
pub fn hand_over(process: &Process, socket: i32, header: usize) -> Result<(), Errno> {
    let mut strangers = None;
    each_descriptor(header, &mut |fd| {
        hand_over_one(
            process,
            fd,
            *strangers.get_or_insert_with(|| strangers::may_receive(socket)),
        )
    })
}

/// The same of one descriptor, however it goes; `strangers`: it may come to one who reads it
/// without us.
pub fn hand_over_one(process: &Process, fd: i32, strangers: bool) -> Result<(), Errno> {
    let table = &process.table;
    if process.run.is_internal(fd) {
        return Err(Errno::EBADF);
    }
    table.promote(fd)?;
    if let Some(held) = table.get(fd) {
        crate::orphan_handover::hand_over(&held);
        if strangers {
            strangers::give(&held, fd, "sendmsg")?;
        }
    }
    Ok(())
}

/// sendmsg(2)
pub fn sendmsg(process: &Process, call: &mut Call) -> Answer {
    hand_over(process, call.args[0] as i32, call.args[1])?;
    socket_paths::send_message(process, call)
}

/// sendmmsg(2)
pub fn sendmmsg(process: &Process, call: &mut Call) -> Answer {
    let [socket, headers, count, flags, ..] = call.args;
    let count = (count as u32 as usize).min(1024);
    let header = |i: usize| headers + i * SIZE_OF_MMSGHDR;
    let message = |i: usize| Call {
        number: nr::SENDMSG,
        args: [socket, header(i), flags, 0, 0, 0],
    };
    for i in 0..count {
        hand_over(process, socket as i32, header(i))?;
    }
    if !(0..count).any(|i| unix_sockets::is_to_path(header(i))) {
        return Err(FORWARD);
    }
    // Each by itself: some go to another path than the program's.
    for i in 0..count {
        let message = message(i);
        let sent = match socket_paths::send_message(process, &message) {
            Err(FORWARD) => message.wait(),
            sent => sent,
        };
        match sent {
            Ok(sent) => {
                let _ = memory::put(header(i) + SIZE_OF_MSGHDR, sent as u32);
            }
            failed if i == 0 => return failed,
            _ => return Ok(i),
        }
    }
    Ok(count)
}

/// Where a `struct msghdr` has room for a name, and how much.
fn room_for_name(process: &Process, header: usize) -> Option<(usize, u32)> {
    let room = memory::get::<u32>(header + NAME_LENGTH);
    let (address, room) = memory::get::<usize>(header).ok().zip(room.ok())?;
    (address != 0 && are_named(process)).then_some((address, room))
}

fn tell_name(process: &Process, header: usize, room: Option<(usize, u32)>) {
    if let Some((address, room)) = room {
        unix_sockets::tell_name(process, address, header + NAME_LENGTH, room);
    }
}

fn learn(process: &Process, header: usize) {
    let _ = each_descriptor(header, &mut |fd| {
        let table = &process.table;
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
pub fn recvmsg(process: &Process, call: &mut Call) -> Answer {
    let room = room_for_name(process, call.args[1]);
    if room.is_none() && !has_room(call.args[1]) {
        return Err(FORWARD);
    }
    let received = call.wait()?;
    learn(process, call.args[1]);
    tell_name(process, call.args[1], room);
    Ok(received)
}

/// recvmmsg(2)
pub fn recvmmsg(process: &Process, call: &mut Call) -> Answer {
    let count = (call.args[2] as u32 as usize).min(1024);
    let header = |i: usize| call.args[1] + i * SIZE_OF_MMSGHDR;
    let rooms: Vec<_> = match are_named(process) {
        true => (0..count)
            .map(|i| room_for_name(process, header(i)))
            .collect(),
        false => Vec::new(),
    };
    if rooms.iter().all(Option::is_none) && !(0..count).any(|i| has_room(header(i))) {
        return Err(FORWARD);
    }
    let received = call.wait()?;
    for i in 0..received {
        learn(process, header(i));
        tell_name(process, header(i), rooms.get(i).copied().flatten());
    }
    Ok(received)
}
