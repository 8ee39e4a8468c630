//! Waiting for changes of the tables of mounts: /proc/mounts and mountinfo, which are files of ours
//! ([`crate::vfs::proc_files`]).
//!
//! The kernel's own file stays open beside each of them; who waits for ours, waits for that one,
//! and an event carries the program's own data. The table is made anew when the program goes back
//! to its start, as the kernel makes it.

use crate::answer::{Answer, FORWARD, RESTART};
use crate::descriptors::mount_tables::{are_any, kernels};
use crate::process::Process;
use alloc::vec;
use culvert::Errno;
use culvert_intercept::{Call, user};

/// epoll_ctl(2)
pub fn epoll_ctl(_: &Process, call: &mut Call) -> Answer {
    let fd = call.args[2] as i32;
    if let Some(kernels) = kernels(fd) {
        call.args[2] = kernels as usize;
    }
    Err(FORWARD)
}

/// poll(2)
pub fn poll(_: &Process, call: &mut Call) -> Answer {
    if !are_any() {
        return Err(FORWARD);
    }
    poll_tables(call).unwrap_or(Err(FORWARD))
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
    // SAFETY: as many entries as the call says.
    let polled = match unsafe { call.replacing().room(0, &mut asked) }.wait() {
        // It is not made again after a handler (signal(7)).
        Err(RESTART) => Err(Errno::EINTR),
        polled => polled,
    };
    let told = |(i, entry): (usize, &[u8])| {
        user::copy_out(at + i * SIZE + REVENTS, &entry[REVENTS..]).map_err(|_| Errno::EFAULT)
    };
    Some(polled.and_then(|ready| {
        let mut entries = asked.chunks_exact(SIZE).enumerate();
        entries.try_for_each(told).map(|()| ready)
    }))
}
