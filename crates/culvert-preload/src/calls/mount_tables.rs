//! Waiting for changes of the tables of mounts: /proc/mounts and mountinfo, which are files of ours
//! ([`super::proc_files`]).
//!
//! The kernel's own file stays open beside each of them; who waits for ours, waits for that one,
//! and an event carries the program's own data. The table is made anew when the program goes back
//! to its start, as the kernel makes it.

use super::done;
use crate::answer::Answer;
use crate::descriptors::MOUNTS;
use crate::memory::c_string;
use crate::process::{self, tables};
use crate::shadow::{self, Descriptor};
use alloc::{vec, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use culvert::Errno;
use culvert_intercept::{Call, Outcome, descriptors as classes, user};
use culvert_sys::{nr, sync::Mutex};

/// A table that the program has open.
struct Open {
    fd: i32,
    path: Vec<u8>,
    kernel: Kernel,
}

/// The kernel's own file: where its number stands.
pub struct Kernel(&'static AtomicI32);

impl Drop for Kernel {
    fn drop(&mut self) {
        let fd = self.0.swap(-1, AcqRel);
        if fd >= 0 {
            classes::set(fd, classes::UNKNOWN);
            drop(Descriptor(fd));
        }
    }
}

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());
/// There was one in this process.
static ANY: AtomicBool = AtomicBool::new(false);

/// The kernel's own file at `path`, from whose opening on changes are told.
pub fn open_kernels(path: &[u8]) -> Option<Kernel> {
    let kernel = shadow::open(&c_string(path), 0, 0).ok()?;
    // Before the program's own is made, which gets the number.
    let place = process::get().table.adopt_internal(kernel.0)?;
    // It has become another number.
    kernel.release();
    Some(Kernel(place))
}

/// Records that `fd` is ours for the table at `path`, which the kernel has in `kernel`.
pub fn note(fd: i32, path: &[u8], kernel: Kernel) {
    if fd > 0xffff || process::tables_differ() || tables::are_asked_for() {
        return;
    }
    ANY.store(true, Relaxed);
    let path = path.to_vec();
    OPEN.lock().push(Open { fd, path, kernel });
    process::get().table.note_mounts(fd);
}

/// `fd` is none any more.
pub fn forget(fd: i32) {
    let mut open = OPEN.lock();
    let at = open.iter().position(|open| open.fd == fd);
    let gone = at.map(|at| open.swap_remove(at));
    drop(open);
    drop(gone);
}

/// `new` is a duplicate of `old`.
pub fn duplicated(old: i32, new: i32) {
    let of = |open: &Open| (open.fd == old).then(|| open.path.clone());
    let path = OPEN.lock().iter().find_map(of);
    if let Some(path) = path
        && let Some(kernel) = open_kernels(&path)
    {
        note(new, &path, kernel);
    }
}

fn is_table(fd: i32) -> bool {
    (0..=0xffff).contains(&fd) && classes::get(fd) == MOUNTS
}

/// The descriptor of the kernel's own file for the table `fd`.
fn kernels(fd: i32) -> Option<i32> {
    if !ANY.load(Relaxed) || !is_table(fd) {
        return None;
    }
    let of = |open: &Open| (open.fd == fd).then(|| open.kernel.0.load(Acquire));
    OPEN.lock().iter().find_map(of).filter(|&fd| fd >= 0)
}

/// lseek(2) of `fd` to its start: what is read there is as it is now.
pub fn renew(fd: i32) {
    if !is_table(fd) {
        return;
    }
    let of = |open: &Open| (open.fd == fd).then(|| open.path.clone());
    let path = OPEN.lock().iter().find_map(of);
    if let Some(content) = path.and_then(|path| super::proc_files::content(&path)) {
        let _ = crate::paging::bytes::set_length(fd, 0);
        let _ = super::proc_files::write(fd, &content);
    }
}

/// epoll_ctl(2)
pub fn epoll_ctl(call: &mut Call) -> Outcome {
    let fd = call.args[2] as i32;
    if let Some(kernels) = kernels(fd) {
        call.args[2] = kernels as usize;
    }
    Outcome::Forward
}

/// poll(2)
pub fn poll(call: &mut Call) -> Outcome {
    if !ANY.load(Relaxed) {
        return Outcome::Forward;
    }
    match poll_tables(call) {
        None => Outcome::Forward,
        Some(answer) => done(answer),
    }
}

/// None: the program asks for none of the tables.
fn poll_tables(call: &Call) -> Option<Answer> {
    const SIZE: usize = 8;
    const REVENTS: usize = 6;
    let [at, count, ..] = call.args;
    let count = count as u32 as usize;
    let mut asked = vec![0u8; count.checked_mul(SIZE).filter(|_| count <= 1 << 20)?];
    user::copy_in(&mut asked, at).ok()?;
    let mut any = false;
    for entry in asked.chunks_exact_mut(SIZE) {
        let fd = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
        if let Some(kernels) = kernels(fd) {
            entry[..4].copy_from_slice(&kernels.to_ne_bytes());
            any = true;
        }
    }
    if !any {
        return None;
    }
    let mut arguments = call.args;
    arguments[0] = asked.as_mut_ptr() as usize;
    // SAFETY: the program's own call, of a copy of its array.
    let polled = match unsafe { culvert_intercept::wait::interruptible(nr::POLL, arguments) } {
        Ok(result) => Errno::check(result),
        // It is not made again after a handler (signal(7)).
        Err(_) => Err(Errno::EINTR),
    };
    let told = |(i, entry): (usize, &[u8])| {
        user::copy_out(at + i * SIZE + REVENTS, &entry[REVENTS..]).map_err(|_| Errno::EFAULT)
    };
    Some(polled.and_then(|ready| {
        let mut entries = asked.chunks_exact(SIZE).enumerate();
        entries.try_for_each(told).map(|()| ready)
    }))
}
