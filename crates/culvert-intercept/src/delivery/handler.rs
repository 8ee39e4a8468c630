//! The handler that the kernel knows, for all signals.

use super::{
    context::{self, Context},
    deliver, mask, refused,
};
use crate::{
    config::config,
    images, labels, quiesce, registry,
    signal::{
        ASYNCHRONOUS, NEEDED, SIGBUS, SIGILL,
        actions::{self, Disposition},
        bit,
        information::Information,
        raise, set_mask,
    },
    thread::{self, BOUNDARY, INSIDE, OUTSIDE, SIGNALS, ThreadBlock},
    user, wait,
};
use core::{
    arch::{asm, global_asm},
    sync::atomic::{
        Ordering::{Relaxed, Release, SeqCst},
        compiler_fence,
    },
};
use culvert_sys::signal::Action;

global_asm!(
    r#"
    .pushsection .text.culvert_signal, "ax", @progbits
    .balign 16
    .globl culvert_signal, culvert_signal_return
    .hidden culvert_signal, culvert_signal_return
    .type culvert_signal, @function
culvert_signal:
    push rdi
    push rsi
    push rdx
    call {on_signal}
    pop rdx
    pop rsi
    pop rdi
    test rax, rax
    jz 2f
    mov r11, rax
    xor eax, eax
    jmp r11
    # Not by the program's own restorer, which is libc's: where that lies in an image that was cut,
    # nobody could go back to a hook whose stack this is not. The shadow stack, where there is one,
    # has the restorer's address, too.
2:  rdsspq rax
    test rax, rax
    jz 3f
    mov eax, 1
    incsspq rax
3:  add rsp, 8
    jmp culvert_signal_return
    .size culvert_signal, . - culvert_signal

    # For signals whose frame is not the program's: where a handler returns to.
    .balign 16
    nop
    .type culvert_signal_return, @function
culvert_signal_return:
    mov rax, 15
    syscall
    .size culvert_signal_return, . - culvert_signal_return
    .popsection
    "#,
    on_signal = sym on_signal,
);

/// Returns the program's handler to jump to on the same frame, or 0 to return.
extern "C" fn on_signal(
    signal: usize,
    information: &mut Information,
    context: &mut Context,
) -> usize {
    let fault = bit(signal) & NEEDED != 0 && information.is_fault();
    // First, as a copy of the engine's may read an image.
    let is_mended = fault
        && signal == SIGBUS
        && images::may_mend(information.address())
        && mend(information.address(), context);
    if is_mended || fault && fix_up(signal, information, context) {
        return 0;
    }
    let block = interrupted(context);
    let refusal = refused::is_refusal(signal, information);
    if let Some(block) = block {
        if fault && block.frame.state.load(Relaxed) != OUTSIDE {
            // A defect of ours or of a driver: let it be seen.
            (config().log)(b"a defect: a fault inside a hook; the process ends");
            actions::fall_to_default(signal);
            return 0;
        }
        if parent_after_clone(context) {
            // What a vfork child has left in the block.
            block.frame.state.store(INSIDE, Relaxed);
        }
        match block.frame.state.load(Relaxed) {
            OUTSIDE => context::step_out(context),
            BOUNDARY => match context::boundary(block, context) {
                Some(boundary) => {
                    context::leave(block, context, &boundary);
                    if refusal {
                        refused::from_engine(block, information);
                    }
                    return after_boundary(block, signal, information, context);
                }
                None => return inside(block, refusal, information, context),
            },
            _ => return inside(block, refusal, information, context),
        }
    }
    run(block, signal, information, context, fault)
}

/// A fault that is the engine's own business: in a user copy, at a `ud2` site, at a GS base that is
/// not ours.
fn fix_up(signal: usize, information: &Information, context: &mut Context) -> bool {
    if signal == SIGILL {
        // A site too short for a jump: go where its stub would have gone.
        let Some(record) = registry::trap_site(context.rip) else {
            return false;
        };
        context.r11 = core::ptr::from_ref(record) as usize;
        context.rip = labels::entry();
        if let Some(number) = record.number() {
            context.rax = number;
        }
        return true;
    }
    if let Some(landing) = user::landing(context.rip) {
        if user::landing_takes_address(landing) {
            context.rdx = information.address();
        }
        context.rip = landing;
        return true;
    }
    if context.rip == labels::probe() {
        context.rip = labels::foreign();
        return true;
    }
    false
}

/// Makes an image again that was cut, as a hook does it: forks wait for it, and no signal comes
/// meanwhile, neither for the program nor with a frame on this one's. It has the hook stack, as an
/// alternate one may be too small. Not in a thread whose block is not at hand.
///
/// All signals stay blocked when that is done, until this frame is gone (rt_sigreturn(2)): the way
/// there is the engine's own.
fn mend(address: usize, context: &Context) -> bool {
    const RED_ZONE: usize = 128;
    let Some(block) = thread::own() else {
        return false;
    };
    let frame = &block.frame;
    let mask = set_mask(!0);
    let state = frame.state.load(Relaxed);
    // Where a fault in a hook has its frame: on the hook stack, where there is no alternate one.
    let here = core::ptr::from_ref(&mask) as usize;
    let is_here = block.is_on_hook_stack(here);
    let lowest = match state {
        _ if is_here => here,
        _ if block.is_on_hook_stack(context.rsp) => context.rsp - RED_ZONE,
        // Nobody knows where that hook goes on.
        INSIDE => 0,
        // Nothing is on it, at the boundary either.
        _ => frame.stack.get(),
    };
    let is_mended = block.has_room_below(lowest) && {
        frame.state.store(INSIDE, Relaxed);
        compiler_fence(SeqCst);
        if state != INSIDE && quiesce::is_forking() {
            quiesce::wait(block);
        }
        let is_mended = match is_here {
            true => images::mend(address),
            // SAFETY: the thread's own hook stack, which nobody uses below.
            false => unsafe { mend_on(lowest & !15, address) },
        };
        frame.state.store(state, Release);
        is_mended
    };
    if !is_mended {
        set_mask(mask);
    }
    is_mended
}

/// [`images::mend`] on another stack, which begins at `top`.
///
/// # Safety
/// Nobody uses what is below `top`, a multiple of 16.
unsafe fn mend_on(top: usize, address: usize) -> bool {
    extern "C" fn run(address: usize) -> usize {
        images::mend(address).into()
    }
    let result: usize;
    // SAFETY: the caller's promise; r12 stays as it is across the call.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {run}",
            "mov rsp, r12",
            top = in(reg) top,
            run = sym run,
            in("rdi") address,
            lateout("rax") result,
            out("r12") _,
            clobber_abi("C"),
        );
    }
    result != 0
}

/// The block of the thread that was interrupted; `None` when it has none.
fn interrupted(context: &Context) -> Option<&'static ThreadBlock> {
    // A new thread starts with its maker's GS base, its own block being in r9. Signals delivered at
    // the same moment lie on top of each other: the upper one interrupts the first instruction of
    // this handler, whose third argument is the lower context.
    let mut context = context;
    while context.rip == labels::signal_handler() {
        // SAFETY: at its first instruction the handler's arguments are as the kernel set them.
        context = unsafe { &*(context.rdx as *const Context) };
    }
    if (labels::clone_after()..labels::clone_child_end()).contains(&context.rip) && context.rax == 0
    {
        return thread::at(context.r9);
    }
    thread::own()
}

fn parent_after_clone(context: &Context) -> bool {
    (labels::clone_after()..labels::clone_child_end()).contains(&context.rip) && context.rax != 0
}

fn inside(
    block: &ThreadBlock,
    refusal: bool,
    information: &mut Information,
    context: &mut Context,
) -> usize {
    if !refusal || refused::is_the_programs(block, information, context) {
        record(block, information, context);
    }
    0
}

/// A signal inside a hook: for later. Everything asynchronous is blocked from the return of this
/// handler on.
fn record(block: &ThreadBlock, information: &Information, context: &mut Context) {
    block.recorded.add(information);
    // A handler that interrupted another handler sees a larger mask, so the intersection of all is
    // the program's own.
    let first = block.frame.pending.load(Relaxed) & SIGNALS == 0;
    let others = if first { !0 } else { block.frame.mask.get() };
    block.frame.mask.set(others & context.mask as usize);
    block.frame.pending.fetch_or(SIGNALS, Relaxed);
    context.mask |= ASYNCHRONOUS;
    let rip = context.rip;
    if (labels::exit()..labels::exit_done()).contains(&rip)
        || (labels::exit_rare()..labels::exit_rare_end()).contains(&rip)
    {
        context.rip = labels::exit();
    } else if let Some((landing, begun)) = wait::landing(rip, context.rcx) {
        context.rip = landing;
        if begun {
            wait::begins(block);
        }
    } else if (labels::clone_check()..=labels::clone_call()).contains(&rip) {
        context.rip = labels::clone_retry();
    }
}

/// The signal has met the program at the boundary. Others that interrupted this handler before the
/// thread was outside were recorded.
fn after_boundary(
    block: &ThreadBlock,
    signal: usize,
    information: &mut Information,
    context: &mut Context,
) -> usize {
    let handler = run(Some(block), signal, information, context, false);
    if block.frame.pending.load(Relaxed) & SIGNALS != 0 {
        deliver::on_top(block);
    }
    handler
}

fn run(
    block: Option<&ThreadBlock>,
    signal: usize,
    information: &mut Information,
    context: &mut Context,
    fault: bool,
) -> usize {
    let table = block.map_or_else(actions::of_process, ThreadBlock::actions);
    let Action { handler, flags, .. } = table.get(signal);
    let needed = bit(signal) & NEEDED != 0;
    if needed && block.is_some_and(|block| mask::is_blocked(block, signal)) {
        if fault {
            // As `force_sig_info_to_task` does with a blocked signal.
            actions::fall_to_default(signal);
        } else if let Some(block) = block {
            mask::keep_back(block, information);
        }
        return 0;
    }
    match Disposition::of(handler) {
        Disposition::Ignore if !fault => 0,
        Disposition::Handler => {
            if flags & actions::SA_RESETHAND != 0 {
                table.reset(signal);
            }
            if refused::is_refusal(signal, information) {
                refused::show(information, context);
            }
            handler
        }
        _ => {
            // Let it happen natively. A fault repeats itself, other signals are raised again.
            actions::fall_to_default(signal);
            if !fault {
                raise(information);
            }
            0
        }
    }
}
