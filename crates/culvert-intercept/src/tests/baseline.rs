//! The functions that compiled code calls for moving memory, in baseline instructions, as they are
//! in a freestanding library. A test is linked with a libc whose own use AVX-512 registers, which
//! hooks may not touch.

core::arch::global_asm!(
    r#"
    .globl memcpy, memmove, memset, memcmp, bcmp
    .type memcpy, @function
    .type memmove, @function
    .type memset, @function
    .type memcmp, @function
    .type bcmp, @function
memcpy:
    mov rax, rdi
    mov rcx, rdx
    rep movsb
    ret
memmove:
    mov rax, rdi
    mov rcx, rdi
    sub rcx, rsi
    cmp rcx, rdx
    mov rcx, rdx
    jb 2f
    rep movsb
    ret
2:  lea rdi, [rdi + rdx - 1]
    lea rsi, [rsi + rdx - 1]
    std
    rep movsb
    cld
    ret
memset:
    mov r8, rdi
    mov eax, esi
    mov rcx, rdx
    rep stosb
    mov rax, r8
    ret
memcmp:
bcmp:
    xor eax, eax
    mov rcx, rdx
    cmp rax, rax
    repe cmpsb
    je 3f
    movzx eax, byte ptr [rdi - 1]
    movzx ecx, byte ptr [rsi - 1]
    sub eax, ecx
3:  ret
    "#
);
