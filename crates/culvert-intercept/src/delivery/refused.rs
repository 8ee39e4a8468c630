//! SIGSYS for calls that a seccomp filter refuses (SECCOMP_RET_TRAP): what the program's handler
//! sees is what it would see natively.
//!
//! si_call_addr and rip are behind the program's own instruction, rax holds the number, the other
//! registers are the program's: Chromium's handler compares them, makes up the call's result, and
//! puts it into rax of the context.

use super::context::Context;
use crate::{
    registry,
    signal::{SIGSYS, information::Information},
    thread::{SIGNALS, ThreadBlock},
};
use core::{arch::global_asm, sync::atomic::Ordering::Relaxed};
use culvert_sys::Errno;

/// `SYS_SECCOMP` (include/uapi/asm-generic/siginfo.h).
const SYS_SECCOMP: i32 = 1;

global_asm!(
    r#"
    .pushsection .text.culvert_signal, "ax", @progbits
    .balign 16
    .globl culvert_refused_return
    .hidden culvert_refused_return
    .type culvert_refused_return, @function
    # Instead of the program's restorer; rsp is at the context.
culvert_refused_return:
    mov rdi, rsp
    call {go_back}
    mov eax, 15
    syscall
    .size culvert_refused_return, . - culvert_refused_return
    .popsection
    "#,
    go_back = sym go_back,
);

unsafe extern "C" {
    static culvert_refused_return: u8;
}

pub(super) fn is_refusal(signal: usize, information: &Information) -> bool {
    signal == SIGSYS && information.code() == SYS_SECCOMP
}

/// In a hook: the engine's own call fails. Whether it is the program's, whose SIGSYS is to come at
/// the end of the hook: where filters are known that one was allowed, and the program never made
/// the others.
pub(super) fn is_the_programs(
    block: &ThreadBlock,
    information: &mut Information,
    context: &mut Context,
) -> bool {
    context.rax = Errno::ENOSYS.negated() as usize;
    let frame = &block.frame;
    if frame.refused.get() != 0
        || block.filters.is_some()
        || information.number() as usize != frame.number.get()
    {
        return false;
    }
    frame.refused.set(1);
    information.set_address(frame.record().behind());
    true
}

/// At the boundary: the engine has made the call at another place.
pub(super) fn from_engine(block: &ThreadBlock, information: &mut Information) {
    information.set_address(block.frame.record().behind());
}

/// The context is the program's. Where its instruction was moved, the context shows where it was,
/// and is put right when the handler returns.
pub(super) fn show(information: &mut Information, context: &mut Context) {
    let Some(record) = registry::moved_to(context.rip) else {
        return;
    };
    context.rip = record.behind();
    context.rcx = context.rip;
    information.set_address(context.rip);
    // SAFETY: `struct rt_sigframe` (arch/x86/include/asm/sigframe.h): the restorer stands right
    // below the context.
    unsafe {
        core::ptr::from_mut(context)
            .cast::<usize>()
            .sub(1)
            .write((&raw const culvert_refused_return) as usize);
    }
}

/// The handler returns, maybe to somewhere else.
extern "C" fn go_back(context: &mut Context) {
    if let Some(record) = registry::moved_from(context.rip) {
        context.rip = if context.rip == record.behind() {
            record.resume()
        } else {
            record.restart()
        };
    }
}

/// On the way out of a hook with signals recorded: the call has not happened.
pub(super) fn undo(block: &ThreadBlock) {
    let frame = &block.frame;
    if frame.refused.get() != 0 && frame.pending.load(Relaxed) & SIGNALS != 0 {
        frame.result.set(frame.number.get());
        frame.resume.set(frame.record().resume());
    }
}
