//! The way in and the way out: from a stub to the handler and back.
//!
//! A stub arrives with the call's number in rax, its [`SiteRecord`](crate::SiteRecord) in r11, rcx
//! free, and everything else, flags and red zone included, as the program left it. The kernel would
//! keep all registers but rax, rcx and r11 (`entry_SYSCALL_64`), so the same is promised here.
//!
//! - *Callee-saved registers* (rbx, rbp, r12 to r15) are kept by the compiled code in between.
//! - *Vectors*: the engine and everything it calls is compiled for the x86-64 baseline. Legacy SSE
//!   instructions leave bits 128 and up of a vector register alone (Intel SDM 1, 14.1.2... "legacy
//!   SSE"), and there are no baseline instructions for xmm16 and up or for mask registers; so
//!   saving xmm0 to xmm15 by plain moves keeps AVX and AVX-512 state too. XSAVE would cost as much
//!   as a system call. x87 and MMX are not used at all.
//! - *MXCSR* is compared on the way out and loaded only when it differs.
//! - *Flags*: the six arithmetic flags by `lahf`/`seto` and back by `add`/`sahf`; `popf`, which is
//!   slow, only when a rare flag is set.
//!
//! The state lies in the thread's [`Frame`], not on a stack, so the way out (`culvert_exit`) can be
//! started again at any point before it leaves: a signal that arrives there is recorded and moved
//! back to its beginning. The labels in here delimit what `delivery::context` must know.

use crate::{
    adopt, clone,
    delivery::deliver,
    dispatch,
    labels::RARE_FLAGS,
    signal,
    thread::{BOUNDARY, Frame, INSIDE, OUTSIDE, SIGNALS},
    verdict::{CLONE, EXECUTE},
};
use core::{arch::global_asm, mem::offset_of};
use culvert_sys::nr;

/// What is blocked while the program's alternate stack is taken from the kernel: all signals that
/// are not raised by instructions.
static ASYNCHRONOUS: u64 = signal::ASYNCHRONOUS;

global_asm!(
    r#"
    .macro CULVERT_LOAD_VECTORS
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps xmm\i, [rcx + {VECTORS} + 16 * \i]
    .endr
    stmxcsr [rcx + {MXCSR_NOW}]
    mov eax, [rcx + {MXCSR_NOW}]
    cmp eax, [rcx + {MXCSR}]
    je 77f
    ldmxcsr [rcx + {MXCSR}]
77:
    .endm

    .macro CULVERT_LOAD_CALL
    mov rdi, [rcx + {CALL} + 8]
    mov rsi, [rcx + {CALL} + 16]
    mov rdx, [rcx + {CALL} + 24]
    mov r10, [rcx + {CALL} + 32]
    mov r8, [rcx + {CALL} + 40]
    mov rax, [rcx + {CALL}]
    .endm

    .pushsection .text.culvert_entry, "ax", @progbits
    .balign 64
    .irp name, entry, entry_swapped, entry_probe, entry_inside, exit, exit_done, exit_end, exit_rare, exit_borrowed, exit_rare_end, boundary_done, boundary_end, execute, execute_call, execute_end, clone_check, clone_call, clone_after, clone_child_end, clone_retry
    .globl culvert_\name
    .hidden culvert_\name
    .endr

    .type culvert_entry, @function
20: jmp 21f
    .balign 32
culvert_entry:
    rdgsbase rcx
    jrcxz 20b
    # Flags are still the program's. Move the number into the upper half of rax, so that the lower
    # can hold them.
    bswap rax
culvert_entry_swapped:
    lahf
    seto al
    # Is the GS base ours? If the program uses it for itself (`adopt` then finds the block), or we
    # are in a hook already (an embedder's library calling through a patched site: the call is
    # executed directly), on at culvert_entry_foreign. The first read may fault; the fault handler
    # then goes on at culvert_entry_foreign.
culvert_entry_probe:
    cmp rcx, gs:[{THIS}]
    jne culvert_entry_foreign
    cmp dword ptr [rcx + {STATE}], {OUTSIDE}
    jne culvert_entry_foreign
    mov dword ptr [rcx + {STATE}], {INSIDE}
culvert_entry_inside:
    # From here on asynchronous signals are recorded.
    mov [rcx + {RECORD}], r11
    mov [rcx + {RSP}], rsp
    movzx r11d, ax
    mov [rcx + {FLAGS}], r11
    bswap rax
    mov eax, eax
    mov [rcx + {CALL}], rax
    mov [rcx + {SAVED}], rdi
    mov [rcx + {SAVED} + 8], rsi
    mov [rcx + {SAVED} + 16], rdx
    mov [rcx + {SAVED} + 24], r10
    mov [rcx + {SAVED} + 32], r8
    mov [rcx + {SAVED} + 40], r9
    mov [rcx + {CALL} + 8], rdi
    mov [rcx + {CALL} + 16], rsi
    mov [rcx + {CALL} + 24], rdx
    mov [rcx + {CALL} + 32], r10
    mov [rcx + {CALL} + 40], r8
    mov [rcx + {CALL} + 48], r9
    mov r11, rsp
    sub r11, [rcx + {ALTERNATE_BASE}]
    cmp r11, [rcx + {ALTERNATE_SIZE}]
    jb 2f
3:  mov rsp, [rcx + {STACK}]
    pushfq
    pop r11
    cld
    mov [rcx + {RFLAGS}], r11
    test r11d, {RARE_FLAGS}
    jnz 4f
5:  stmxcsr [rcx + {MXCSR}]
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps [rcx + {VECTORS} + 16 * \i], xmm\i
    .endr
    mov rdi, rcx
    lea rsi, [rcx + {CALL}]
    call {dispatch}
    test eax, eax
    jnz 6f

    # The way out. Everything is found through gs, so it may be started again until the state is
    # set.
culvert_exit:
    mov rcx, gs:[{THIS}]
    mov rsp, [rcx + {STACK}]
    cmp dword ptr [rcx + {PENDING}], 0
    jne culvert_deliver
    CULVERT_LOAD_VECTORS
    mov rdi, [rcx + {SAVED}]
    mov rsi, [rcx + {SAVED} + 8]
    mov rdx, [rcx + {SAVED} + 16]
    mov r10, [rcx + {SAVED} + 24]
    mov r8, [rcx + {SAVED} + 32]
    mov r9, [rcx + {SAVED} + 40]
    mov r11, [rcx + {RESUME}]
    test dword ptr [rcx + {RFLAGS}], {RARE_FLAGS}
    jnz 7f
    mov eax, [rcx + {FLAGS}]
    add al, 0x7f
    sahf
8:  mov rax, [rcx + {RESULT}]
    mov rsp, [rcx + {RSP}]
    mov rcx, [rcx + {PROGRAM_GS}]
    jrcxz 10f
    jmp 11f
10: mov dword ptr gs:[{STATE}], {OUTSIDE}
culvert_exit_done:
    jmp r11
culvert_exit_end:

    # A thread that has no block yet, or whose GS base is the program's. On the program's stack,
    # below its red zone; flags and all registers but rcx are kept.
21: lea rsp, [rsp - 128]
    push r11
    push rax
    pushfq
    push rdi
    push rsi
    push rdx
    push r10
    push r8
    push r9
    push rbp
    mov rbp, rsp
    and rsp, -16
    sub rsp, 256
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps [rsp + 16 * \i], xmm\i
    .endr
    cld
    call {adopt}
    mov rcx, rax
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movaps xmm\i, [rsp + 16 * \i]
    .endr
    mov rsp, rbp
    pop rbp
    pop r9
    pop r8
    pop r10
    pop rdx
    pop rsi
    pop rdi
    popfq
    pop rax
    pop r11
    lea rsp, [rsp + 128]
    jrcxz 9f
    jmp culvert_entry
9:  movsxd rcx, dword ptr [r11 + {FORWARD}]
    lea rcx, [rcx + r11]
    jmp rcx

    .globl culvert_entry_foreign
    .hidden culvert_entry_foreign
culvert_entry_foreign:
    add al, 0x7f
    sahf
    bswap rax
    mov eax, eax
    jmp 21b

    # On the program's alternate stack. A nested signal with SA_ONSTACK would be put at its top,
    # over the program's frames, as our stack pointer will lie elsewhere. So, while the kernel still
    # sees us there, block signals; `dispatch` then takes the stack away and lets them in again.
2:  xor edi, edi
    lea rsi, [rip + {ASYNCHRONOUS}]
    lea rdx, [rcx + {ALTERNATE_MASK}]
    mov r10d, 8
    mov eax, {RT_SIGPROCMASK}
    syscall
    rdgsbase rcx
    mov dword ptr [rcx + {ALTERNATE_HELD}], 1
    jmp 3b

    # Rare flags on the way in: back to plain ones.
4:  push 0x202
    popfq
    jmp 5b

    # And on the way out: all of them, the arithmetic ones from their own place.
culvert_exit_rare:
    # The program's GS base is another.
11: mov dword ptr gs:[{STATE}], {OUTSIDE}
culvert_exit_borrowed:
    wrgsbase rcx
    jmp r11
7:  mov rax, [rcx + {RFLAGS}]
    and eax, ~0x9d5
    push rax
    mov eax, [rcx + {FLAGS}]
    mov r11d, eax
    shr r11d, 8
    and r11d, 0xd5
    or [rsp], r11
    movzx r11d, al
    shl r11d, 11
    or [rsp], r11
    mov r11, [rcx + {RESUME}]
    popfq
    jmp 8b
culvert_exit_rare_end:

6:  cmp eax, {EXECUTE}
    je culvert_execute_start
    cmp eax, {CLONE}
    je culvert_clone_start
    # EXIT: all signals are blocked. Once `used` is 0 another thread may run on this stack, so it is
    # not touched any more.
    rdgsbase rcx
    mov rdi, [rcx + {CALL} + 8]
    xor edx, edx
    mov eax, {EXIT_NUMBER}
    wrgsbase rdx
    mov dword ptr [rcx + {USED}], 0
    syscall
    ud2

    # Something is pending. `deliver` blocks all signals, raises again those recorded and gives back
    # the alternate stack. They arrive when the mask is restored, which is done on the program's
    # stack, so that their frames lie where they belong; the signal handler then finds the state
    # BOUNDARY and makes the context that of the program behind its call.
culvert_deliver:
    mov rdi, rcx
    call {deliver}
    rdgsbase rcx
    CULVERT_LOAD_VECTORS
    mov r8, [rcx + {SAVED} + 32]
    mov r9, [rcx + {SAVED} + 40]
    mov rsp, [rcx + {RSP}]
    mov dword ptr [rcx + {STATE}], {BOUNDARY}
    lea rsi, [rcx + {MASK}]
    mov edi, 2
    xor edx, edx
    mov r10d, 8
    mov eax, {RT_SIGPROCMASK}
    syscall
culvert_boundary_done:
    rdgsbase rcx
    mov dword ptr [rcx + {STATE}], {INSIDE}
culvert_boundary_end:
    jmp culvert_exit

    # The call with changed arguments. A signal before the system call (or one after which the
    # kernel would restart it) makes the program execute its site again; one after it finds the call
    # done.
culvert_execute_start:
    rdgsbase rcx
    CULVERT_LOAD_VECTORS
    mov rsp, [rcx + {RSP}]
    mov dword ptr [rcx + {STATE}], {BOUNDARY}
culvert_execute:
    test dword ptr [rcx + {PENDING}], {SIGNALS}
    jnz 30f
    CULVERT_LOAD_CALL
    mov r9, [rcx + {CALL} + 48]
culvert_execute_call:
    syscall
    rdgsbase rcx
    mov [rcx + {RESULT}], rax
    mov dword ptr [rcx + {STATE}], {INSIDE}
culvert_execute_end:
    jmp culvert_exit
30: mov dword ptr [rcx + {STATE}], {INSIDE}
    mov rsp, [rcx + {STACK}]
    mov rdi, rcx
    call {again}
    jmp culvert_exit

    # clone, clone3, fork, vfork on the program's own stack. r9, which none of them uses, carries
    # the child's block: a thread starts with the GS base of its maker. A signal before the system
    # call undoes the preparations and comes first, else the child would inherit the mask of a hook
    # with signals recorded.
culvert_clone_start:
    rdgsbase rcx
    CULVERT_LOAD_VECTORS
    mov rsp, [rcx + {RSP}]
culvert_clone_check:
    test dword ptr [rcx + {PENDING}], {SIGNALS}
    jnz culvert_clone_retry
    CULVERT_LOAD_CALL
    mov r9, [rcx + {CHILD}]
culvert_clone_call:
    syscall
culvert_clone_after:
    test rax, rax
    jz 31f
    mov dword ptr gs:[{STATE}], {INSIDE}
    mov gs:[{RESULT}], rax
    mov rsp, gs:[{STACK}]
    mov rdi, gs:[{THIS}]
    call {clone_parent}
    jmp culvert_exit
    # There was no memory for a block: r9 is where the thread goes on, with a mark. It runs natively
    # until `adopt` finds some. It loses r9 and flags, which no libc expects to keep across this
    # call.
32: xor ecx, ecx
    wrgsbase rcx
    mov rcx, r9
    btr rcx, 63
    jmp rcx
31: test r9, r9
    js 32b
    wrgsbase r9
culvert_clone_child_end:
    mov gs:[{RSP}], rsp
    mov qword ptr gs:[{RESULT}], 0
    mov rsp, gs:[{STACK}]
    mov rdi, gs:[{THIS}]
    call {clone_child}
    jmp culvert_exit
culvert_clone_retry:
    rdgsbase rcx
    mov rsp, [rcx + {STACK}]
    mov rdi, rcx
    call {clone_abandon}
    jmp culvert_exit
    .size culvert_entry, . - culvert_entry
    .popsection
    "#,
    dispatch = sym dispatch::dispatch,
    adopt = sym adopt::adopt,
    deliver = sym deliver::deliver,
    again = sym dispatch::again,
    clone_parent = sym clone::parent,
    clone_child = sym clone::child,
    clone_abandon = sym clone::abandon,
    ASYNCHRONOUS = sym ASYNCHRONOUS,
    THIS = const offset_of!(Frame, this),
    STACK = const offset_of!(Frame, stack),
    STATE = const offset_of!(Frame, state),
    PENDING = const offset_of!(Frame, pending),
    RSP = const offset_of!(Frame, rsp),
    RECORD = const offset_of!(Frame, record),
    FLAGS = const offset_of!(Frame, flags),
    RFLAGS = const offset_of!(Frame, rflags),
    SAVED = const offset_of!(Frame, saved),
    CALL = const offset_of!(Frame, call),
    RESULT = const offset_of!(Frame, result),
    PROGRAM_GS = const offset_of!(Frame, program_gs),
    RESUME = const offset_of!(Frame, resume),
    MXCSR = const offset_of!(Frame, mxcsr),
    MXCSR_NOW = const offset_of!(Frame, mxcsr_now),
    VECTORS = const offset_of!(Frame, vectors),
    ALTERNATE_BASE = const offset_of!(Frame, alternate_base),
    ALTERNATE_SIZE = const offset_of!(Frame, alternate_size),
    ALTERNATE_MASK = const offset_of!(Frame, alternate_mask),
    ALTERNATE_HELD = const offset_of!(Frame, alternate_held),
    USED = const offset_of!(Frame, used),
    MASK = const offset_of!(Frame, mask),
    CHILD = const offset_of!(Frame, child),
    OUTSIDE = const OUTSIDE,
    INSIDE = const INSIDE,
    BOUNDARY = const BOUNDARY,
    SIGNALS = const SIGNALS,
    FORWARD = const crate::SiteRecord::FORWARD,
    RARE_FLAGS = const RARE_FLAGS,
    EXECUTE = const EXECUTE,
    CLONE = const CLONE,
    RT_SIGPROCMASK = const nr::RT_SIGPROCMASK,
    EXIT_NUMBER = const nr::EXIT,
);
