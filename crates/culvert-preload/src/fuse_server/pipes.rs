//! splice(2) between the device and pipes. The device takes and gives whole messages.

use super::{State, device::put_message, of};
use crate::answer::Answer;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_sys::fd::{Command, fcntl};
use culvert_sys::{BorrowedFd, PAGE, Shared, SharedMut, nr, syscall};

const FIONREAD: u32 = 0x541b;

culvert_sys::calls! {
    fn waiting_in(fd: BorrowedFd<'_>, into: &mut i32) -> ()
        = IOCTL[fd, FIONREAD, core::ptr::from_mut(into)];
}

/// Whether the call is between the device and something else.
#[inline]
pub fn is_between(call: &Call) -> bool {
    super::is_one() && (of(call.args[0]).is_some() || of(call.args[2]).is_some())
}

/// splice(2), of which [`is_between`] is true.
#[cold]
pub fn splice(call: &Call) -> Answer {
    let [from, from_offset, to, to_offset, count, _] = call.args;
    if from_offset != 0 || to_offset != 0 {
        return Err(Errno::ESPIPE);
    }
    match (of(from), of(to)) {
        (Some(_), Some(_)) => Err(Errno::EINVAL),
        (Some(state), None) => state.give_to(from as i32, to as i32, count),
        (None, Some(state)) => state.take_from(from as i32, to as i32, count),
        (None, None) => Err(Errno::EINVAL),
    }
}

fn filled(pipe: i32) -> Result<usize, Errno> {
    let mut bytes = 0;
    waiting_in(BorrowedFd::number(pipe), &mut bytes)?;
    Ok(bytes.max(0) as usize)
}

impl State {
    fn give_to(&self, fd: i32, pipe: i32, count: usize) -> Answer {
        let size = fcntl(BorrowedFd::number(pipe), Command::GETPIPE_SZ, 0);
        let size = size.map_err(|_| Errno::EINVAL)?;
        self.next(fd, count, |message| {
            // Each page that is begun takes a buffer.
            let free = size.saturating_sub(filled(pipe)?.next_multiple_of(PAGE));
            if free < message.length().next_multiple_of(PAGE) {
                return Err(Errno::EIO);
            }
            put_message(message, &mut |bytes| put(pipe, bytes))
        })
    }

    fn take_from(&self, pipe: i32, fd: i32, count: usize) -> Answer {
        if filled(pipe)? < count {
            return Err(Errno::EINVAL);
        }
        self.answered(fd, count, &mut |into| take(pipe, into))
    }
}

fn put(pipe: i32, bytes: Shared<'_>) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = bytes.part(done, bytes.len());
        let words = [pipe as usize, rest.start() as usize, rest.len()];
        // SAFETY: the kernel reads memory that is mapped for as long.
        match unsafe { syscall::call(nr::WRITE, words) } {
            Ok(0) => return Err(Errno::EIO),
            Ok(count) => done += count,
            Err(_) => return Err(Errno::EIO),
        }
    }
    Ok(())
}

fn take(pipe: i32, into: SharedMut<'_>) -> Result<(), Errno> {
    let mut done = 0;
    while done < into.len() {
        let rest = into.tail(done);
        let words = [pipe as usize, rest.start() as usize, rest.len()];
        // SAFETY: the kernel writes memory that is mapped for as long.
        match unsafe { syscall::call(nr::READ, words) } {
            Ok(0) => return Err(Errno::EINVAL),
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
