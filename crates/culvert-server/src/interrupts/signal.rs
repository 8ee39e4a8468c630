//! The signal that ends what a thread waits in: its handler does nothing.

use crate::report::report;
use culvert_sys::{nr, process, syscall};

/// `SIGURG`: ignored where nobody handles it, so that a late one harms nobody.
const SIGNAL: usize = 23;

/// Sends it to `thread`, one of ours.
pub fn send(thread: i32) {
    let _ = process::tgkill(process::getpid(), thread as u32, SIGNAL as u32);
}

extern "C" fn nothing(_: i32) {}

/// Where the kernel lets a handler return to: rt_sigreturn(2).
#[unsafe(naked)]
extern "C" fn restore() {
    core::arch::naked_asm!("mov eax, 15", "syscall");
}

/// Installs the handler. Without `SA_RESTART`: calls end with `EINTR`.
pub fn handle() {
    const SA_RESTORER: u64 = 0x0400_0000;
    let action: [u64; 4] = [
        nothing as *const () as u64,
        SA_RESTORER,
        restore as *const () as u64,
        0,
    ];
    // SAFETY: `struct sigaction` of the kernel (handler, flags, restorer, mask), which outlives the
    // call; the handler does nothing.
    let done = unsafe {
        let arguments = [SIGNAL, action.as_ptr() as usize, 0, size_of::<u64>()];
        syscall::call(nr::RT_SIGACTION, arguments)
    };
    if let Err(error) = done {
        report(format_args!(
            "waiting calls of the driver are not interrupted: {}",
            error.name()
        ));
    }
}
