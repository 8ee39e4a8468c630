//! Signals reach the program at its system calls, never inside a hook, with its own registers in
//! the context.

use super::{alone, hook, jump, start, start_fresh, stub};
use crate::{
    Outcome,
    delivery::context::Context,
    labels,
    signal::{SIGBUS, SIGILL, SIGSEGV, bit, information::Information},
    thread::{OUTSIDE, current},
    user,
};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use culvert_sys::{
    nr,
    signal::{Action, AlternateStack},
    syscall,
};
use std::vec;

pub(super) const SIGHUP: usize = 1;
pub(super) const SIGUSR1: usize = 10;
pub(super) const SIGUSR2: usize = 12;
pub(super) const SIGALRM: usize = 14;
pub(super) const SA_RESTORER: u64 = 0x0400_0000;
pub(super) const SA_ONSTACK: u64 = 0x0800_0000;
pub(super) const SA_RESTART: u64 = 0x1000_0000;
pub(super) const SA_NODEFER: u64 = 0x4000_0000;
pub(super) const SA_RESETHAND: u64 = 0x8000_0000;

pub(super) type ProgramHandler = extern "C" fn(usize, &Information, &mut Context);

pub(super) fn action(handler: ProgramHandler, flags: u64, mask: u64) -> Action {
    Action {
        handler: handler as usize,
        flags: flags | SA_RESTORER | 4,
        restorer: labels::signal_restorer(),
        mask,
    }
}

/// rt_sigaction through the engine; returns the old action.
pub(super) fn sigaction(signal: usize, new: &Action) -> Action {
    let mut old = Action {
        handler: 9,
        flags: 9,
        restorer: 9,
        mask: 9,
    };
    assert_eq!(
        stub::call(
            nr::RT_SIGACTION,
            [
                signal,
                core::ptr::from_ref(new) as usize,
                (&raw mut old) as usize,
                8
            ]
        ),
        0
    );
    old
}

/// Sends this thread a signal, directly.
pub(super) fn send(signal: usize) {
    // SAFETY: numbers.
    unsafe {
        let process = syscall::raw(nr::GETPID, [0; 6]) as usize;
        let thread = syscall::raw(nr::GETTID, [0; 6]) as usize;
        syscall::raw(nr::TGKILL, [process, thread, signal, 0, 0, 0]);
    }
}

/// SIGALRM for this thread every `microseconds`; 0 ends it.
pub(super) fn timer(microseconds: u64) {
    const SIGEV_THREAD_ID: u64 = 4;
    static TIMER: AtomicU32 = AtomicU32::new(u32::MAX);
    // SAFETY: structures of ours.
    unsafe {
        if TIMER.load(Relaxed) == u32::MAX {
            let event = [
                0,
                SIGALRM as u64 | SIGEV_THREAD_ID << 32,
                syscall::raw(nr::GETTID, [0; 6]) as u64,
                0,
                0,
                0,
                0,
                0,
            ];
            let mut timer = 0u32;
            syscall::call(
                nr::TIMER_CREATE,
                [1, event.as_ptr() as usize, (&raw mut timer) as usize],
            )
            .expect("a timer");
            TIMER.store(timer, Relaxed);
        }
        let interval = [0u64, microseconds * 1000, 0, microseconds * 1000];
        syscall::call(
            nr::TIMER_SETTIME,
            [
                TIMER.load(Relaxed) as usize,
                0,
                interval.as_ptr() as usize,
                0,
            ],
        )
        .expect("set");
    }
}

pub(super) fn sigprocmask(how: usize, mask: u64) -> u64 {
    let mut old = 0u64;
    assert_eq!(
        stub::call(
            nr::RT_SIGPROCMASK,
            [how, (&raw const mask) as usize, (&raw mut old) as usize, 8]
        ),
        0
    );
    old
}

/// The real mask.
pub(super) fn kernel_mask() -> u64 {
    let mut old = 0u64;
    // SAFETY: writes a mask.
    unsafe { syscall::raw(nr::RT_SIGPROCMASK, [0, 0, (&raw mut old) as usize, 8, 0, 0]) };
    old
}

pub(super) static RAN: AtomicU32 = AtomicU32::new(0);
pub(super) static RIP: AtomicUsize = AtomicUsize::new(0);
pub(super) static RAX: AtomicUsize = AtomicUsize::new(0);
pub(super) static MASK: AtomicU64 = AtomicU64::new(0);
pub(super) static ORDER: AtomicU64 = AtomicU64::new(0);

pub(super) extern "C" fn note(signal: usize, information: &Information, context: &mut Context) {
    assert_eq!(signal, information.signal());
    assert_eq!(current().frame.state.load(Relaxed), OUTSIDE);
    RAN.fetch_add(1, Relaxed);
    RIP.store(context.rip, Relaxed);
    RAX.store(context.rax, Relaxed);
    MASK.store(kernel_mask(), Relaxed);
    ORDER.store(ORDER.load(Relaxed) << 8 | signal as u64, Relaxed);
}

#[test]
fn a_signal_during_a_hook_is_delivered_behind_the_call() {
    alone(|| {
        start(|call| match call.number {
            nr::GETUID => {
                send(SIGUSR1);
                assert_eq!(RAN.load(Relaxed), 0, "not inside");
                Outcome::Return(4711)
            }
            _ => Outcome::Forward,
        });
        sigaction(SIGUSR1, &action(note, 0, bit(SIGHUP)));
        let before = kernel_mask();
        assert_eq!(stub::call(nr::GETUID, []), 4711);
        assert_eq!(RAN.load(Relaxed), 1);
        assert_eq!(
            (RIP.load(Relaxed), RAX.load(Relaxed)),
            (stub::resume(), 4711)
        );
        assert_eq!(
            MASK.load(Relaxed),
            before | bit(SIGUSR1) | bit(SIGHUP),
            "the mask of the handler"
        );
        assert_eq!(kernel_mask(), before, "the mask afterwards");
    });
}

#[test]
fn several_signals_during_a_hook_all_arrive() {
    alone(|| {
        start(|call| match call.number {
            nr::GETUID => {
                send(SIGUSR1);
                send(SIGUSR2);
                send(SIGHUP);
                Outcome::Return(1)
            }
            _ => Outcome::Forward,
        });
        for signal in [SIGUSR1, SIGUSR2, SIGHUP] {
            sigaction(signal, &action(note, 0, 0));
        }
        for round in 1..100 {
            assert_eq!(stub::call(nr::GETUID, []), 1);
            assert_eq!(RAN.load(Relaxed), 3 * round);
            assert_eq!(RIP.load(Relaxed), stub::resume());
        }
    });
}

#[test]
fn a_blocked_signal_waits_until_the_program_lets_it_in() {
    alone(|| {
        start(|call| match call.number {
            nr::GETUID => {
                send(SIGUSR1);
                Outcome::Return(1)
            }
            _ => Outcome::Forward,
        });
        sigaction(SIGUSR1, &action(note, 0, 0));
        sigprocmask(0, bit(SIGUSR1));
        stub::call(nr::GETUID, []);
        assert_eq!(RAN.load(Relaxed), 0);
        sigprocmask(1, bit(SIGUSR1));
        assert_eq!(RAN.load(Relaxed), 1);
    });
}

extern "C" fn makes_calls(_: usize, _: &Information, _: &mut Context) {
    RAN.fetch_add(1, Relaxed);
    assert_eq!(
        stub::call(nr::GETGID, []),
        77,
        "the handler's own call is hooked"
    );
}

#[test]
fn a_handler_may_make_hooked_calls() {
    alone(|| {
        start(|call| match call.number {
            nr::GETUID => {
                send(SIGUSR1);
                Outcome::Return(4711)
            }
            nr::GETGID => Outcome::Return(77),
            _ => Outcome::Forward,
        });
        sigaction(SIGUSR1, &action(makes_calls, 0, 0));
        for _ in 0..10 {
            assert_eq!(stub::call(nr::GETUID, []), 4711);
        }
        send(SIGUSR1); // and outside
        assert_eq!(RAN.load(Relaxed), 11);
    });
}

extern "C" fn jumps(_: usize, _: &Information, _: &mut Context) {
    RAN.fetch_add(1, Relaxed);
    jump::long_jump();
}

#[test]
fn a_long_jump_out_of_a_handler_leaves_the_thread_usable() {
    alone(|| {
        start(|call| match call.number {
            nr::GETUID => {
                send(SIGUSR1);
                Outcome::Return(4711)
            }
            nr::GETGID => Outcome::Return(77),
            _ => Outcome::Forward,
        });
        sigaction(SIGUSR1, &action(jumps, SA_NODEFER, 0));
        for round in 1..50 {
            jump::try_call(nr::GETUID);
            assert_eq!(RAN.load(Relaxed), round);
            assert_eq!(stub::call(nr::GETGID, []), 77);
            assert_eq!(current().frame.state.load(Relaxed), OUTSIDE);
        }
    });
}

#[test]
fn the_old_action_is_the_programs_own() {
    alone(|| {
        start(|_| Outcome::Forward);
        let first = action(note, SA_RESTART | SA_ONSTACK, bit(SIGHUP) | bit(SIGSEGV));
        let second = Action {
            handler: 1,
            flags: 0,
            restorer: 0,
            mask: 0,
        };
        for signal in [SIGUSR1, SIGILL, SIGBUS] {
            sigaction(signal, &first);
            assert_eq!(sigaction(signal, &second), first, "{signal}");
            assert_eq!(sigaction(signal, &first), second, "{signal}");
        }
        let bad = [
            (0, 8, -22),
            (65, 8, -22),
            (9, 8, -22),
            (19, 8, -22),
            (SIGUSR1, 4, -22),
        ];
        for (signal, size, errno) in bad {
            assert_eq!(
                stub::call(
                    nr::RT_SIGACTION,
                    [signal, (&raw const first) as usize, 0, size]
                ),
                errno
            );
        }
        assert_eq!(stub::call(nr::RT_SIGACTION, [SIGUSR1, 16, 0, 8]), -14);
        assert_eq!(stub::call(nr::RT_SIGACTION, [SIGUSR1, 0, 16, 8]), -14);
    });
}

#[test]
fn flags_of_an_action_hold() {
    alone(|| {
        start(|call| match call.number {
            nr::GETUID => {
                send(SIGUSR1);
                Outcome::Return(1)
            }
            _ => Outcome::Forward,
        });
        let before = kernel_mask();
        sigaction(SIGUSR1, &action(note, SA_NODEFER, 0));
        stub::call(nr::GETUID, []);
        assert_eq!(MASK.load(Relaxed), before, "SA_NODEFER");
        sigaction(SIGUSR1, &action(note, SA_RESETHAND, 0));
        stub::call(nr::GETUID, []);
        assert_eq!(RAN.load(Relaxed), 2);
        let ignore = Action {
            handler: 1,
            flags: 0,
            restorer: 0,
            mask: 0,
        };
        assert_eq!(sigaction(SIGUSR1, &ignore).handler, 0, "SA_RESETHAND");
        stub::call(nr::GETUID, []);
        assert_eq!(RAN.load(Relaxed), 2, "SIG_IGN");
    });
}

#[test]
fn a_storm_of_signals_loses_nothing_and_changes_nothing() {
    alone(|| {
        start(|call| match call.number {
            nr::GETUID => Outcome::Return(call.args[0] as isize + 1),
            nr::GETPGRP => {
                call.number = nr::GETPPID;
                Outcome::Forward
            }
            nr::GETGID => Outcome::Return(77),
            _ => Outcome::Forward,
        });
        sigaction(SIGALRM, &action(makes_calls, SA_RESTART, 0));
        timer(60);
        // SAFETY: a number.
        let parent = unsafe { syscall::raw(nr::GETPPID, [0; 6]) };
        let mut calls = 0;
        while RAN.load(Relaxed) < 3000 {
            for i in 0..100 {
                assert_eq!(stub::call(nr::GETUID, [i]), i as isize + 1);
                assert_eq!(stub::call(nr::GETPPID, []), parent);
                assert_eq!(stub::call(nr::GETPGRP, []), parent);
            }
            calls += 1;
        }
        assert!(calls > 0);
        timer(0);
    });
}

#[test]
fn masks_read_back_as_the_program_set_them_but_needed_signals_stay_unblocked() {
    alone(|| {
        start(|_| Outcome::Forward);
        let old = sigprocmask(2, !0);
        assert_eq!(
            kernel_mask() & (bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL)),
            0
        );
        let all = !(bit(9) | bit(19));
        assert_eq!(sigprocmask(1, bit(SIGSEGV)), all);
        assert_eq!(sigprocmask(0, bit(SIGUSR1)), all & !bit(SIGSEGV));
        assert_eq!(sigprocmask(2, old), all & !bit(SIGSEGV));
        assert_eq!(sigprocmask(0, 0), old);
        // A bad pointer is still an error while all of them are blocked.
        sigprocmask(2, !0);
        hook(|call| Outcome::Return(user::read::<u64>(call.args[0]).map_or(-14, |_| 0)));
        assert_eq!(stub::call(nr::GETUID, [8]), -14);
    });
}

#[test]
fn a_needed_signal_that_was_sent_while_blocked_arrives_when_let_in() {
    alone(|| {
        start(|_| Outcome::Forward);
        sigaction(SIGSEGV, &action(note, 0, 0));
        sigprocmask(0, bit(SIGSEGV));
        send(SIGSEGV);
        assert_eq!(RAN.load(Relaxed), 0);
        sigprocmask(1, bit(SIGSEGV));
        assert_eq!(RAN.load(Relaxed), 1);
    });
}

static STACKS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

extern "C" fn nests(signal: usize, _: &Information, _: &mut Context) {
    let here = 0u8;
    let depth = RAN.fetch_add(1, Relaxed) as usize;
    STACKS[depth].store((&raw const here) as usize, Relaxed);
    let canary = vec![depth as u8; 64];
    let mut local = [0u8; 64];
    local.copy_from_slice(&canary);
    if signal != SIGUSR2 {
        stub::call(
            nr::GETUID,
            [if signal == SIGHUP { SIGUSR1 } else { SIGUSR2 }],
        );
        stub::call(nr::GETGID, []);
    }
    assert_eq!(local, canary[..], "frames of depth {depth}");
}

#[test]
fn nested_handlers_on_the_alternate_stack_do_not_overwrite_each_other() {
    alone(|| {
        start(|call| match call.number {
            nr::GETUID => {
                send(call.args[0]);
                Outcome::Return(1)
            }
            nr::GETGID => Outcome::Return(77),
            _ => Outcome::Forward,
        });
        let memory = vec![0u8; 256 << 10];
        let stack = AlternateStack {
            base: memory.as_ptr() as usize,
            flags: 0,
            size: memory.len(),
        };
        assert_eq!(
            stub::call(nr::SIGALTSTACK, [(&raw const stack) as usize, 0]),
            0
        );
        for signal in [SIGHUP, SIGUSR1, SIGUSR2] {
            sigaction(signal, &action(nests, SA_ONSTACK, 0));
        }
        let before = kernel_mask();
        stub::call(nr::GETUID, [SIGHUP]);
        assert_eq!(RAN.load(Relaxed), 3);
        let [first, second, third, _] = STACKS.each_ref().map(|at| at.load(Relaxed));
        assert!(
            (stack.base..stack.base + stack.size).contains(&third)
                && third < second
                && second < first,
            "{third:x} {second:x} {first:x}"
        );
        let mut now = AlternateStack {
            base: 0,
            flags: 9,
            size: 0,
        };
        assert_eq!(stub::call(nr::SIGALTSTACK, [0, (&raw mut now) as usize]), 0);
        assert_eq!(
            (now.base, now.flags, now.size),
            (stack.base, 0, stack.size),
            "the kernel has it back"
        );
        assert_eq!(kernel_mask(), before);
    });
}

const IGNORE: Action = Action {
    handler: 1,
    flags: 0,
    restorer: 0,
    mask: 0,
};

#[test]
fn the_kernel_is_asked_for_an_action_that_nobody_has_set() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: usize, _: &Information, _: &mut Context) {
        CALLS.fetch_add(1, Relaxed);
    }
    alone(|| {
        start_fresh(|_| Outcome::Forward);
        // So late that nobody who asks at the start knows it.
        // SAFETY: no handler.
        unsafe { culvert_sys::signal::set_action(SIGUSR1 as u32, &IGNORE) }.expect("ignored");
        let handler = action(count, SA_RESTART, bit(SIGHUP));
        assert_eq!(sigaction(SIGUSR1, &handler), IGNORE);
        send(SIGUSR1);
        assert_eq!(CALLS.load(Relaxed), 1);
        assert_eq!(sigaction(SIGUSR1, &IGNORE), handler);
        assert_eq!(sigaction(SIGUSR2, &IGNORE), Action::default());
        assert_eq!(sigaction(SIGUSR2, &IGNORE), IGNORE);
    });
}

#[test]
fn a_needed_signal_is_the_programs_from_the_start() {
    alone(|| {
        // SAFETY: no handler.
        unsafe { culvert_sys::signal::set_action(SIGBUS as u32, &IGNORE) }.expect("ignored");
        start_fresh(|_| Outcome::Forward);
        let installed = culvert_sys::signal::action(SIGBUS as u32).expect("asked");
        assert_eq!(installed.handler, labels::signal_handler());
        assert_eq!(sigaction(SIGBUS, &Action::default()), IGNORE);
    });
}
