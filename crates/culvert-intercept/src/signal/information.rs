//! What the kernel says of a signal.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `siginfo_t`: 128 bytes, of which the first are `si_signo`, `si_errno` and `si_code`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Information(pub [u64; 16]);

impl Information {
    pub(crate) fn signal(&self) -> usize {
        self.0[0] as u32 as usize
    }

    pub(crate) fn code(&self) -> i32 {
        self.0[1] as i32
    }

    /// Of a fault, what could not be reached; of SIGSYS, behind the call's instruction.
    pub(crate) fn address(&self) -> usize {
        self.0[2] as usize
    }

    pub(crate) fn set_address(&mut self, address: usize) {
        self.0[2] = address as u64;
    }

    /// Of SIGSYS: the call's number.
    pub(crate) fn number(&self) -> u32 {
        self.0[3] as u32
    }

    /// Raised by the kernel for an instruction, not sent by anybody (`SI_FROMUSER` of
    /// `include/linux/signal_types.h`).
    pub(crate) fn is_fault(&self) -> bool {
        self.code() > 0
    }
}

/// A place for what is known of a signal, which one thread and its handlers use. All zeroes: empty.
pub(crate) struct Place([AtomicU64; 16]);

impl Place {
    pub(crate) fn put(&self, information: &Information) {
        for (word, value) in self.0.iter().zip(information.0) {
            word.store(value, Relaxed);
        }
    }

    pub(crate) fn get(&self) -> Option<Information> {
        let words = core::array::from_fn(|at| self.0[at].load(Relaxed));
        Some(Information(words)).filter(|information| information.signal() != 0)
    }

    pub(crate) fn clear(&self) {
        self.0[0].store(0, Relaxed);
    }
}
