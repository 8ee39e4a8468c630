//! What a stub hands to the entry: one record for each patched system-call site.
//!
//! A record holds distances from its own address, so that records and stubs are the same bytes
//! wherever an object is mapped, as long as they lie at the same distance from it.

use core::mem::offset_of;

/// A place lies beyond the reach of a 4-byte displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfReach;

/// A patched system-call site. A stub enters the engine with its address in r11.
#[repr(C)]
#[derive(Debug, PartialEq, Eq)]
pub struct SiteRecord {
    resume: i32,
    forward: i32,
    instruction: i32,
    restart: i32,
    number: i32,
}

/// The places of a site, as addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Where the program goes on after a call that was answered without the kernel.
    pub resume: u64,
    /// Where the real system call is executed, with the number in rax; from there on everything
    /// continues natively.
    pub forward: u64,
    /// The program's own system-call instruction.
    pub instruction: u64,
    /// The first byte of the patched sequence: executing from here makes the call again.
    pub restart: u64,
}

impl SiteRecord {
    /// Bytes of a record.
    pub const SIZE: usize = size_of::<Self>();
    /// Where the distance of [`Places::forward`] lies in it.
    pub(crate) const FORWARD: usize = offset_of!(Self, forward);

    /// The record of a site at `places`, for the address `at`; `number` is -1 where the
    /// instructions do not tell it.
    pub(crate) fn new(at: u64, places: &Places, number: i32) -> Result<Self, OutOfReach> {
        let distance = |to: u64| i32::try_from(to.wrapping_sub(at) as i64).map_err(|_| OutOfReach);
        Ok(Self {
            resume: distance(places.resume)?,
            forward: distance(places.forward)?,
            instruction: distance(places.instruction)?,
            restart: distance(places.restart)?,
            number,
        })
    }

    /// Its bytes in memory.
    pub(crate) fn to_bytes(&self) -> [u8; Self::SIZE] {
        let Self {
            resume,
            forward,
            instruction,
            restart,
            number,
        } = *self;
        let mut bytes = [0; Self::SIZE];
        let words = [resume, forward, instruction, restart, number];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    fn place(&self, distance: i32) -> usize {
        (&raw const *self as usize).wrapping_add_signed(distance as isize)
    }

    /// [`Places::resume`].
    #[inline]
    pub fn resume(&self) -> usize {
        self.place(self.resume)
    }

    /// [`Places::forward`].
    #[inline]
    pub fn forward(&self) -> usize {
        self.place(self.forward)
    }

    /// [`Places::instruction`].
    #[inline]
    pub fn instruction(&self) -> usize {
        self.place(self.instruction)
    }

    /// [`Places::restart`].
    #[inline]
    pub fn restart(&self) -> usize {
        self.place(self.restart)
    }

    /// The number, where it is part of the instructions.
    #[inline]
    pub fn number(&self) -> Option<usize> {
        usize::try_from(self.number).ok()
    }

    /// Behind the program's own instruction: where the kernel says that the call came from.
    pub(crate) fn behind(&self) -> usize {
        self.instruction().wrapping_add(crate::sites::SYSCALL.len())
    }

    /// Whether that instruction is executed in the stub, so that the kernel says another place.
    pub(crate) fn is_moved(&self) -> bool {
        self.resume() != self.behind()
    }
}
