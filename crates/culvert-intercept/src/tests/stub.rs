//! A system-call site as the patcher would have left it, without the patcher.

use crate::{SiteRecord, labels};
use core::{
    arch::global_asm,
    sync::atomic::{AtomicUsize, Ordering::*},
};

global_asm!(
    r#"
    .globl culvert_test_call, culvert_test_site, culvert_test_restart, culvert_test_resume, culvert_test_forward
    # (number rdi, *arguments rsi) -> result
culvert_test_call:
    mov rax, rdi
    mov r11, rsi
    mov rdi, [r11]
    mov rsi, [r11 + 8]
    mov rdx, [r11 + 16]
    mov r10, [r11 + 24]
    mov r8, [r11 + 32]
    mov r9, [r11 + 40]
culvert_test_restart:
culvert_test_site:
    lea r11, [rip + {record}]
    jmp [rip + {entry}]
culvert_test_forward:
    syscall
culvert_test_resume:
    ret

    # For the register test: no instruction but the engine's between its loads and stores.
    .globl culvert_test_register_site, culvert_test_register_forward
culvert_test_register_site:
    lea r11, [rip + {register_record}]
    jmp [rip + {entry}]
culvert_test_register_forward:
    syscall
    jmp [rip + {back}]
    "#,
    register_record = sym REGISTER_RECORD,
    back = sym BACK,
    record = sym RECORD,
    entry = sym ENTRY,
);

unsafe extern "C" {
    fn culvert_test_call(number: usize, args: *const [usize; 6]) -> isize;
    static culvert_test_site: u8;
    static culvert_test_restart: u8;
    static culvert_test_resume: u8;
    static culvert_test_forward: u8;
    static culvert_test_register_site: u8;
    static culvert_test_register_forward: u8;
}

static mut REGISTER_RECORD: SiteRecord = SiteRecord {
    resume: 0,
    forward: 0,
    instruction: 0,
    restart: 0,
    number: -1,
};
static BACK: AtomicUsize = AtomicUsize::new(0);

/// A site from which the program goes on at `back`.
pub(super) fn register_site(back: usize) -> usize {
    site();
    let site = (&raw const culvert_test_register_site) as usize;
    let forward = (&raw const culvert_test_register_forward) as usize;
    BACK.store(back, Relaxed);
    // SAFETY: the same values every time.
    unsafe {
        REGISTER_RECORD = SiteRecord {
            resume: back,
            forward,
            instruction: forward,
            restart: site,
            number: -1,
        }
    };
    site
}

static mut RECORD: SiteRecord = SiteRecord {
    resume: 0,
    forward: 0,
    instruction: 0,
    restart: 0,
    number: -1,
};
static ENTRY: AtomicUsize = AtomicUsize::new(0);

/// Where the program goes on after a call.
pub(super) fn resume() -> usize {
    (&raw const culvert_test_resume) as usize
}

/// Fills what the site refers to and returns the site.
pub(super) fn site() -> usize {
    let site = (&raw const culvert_test_site) as usize;
    // SAFETY: the same values every time.
    unsafe {
        RECORD = SiteRecord {
            resume: resume(),
            forward: (&raw const culvert_test_forward) as usize,
            instruction: (&raw const culvert_test_forward) as usize,
            restart: (&raw const culvert_test_restart) as usize,
            number: -1,
        };
    }
    ENTRY.store(labels::entry(), Relaxed);
    site
}

/// Makes a system call through the engine.
pub(super) fn call<const N: usize>(number: usize, args: [usize; N]) -> isize {
    site();
    let mut six = [0; 6];
    six[..N].copy_from_slice(&args);
    // SAFETY: tests know what they call.
    unsafe { culvert_test_call(number, &six) }
}
