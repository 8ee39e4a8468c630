//! Copies from and to the program's memory that end in an error instead of a crash.
//!
//! They are plain copies: no system call, no check of page tables. A bad address faults, and the
//! engine's SIGSEGV and SIGBUS handlers, which are always installed and never really blocked, move
//! the instruction pointer to the end of the routine (the kernel does the same with its
//! `__ex_table`). A non-canonical address raises a general protection fault, which arrives as
//! SIGSEGV with si_addr 0, and ends the same way.

use crate::labels;
use core::arch::global_asm;
use core::ptr::{from_mut, from_ref};
use culvert_sys::plain::Plain;
use culvert_sys::{Shared, SharedMut};

/// The program's memory is not there, or not accessible in the way needed: EFAULT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Whose memory a copy stumbled over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The program's: EFAULT.
    User,
    /// Our own, as a mapping of a file that was cut off meanwhile.
    Ours,
}

/// A copy that ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyError {
    /// The address that faulted; 0 for a non-canonical one.
    pub address: usize,
    /// Whose address that is.
    pub side: Side,
    /// Bytes copied before.
    pub done: usize,
}

/// Why a string could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringError {
    /// It runs into memory that is not there.
    Fault,
    /// It does not end within the buffer.
    TooLong,
}

impl From<CopyError> for Fault {
    fn from(_: CopyError) -> Self {
        Self
    }
}

global_asm!(
    r#"
    .pushsection .text.culvert_user, "ax", @progbits
    .balign 32
    .globl culvert_user_send, culvert_user_copy, culvert_user_take, culvert_user_zero
    .globl culvert_user_string
    .hidden culvert_user_send, culvert_user_copy, culvert_user_take, culvert_user_zero
    .hidden culvert_user_string
    .globl culvert_user_short, culvert_user_exact, culvert_user_move, culvert_user_left
    .globl culvert_user_store, culvert_user_unset
    .hidden culvert_user_short, culvert_user_exact, culvert_user_move, culvert_user_left
    .hidden culvert_user_store, culvert_user_unset
    .globl culvert_user_scan, culvert_user_scanned
    .hidden culvert_user_scan, culvert_user_scanned

    # (destination rdi, source rsi, length rdx, *fault address rcx) -> bytes left
    .type culvert_user_copy, @function
culvert_user_copy:
    mov r8, rcx
    cmp rdx, 16
    ja 7f
    cmp rdx, 8
    jb 2f
    # 8 to 16 bytes as two words that may overlap. Both are read before the first is written. A
    # fault anywhere in here starts over with the exact copy, which knows how far it came; nothing
    # it needs has changed.
culvert_user_short:
    mov rax, [rsi]
    mov rcx, [rsi + rdx - 8]
    mov [rdi], rax
    mov [rdi + rdx - 8], rcx
    xor eax, eax
    ret
2:  cmp rdx, 4
    jb culvert_user_exact
    mov eax, [rsi]
    mov ecx, [rsi + rdx - 4]
    mov [rdi], eax
    mov [rdi + rdx - 4], ecx
    xor eax, eax
    ret
    # 17 to 512 bytes, a struct mostly: by sixteen, the last sixteen again. A string instruction
    # takes longer to begin than this to end.
7:  cmp rdx, 512
    ja culvert_user_exact
    lea r9, [rdx - 16]
    xor eax, eax
8:  movdqu xmm0, [rsi + rax]
    movdqu [rdi + rax], xmm0
    add rax, 16
    cmp rax, r9
    jb 8b
    movdqu xmm0, [rsi + r9]
    movdqu [rdi + r9], xmm0
    xor eax, eax
    ret
    # The same for bytes that the program gives away, whose destination is not in the caches as a
    # rule: more than 512 bytes by 64, what lies ahead asked for, and the last 64 again. A string
    # instruction takes nearly twice as long for that (4 KiB into 32 MB: 810 ns against 450).
    .type culvert_user_take, @function
culvert_user_take:
    cmp rdx, 512
    jbe culvert_user_copy
    mov r8, rcx
    lea r9, [rdx - 64]
    xor eax, eax
9:  prefetcht0 [rdi + rax + 512]
    movdqu xmm0, [rsi + rax]
    movdqu xmm1, [rsi + rax + 16]
    movdqu xmm2, [rsi + rax + 32]
    movdqu xmm3, [rsi + rax + 48]
    movdqu [rdi + rax], xmm0
    movdqu [rdi + rax + 16], xmm1
    movdqu [rdi + rax + 32], xmm2
    movdqu [rdi + rax + 48], xmm3
    add rax, 64
    cmp rax, r9
    jb 9b
    movdqu xmm0, [rsi + r9]
    movdqu xmm1, [rsi + r9 + 16]
    movdqu xmm2, [rsi + r9 + 32]
    movdqu xmm3, [rsi + r9 + 48]
    movdqu [rdi + r9], xmm0
    movdqu [rdi + r9 + 16], xmm1
    movdqu [rdi + r9 + 32], xmm2
    movdqu [rdi + r9 + 48], xmm3
    xor eax, eax
    ret
    .size culvert_user_take, . - culvert_user_take
    # The same past the caches, 128 bytes and more, for another process that reads them next: where
    # its processor has the lines, each would be taken from it first (128 KiB between two
    # processors: 57 us against 4; the other reads them in 7 either way). The first 64 and the last
    # 64 may overlap the rest.
    .type culvert_user_send, @function
culvert_user_send:
    mov r8, rcx
    lea r9, [rdx - 64]
    movdqu xmm0, [rsi]
    movdqu xmm1, [rsi + 16]
    movdqu xmm2, [rsi + 32]
    movdqu xmm3, [rsi + 48]
    movdqu [rdi], xmm0
    movdqu [rdi + 16], xmm1
    movdqu [rdi + 32], xmm2
    movdqu [rdi + 48], xmm3
    mov rax, rdi
    neg rax
    and eax, 63
10: movdqu xmm0, [rsi + rax]
    movdqu xmm1, [rsi + rax + 16]
    movdqu xmm2, [rsi + rax + 32]
    movdqu xmm3, [rsi + rax + 48]
    movntdq [rdi + rax], xmm0
    movntdq [rdi + rax + 16], xmm1
    movntdq [rdi + rax + 32], xmm2
    movntdq [rdi + rax + 48], xmm3
    add rax, 64
    cmp rax, r9
    jb 10b
    # Such stores are seen in any order without this.
    sfence
    movdqu xmm0, [rsi + r9]
    movdqu xmm1, [rsi + r9 + 16]
    movdqu xmm2, [rsi + r9 + 32]
    movdqu xmm3, [rsi + r9 + 48]
    movdqu [rdi + r9], xmm0
    movdqu [rdi + r9 + 16], xmm1
    movdqu [rdi + r9 + 32], xmm2
    movdqu [rdi + r9 + 48], xmm3
    xor eax, eax
    ret
    .size culvert_user_send, . - culvert_user_send
culvert_user_exact:
    mov rcx, rdx
culvert_user_move:
    rep movsb
culvert_user_left:
    # After a fault rcx is what is left, and the signal handler has put the address into rdx.
    mov rax, rcx
    test rax, rax
    jz 3f
    mov [r8], rdx
3:  ret
    .size culvert_user_copy, . - culvert_user_copy

    # (destination rdi, length rsi) -> bytes left
    .type culvert_user_zero, @function
culvert_user_zero:
    mov rcx, rsi
    xor eax, eax
culvert_user_store:
    rep stosb
culvert_user_unset:
    mov rax, rcx
    ret
    .size culvert_user_zero, . - culvert_user_zero

    # (destination rdi, source rsi, capacity rdx) -> length without the NUL, or -1 after a fault
    # (rdx = 0 then), or -2 when there is no NUL within the capacity. Sixteen bytes at once where
    # they lie in one page and fit, so nothing beyond the string's own page is touched.
    .type culvert_user_string, @function
culvert_user_string:
    xor ecx, ecx
    pxor xmm0, xmm0
4:  lea r8, [rsi + rcx]
    and r8d, 4095
    cmp r8d, 4080
    ja 5f
    lea r9, [rcx + 16]
    cmp r9, rdx
    ja 5f
culvert_user_scan:
    movdqu xmm1, [rsi + rcx]
    movdqu [rdi + rcx], xmm1
    pcmpeqb xmm1, xmm0
    pmovmskb eax, xmm1
    add rcx, 16
    test eax, eax
    jz 4b
    bsf eax, eax
    lea rax, [rax + rcx - 16]
    ret
5:  cmp rcx, rdx
    jae 6f
    movzx eax, byte ptr [rsi + rcx]
    mov [rdi + rcx], al
    inc rcx
    test al, al
    jnz 4b
    lea rax, [rcx - 1]
    ret
6:  mov rax, -2
    ret
culvert_user_scanned:
    mov rax, -1
    ret
    .size culvert_user_string, . - culvert_user_string
    .popsection
    "#
);

unsafe extern "C" {
    fn culvert_user_copy(dst: usize, src: usize, length: usize, fault: *mut usize) -> usize;
    fn culvert_user_take(dst: usize, src: usize, length: usize, fault: *mut usize) -> usize;
    fn culvert_user_send(dst: usize, src: usize, length: usize, fault: *mut usize) -> usize;
    fn culvert_user_zero(dst: usize, length: usize) -> usize;
    fn culvert_user_string(dst: usize, src: usize, capacity: usize) -> isize;
}

/// Where to go on after a fault at `rip`, when that lies in one of the routines above. The fault
/// address is to be put into rdx.
pub(crate) fn landing(rip: usize) -> Option<usize> {
    use labels::*;
    let table = [
        (copy_short()..copy_exact(), copy_exact()),
        (copy_move()..copy_left(), copy_left()),
        (zero_store()..zero_unset(), zero_unset()),
        (string_scan()..string_scanned(), string_scanned()),
    ];
    let mut here = table.into_iter().filter(|(range, _)| range.contains(&rip));
    here.next().map(|(_, landing)| landing)
}

/// Whether the fault handler for `rip` may change rdx: everywhere but in the exact restart of a
/// short copy, which still needs its length.
pub(crate) fn landing_takes_address(landing: usize) -> bool {
    landing == labels::copy_left()
}

/// Addresses from here on are the kernel's (the upper half; `TASK_SIZE_MAX` is below it with four
/// and with five levels of page tables).
const USER_END: usize = 1 << 63;

/// Refuses what lies there.
fn check(address: usize, length: usize) -> Result<(), CopyError> {
    match address.checked_add(length) {
        Some(end) if end <= USER_END => Ok(()),
        _ => Err(CopyError {
            address,
            side: Side::User,
            done: 0,
        }),
    }
}

fn copy(dst: usize, src: usize, length: usize, user: usize) -> Result<(), CopyError> {
    copy_by(dst, src, length, user, false)
}

/// `is_sent`: past the caches, to a destination that is not the program's; 128 bytes and more.
#[inline]
fn copy_by(
    dst: usize,
    src: usize,
    length: usize,
    user: usize,
    is_sent: bool,
) -> Result<(), CopyError> {
    check(user, length)?;
    let mut address = 0;
    // SAFETY: a fault on either side ends the routine early; what is written is the caller's
    // buffer, or the program's memory on its own behalf.
    let left = unsafe {
        match (user == src, is_sent) {
            (true, true) => culvert_user_send(dst, src, length, &mut address),
            (true, false) => culvert_user_take(dst, src, length, &mut address),
            (false, _) => culvert_user_copy(dst, src, length, &mut address),
        }
    };
    if left == 0 {
        return Ok(());
    }
    let ours = if user == dst { src } else { dst };
    let side = if address.wrapping_sub(ours) < length && address != 0 {
        Side::Ours
    } else {
        Side::User
    };
    Err(CopyError {
        address,
        side,
        done: length - left,
    })
}

/// Copies `dst.len()` bytes from the program's address `src`. After an error the first `done` bytes
/// have been read.
pub fn copy_in(dst: &mut [u8], src: usize) -> Result<(), CopyError> {
    copy(dst.as_mut_ptr() as usize, src, dst.len(), src)
}

/// Copies `src` to the program's address `dst`. After an error the first `done` bytes have been
/// written.
pub fn copy_out(dst: usize, src: &[u8]) -> Result<(), CopyError> {
    copy(dst, src.as_ptr() as usize, src.len(), dst)
}

/// [`copy_in`] into `dst`, memory that other processes see.
pub fn copy_in_shared(dst: SharedMut<'_>, src: usize) -> Result<(), CopyError> {
    // From here on the other side is slower by less than this is faster.
    const LARGE: usize = 16 << 10;
    let (to, length) = (dst.start() as usize, dst.len());
    copy_by(
        to,
        src,
        length,
        src,
        dst.is_for_another() && length >= LARGE,
    )
}

/// [`copy_out`] of `src`, memory that other processes may change, or cut off, meanwhile.
pub fn copy_out_shared(dst: usize, src: Shared<'_>) -> Result<(), CopyError> {
    copy(dst, src.start() as usize, src.len(), dst)
}

/// Writes `length` zero bytes to the program's address `dst`.
pub fn zero_out(dst: usize, length: usize) -> Result<(), CopyError> {
    check(dst, length)?;
    // SAFETY: as in `copy`.
    let left = unsafe { culvert_user_zero(dst, length) };
    if left == 0 {
        Ok(())
    } else {
        let done = length - left;
        Err(CopyError {
            address: dst + done,
            side: Side::User,
            done,
        })
    }
}

/// Reads a value from the program's address `src`, which need not be aligned.
#[inline]
pub fn read<T: Plain>(src: usize) -> Result<T, Fault> {
    let mut value = T::zeroed();
    copy(from_mut(&mut value) as usize, src, size_of::<T>(), src)?;
    Ok(value)
}

/// Writes `value` to the program's address `dst`, which need not be aligned.
#[inline]
pub fn write<T: Copy>(dst: usize, value: &T) -> Result<(), Fault> {
    Ok(copy(dst, from_ref(value) as usize, size_of::<T>(), dst)?)
}

/// Reads the NUL-terminated string at the program's address `src` into `buffer` and returns its
/// length without the NUL, which is in the buffer too. What lies in the buffer behind it is
/// undefined.
pub fn string_in(src: usize, buffer: &mut [u8]) -> Result<usize, StringError> {
    if src >= USER_END {
        return Err(StringError::Fault);
    }
    // SAFETY: writes only within the buffer; a fault ends it.
    match unsafe { culvert_user_string(buffer.as_mut_ptr() as usize, src, buffer.len()) } {
        -1 => Err(StringError::Fault),
        -2 => Err(StringError::TooLong),
        length => Ok(length as usize),
    }
}
