//! io_uring(7): rings of the kernel's, whose requests are looked at before the kernel reads them
//! (docs/design/io-uring.md).
//!
//! A program writes its requests into memory that the kernel reads, when it likes, without a call
//! that a hook could see. So the memory that a program maps as its requests (`mapping`) is not what
//! the kernel reads: io_uring_enter (`submission`) copies each request, decides on the copy, and
//! gives the copy to the kernel. What another thread does to the original meanwhile changes
//! nothing. The kernel's own array holds requests that were looked at in the very call that submits
//! them, and otherwise only `entry::UNUSED` ones, which fail.

mod entry;
mod lasting;
mod mapping;
mod memory;
mod operations;
mod registration;
mod restrictions;
mod submission;

use crate::calls::done;
use crate::descriptors::RING;
use crate::process::{self, tables};
use crate::run::{descriptor_path, stat_descriptor};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use culvert::Errno;
use culvert_intercept::{Call, Outcome, descriptors as classes, user};
use culvert_sys::sync::Mutex;
use culvert_sys::{nr, syscall};
pub use lasting::is_awaited;
pub use mapping::mapped;
use memory::{Parameters, RingMemory};
pub use registration::register;
use restrictions::Restrictions;
pub use submission::enter;

const SETUP_IOPOLL: u32 = 1 << 0;
const SETUP_SQPOLL: u32 = 1 << 1;
const SETUP_R_DISABLED: u32 = 1 << 6;
const SETUP_SQE128: u32 = 1 << 10;
const SETUP_CQE32: u32 = 1 << 11;
const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
const SETUP_NO_SQARRAY: u32 = 1 << 16;
/// What a program may ask for: all of Linux 6.18 but SQPOLL, NO_MMAP and REGISTERED_FD_ONLY.
const KNOWN_SETUP: u32 = 0x7_ffff & !(SETUP_SQPOLL | 1 << 14 | 1 << 15);
/// `IORING_FEAT_RECVSEND_BUNDLE` (Linux 6.10) came with `IORING_NOP_INJECT_RESULT`, which nothing
/// tells of.
const FEAT_RECVSEND_BUNDLE: u32 = 1 << 14;

/// A ring of this process.
struct Ring {
    /// `st_dev` and `st_ino`: each ring has an inode of its own (`io_uring_get_file`,
    /// io_uring/io_uring.c).
    identity: (u64, u64),
    setup: u32,
    memory: RingMemory,
    /// A socket of AF_UNIX may be among the files that are registered.
    unix: AtomicBool,
    /// The thread that may submit, where only one may.
    issuer: AtomicUsize,
    state: Mutex<State>,
}

impl Ring {
    /// The calling thread is the one that may submit.
    fn take(&self) {
        self.issuer.store(this_thread(), Relaxed);
    }

    fn is_anothers(&self) -> bool {
        self.setup & SETUP_SINGLE_ISSUER != 0 && self.issuer.load(Relaxed) != this_thread()
    }
}

fn this_thread() -> usize {
    core::ptr::from_ref(culvert_intercept::current()) as usize
}

/// What one thread at a time changes.
#[derive(Default)]
struct State {
    restrictions: Option<Restrictions>,
    /// It takes no requests yet (`IORING_SETUP_R_DISABLED`).
    disabled: bool,
    /// What was done, by position in the queue, and the kernel has not taken the request yet.
    performed: Vec<(u32, i32)>,
    /// A request of the kernel's had IOSQE_IO_DRAIN: what follows may wait for it.
    drains: bool,
    /// The kernel's requests that this call has filled in.
    filled: Vec<u32>,
}

/// A number that is known to be a ring.
struct Known {
    fd: i32,
    ring: Arc<Ring>,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// What a descriptor is.
enum Found {
    Ring(Arc<Ring>),
    /// One that was not made here: from another process, or before exec.
    Stranger,
    Other,
}

/// What `fd` is.
fn find(fd: i32) -> Found {
    let told = (0..=0xffff).contains(&fd) && classes::get(fd) == RING;
    if told && !process::tables_differ() && !tables::are_asked_for() {
        let known = KNOWN.lock();
        if let Some(known) = known.iter().find(|known| known.fd == fd) {
            return Found::Ring(known.ring.clone());
        }
    }
    look(fd)
}

#[cold]
fn look(fd: i32) -> Found {
    let Ok(found) = stat_descriptor(fd) else {
        return Found::Other;
    };
    let identity = (found.st_dev, found.st_ino);
    let known = KNOWN.lock();
    if let Some(known) = known.iter().find(|known| known.ring.identity == identity) {
        return Found::Ring(known.ring.clone());
    }
    drop(known);
    // Neither file nor socket: a device's st_mode has a kind.
    if found.st_mode & 0o170000 != 0 {
        return Found::Other;
    }
    match descriptor_path(fd) {
        Ok(path) if path == b"anon_inode:[io_uring]" => Found::Stranger,
        _ => Found::Other,
    }
}

/// Records that `new` is a dup of the ring `old`.
pub fn duplicated(old: i32, new: i32) {
    let mut known = KNOWN.lock();
    if let Some(ring) = known.iter().find(|known| known.fd == old) {
        let ring = ring.ring.clone();
        known.retain(|known| known.fd != new);
        known.push(Known { fd: new, ring });
    }
}

/// Records that `fd` is not a ring any more. The last number takes the ring's memory with it, so
/// that the ring can end.
pub fn forget(fd: i32) {
    let mut known = KNOWN.lock();
    let at = known.iter().position(|known| known.fd == fd);
    let gone = at.map(|at| known.swap_remove(at));
    drop(known);
    drop(gone);
}

/// io_uring_setup(2)
pub fn setup(call: &mut Call) -> Outcome {
    let mut parameters = Parameters::default();
    if user::copy_in(parameters.bytes_mut(), call.args[1]).is_err() {
        return Outcome::Forward;
    }
    let flags = parameters.flags;
    if flags & SETUP_SQPOLL != 0 {
        crate::log!(
            "io_uring: IORING_SETUP_SQPOLL is refused: a thread of the kernel's would read requests that nobody has looked at"
        );
        return done(Err(Errno::EPERM));
    }
    if flags & !KNOWN_SETUP != 0 {
        crate::log!("io_uring: setup flags {flags:#x} are refused");
        return done(Err(Errno::EINVAL));
    }
    // A child of vfork has its parent's memory and numbers of its own.
    if process::vfork_child_with_table().is_some() {
        return done(Err(Errno::ENOSYS));
    }
    // SAFETY: the kernel reads and writes a structure of ours.
    let made = unsafe { syscall::call(nr::IO_URING_SETUP, [call.args[0], parameters.address()]) };
    let fd = match made {
        Ok(fd) => fd as i32,
        Err(errno) => return done(Err(errno)),
    };
    done(enrol(fd, &parameters, call.args[1]).inspect_err(|_| {
        // SAFETY: made above; the program has not been told of it.
        let _ = unsafe { syscall::call(nr::CLOSE, [fd as usize]) };
    }))
}

/// Makes a ring known, and tells the program of it.
fn enrol(fd: i32, parameters: &Parameters, told_at: usize) -> Result<usize, Errno> {
    if parameters.features & FEAT_RECVSEND_BUNDLE == 0 {
        crate::log!(
            "io_uring is refused: Linux 6.10 is the first that can be told how a request ends"
        );
        return Err(Errno::ENOSYS);
    }
    let found = stat_descriptor(fd)?;
    let ring = Ring {
        identity: (found.st_dev, found.st_ino),
        setup: parameters.flags,
        memory: RingMemory::map(fd, parameters)?,
        unix: AtomicBool::new(false),
        issuer: AtomicUsize::new(this_thread()),
        state: Mutex::new(State {
            disabled: parameters.flags & SETUP_R_DISABLED != 0,
            ..State::default()
        }),
    };
    user::copy_out(told_at, parameters.bytes()).map_err(|_| Errno::EFAULT)?;
    let table = &process::get().table;
    let fd = table.opened_by_kernel(fd, true);
    let mut known = KNOWN.lock();
    known.retain(|known| known.fd != fd);
    known.push(Known {
        fd,
        ring: Arc::new(ring),
    });
    drop(known);
    table.note_ring(fd);
    Ok(fd as usize)
}
