//! Faults of the program, bad pointers, and how processes end.

use super::signals::*;
use super::{alone, hook, start, stub};
use crate::{
    Outcome,
    delivery::context::Context,
    signal::{SIGBUS, SIGSEGV, bit, information::Information},
    user,
};
use core::sync::atomic::Ordering::*;
use culvert_sys::signal::Action;
use culvert_sys::{nr, syscall};

extern "C" fn repairs(_: usize, information: &Information, context: &mut Context) {
    RAN.fetch_add(1, Relaxed);
    RAX.store(information.address(), Relaxed);
    context.rip += 2; // mov eax, [rax]
}

#[test]
fn the_programs_own_faults_reach_its_handler() {
    alone(|| {
        start(|_| Outcome::Forward);
        sigaction(SIGSEGV, &action(repairs, 0, 0));
        // SAFETY: the handler steps over the load.
        unsafe { core::arch::asm!("mov eax, [rax]", inout("rax") 0x18usize => _) };
        assert_eq!((RAN.load(Relaxed), RAX.load(Relaxed)), (1, 0x18));
    });
}

/// How a forked child ends that runs `scenario`.
fn end_of(scenario: fn()) -> i32 {
    // SAFETY: the child makes system calls only.
    unsafe {
        let pid = syscall::raw(nr::FORK, [0; 6]);
        if pid == 0 {
            scenario();
            syscall::raw(nr::EXIT_GROUP, [0; 6]);
        }
        let mut status = 0i32;
        syscall::raw(
            nr::WAIT4,
            [pid as usize, (&raw mut status) as usize, 0, 0, 0, 0],
        );
        status & 0x7f
    }
}

fn fault() {
    // SAFETY: meant to fault.
    unsafe { core::arch::asm!("mov eax, [rax]", inout("rax") 0x18usize => _) };
}

#[test]
fn faults_and_default_signals_end_the_process_as_natively() {
    alone(|| {
        start(|_| Outcome::Forward);
        let default = Action {
            handler: 0,
            flags: 0,
            restorer: 0,
            mask: 0,
        };
        let ignore = Action {
            handler: 1,
            ..default
        };
        sigaction(SIGSEGV, &default);
        assert_eq!(end_of(fault), 11, "by default");
        assert_eq!(end_of(|| send(SIGSEGV)), 11, "sent");
        sigaction(SIGSEGV, &ignore);
        assert_eq!(end_of(fault), 11, "a fault cannot be ignored");
        assert_eq!(end_of(|| send(SIGSEGV)), 0, "ignored");
        sigaction(SIGSEGV, &action(repairs, 0, 0));
        sigprocmask(0, bit(SIGSEGV));
        assert_eq!(end_of(fault), 11, "a fault while blocked");
        assert_eq!(end_of(|| send(SIGUSR1)), 10);
    });
}

#[test]
fn an_exec_finds_in_the_kernel_what_the_program_has_set() {
    alone(|| {
        start(|_| Outcome::Forward);
        sigaction(
            SIGBUS,
            &Action {
                handler: 1,
                flags: 0,
                restorer: 0,
                mask: 0,
            },
        );
        sigprocmask(0, bit(SIGSEGV));
        hook(|call| {
            if call.number == nr::GETUID {
                crate::before_exec();
                MASK.store(kernel_mask(), Relaxed);
                crate::exec_failed();
            }
            Outcome::Return(0)
        });
        stub::call(nr::GETUID, []);
        assert_ne!(MASK.load(Relaxed) & bit(SIGSEGV), 0);
        assert_eq!(kernel_mask() & bit(SIGSEGV), 0);
        // The same through a failing exec of the program's.
        hook(|_| Outcome::Forward);
        assert_eq!(
            stub::call(nr::EXECVE, [c"/nonexistent".as_ptr() as usize, 0, 0]),
            -2
        );
        assert_eq!(kernel_mask() & bit(SIGSEGV), 0);
    });
}

extern "C" fn reads_nowhere(_: usize, _: &Information, _: &mut Context) {
    RAX.store(stub::call(nr::GETUID, [8]) as usize, Relaxed);
}

#[test]
fn a_bad_pointer_is_an_error_also_in_a_handler_that_blocks_everything() {
    alone(|| {
        start(|call| match call.number {
            nr::GETUID => {
                let read = user::read::<u64>(call.args[0]);
                Outcome::Return(read.map_or(-14, |_| 0))
            }
            _ => Outcome::Forward,
        });
        for signal in [SIGUSR1, SIGSEGV] {
            RAX.store(0, Relaxed);
            sigaction(signal, &action(reads_nowhere, 0, !0));
            send(signal);
            assert_eq!(RAX.load(Relaxed) as isize, -14, "{signal}");
        }
    });
}
