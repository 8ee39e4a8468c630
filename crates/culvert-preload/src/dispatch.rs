//! From a call's number to who answers it, by [`crate::table`].

use crate::process::{self, Process};
use crate::syscalls;
use crate::table::{Handler, Row, TABLE, Treatment};
use culvert::Errno;
use culvert_intercept::{Call, Interest, Outcome};
use culvert_run::internal::{with_more, with_more_for_one};
use culvert_run::memory;
use culvert_sys::nr;

/// One more than the highest number that the dispatch knows.
const NUMBERS: usize = 512;

/// From number to row (index plus one; zero: no such call when this was written).
static INDEX: [u16; NUMBERS] = {
    let mut index = [0; NUMBERS];
    let mut i = 0;
    while i < TABLE.len() {
        index[TABLE[i].number] = i as u16 + 1;
        i += 1;
    }
    index
};

/// What happens to the call of this number.
pub fn row(number: usize) -> Option<&'static Row> {
    let index = *INDEX.get(number)?;
    TABLE.get(usize::from(index).wrapping_sub(1))
}

/// When the engine is to offer a call. Constant once the process has joined its run.
pub fn interest(number: usize) -> Interest {
    // Foreign descriptors of these matter only when one may be on the empty directory under a
    // mount.
    if number == nr::FSTAT && !process::get().targets_exist {
        return Interest::Descriptor0;
    }
    match row(number).map(|row| row.treatment) {
        Some(Treatment::Handled(interest, _)) => interest,
        Some(Treatment::Submits(_) | Treatment::RefusedInside(..)) => Interest::Always,
        Some(Treatment::RefusedOn(..)) => Interest::Descriptor0,
        _ => Interest::Never,
    }
}

/// Answers a call.
pub fn dispatch(call: &mut Call) -> Outcome {
    let process = process::get();
    match row(call.number).map(|row| &row.treatment) {
        Some(Treatment::Handled(interest, function)) => {
            match names_hidden(process, *interest, call) {
                false => match function(process, call) {
                    Outcome::Return(STALE) => again(process, call, *function),
                    Outcome::Return(NO_NUMBER) => with_room(process, call, *function),
                    outcome => outcome,
                },
                true => without_hidden(process, *interest, call),
            }
        }
        Some(Treatment::Submits(function)) => function(process, call, dispatch),
        Some(Treatment::RefusedInside(at, errno, _)) => {
            syscalls::path::refuse_inside(process, call, *at, *errno)
        }
        Some(Treatment::RefusedOn(errno, _)) => syscalls::arguments::refuse(process, call, *errno),
        _ => Outcome::Forward,
    }
}

const STALE: isize = Errno::ESTALE.negated();

/// A node that was found by its name and removed by another process before the operation on it
/// began: nothing was done, and the name is to be looked up again (`retry_estale`,
/// include/linux/namei.h, which tries once; here the others run at the same speed).
#[cold]
fn again(process: &Process, call: &mut Call, function: Handler) -> Outcome {
    const TRIES: usize = 8;
    for _ in 1..TRIES {
        match function(process, call) {
            Outcome::Return(STALE) => {}
            outcome => return outcome,
        }
    }
    syscalls::done(Err(Errno::ESTALE))
}

const NO_NUMBER: isize = Errno::EMFILE.negated();

/// There was no number for a descriptor. What Culvert holds makes room; a call that gives the
/// program none may use more than the program may. Not a call that makes a name: a driver may have
/// made it before it missed a descriptor for it.
#[cold]
fn with_room(process: &Process, call: &mut Call, function: Handler) -> Outcome {
    let excludes = |flags: usize| flags & 0o300 == 0o300; // O_CREAT | O_EXCL
    let makes_name = match call.number {
        nr::OPEN => excludes(call.args[1]),
        nr::OPENAT => excludes(call.args[2]),
        nr::OPENAT2 => memory::get(call.args[2]).is_ok_and(excludes),
        nr::MKDIR | nr::MKDIRAT | nr::MKNOD | nr::MKNODAT | nr::SYMLINK | nr::SYMLINKAT => true,
        nr::LINK | nr::LINKAT | nr::RENAME | nr::RENAMEAT | nr::RENAMEAT2 | nr::BIND => true,
        _ => false,
    };
    if makes_name {
        process.run.make_room();
        return Outcome::Return(NO_NUMBER);
    }
    // A driver may open several things for a call.
    const TRIES: usize = 16;
    for _ in 0..TRIES {
        if !process.run.make_room() {
            break;
        }
        match function(process, call) {
            Outcome::Return(NO_NUMBER) => {}
            outcome => return outcome,
        }
    }
    let outcome = match call.number {
        nr::OPEN | nr::CREAT | nr::OPENAT | nr::OPENAT2 => {
            with_more_for_one(|| function(process, call))
        }
        nr::DUP | nr::DUP2 | nr::DUP3 | nr::FCNTL => None,
        nr::RECVMSG | nr::RECVMMSG | nr::PIDFD_GETFD => None,
        // The program that is executed would keep the limit.
        nr::EXECVE | nr::EXECVEAT => None,
        _ => with_more(|| function(process, call)),
    };
    outcome.unwrap_or(Outcome::Return(NO_NUMBER))
}

/// Whether a call on descriptors names one that only Culvert knows of: the program has not opened
/// that number.
#[inline]
fn names_hidden(process: &Process, interest: Interest, call: &Call) -> bool {
    let hidden = |index: usize| process.run.is_internal(call.args[index] as i32);
    match interest {
        Interest::Descriptor0 => hidden(0),
        Interest::Descriptors01 => hidden(0) || hidden(1),
        Interest::Descriptors02 => hidden(0) || hidden(2),
        _ => false,
    }
}

/// The answer to a call that names one: that of the kernel for a descriptor that does not exist,
/// since it may look at other things first.
#[cold]
fn without_hidden(process: &Process, interest: Interest, call: &Call) -> Outcome {
    let descriptors: &[usize] = match interest {
        Interest::Descriptors01 => &[0, 1],
        Interest::Descriptors02 => &[0, 2],
        _ => &[0],
    };
    let mut without = call.replacing();
    for &at in descriptors {
        if process.run.is_internal(call.args[at] as i32) {
            without = without.word(at, usize::MAX);
        }
    }
    syscalls::done(without.execute())
}
