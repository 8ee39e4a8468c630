//! The time of day without a system call: from the kernel's own code in every process (vdso(7)).

use crate::process;
use core::ffi::CStr;
use linux_raw_sys::auxvec::AT_SYSINFO_EHDR;
use linux_raw_sys::general::{CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME, CLOCK_REALTIME_COARSE};

/// `clock_gettime` as the vDSO has it.
type GetTime = unsafe extern "C" fn(i32, *mut [i64; 2]) -> i32;

/// The time of day.
#[derive(Clone, Copy)]
pub struct Clock(Option<GetTime>);

impl Clock {
    /// The clock of this process; by system calls where the vDSO cannot be found.
    pub fn new() -> Self {
        let vdso = process::auxiliary(AT_SYSINFO_EHDR as usize).filter(|&base| base != 0);
        // SAFETY: the address is the kernel's own word for where the vDSO is mapped, for as long as
        // the process lives.
        Self(vdso.and_then(|base| unsafe { find(base as *const u8, c"__vdso_clock_gettime") }))
    }

    /// Seconds since the epoch, and nanoseconds within the second (CLOCK_REALTIME).
    #[inline]
    pub fn now(&self) -> (i64, u32) {
        let [seconds, nanoseconds] = self.read(CLOCK_REALTIME);
        (seconds, nanoseconds as u32)
    }

    /// Seconds since the epoch, up to a tick late, for a few nanoseconds (CLOCK_REALTIME_COARSE).
    #[inline]
    pub fn coarse(&self) -> i64 {
        self.read(CLOCK_REALTIME_COARSE)[0]
    }

    /// Nanoseconds since some moment, up to a tick late; never set (CLOCK_MONOTONIC_COARSE).
    #[inline]
    pub fn steady(&self) -> u64 {
        let [seconds, nanoseconds] = self.read(CLOCK_MONOTONIC_COARSE);
        (seconds as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds as u64)
    }

    #[inline]
    fn read(&self, clock: u32) -> [i64; 2] {
        let mut time = [0; 2];
        match self.0 {
            // SAFETY: it fills the `struct timespec`, two words, that we own.
            Some(get) => unsafe {
                get(clock as i32, &raw mut time);
            },
            None => {
                if let Ok(now) = process::clock_gettime(clock) {
                    time = [now.tv_sec, now.tv_nsec];
                }
            }
        }
        time
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// # Safety
/// `base` is the start of a mapped ELF64 object that stays.
unsafe fn find(base: *const u8, name: &CStr) -> Option<GetTime> {
    const PT_LOAD: u32 = 1;
    const PT_DYNAMIC: u32 = 2;
    const DT_STRTAB: usize = 5;
    const DT_SYMTAB: usize = 6;
    const SYMBOL: usize = 24;
    // SAFETY: the caller's promise: what the headers say lies in the object.
    unsafe {
        let read = |offset: usize| base.add(offset).cast::<usize>().read_unaligned();
        let half = |at: *const u8| at.cast::<u32>().read_unaligned();
        let (headers, count) = (read(32), read(56) & 0xffff);
        let (mut load, mut dynamic) = (None, None);
        for header in (0..count).map(|index| headers + index * 56) {
            match half(base.add(header)) {
                PT_LOAD if load.is_none() => load = Some((read(header + 8), read(header + 16))),
                PT_DYNAMIC => dynamic = Some(read(header + 16)),
                _ => {}
            }
        }
        let (offset, address) = load?;
        let at = |virtual_address: usize| base.wrapping_add(offset + virtual_address - address);
        let (mut strings, mut symbols) = (None, None);
        let mut entry = at(dynamic?).cast::<usize>();
        while entry.read() != 0 {
            match entry.read() {
                DT_STRTAB => strings = Some(at(entry.add(1).read())),
                DT_SYMTAB => symbols = Some(at(entry.add(1).read())),
                _ => {}
            }
            entry = entry.add(2);
        }
        let (strings, symbols) = (strings?, symbols?);
        // The linker puts the strings behind the symbols.
        let count = (strings as usize).checked_sub(symbols as usize)? / SYMBOL;
        (0..count.min(256))
            .map(|index| symbols.add(index * SYMBOL))
            .find(|symbol| CStr::from_ptr(strings.add(half(*symbol) as usize).cast()) == name)
            .map(|symbol| {
                let value = symbol.add(8).cast::<usize>().read_unaligned();
                core::mem::transmute::<*const u8, GetTime>(at(value))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vdso_tells_the_time_of_the_kernel() {
        let clock = Clock::new();
        assert!(clock.0.is_some());
        let (before, after) = (Clock(None).now(), clock.now());
        assert!(after >= before && after.0 - before.0 < 10);
        assert!((clock.coarse() - after.0).abs() < 2);
    }
}
