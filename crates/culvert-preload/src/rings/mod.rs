//! io_uring(7): rings of the kernel's, whose requests are looked at before the kernel reads them
//! (docs/design/io-uring.md).
//!
//! A program writes its requests into memory that the kernel reads, when it likes, without a call
//! that a hook could see. So the memory that a program maps as its requests (`mapping`) is not what
//! the kernel reads: io_uring_enter (`submission`) copies each request, decides on the copy, and
//! gives the copy to the kernel. What another thread does to the original meanwhile changes
//! nothing. The kernel's own array holds requests that were looked at in the very call that submits
//! them, and otherwise only `entry::UNUSED` ones, which fail.

mod mapping;
mod operations;
mod registration;
mod submission;

use crate::answer::{Answer, FORWARD};
use crate::descriptors::rings::memory::{Parameters, RingMemory};
use crate::descriptors::rings::{self, Ring, State, this_thread};
use crate::process::Process;
use core::sync::atomic::{AtomicBool, AtomicUsize};
use culvert::Errno;
use culvert_intercept::{Call, user};
use culvert_run::stat_descriptor;
use culvert_sys::plain::Packed;
use culvert_sys::sync::Mutex;
pub use mapping::mmap;
pub use registration::register;
pub use submission::{Dispatch, enter};

const SETUP_IOPOLL: u32 = 1 << 0;

const SETUP_SQPOLL: u32 = 1 << 1;

const SETUP_R_DISABLED: u32 = 1 << 6;

/// What a program may ask for: all of Linux 6.18 but SQPOLL, NO_MMAP and REGISTERED_FD_ONLY.
const KNOWN_SETUP: u32 = 0x7_ffff & !(SETUP_SQPOLL | 1 << 14 | 1 << 15);

/// `IORING_FEAT_RECVSEND_BUNDLE` (Linux 6.10) came with `IORING_NOP_INJECT_RESULT`, which nothing
/// tells of.
const FEAT_RECVSEND_BUNDLE: u32 = 1 << 14;

/// io_uring_setup(2)
pub fn setup(process: &Process, call: &mut Call) -> Answer {
    let mut parameters = Parameters::default();
    if user::copy_in(parameters.0.bytes_mut(), call.args[1]).is_err() {
        return Err(FORWARD);
    }
    let flags = parameters.flags();
    if flags & SETUP_SQPOLL != 0 {
        culvert_sys::log!(
            "io_uring: IORING_SETUP_SQPOLL is refused: a thread of the kernel's would read \
            requests that nobody has looked at"
        );
        return Err(Errno::EPERM);
    }
    if flags & !KNOWN_SETUP != 0 {
        culvert_sys::log!("io_uring: setup flags {flags:#x} are refused");
        return Err(Errno::EINVAL);
    }
    // A child of vfork has its parent's memory and numbers of its own.
    if culvert_run::task::vfork_child_with_table().is_some() {
        return Err(Errno::ENOSYS);
    }
    // SAFETY: a `struct io_uring_params`.
    let made = unsafe { call.replacing().room(1, parameters.0.bytes_mut()) };
    let fd = made.execute()? as i32;
    enrol(process, fd, &parameters, call.args[1]).inspect_err(|_| {
        let _ = culvert_sys::OwnedFd::from_raw(fd).close();
    })
}

/// Makes a ring known, and tells the program of it.
fn enrol(
    process: &Process,
    fd: i32,
    parameters: &Parameters,
    told_at: usize,
) -> Result<usize, Errno> {
    if parameters.features() & FEAT_RECVSEND_BUNDLE == 0 {
        culvert_sys::log!(
            "io_uring is refused: Linux 6.10 is the first that can be told how a request ends"
        );
        return Err(Errno::ENOSYS);
    }
    let found = stat_descriptor(fd)?;
    let ring = Ring {
        identity: (found.st_dev, found.st_ino),
        setup: parameters.flags(),
        memory: RingMemory::map(fd, parameters)?,
        unix: AtomicBool::new(false),
        layered: AtomicBool::new(false),
        issuer: AtomicUsize::new(this_thread()),
        state: Mutex::new(State {
            disabled: parameters.flags() & SETUP_R_DISABLED != 0,
            ..State::default()
        }),
    };
    user::copy_out(told_at, parameters.0.bytes()).map_err(|_| Errno::EFAULT)?;
    let table = &process.table;
    let fd = table.opened_by_kernel(fd, true);
    rings::note(fd, ring);
    Ok(fd as usize)
}
