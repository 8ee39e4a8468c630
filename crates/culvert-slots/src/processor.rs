//! Where a thread runs, and for how long.

use core::arch::{asm, x86_64::_rdtsc};

/// Cycles of the time-stamp counter, which has two to four in a nanosecond.
#[inline]
#[must_use]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _rdtsc() }
}

/// For how long one looks for the other side instead of sleeping: about as long as a request and
/// its reply take with a wake-up on another processor for each, so that who looks in vain loses no
/// more than who is woken.
pub const LOOK: u64 = 100_000;

/// Bytes from which it matters for a body whether both sides run on one processor.
pub const BULK: usize = 16 << 10;

/// Whether the calling thread seems to run on another processor than `on`, a number plus one; 0:
/// not known.
pub(crate) fn is_apart_from(on: u32) -> bool {
    on == 0 || processor().is_none_or(|own| own + 1 != on)
}

/// The processor that this thread runs on, as it was a moment ago; none where that is not told.
#[inline]
#[must_use]
pub fn processor() -> Option<u32> {
    /// The limit of this segment says it (`__CPUNODE_SEG`, arch/x86/include/asm/segment.h), as
    /// getcpu of vdso(7) reads it.
    const SEGMENT: u32 = 15 * 8 + 3;
    const BITS: u32 = 12;
    let (limit, is_there): (u32, u8);
    // SAFETY: the instruction reads a limit, or says that there is none.
    unsafe {
        asm!("lsl {limit:e}, {segment:e}", "setz {there}",
            limit = out(reg) limit, segment = in(reg) SEGMENT, there = out(reg_byte) is_there,
            options(nomem, nostack));
    }
    (is_there != 0).then_some(limit & ((1 << BITS) - 1))
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_one_of_those_that_are_allowed() {
        let allowed = std::thread::available_parallelism().unwrap().get();
        let processors = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
        let last = processors.trim().rsplit(['-', ',']).next().unwrap();
        let found = super::processor().unwrap();
        assert!(allowed > 0 && found <= last.parse().unwrap(), "{found}");
    }

    extern crate std;
}
