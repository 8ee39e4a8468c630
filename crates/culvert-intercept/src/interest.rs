//! Which calls are offered: the embedder's wishes and the engine's own needs, as a byte per number
//! that stubs can look at.

use crate::Interest;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use culvert_sys::nr;

/// Numbers from here on (and x32's, which have bit 30) are always executed at once.
pub(crate) const NUMBERS: usize = 512;

/// An [`Interest`] per number.
pub(crate) static TABLE: [AtomicU8; NUMBERS] =
    [const { AtomicU8::new(Interest::Never as u8) }; NUMBERS];

/// Calls that the engine itself has to see: those that make threads and processes, change signals,
/// map code or move the GS base.
const OWN: [usize; 19] = [
    nr::CLONE,
    nr::CLONE3,
    nr::FORK,
    nr::VFORK,
    nr::EXIT,
    nr::RT_SIGACTION,
    nr::RT_SIGPROCMASK,
    nr::RT_SIGSUSPEND,
    nr::SIGALTSTACK,
    nr::PPOLL,
    nr::PSELECT6,
    nr::EPOLL_PWAIT,
    nr::EPOLL_PWAIT2,
    nr::MMAP,
    nr::MPROTECT,
    nr::PKEY_MPROTECT,
    nr::ARCH_PRCTL,
    nr::EXECVE,
    nr::EXECVEAT,
];

/// A bit per number.
static OWN_BITS: [u64; NUMBERS / 64] = {
    let mut bits = [0; NUMBERS / 64];
    let mut i = 0;
    while i < OWN.len() {
        bits[OWN[i] / 64] |= 1 << (OWN[i] % 64);
        i += 1;
    }
    bits
};

/// Whether the engine itself has something to do about it.
#[inline]
pub(crate) fn is_own(number: usize) -> bool {
    OWN_BITS
        .get(number / 64)
        .is_some_and(|bits| bits >> (number % 64) & 1 != 0)
}

/// Fills the table.
pub(crate) fn initialise(wished: fn(usize) -> Interest) {
    for (number, interest) in TABLE.iter().enumerate() {
        interest.store(wished(number) as u8, Relaxed);
    }
    for number in OWN {
        TABLE[number].store(Interest::Always as u8, Relaxed);
    }
    // Only the bare frame that the kernel built may be under rsp when it runs.
    TABLE[nr::RT_SIGRETURN].store(Interest::Never as u8, Relaxed);
}

/// When calls of this number are offered.
#[inline]
pub(crate) fn of(number: usize) -> Interest {
    match TABLE
        .get(number)
        .map_or(0, |interest| interest.load(Relaxed))
    {
        1 => Interest::Always,
        2 => Interest::Descriptor0,
        3 => Interest::Descriptors01,
        4 => Interest::Descriptors02,
        _ => Interest::Never,
    }
}
