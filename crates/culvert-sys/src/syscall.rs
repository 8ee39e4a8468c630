//! The system-call instruction (syscall(2); x86-64 ABI: number in rax, arguments in rdi, rsi, rdx,
//! r10, r8, r9; rcx and r11 are lost).

use crate::{Errno, atomic_ref::AtomicRef};
use core::arch::asm;

/// Says whether a call may be made at all.
pub type Gate = fn(usize, &[usize; 6]) -> bool;

static GATE: AtomicRef<Gate> = AtomicRef::new();

/// From here on only what `gate` allows reaches the kernel; the rest is ENOSYS. Under a seccomp
/// filter of the program's a call that it never made would end it, or raise a signal that it does
/// not expect.
pub fn ask_first(gate: &'static Gate) {
    GATE.set(Some(gate));
}

/// Whether the gate, if there is one, stops a call.
#[inline(always)]
pub fn is_stopped(number: usize, args: &[usize; 6]) -> bool {
    GATE.is_some() && asked(number, args)
}

#[cold]
#[inline(never)]
fn asked(number: usize, args: &[usize; 6]) -> bool {
    GATE.get().is_some_and(|gate| !gate(number, args))
}

/// Executes system call `number` with six arguments and returns what the kernel left in rax.
///
/// # Safety
/// As dangerous as the call itself: pointers must be valid for what the kernel does with them, and
/// the caller answers for every effect on the process.
#[inline(always)]
pub unsafe fn raw(number: usize, args: [usize; 6]) -> isize {
    if is_stopped(number, &args) {
        return Errno::ENOSYS.negated();
    }
    let result: isize;
    // SAFETY: the ABI above; memory is clobbered by default, the red zone is left alone by the
    // instruction.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Executes system call `number` and splits the result into value and errno.
///
/// # Safety
/// As [`raw`].
#[inline(always)]
pub unsafe fn call<const N: usize>(number: usize, args: [usize; N]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    Errno::check(unsafe { raw(number, six(args)) })
}

/// The arguments, and zeroes for those that the call does not have.
#[inline(always)]
pub(crate) fn six<const N: usize>(args: [usize; N]) -> [usize; 6] {
    let mut six = [0; 6];
    let mut i = 0;
    while i < N {
        six[i] = args[i];
        i += 1;
    }
    six
}
