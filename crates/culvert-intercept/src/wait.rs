//! Blocking system calls inside a hook, ended by signals as they would be natively.

use crate::labels;
use crate::signal::{NEEDED, bit};
use crate::thread::{Frame, SIGNALS, ThreadBlock, Wait, current};
use core::{
    arch::global_asm,
    ffi::CStr,
    mem::offset_of,
    ptr::{from_mut, from_ref, null, null_mut},
    sync::atomic::Ordering::{Relaxed, SeqCst},
};

use culvert_sys::fd::{BorrowedFd, LockCommand, OwnedFd};
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general as linux;
use culvert_sys::{Errno, process, syscall};

/// A signal for the program is pending: the hook is to end, with
/// [`Outcome::Restart`](crate::Outcome::Restart) or with EINTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// The same as an errno (the kernel's ERESTARTSYS).
pub const RESTART: Errno = Errno::new(512);

// A signal between the test and the system call would be noticed by neither; so the signal handler
// moves an instruction pointer in between to the end (musl's `__syscall_cp_asm` does the same for
// cancellation). It finds it at the instruction itself also when the kernel wants to restart the
// call: rcx, 0 before, is then the address behind the instruction.
global_asm!(
    r#"
    .pushsection .text.culvert_wait, "ax", @progbits
    .globl culvert_wait, culvert_wait_test, culvert_wait_call, culvert_wait_interrupted
    .hidden culvert_wait, culvert_wait_test, culvert_wait_call, culvert_wait_interrupted
    .type culvert_wait, @function
    # (number rdi, *arguments rsi, *interrupted rdx) -> result
culvert_wait:
    push rbx
    mov rbx, rdx
    mov rax, rdi
    mov r11, rsi
    mov rdi, [r11]
    mov rsi, [r11 + 8]
    mov rdx, [r11 + 16]
    mov r10, [r11 + 24]
    mov r8, [r11 + 32]
    mov r9, [r11 + 40]
    xor ecx, ecx
culvert_wait_test:
    test dword ptr gs:[{PENDING}], {SIGNALS}
    jnz culvert_wait_interrupted
culvert_wait_call:
    syscall
    pop rbx
    ret
culvert_wait_interrupted:
    mov dword ptr [rbx], 1
    pop rbx
    ret
    .size culvert_wait, . - culvert_wait
    .popsection
    "#,
    PENDING = const offset_of!(Frame, pending),
    SIGNALS = const SIGNALS,
);

unsafe extern "C" {
    fn culvert_wait(number: usize, args: *const [usize; 6], interrupted: *mut u32) -> isize;
}

/// Where a signal handler makes the thread go on that it has interrupted at `rip`, before the
/// system call or when it is to be made again, and whether the call had begun: `rcx` tells.
pub(crate) fn landing(rip: usize, rcx: usize) -> Option<(usize, bool)> {
    const SYSCALL_LENGTH: usize = 2;
    let call = labels::wait_call();
    let begun = rcx == call + SYSCALL_LENGTH;
    (labels::wait_test()..=call)
        .contains(&rip)
        .then_some((labels::wait_interrupted(), begun))
}

/// Whether a signal that the program would see waits for the end of this hook. For what waits by
/// itself, in small steps.
pub fn pending() -> bool {
    current().frame.pending.load(Relaxed) & SIGNALS != 0
}

/// A wait of this hook has begun: what ends it from here on is an interrupted call.
pub(crate) fn begins(block: &ThreadBlock) {
    block.frame.wait.set(Wait::Begun as usize);
}

/// What this hook has called by now has not waited: a signal from here to the next wait comes
/// before the program's call.
pub fn begins_anew() {
    current().frame.wait.set(Wait::None as usize);
}

/// `mask`, which a call of the program's sets while it waits (ppoll(2)), as the kernel may have it:
/// the engine needs some signals.
pub const fn lent(mask: u64) -> u64 {
    mask & !NEEDED
}

/// Whether a signal is pending that the thread has blocked, and `mask` does not.
pub fn lets_in(mask: u64) -> bool {
    process::pending_signals().is_ok_and(|pending| pending & !mask & !NEEDED != 0)
}

/// After [`RESTART`] or EINTR of a call that set a mask while it waited: whether the program has
/// blocked a signal that came, so that it is pending when the hook has ended. The call is to be
/// made again then, whatever SA_RESTART says, which this sees to, and finds it ([`lets_in`]).
pub fn is_blocked_again() -> bool {
    let block = current();
    let mask = block.frame.mask.get() as u64;
    let is_blocked = block
        .recorded
        .all()
        .any(|one| bit(one.signal()) & mask != 0);
    if is_blocked {
        block.frame.wait.set(Wait::Preceded as usize);
    }
    is_blocked
}

/// Executes system call `number`; a signal that the program would see, pending before or arriving
/// during it, ends it. Where no wait of this hook has begun by then, the signal came before the
/// program's call: [`Outcome::Restart`](crate::Outcome::Restart) makes that again whatever
/// SA_RESTART says, since a call that does not wait never fails with EINTR.
///
/// To be called inside a hook, with no lock held: while the thread waits here it counts as outside
/// the hook when another thread forks.
///
/// # Safety
/// As [`culvert_sys::syscall::raw`].
pub unsafe fn interruptible(number: usize, args: [usize; 6]) -> Result<isize, Interrupted> {
    if syscall::is_stopped(number, &args) {
        return Ok(Errno::ENOSYS.negated());
    }
    let block = current();
    let mut interrupted = 0;
    block.waits.store(1, SeqCst);
    // SAFETY: the caller's promise; inside a hook the GS base is a block.
    let result = unsafe { culvert_wait(number, &args, &mut interrupted) };
    crate::quiesce::come_back(block);
    // An EINTR of the kernel's own is final: a call that is to be made again is always found at its
    // instruction (signal(7): some waits end with EINTR in spite of SA_RESTART).
    if interrupted == 0 {
        begins(block);
        return Ok(result);
    }
    if block.frame.wait.get() == Wait::None as usize {
        block.frame.wait.set(Wait::Preceded as usize);
    }
    Err(Interrupted)
}

/// [`interruptible`], its result split into value and errno; [`RESTART`] when a signal has ended
/// it.
///
/// # Safety
/// As [`interruptible`].
pub unsafe fn call<const N: usize>(number: usize, args: [usize; N]) -> Result<usize, Errno> {
    let mut six = [0; 6];
    six[..N].copy_from_slice(&args);
    // SAFETY: the caller's promise.
    let result = unsafe { interruptible(number, six) };
    Errno::check(result.map_err(|Interrupted| RESTART)?)
}

culvert_sys::calls! { by call:
    /// read(2).
    pub fn read(fd: BorrowedFd<'_>, into: &mut [u8]) -> usize
        = READ[fd, into.as_mut_ptr(), into.len()];
    /// pread(2).
    pub fn pread(fd: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> usize
        = PREAD64[fd, into.as_mut_ptr(), into.len(), offset];
    /// write(2).
    pub fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> usize
        = WRITE[fd, bytes.as_ptr(), bytes.len()];
    /// pwrite(2).
    pub fn pwrite(fd: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> usize
        = PWRITE64[fd, bytes.as_ptr(), bytes.len(), offset];
    /// tee(2).
    pub fn tee(from: BorrowedFd<'_>, to: &OwnedFd, length: usize, flags: u32) -> usize
        = TEE[from, to.borrow(), length, flags];
    /// openat(2).
    pub fn openat(directory: BorrowedFd<'_>, path: &CStr, flags: OFlags, mode: u32) -> OwnedFd
        = OPENAT[directory, path.as_ptr(), flags, mode];
    /// openat2(2).
    pub fn open_how(directory: BorrowedFd<'_>, path: &CStr, how: &linux::open_how) -> OwnedFd
        = OPENAT2[directory, path.as_ptr(), from_ref(how), size_of::<linux::open_how>()];
    /// ppoll(2); the time that is left then is put into `time`.
    pub fn ppoll(
            asked: &mut [linux::pollfd], time: Option<&mut linux::timespec>, mask: Option<&u64>
        ) -> usize
        = PPOLL[
            asked.as_mut_ptr(), asked.len(), time.map_or(null_mut(), from_mut),
            mask.map_or(null(), from_ref), 8usize
        ];
    /// epoll_pwait(2); the time in milliseconds, none for -1.
    pub fn epoll_pwait(
            epoll: BorrowedFd<'_>, into: &mut [linux::epoll_event], time: i32, mask: Option<&u64>
        ) -> usize
        = EPOLL_PWAIT[
            epoll, into.as_mut_ptr(), into.len(), time, mask.map_or(null(), from_ref), 8usize
        ];
    /// fcntl(2) about a record lock.
    pub fn lock(fd: BorrowedFd<'_>, command: LockCommand, lock: &mut linux::flock) -> usize
        = FCNTL[fd, command, from_mut(lock)];
}
