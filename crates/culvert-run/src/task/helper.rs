//! Children of our own, beside those of the program: it does not learn of them.

use core::arch::asm;
use culvert::Errno;
use culvert_sys::raw::general::{__WCLONE, SIG_SETMASK};
use culvert_sys::{nr, process, syscall};

/// All signals are blocked in this thread while this lives: a handler of the program's would run in
/// a child of [`start`], too.
pub struct Blocked {
    before: u64,
}

impl Blocked {
    /// From here on.
    pub fn all() -> Self {
        let before = process::sigprocmask(SIG_SETMASK, u64::MAX).unwrap_or(u64::MAX);
        Self { before }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let _ = process::sigprocmask(SIG_SETMASK, self.before);
    }
}

/// clone(2) as vfork, with a stack of its own, and without a signal at the child's end: wait(2)
/// does not see it. The child's number, when it has ended or executes.
///
/// # Errors
/// Of clone(2).
///
/// # Safety
/// All signals are [`Blocked`]. `stack` is the end of enough memory, aligned to 16; `entry` does
/// with `argument` only what a child of vfork may.
pub unsafe fn start<T>(
    stack: usize,
    entry: extern "C" fn(&mut T) -> !,
    argument: &mut T,
) -> Result<usize, Errno> {
    const CLONE_VM_VFORK: usize = 0x100 | 0x4000;
    let result: isize;
    // SAFETY: the child goes on with the given stack and calls what never returns; the parent
    // sleeps meanwhile and loses what a system call loses.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") nr::CLONE as isize => result,
            in("rdi") CLONE_VM_VFORK,
            in("rsi") stack,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") core::ptr::from_mut(argument),
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    Errno::check(result)
}

/// Takes the end of child `id` from the kernel, which knows its number until then. Interrupted by
/// nothing, if all signals are [`Blocked`]. Where a thread of the program has waited for all
/// children of any kind, it is gone already.
pub fn reap(id: usize) {
    let _ = process::reap(id as u32, __WCLONE);
}

/// Ends a child of [`start`].
pub fn end() -> ! {
    loop {
        // SAFETY: ends this process, which shares memory but nothing else.
        unsafe { syscall::raw(nr::EXIT, [0; 6]) };
    }
}
