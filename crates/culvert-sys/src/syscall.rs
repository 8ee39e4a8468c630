//! The system-call instruction (syscall(2); x86-64 ABI: number in rax, arguments in rdi, rsi, rdx, r10, r8, r9;
//! rcx and r11 are lost).

use crate::Errno;
use core::arch::asm;

/// Executes system call `number` with six arguments and returns what the kernel left in rax.
///
/// # Safety
/// As dangerous as the call itself: pointers must be valid for what the kernel does with them, and the caller answers for
/// every effect on the process.
#[inline(always)]
pub unsafe fn raw(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the ABI above; memory is clobbered by default, the red zone is left alone by the instruction.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Executes system call `number` and splits the result into value and errno.
///
/// # Safety
/// As [`raw`].
#[inline(always)]
pub unsafe fn call<const N: usize>(number: usize, args: [usize; N]) -> Result<usize, Errno> {
    let mut six = [0; 6];
    let mut i = 0;
    while i < N {
        six[i] = args[i];
        i += 1;
    }
    // SAFETY: the caller's promise.
    Errno::check(unsafe { raw(number, six) })
}
