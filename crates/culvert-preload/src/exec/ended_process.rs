//! A process that has ended: the kernel knows its number until it is waited for.

use core::arch::asm;
use culvert::Errno;
use culvert_sys::{nr, syscall};

/// A child that did nothing and has ended. It is waited for when this is dropped.
pub struct EndedProcess {
    id: usize,
    /// Signals that were blocked before.
    mask: u64,
}

impl EndedProcess {
    /// Makes one. It ends without a signal, so that wait(2) of the program's does not see it; all signals are blocked as long as it is there, since a handler would
    /// run in it, too.
    pub fn new() -> Result<Self, Errno> {
        const CLONE_VM_VFORK: usize = 0x100 | 0x4000;
        let mut mask = u64::MAX;
        set_mask(&mut mask);
        let result: isize;
        // SAFETY: the child makes one system call, exit(2), and touches no memory; the parent sleeps meanwhile and loses what a system call loses.
        unsafe {
            asm!(
                "syscall",
                "test rax, rax",
                "jnz 2f",
                "xor edi, edi",
                "mov eax, r12d",
                "syscall",
                "ud2",
                "2:",
                inlateout("rax") nr::CLONE as isize => result,
                inlateout("rdi") CLONE_VM_VFORK => _,
                in("rsi") 0usize,
                in("rdx") 0usize,
                in("r10") 0usize,
                in("r8") 0usize,
                in("r12") nr::EXIT,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        match Errno::check(result) {
            Ok(id) => Ok(Self { id, mask }),
            Err(error) => {
                set_mask(&mut mask);
                Err(error)
            }
        }
    }

    /// Its number.
    pub fn id(&self) -> usize {
        self.id
    }
}

impl Drop for EndedProcess {
    fn drop(&mut self) {
        const WCLONE: usize = 0x8000_0000;
        // SAFETY: without a place for the status. Interrupted by nothing: all signals are blocked.
        let _ = unsafe { syscall::call(nr::WAIT4, [self.id, 0, WCLONE, 0]) };
        set_mask(&mut self.mask);
    }
}

/// Sets the mask of blocked signals and puts the old one in its place.
fn set_mask(mask: &mut u64) {
    const SIG_SETMASK: usize = 2;
    let place = core::ptr::from_mut(mask) as usize;
    // SAFETY: the set is eight bytes long; the kernel reads it before it writes the old one.
    let _ = unsafe { syscall::call(nr::RT_SIGPROCMASK, [SIG_SETMASK, place, place, 8]) };
}
