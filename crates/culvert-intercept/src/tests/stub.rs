//! A system-call site as the patcher would have left it, without the patcher.

use crate::{Places, SiteRecord, labels};
use core::{
    arch::global_asm,
    sync::atomic::{AtomicU8, AtomicUsize, Ordering::*},
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

/// Room for a record.
#[repr(align(8))]
struct Room([AtomicU8; SiteRecord::SIZE]);

impl Room {
    const fn new() -> Self {
        Self([const { AtomicU8::new(0) }; SiteRecord::SIZE])
    }

    /// Writes the record of these places, with no number: the same every time.
    fn set(&self, places: &Places) {
        let record = SiteRecord::new(&raw const *self as u64, places, -1).expect("in reach");
        for (byte, new) in self.0.iter().zip(record.to_bytes()) {
            byte.store(new, Relaxed);
        }
    }
}

static REGISTER_RECORD: Room = Room::new();
static BACK: AtomicUsize = AtomicUsize::new(0);

/// A site from which the program goes on at `back`.
pub(super) fn register_site(back: usize) -> usize {
    site();
    let site = (&raw const culvert_test_register_site) as usize;
    let forward = (&raw const culvert_test_register_forward) as usize;
    BACK.store(back, Relaxed);
    REGISTER_RECORD.set(&Places {
        resume: back as u64,
        forward: forward as u64,
        instruction: forward as u64,
        restart: site as u64,
    });
    site
}

static RECORD: Room = Room::new();
static ENTRY: AtomicUsize = AtomicUsize::new(0);

/// Where the program goes on after a call.
pub(super) fn resume() -> usize {
    (&raw const culvert_test_resume) as usize
}

/// Fills what the site refers to and returns the site.
pub(super) fn site() -> usize {
    let site = (&raw const culvert_test_site) as usize;
    let forward = (&raw const culvert_test_forward) as u64;
    RECORD.set(&Places {
        resume: resume() as u64,
        forward,
        instruction: forward,
        restart: (&raw const culvert_test_restart) as u64,
    });
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
