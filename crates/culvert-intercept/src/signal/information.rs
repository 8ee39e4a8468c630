//! What the kernel says of a signal.

/// `siginfo_t`: 128 bytes; the address of a fault is at 16.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Information {
    pub signal: i32,
    pub errno: i32,
    pub code: i32,
    padding: i32,
    pub address: usize,
    rest: [u64; 13],
}

impl Information {
    pub(super) const NONE: Self = Self {
        signal: 0,
        errno: 0,
        code: 0,
        padding: 0,
        address: 0,
        rest: [0; 13],
    };

    /// Of SIGSYS: the call's number.
    pub(crate) fn number(&self) -> u32 {
        self.rest[0] as u32
    }

    /// Raised by the kernel for an instruction, not sent by anybody (`SI_FROMUSER` of
    /// `include/linux/signal_types.h`).
    pub(crate) fn is_fault(&self) -> bool {
        self.code > 0
    }
}
