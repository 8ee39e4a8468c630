//! A panic: a defect of Culvert. The program cannot go on with half an operation done, and ends as
//! by abort(3), with the reason in the log.
//!
//! A release does not know message and place of a panic: 863 places are 20 KB of addresses, which
//! ld.so would relocate in every process (docs/design/starting-a-program.md). It logs the addresses
//! of its code that it finds on the stack; `addr2line -fie libculvert.so ADDRESS...` names them in
//! a library that was built with `CARGO_PROFILE_RELEASE_PACKAGE_LIBCULVERT_STRIP=none`.

use core::panic::PanicInfo;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    tell(info);
    culvert_sys::abort()
}

#[cfg(panics_are_told)]
fn tell(info: &PanicInfo<'_>) {
    let message = info.message();
    match info.location() {
        Some(place) => culvert_sys::log!("a defect of Culvert, at {place}: {message}"),
        None => culvert_sys::log!("a defect of Culvert: {message}"),
    }
}

#[cfg(not(panics_are_told))]
fn tell(_: &PanicInfo<'_>) {
    use crate::relocation::base;
    use core::arch::asm;
    use core::fmt::{Display, Formatter, Result};
    use core::ops::Range;
    use culvert_sys::memory::populate_read;

    const PAGE: usize = 4096;
    const WORD: usize = size_of::<usize>();
    /// How many addresses are logged.
    const MOST: usize = 24;

    /// Those of `code` that stand on `stack`. Nothing is allocated: the heap may be what panics.
    struct Places {
        stack: Range<usize>,
        code: Range<usize>,
    }

    impl Display for Places {
        fn fmt(&self, out: &mut Formatter<'_>) -> Result {
            let words = self.stack.clone().step_by(WORD);
            // SAFETY: above the stack pointer, in pages that are there.
            let words = words.map(|at| unsafe { (at as *const usize).read_volatile() });
            let mut found = words.filter(|word| self.code.contains(word)).take(MOST);
            found.try_for_each(|word| write!(out, " {:#x}", word - self.code.start))
        }
    }

    if !culvert_sys::log::enabled() {
        return;
    }
    let (stack, end): (usize, usize);
    // SAFETY: the stack pointer, and an address that the linker defines, relative to this code.
    unsafe {
        asm!(".hidden etext", "lea {}, [rip + etext]", "mov {}, rsp", out(reg) end,
            out(reg) stack, options(nomem, nostack));
    }
    let next = (stack / PAGE + 1) * PAGE;
    // The page above may be another's, and not be there.
    let is_there = populate_read(next as *mut u8, PAGE).is_ok();
    let places = Places {
        stack: stack..next + if is_there { PAGE } else { 0 },
        code: base()..end,
    };
    culvert_sys::log!("a defect of Culvert; on the stack of libculvert.so:{places}");
}
