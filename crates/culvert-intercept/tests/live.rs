//! Rewrites this very process, its test harness and libc included, and goes on living in it.
//!
//! The entry here answers getppid with a number that is no parent's, so one sees through which
//! sites calls come, and forwards everything else.

use culvert_intercept::{Interest, patch, registry};
use std::arch::global_asm;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const GETPPID: u8 = 110;
const ANSWER: u64 = 424_242;

// Every kind of site as a function of its own, which calls getppid or, where it can, the number in
// edi.
global_asm!(
    // The first words of a record are distances from it to where the program goes on, and to where
    // the call is made.
    "live_entry: cmp $110,%eax; je 1f; movslq 4(%r11),%rcx; add %r11,%rcx; jmp *%rcx",
    "1: mov $424242,%eax; movslq (%r11),%rcx; add %r11,%rcx; jmp *%rcx",
    ".macro FUNCTION name; .globl \\name; .type \\name,@function; \\name: .cfi_startproc; \
    endbr64; .endm",
    ".macro END name; .cfi_endproc; .size \\name, . - \\name; .endm",
    ".balign 16; .skip 16, 0xcc",
    "FUNCTION live_mov; mov $110,%eax; syscall; ret; END live_mov",
    "FUNCTION live_before; mov $110,%eax; lea live_entry(%rip),%rsi; syscall; ret; END live_before",
    // The moved jcc leads out when edi is negative.
    "FUNCTION live_before_jcc; mov %edi,%eax; test %edi,%edi; js 1f; syscall; ret; 1: mov \
    $-1,%rax; ret; END live_before_jcc",
    "FUNCTION live_next; mov %edi,%eax; jmp 1f; mov $39,%eax; 1: syscall; mov %rax,%rdx; mov \
    %rdx,%rax; ret; END live_next",
    "FUNCTION live_next_ret; mov %edi,%eax; jmp 1f; nop; 1: syscall; ret; END live_next_ret",
    ".balign 16, 0xcc; .skip 16, 0xcc",
    "FUNCTION live_around; jmp 1f; nop; 1: mov %edi,%eax; syscall; jmp 2f; nop; 2: ret; END \
    live_around",
    "FUNCTION live_island; sub $8,%rsp; mov %edi,%eax; jmp 1f; nop; 1: syscall; push %rax; call \
    live_nothing; pop %rax; add $8,%rsp; ret; END live_island",
    ".skip 16, 0xcc",
    "FUNCTION live_trap; sub $8,%rsp; mov %edi,%eax; jmp 1f; nop; 1: syscall; push %rax; call \
    live_nothing; pop %rax; add $8,%rsp; ret; END live_trap",
    "FUNCTION live_nothing; ret; END live_nothing",
    options(att_syntax, raw)
);

unsafe extern "C" {
    fn live_entry();
    fn live_mov(number: u64) -> u64;
    fn live_before(number: u64) -> u64;
    fn live_before_jcc(number: u64) -> u64;
    fn live_next(number: u64) -> u64;
    fn live_next_ret(number: u64) -> u64;
    fn live_around(number: u64) -> u64;
    fn live_island(number: u64) -> u64;
    fn live_trap(number: u64) -> u64;
    fn signal(signal: i32, handler: usize) -> usize;
}

static NUMBERS: [u8; 512] = [Interest::Always as u8; 512];
static DESCRIPTORS: [u8; 65536] = [0; 65536];
static TRAPS: AtomicUsize = AtomicUsize::new(0);

/// What the engine's handler does for a `ud2` site, in short.
extern "C" fn illegal_instruction(_signal: i32, _information: *const u8, context: *mut u64) {
    const R11: usize = 5 + 3; // uc_mcontext.gregs
    const RIP: usize = 5 + 16;
    // SAFETY: the kernel's ucontext_t.
    unsafe {
        let record = registry::trap_site(*context.add(RIP) as usize)
            .expect("an illegal instruction of somebody else");
        *context.add(R11) = std::ptr::from_ref(record) as u64;
        *context.add(RIP) = live_entry as *const () as u64;
    }
    TRAPS.fetch_add(1, Relaxed);
}

#[test]
fn a_rewritten_process_lives_on() {
    const SIGILL: i32 = 4;
    // SAFETY: the handler is made for what it gets.
    unsafe { signal(SIGILL, illegal_instruction as *const () as usize) };
    let functions = [
        live_mov,
        live_before,
        live_before_jcc,
        live_next,
        live_next_ret,
        live_around,
        live_island,
        live_trap,
    ];
    let getpid = u64::from(std::process::id());
    let parent = std::os::unix::process::parent_id();
    assert_ne!(u64::from(parent), ANSWER);

    let settings = patch::Settings {
        entry: live_entry as *const () as usize,
        interest: |_| Interest::Always,
        numbers: NUMBERS.as_ptr() as usize,
        descriptors: DESCRIPTORS.as_ptr() as usize,
        own: 0, // even this program
        cache_directories: &[],
    };
    // SAFETY: the harness's other thread only waits; entry and tables are what stubs expect.
    let patched = unsafe { patch::range(&settings, 0, usize::MAX) };
    assert_eq!((patched.hard, patched.unknown), (0, 0), "{patched:?}");
    assert!(
        patched.patched.iter().all(|count| *count > 0),
        "each kind occurs: {patched:?}"
    );
    assert_eq!(
        patched.patched.iter().sum::<usize>() + patched.skipped,
        patched.sites,
        "{patched:?}"
    );
    // The code that returns from signal handlers keeps its bytes.
    assert!(patched.skipped >= 1, "{patched:?}");

    for (index, function) in functions.into_iter().enumerate() {
        // SAFETY: plain functions.
        let answered = unsafe { function(GETPPID.into()) };
        assert_eq!(answered, ANSWER, "function {index}, answered");
        if index > 1 {
            // SAFETY: as above.
            let forwarded = unsafe { function(39) };
            assert_eq!(forwarded, getpid, "function {index}, forwarded");
        }
    }
    assert_eq!(TRAPS.load(Relaxed), 2);
    // SAFETY: as above.
    assert_eq!(unsafe { live_before_jcc(u64::MAX) }, u64::MAX);
    assert_eq!(
        u64::from(std::os::unix::process::parent_id()),
        ANSWER,
        "libc's getppid"
    );

    // Files, threads, processes, signals.
    let threads: Vec<_> = (0..8)
        .map(|_| std::thread::spawn(|| std::fs::read("/proc/self/maps").unwrap().len()))
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() > 0));
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", "echo $((6 * 7))"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"42\n");

    // What is rewritten stays as it is, also after a second look.
    // SAFETY: as above.
    let again = unsafe { patch::range(&settings, 0, usize::MAX) };
    assert_eq!(again.patched, [0; 6], "{again:?}");
    assert_eq!(u64::from(std::os::unix::process::parent_id()), ANSWER);
}
