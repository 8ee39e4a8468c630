//! The interrupted registers as the kernel lays them on the stack (`struct ucontext`, `struct
//! sigcontext_64` of `arch/x86/include/uapi/asm/sigcontext.h`).

use super::alternate;
use crate::{
    labels,
    thread::{self, ALTERNATE_STACK, OUTSIDE, ThreadBlock, Word},
};
use core::sync::atomic::Ordering::Relaxed;
use culvert_sys::signal::AlternateStack;

/// `struct ucontext` up to the signal mask.
#[repr(C)]
pub(crate) struct Context {
    flags: u64,
    link: usize,
    pub stack: AlternateStack,
    pub r8: usize,
    pub r9: usize,
    pub r10: usize,
    pub r11: usize,
    r12: usize,
    r13: usize,
    r14: usize,
    r15: usize,
    pub rdi: usize,
    pub rsi: usize,
    rbp: usize,
    rbx: usize,
    pub rdx: usize,
    pub rax: usize,
    pub rcx: usize,
    pub rsp: usize,
    pub rip: usize,
    pub eflags: usize,
    segments: u64,
    error: u64,
    trap: u64,
    old_mask: u64,
    cr2: u64,
    vectors: usize,
    reserved: [u64; 8],
    pub mask: u64,
}

const _: () = assert!(core::mem::offset_of!(Context, mask) == 296);

/// What a context shows when the program's registers are in the frame of its thread
/// ([`BOUNDARY`](crate::thread::BOUNDARY)).
pub(crate) enum Boundary {
    /// The call is done; rax is this.
    Done(usize),
    /// The call has not happened: it is made again after the handler.
    Before,
}

/// Whether an interruption at `rip` with the state BOUNDARY is one at the boundary itself; `None`
/// inside a signal handler of the engine on top of it.
pub(crate) fn boundary(block: &ThreadBlock, context: &Context) -> Option<Boundary> {
    let rip = context.rip;
    if (labels::boundary_done()..labels::boundary_end()).contains(&rip) {
        Some(Boundary::Done(block.frame.result.get()))
    } else if (labels::execute()..=labels::execute_call()).contains(&rip) {
        Some(Boundary::Before)
    } else if (labels::execute_call()..labels::execute_end()).contains(&rip) {
        // rax is untouched until the state changes.
        Some(Boundary::Done(context.rax))
    } else {
        None
    }
}

/// Makes the context that of the program, and the thread one that is outside.
pub(crate) fn leave(block: &ThreadBlock, context: &mut Context, boundary: &Boundary) {
    let frame = &block.frame;
    [
        context.rdi,
        context.rsi,
        context.rdx,
        context.r10,
        context.r8,
        context.r9,
    ] = frame.saved.each_ref().map(Word::get);
    let trap = context.eflags & labels::TRAP_FLAG;
    context.eflags = (frame.rflags.get() & !0x9d5) | trap | arithmetic_flags(frame.flags.get());
    let record = frame.record();
    match boundary {
        Boundary::Done(result) => {
            context.rax = *result;
            context.rip = frame.resume.get();
        }
        Boundary::Before => {
            context.rax = frame.number.get();
            context.rip = record.restart();
        }
    }
    context.rcx = context.rip;
    context.r11 = context.eflags;
    if frame.pending.load(Relaxed) & ALTERNATE_STACK != 0 {
        // rt_sigreturn gives it back.
        context.stack = alternate::taken(frame);
        frame.pending.fetch_and(!ALTERNATE_STACK, Relaxed);
    }
    frame.state.store(OUTSIDE, Relaxed);
    if frame.program_gs.get() != 0 {
        thread::set_gs_base(frame.program_gs.get());
    }
}

/// Flags as `lahf` and `seto` left them, in their places in rflags.
fn arithmetic_flags(saved: usize) -> usize {
    (saved >> 8 & 0xd5) | (saved & 1) << 11
}

/// A signal outside hooks, but in the first or last instructions of the engine: the context becomes
/// that of the program at its site.
pub(crate) fn step_out(context: &mut Context) {
    let rip = context.rip;
    if (labels::exit_done()..labels::exit_end()).contains(&rip) {
        context.rip = context.r11;
    } else if rip == labels::exit_borrowed() {
        thread::set_gs_base(context.rcx);
        context.rip = context.r11;
    } else if (labels::entry()..labels::inside()).contains(&rip) {
        if rip >= labels::swapped() {
            if rip >= labels::probe() {
                context.eflags = (context.eflags & !0x8d5) | arithmetic_flags(context.rax & 0xffff);
            }
            context.rax = context.rax.swap_bytes() as u32 as usize;
        }
        // SAFETY: r11 holds the site's record until the state is set, and records live for ever.
        context.rip = unsafe { (*(context.r11 as *const crate::SiteRecord)).restart() };
    }
}
