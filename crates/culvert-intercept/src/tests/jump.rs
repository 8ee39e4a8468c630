//! setjmp around a hooked call, and longjmp.

use super::stub;
use core::{
    arch::global_asm,
    sync::atomic::{AtomicUsize, Ordering::*},
};

global_asm!(
    r#"
    .globl culvert_test_try, culvert_test_jump
    # (function rdi, argument rsi): calls it; returns after it, or after culvert_test_jump
culvert_test_try:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    sub rsp, 8
    mov [rip + {stack}], rsp
    mov rax, rdi
    mov rdi, rsi
    call rax
culvert_test_landing:
    add rsp, 8
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
culvert_test_jump:
    mov rsp, [rip + {stack}]
    jmp culvert_test_landing
    "#,
    stack = sym STACK,
);

static STACK: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn culvert_test_try(function: extern "C" fn(usize), argument: usize);
    fn culvert_test_jump() -> !;
}

extern "C" fn make(number: usize) {
    stub::call(number, []);
}

/// Makes a hooked call from which [`long_jump`] comes back here.
pub(super) fn try_call(number: usize) {
    // SAFETY: callee-saved registers are on the stack.
    unsafe { culvert_test_try(make, number) };
}

/// Abandons everything since [`try_call`].
pub(super) fn long_jump() -> ! {
    assert_ne!(STACK.load(Relaxed), 0);
    // SAFETY: the frames left behind own nothing.
    unsafe { culvert_test_jump() }
}
