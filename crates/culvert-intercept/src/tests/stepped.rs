//! A signal at every single instruction of a hooked call: a parent steps the call and lets the
//! signal in after each number of steps.

use super::{
    alone,
    signals::{SIGUSR1, action, send, sigaction},
    start, stub,
};
use crate::{
    Call, Outcome,
    delivery::context::Context,
    labels,
    signal::information::Information,
    thread::{OUTSIDE, current},
};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use culvert_sys::{nr, syscall};

const PTRACE_TRACEME: usize = 0;
const PTRACE_CONT: usize = 7;
const PTRACE_SINGLESTEP: usize = 9;
const SIGSTOP: usize = 19;

static RAN: AtomicU32 = AtomicU32::new(0);
static ENGINE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note(_: usize, _: &Information, context: &mut Context) {
    RAN.fetch_add(1, Relaxed);
    assert_eq!(current().frame.state.load(Relaxed), OUTSIDE);
    if (labels::entry()..labels::clone_retry()).contains(&context.rip) {
        ENGINE.store(context.rip, Relaxed);
    }
    // The handler's own calls overwrite everything the engine has kept for the interrupted one.
    assert_eq!(stub::call(nr::GETGID, [1, 2, 3, 4, 5, 6]), 77);
}

fn hook(call: &mut Call) -> Outcome {
    match call.number {
        nr::GETUID => Outcome::Return(call.args[0] as isize + 1),
        nr::GETGID => Outcome::Return(77),
        nr::GETPGRP => {
            // With other arguments: executed by the engine.
            call.number = nr::GETPPID;
            Outcome::Forward
        }
        _ => Outcome::Forward,
    }
}

/// In the traced child: one call, into which the signal comes.
fn scenario(number: usize, expected: isize) -> ! {
    let mask = mask();
    // SAFETY: the parent traces.
    unsafe { syscall::raw(nr::PTRACE, [PTRACE_TRACEME, 0, 0, 0, 0, 0]) };
    send(SIGSTOP);
    let result = stub::call(number, [41]);
    let ran = RAN.load(Relaxed);
    let status = if result != expected {
        2
    } else if self::mask() != mask {
        5 // recorded, but not delivered: everything is blocked
    } else if ENGINE.load(Relaxed) != 0 {
        4
    } else if ran != 1 {
        3 // only now, behind the call
    } else {
        0
    };
    // SAFETY: ends the process.
    unsafe { syscall::raw(nr::EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
    unreachable!("the process has ended");
}

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

fn ptrace(request: usize, pid: usize, signal: usize) {
    // SAFETY: the child is stopped.
    unsafe { syscall::call(nr::PTRACE, [request, pid, 0, signal]) }.expect("ptrace");
}

fn wait(pid: usize) -> i32 {
    let mut status = 0i32;
    // SAFETY: writes a status.
    unsafe { syscall::call(nr::WAIT4, [pid, (&raw mut status) as usize, 0, 0]) }.expect("a child");
    status
}

/// Lets the signal in after `steps` instructions. Returns whether that was before the call had
/// ended.
fn interrupt_after(steps: usize, number: usize, expected: isize) -> bool {
    // SAFETY: the child makes system calls only.
    let pid = unsafe { syscall::raw(nr::FORK, [0; 6]) } as usize;
    if pid == 0 {
        scenario(number, expected);
    }
    assert_eq!(wait(pid) >> 8, SIGSTOP as i32);
    for _ in 0..steps {
        ptrace(PTRACE_SINGLESTEP, pid, 0);
        let status = wait(pid);
        if status & 0xff != 0x7f {
            return false; // it has ended without the signal
        }
    }
    ptrace(PTRACE_CONT, pid, SIGUSR1);
    let mut status = wait(pid);
    while status & 0xff == 0x7f {
        // The engine raises it again.
        assert_eq!(status >> 8, SIGUSR1 as i32, "after {steps} steps");
        ptrace(PTRACE_CONT, pid, SIGUSR1);
        status = wait(pid);
    }
    assert_eq!(status & 0x7f, 0, "killed after {steps} steps");
    match status >> 8 {
        0 => true,
        3 => false, // behind the call, right before the check
        code => panic!("status {code} after {steps} steps"),
    }
}

fn at_every_instruction(number: usize, expected: isize) {
    start(hook);
    sigaction(SIGUSR1, &action(note, 0, 0));
    let mut late = 0;
    let mut steps = 0;
    // The signal is "late" from where the check has read the counter, to the end; a single one
    // before that would be a lost signal.
    while late < 8 {
        if interrupt_after(steps, number, expected) {
            assert_eq!(late, 0, "lost {late} steps before {steps}");
        } else {
            late += 1;
        }
        steps += 1;
    }
    assert!(steps > 150, "{steps}");
}

#[test]
fn a_signal_at_any_instruction_of_an_answered_call_is_delivered_once() {
    alone(|| at_every_instruction(nr::GETUID, 42));
}

#[test]
fn a_signal_at_any_instruction_of_a_forwarded_call_is_delivered_once() {
    // SAFETY: a number.
    alone(|| at_every_instruction(nr::GETPPID, unsafe { syscall::raw(nr::GETPID, [0; 6]) }));
}

#[test]
fn a_signal_at_any_instruction_of_a_changed_call_is_delivered_once() {
    // SAFETY: a number.
    alone(|| at_every_instruction(nr::GETPGRP, unsafe { syscall::raw(nr::GETPID, [0; 6]) }));
}
