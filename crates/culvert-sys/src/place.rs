//! Where mappings of our own lie: apart from the program's.
//!
//! Left to itself the kernel puts a new mapping into the highest gap that is large enough, which as
//! a rule is the one that the program has just made: a pointer that should fault (EFAULT, or the
//! SIGSEGV that a garbage collector waits for) would lead into our memory, and what the program
//! maps next would lie elsewhere than natively.

use crate::PAGE;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How far below this code the region begins, and its length: 256 GiB, for the libraries of a
/// program are spread over less, and ThreadSanitizer ends a program that has mappings below
/// 0x7e80_0000_0000 (`HiAppMemBeg`, compiler-rt/lib/tsan/rtl/tsan_platform.h), at most 512 GiB
/// below the lowest place of its libraries.
const BELOW: usize = 1 << 38;
const LENGTH: usize = 1 << 37;

static USED: AtomicUsize = AtomicUsize::new(0);

/// The address to give to mmap(2), without MAP_FIXED, for a mapping of `length` bytes: where it is
/// taken after all, the kernel chooses. 0 (the kernel chooses) for what is too large.
pub fn hint(length: usize) -> usize {
    let Some(length) = length
        .checked_next_multiple_of(PAGE)
        .filter(|&l| l < LENGTH)
    else {
        return 0;
    };
    // At a beginning of the pages that the kernel maps at one fault.
    let here = (&raw const USED as usize) & !0xffff;
    let Some(start) = here.checked_sub(BELOW) else {
        return 0;
    };
    let at = USED.fetch_add(length, Relaxed) % LENGTH;
    start + at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap() {
        let (first, second) = (hint(5000), hint(1));
        assert_eq!(first % PAGE, 0);
        assert!(second >= first + 8192);
        assert_eq!(hint(usize::MAX), 0);
    }
}
