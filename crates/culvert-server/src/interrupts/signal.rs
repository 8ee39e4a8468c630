//! The signal that ends what a thread waits in: its handler does nothing.

use crate::report::report;
use culvert_sys::{
    process,
    signal::{Action, set_action},
};

/// `SIGSTKFLT`, which nobody uses: libraries in the process keep theirs (Go's runtime stops its
/// threads by SIGURG), and real-time signals would queue. It goes to threads of this process alone
/// and is handled before that, so that a late one harms nobody.
const SIGNAL: u32 = 16;

/// Sends it to `thread`, one of ours.
pub fn send(thread: i32) {
    let _ = process::tgkill(process::getpid(), thread as u32, SIGNAL);
}

extern "C" fn nothing(_: i32) {}

/// Where the kernel lets a handler return to: rt_sigreturn(2).
#[unsafe(naked)]
extern "C" fn restore() {
    core::arch::naked_asm!("mov eax, 15", "syscall");
}

/// Installs the handler. Without `SA_RESTART`: calls end with `EINTR`. On the alternate stack,
/// where the thread has one: a driver in Go runs on stacks of a few KiB, and what the kernel puts
/// on them for a handler reaches into what lies below.
pub fn handle() {
    const SA_RESTORER: u64 = 0x0400_0000;
    const SA_ONSTACK: u64 = 0x0800_0000;
    let action = Action {
        handler: nothing as *const () as usize,
        flags: SA_RESTORER | SA_ONSTACK,
        restorer: restore as *const () as usize,
        mask: 0,
    };
    // SAFETY: the handler does nothing, and the restorer is one.
    if let Err(error) = unsafe { set_action(SIGNAL, &action) } {
        report(format_args!(
            "waiting calls of the driver are not interrupted: {}",
            error.name()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupts::Interrupts;
    use culvert_sys::signal::{AlternateStack, action, set_alternate_stack};

    /// What Go's runtime relies on.
    #[test]
    fn the_handler_leaves_a_small_stack_and_other_signals_alone() {
        const SIGURG: u32 = 23;
        const SS_DISABLE: i32 = 2;
        let before = action(SIGURG).unwrap();
        let _interrupts = Interrupts::new();
        assert_eq!(action(SIGURG).unwrap(), before);
        std::thread::spawn(|| {
            let memory = vec![0xaa_u8; 1 << 16].leak();
            let mut stack = AlternateStack {
                base: memory.as_ptr() as usize,
                flags: 0,
                size: memory.len(),
            };
            // SAFETY: it is this thread's alone, and is left to nobody.
            unsafe { set_alternate_stack(&stack) }.unwrap();
            send(process::gettid() as i32);
            stack.flags = SS_DISABLE;
            // SAFETY: nobody runs on it any more; its memory is never given back.
            unsafe { set_alternate_stack(&stack) }.unwrap();
            let memory = std::hint::black_box(memory);
            assert!(memory.iter().any(|byte| *byte != 0xaa), "on the thread's");
        })
        .join()
        .unwrap();
    }
}
