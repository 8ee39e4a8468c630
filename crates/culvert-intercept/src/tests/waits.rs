//! Blocking calls inside hooks end with signals as they would natively.

use super::{
    alone, jump,
    signals::{SA_RESTART, SIGALRM, action, sigaction, timer},
    start, stub,
};
use crate::{Call, Outcome, delivery::context::Context, signal::information::Information, wait};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering::*};
use culvert_sys::{Errno, nr, syscall};

static PIPE: [AtomicI32; 2] = [const { AtomicI32::new(-1) }; 2];
static RAN: AtomicU32 = AtomicU32::new(0);
static ENTERED: AtomicU32 = AtomicU32::new(0);
static RAX: AtomicUsize = AtomicUsize::new(0);

fn pipe() {
    let mut ends = [0i32; 2];
    // SAFETY: writes two descriptors.
    unsafe { syscall::raw(nr::PIPE, [ends.as_mut_ptr() as usize, 0, 0, 0, 0, 0]) };
    PIPE[0].store(ends[0], Relaxed);
    PIPE[1].store(ends[1], Relaxed);
}

/// A driven read: waits for the pipe.
fn reads(call: &mut Call) -> Outcome {
    match call.number {
        nr::READ => {
            ENTERED.fetch_add(1, Relaxed);
            let mut byte = [0u8; 1];
            let args = [
                PIPE[0].load(Relaxed) as usize,
                byte.as_mut_ptr() as usize,
                1,
                0,
                0,
                0,
            ];
            // SAFETY: reads one byte.
            match unsafe { wait::interruptible(nr::READ, args) } {
                Ok(1) => Outcome::Return(byte[0] as isize),
                Ok(other) => Outcome::Return(other),
                Err(wait::Interrupted) => Outcome::Restart,
            }
        }
        nr::GETGID => Outcome::Return(77),
        _ => Outcome::Forward,
    }
}

fn write(byte: u8) {
    // SAFETY: writes one byte.
    unsafe {
        syscall::raw(
            nr::WRITE,
            [
                PIPE[1].load(Relaxed) as usize,
                (&raw const byte) as usize,
                1,
                0,
                0,
                0,
            ],
        )
    };
}

extern "C" fn feeds(_: usize, _: &Information, context: &mut Context) {
    RAX.store(context.rax, Relaxed);
    if RAN.fetch_add(1, Relaxed) == 2 {
        write(42);
    }
}

extern "C" fn counts(_: usize, _: &Information, context: &mut Context) {
    RAX.store(context.rax, Relaxed);
    RAN.fetch_add(1, Relaxed);
}

extern "C" fn writes(_: usize, _: &Information, _: &mut Context) {
    RAN.fetch_add(1, Relaxed);
    write(42);
}

extern "C" fn jumps(_: usize, _: &Information, _: &mut Context) {
    RAN.fetch_add(1, Relaxed);
    jump::long_jump();
}

#[test]
fn with_sa_restart_a_wait_goes_on_after_the_handler() {
    alone(|| {
        start(reads);
        pipe();
        sigaction(SIGALRM, &action(feeds, SA_RESTART, 0));
        timer(2_000);
        assert_eq!(stub::call(nr::READ, [0, 0, 0]), 42);
        timer(0);
        assert!(RAN.load(Relaxed) >= 3 && ENTERED.load(Relaxed) >= 3);
    });
}

#[test]
fn without_sa_restart_a_wait_ends_with_eintr() {
    alone(|| {
        start(reads);
        pipe();
        sigaction(SIGALRM, &action(counts, 0, 0));
        timer(2_000);
        assert_eq!(stub::call(nr::READ, [0, 0, 0]), Errno::EINTR.negated());
        timer(0);
        assert_eq!(
            RAX.load(Relaxed) as isize,
            Errno::EINTR.negated(),
            "the handler sees it too"
        );
        assert_eq!(stub::call(nr::GETGID, []), 77);
    });
}

#[test]
fn a_signal_before_the_wait_comes_before_the_call() {
    alone(|| {
        start(|call| {
            if call.number == nr::READ && RAN.load(Relaxed) == 0 {
                super::signals::send(SIGALRM);
            }
            reads(call)
        });
        pipe();
        // Without SA_RESTART: natively nothing that does not wait ends with EINTR.
        sigaction(SIGALRM, &action(writes, 0, 0));
        assert_eq!(stub::call(nr::READ, [0, 0, 0]), 42);
        assert_eq!(RAN.load(Relaxed), 1);
        assert_eq!(ENTERED.load(Relaxed), 2);
    });
}

#[test]
fn a_signal_between_two_waits_ends_the_call() {
    alone(|| {
        start(|call| {
            if call.number == nr::READ {
                // One wait that is over.
                assert_eq!(reads(call), Outcome::Return(7));
                super::signals::send(SIGALRM);
            }
            reads(call)
        });
        pipe();
        write(7);
        sigaction(SIGALRM, &action(counts, 0, 0));
        assert_eq!(stub::call(nr::READ, [0, 0, 0]), Errno::EINTR.negated());
        assert_eq!(RAN.load(Relaxed), 1);
    });
}

#[test]
fn a_result_is_not_lost_to_a_signal() {
    alone(|| {
        start(|call| {
            let outcome = reads(call);
            if call.number == nr::READ {
                super::signals::send(SIGALRM);
            }
            outcome
        });
        pipe();
        write(7);
        sigaction(SIGALRM, &action(counts, 0, 0));
        assert_eq!(stub::call(nr::READ, [0, 0, 0]), 7);
        assert_eq!(RAN.load(Relaxed), 1);
    });
}

#[test]
fn a_long_jump_out_of_an_interrupted_wait_leaves_the_thread_usable() {
    alone(|| {
        start(reads);
        pipe();
        sigaction(SIGALRM, &action(jumps, SA_RESTART | 0x4000_0000, 0));
        for round in 1..20 {
            timer(500);
            jump::try_call(nr::READ);
            timer(0);
            assert!(RAN.load(Relaxed) >= round);
            assert_eq!(stub::call(nr::GETGID, []), 77);
        }
    });
}

#[test]
fn a_storm_of_signals_never_hangs_a_wait() {
    alone(|| {
        start(reads);
        pipe();
        sigaction(SIGALRM, &action(counts, 0, 0));
        // Each wait is ended by the next signal; one that slipped in between test and system call
        // would end the test by its alarm.
        for _ in 0..300 {
            timer(70);
            assert_eq!(stub::call(nr::READ, [0, 0, 0]), Errno::EINTR.negated());
        }
        timer(0);
    });
}
