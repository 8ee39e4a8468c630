//! Threads and processes made by hooked calls.

use super::{
    alone, handler, hook,
    signals::{SA_RESTART, SIGALRM, action, sigaction, timer},
    start, stub,
};
use crate::{
    Config, ForkHooks, Interests, Outcome, delivery::context::Context, exclusively, install,
    signal::information::Information, thread,
};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use culvert_sys::{nr, syscall};
use std::vec;

static GS: AtomicUsize = AtomicUsize::new(0);
static ANSWER: AtomicUsize = AtomicUsize::new(0);
/// Cleared and woken by the kernel at the end of a thread.
static ALIVE: AtomicU32 = AtomicU32::new(0);

extern "C" fn child() -> ! {
    GS.store(thread::gs_base(), Relaxed);
    ANSWER.store(stub::call(nr::GETUID, []) as usize, Relaxed);
    stub::call(nr::EXIT, [0]);
    unreachable!("the thread has ended");
}

/// CLONE_FILES
const FILES: usize = 0x400;

/// Makes a thread by a hooked clone and waits for its end. `files`: [`FILES`] or 0.
fn run_thread(files: usize) {
    // VM, FS, SIGHAND, THREAD, SYSVSEM, CHILD_CLEARTID
    const FLAGS: usize = 0x100 | 0x200 | 0x800 | 0x1_0000 | 0x4_0000 | 0x20_0000;
    let mut stack = vec![0usize; 32 << 10];
    // The site's `ret` leads to `child`, with a stack as after a call.
    let top = stack.len() - 4 + (stack.as_ptr() as usize / 8) % 2;
    stack[top] = child as *const () as usize;
    ALIVE.store(1, Relaxed);
    let at = (&raw const stack[top]) as usize;
    assert_eq!(at % 16, 0);
    let thread = stub::call(
        nr::CLONE,
        [FLAGS | files, at, 0, ALIVE.as_ptr() as usize, 0],
    );
    assert!(thread > 0, "{thread}");
    while ALIVE.load(Acquire) == 1 {
        // The kernel wakes shared waiters.
        // SAFETY: the word is static.
        unsafe { syscall::raw(nr::FUTEX, [ALIVE.as_ptr() as usize, 0, 1, 0, 0, 0]) };
    }
}

fn answers(call: &mut crate::Call) -> Outcome {
    if call.number == nr::GETUID {
        Outcome::Return(4711)
    } else {
        Outcome::Forward
    }
}

#[test]
fn a_thread_has_a_block_of_its_own_which_is_used_again() {
    alone(|| {
        start(answers);
        run_thread(FILES);
        let first = GS.load(Relaxed);
        assert_eq!(ANSWER.load(Relaxed), 4711);
        assert!(first != 0 && first != thread::gs_base());
        run_thread(FILES);
        assert_eq!(GS.load(Relaxed), first);
        assert_eq!(thread::used(), 1);
    });
}

#[test]
fn who_is_told_of_a_clone_can_be_alone_while_the_childs_block_is_not_in_use() {
    static TOLD: AtomicU32 = AtomicU32::new(0);
    static SAID: AtomicU32 = AtomicU32::new(0);
    alone(|| {
        hook(answers);
        let before = |_| {
            TOLD.fetch_add(1, Relaxed);
            exclusively(|| ());
        };
        let config = Config {
            handler,
            interests: &Interests::ALL,
            fork: ForkHooks {
                thread: || (),
                before,
                parent: |_, _| (),
                child: |_| (),
            },
            fresh: false,
            patch: false,
            cache_directories: &[],
            images: None,
            known_images: &[],
            said_of_program: None,
            may_make_images: || true,
            // That it waits no longer for a thread inside a hook.
            log: |_| {
                SAID.fetch_add(1, Relaxed);
            },
        };
        // SAFETY: once, in a process of its own.
        unsafe { install(config) }.expect("installed");
        run_thread(FILES);
        run_thread(0);
        run_thread(0);
        assert_eq!((TOLD.load(Relaxed), SAID.load(Relaxed)), (2, 0));
        assert_eq!(ANSWER.load(Relaxed), 4711);
    });
}

#[test]
fn a_thread_without_memory_for_a_block_runs_natively() {
    alone(|| {
        start(answers);
        thread::REFUSE.store(true, Relaxed);
        run_thread(FILES);
        assert_eq!(GS.load(Relaxed), 0);
        // SAFETY: no arguments.
        let native = unsafe { syscall::raw(nr::GETUID, [0; 6]) };
        assert_eq!(ANSWER.load(Relaxed), native as usize);
        thread::REFUSE.store(false, Relaxed);
        assert_eq!(stub::call(nr::GETUID, []), 4711);
    });
}

extern "C" fn nothing(_: usize, _: &Information, _: &mut Context) {}

fn mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: writes a mask.
    unsafe {
        syscall::raw(
            nr::RT_SIGPROCMASK,
            [0, 0, (&raw mut mask) as usize, 8, 0, 0],
        )
    };
    mask
}

#[test]
fn children_made_in_a_storm_of_signals_inherit_the_programs_mask() {
    alone(|| {
        start(answers);
        sigaction(SIGALRM, &action(nothing, SA_RESTART, 0));
        let own = mask();
        timer(90);
        for _ in 0..400 {
            let pid = stub::call(nr::FORK, []);
            if pid == 0 {
                let right = mask() == own && stub::call(nr::GETUID, []) == 4711;
                // SAFETY: ends the child.
                unsafe { syscall::raw(nr::EXIT_GROUP, [!right as usize, 0, 0, 0, 0, 0]) };
            }
            assert!(pid > 0, "{pid}");
            let mut status = 0i32;
            // SAFETY: writes a status.
            unsafe {
                while syscall::raw(
                    nr::WAIT4,
                    [pid as usize, (&raw mut status) as usize, 0, 0, 0, 0],
                ) == -4
                {}
            }
            assert_eq!(status, 0);
        }
        timer(0);
        assert_eq!(mask(), own);
    });
}

#[test]
fn a_child_with_cleared_handlers_still_survives_bad_pointers() {
    alone(|| {
        start(|call| {
            if call.number != nr::GETUID {
                return Outcome::Forward;
            }
            let read = crate::user::read::<u64>(call.args[0]);
            Outcome::Return(read.map_or(-14, |_| 0))
        });
        sigaction(SIGALRM, &action(nothing, SA_RESTART, 0));
        // CLONE_CLEAR_SIGHAND, and SIGCHLD at the end.
        let arguments = [0x1_0000_0000u64, 0, 0, 0, 17, 0, 0, 0];
        let pid = stub::call(nr::CLONE3, [arguments.as_ptr() as usize, 64]);
        if pid == 0 {
            let mut now = action(nothing, 0, 0);
            stub::call(nr::RT_SIGACTION, [SIGALRM, 0, (&raw mut now) as usize, 8]);
            let right = stub::call(nr::GETUID, [8]) == -14 && now.handler == 0;
            // SAFETY: ends the child.
            unsafe { syscall::raw(nr::EXIT_GROUP, [!right as usize, 0, 0, 0, 0, 0]) };
        }
        let mut status = 1i32;
        // SAFETY: writes a status.
        unsafe {
            syscall::raw(
                nr::WAIT4,
                [pid as usize, (&raw mut status) as usize, 0, 0, 0, 0],
            )
        };
        assert_eq!(status, 0);
    });
}
