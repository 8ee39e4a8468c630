//! Bad pointers are errors.

use super::{alone, start};
use crate::{
    Outcome,
    user::{self, CopyError, Side, StringError},
};
use culvert_sys::{nr, syscall};
use std::vec;

/// Two pages, of which only the first is there; returns where it ends.
fn edge() -> usize {
    // SAFETY: fresh memory.
    unsafe {
        let base = syscall::call(nr::MMAP, [0, 8192, 3, 0x22, usize::MAX, 0]).expect("memory");
        syscall::call(nr::MUNMAP, [base + 4096, 4096]).expect("unmapped");
        base + 4096
    }
}

const NON_CANONICAL: usize = 0x1234_5678_9abc_def0;
const KERNEL: usize = 0xffff_8000_0000_0000;

#[test]
fn copies_move_every_byte() {
    for length in (0..70).chain(500..650).chain([4095, 4096, 4097, 70_000]) {
        let from: std::vec::Vec<u8> = (0..length).map(|at| (at * 7 + at / 256) as u8).collect();
        let mut to = vec![0xaa; length + 2];
        user::copy_out(to[1..].as_mut_ptr() as usize, &from).expect("ours");
        assert_eq!(&to[1..=length], &from[..]);
        assert_eq!((to[0], to[length + 1]), (0xaa, 0xaa));
        let mut back = vec![0; length];
        user::copy_in(&mut back, to[1..].as_ptr() as usize).expect("ours");
        assert_eq!(back, from);
        user::zero_out(to[1..].as_mut_ptr() as usize, length).expect("ours");
        assert!(to[1..=length].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn copies_for_another_process_move_every_byte() {
    use culvert_sys::SharedMut;
    for length in [4096, 16_384, 16_385, 65_599, 131_072] {
        for offset in [0, 1, 8, 15, 40, 63] {
            let from: std::vec::Vec<u8> = (0..length).map(|at| (at * 7 + at / 256) as u8).collect();
            let mut to = vec![0xaa; length + 128];
            let into = SharedMut::from(&mut to[offset..offset + length]).for_another();
            user::copy_in_shared(into, from.as_ptr() as usize).expect("ours");
            assert_eq!(&to[offset..offset + length], &from[..]);
            let around = to[..offset].iter().chain(&to[offset + length..]);
            assert!(around.into_iter().all(|byte| *byte == 0xaa));
        }
    }
    alone(|| {
        start(|_| Outcome::Forward);
        let edge = edge();
        for fits in [0, 1, 64, 100, 4000] {
            let before: std::vec::Vec<u8> = (0..fits).map(|at| (at * 11) as u8).collect();
            user::copy_out(edge - fits, &before).expect("fits");
            let mut to = vec![0xaa; 70_000];
            let into = SharedMut::from(&mut to[..]).for_another();
            let error = user::copy_in_shared(into, edge - fits).expect_err("cut off");
            assert_eq!((error.side, error.done), (Side::User, fits));
            assert_eq!(&to[..fits], &before[..]);
        }
    });
}

#[test]
fn copying_from_a_bad_address_is_a_fault() {
    alone(|| {
        start(|_| Outcome::Forward);
        let edge = edge();
        for length in [1, 2, 3, 4, 5, 8, 11, 16, 17, 100, 513, 2000, 4096] {
            for bad in [
                8,
                edge - length + 1,
                edge,
                NON_CANONICAL,
                KERNEL,
                usize::MAX - length,
            ] {
                let copied = user::copy_in(&mut vec![0; length], bad);
                assert_eq!(
                    copied.map_err(|error| error.side),
                    Err(Side::User),
                    "{length} at {bad:#x}"
                );
            }
            assert_eq!(user::copy_in(&mut vec![0; length], edge - length), Ok(()));
        }
    });
}

#[test]
fn copying_from_a_bad_address_says_how_far_it_came() {
    alone(|| {
        start(|_| Outcome::Forward);
        let edge = edge();
        for length in [100usize, 513, 1000, 4000, 70_000] {
            for fits in [0, 1, 63, 64, 65, 99, 512, 700, 3999] {
                if fits >= length {
                    continue;
                }
                let before: std::vec::Vec<u8> = (0..fits).map(|at| (at * 11) as u8).collect();
                user::copy_out(edge - fits, &before).expect("fits");
                let mut to = vec![0xaa; length];
                let error = user::copy_in(&mut to, edge - fits).expect_err("cut off");
                assert_eq!((error.side, error.done), (Side::User, fits));
                assert_eq!(&to[..fits], &before[..]);
            }
        }
    });
}

#[test]
fn copying_to_a_bad_address_says_how_far_it_came() {
    alone(|| {
        start(|_| Outcome::Forward);
        let edge = edge();
        for length in [1usize, 2, 3, 4, 5, 8, 11, 16, 17, 100, 4000] {
            for fits in 0..length.min(20) {
                let CopyError {
                    address,
                    side,
                    done,
                } = user::copy_out(edge - fits, &vec![7; length]).expect_err("cut off");
                assert_eq!((side, done), (Side::User, fits));
                assert!((edge..edge + length).contains(&address));
                assert_eq!(
                    user::zero_out(edge - fits, length)
                        .expect_err("cut off")
                        .done,
                    fits
                );
            }
            assert_eq!(
                user::copy_out(NON_CANONICAL, &vec![7; length])
                    .expect_err("no address")
                    .side,
                Side::User
            );
        }
    });
}

#[test]
fn a_source_of_ours_that_is_cut_off_is_not_the_programs_fault() {
    alone(|| {
        start(|_| Outcome::Forward);
        let edge = edge();
        for length in [8, 100] {
            // SAFETY: deliberately not; the copy is to find out.
            let gone = unsafe { core::slice::from_raw_parts((edge - 4) as *const u8, length) };
            let mut to = vec![0; length];
            let error = user::copy_out(to.as_mut_ptr() as usize, gone).expect_err("cut off");
            assert_eq!((error.side, error.done), (Side::Ours, 4));
        }
    });
}

#[test]
fn strings_end_at_their_nul_at_the_buffer_or_at_a_fault() {
    alone(|| {
        start(|_| Outcome::Forward);
        let edge = edge();
        for length in 0..50 {
            let mut text = vec![b'x'; length];
            text.push(0);
            // Right before the end of memory, so that a read too far would fault.
            user::copy_out(edge - text.len(), &text).expect("fits");
            let mut buffer = vec![0xff; 100];
            assert_eq!(user::string_in(edge - text.len(), &mut buffer), Ok(length));
            assert_eq!(&buffer[..=length], &text[..]);
            let mut exact = vec![0xff; length + 1];
            assert_eq!(user::string_in(edge - text.len(), &mut exact), Ok(length));
            assert_eq!(
                user::string_in(edge - text.len(), &mut exact[..length]),
                Err(StringError::TooLong)
            );
            user::copy_out(edge - text.len(), &vec![b'x'; text.len()]).expect("fits");
            assert_eq!(
                user::string_in(edge - text.len(), &mut buffer),
                Err(StringError::Fault)
            );
        }
        assert_eq!(
            user::string_in(NON_CANONICAL, &mut [0; 10]),
            Err(StringError::Fault)
        );
        assert_eq!(
            user::string_in(KERNEL, &mut [0; 10]),
            Err(StringError::Fault)
        );
        assert_eq!(user::string_in(0, &mut [0; 10]), Err(StringError::Fault));
    });
}

#[test]
fn a_bad_pointer_in_a_call_is_efault() {
    alone(|| {
        start(|call| {
            let read = user::read::<u64>(call.args[0]);
            Outcome::Return(read.map_or(-14, |_| 0))
        });
        assert_eq!(super::stub::call(nr::GETPPID, [0x10]), -14);
        let there = 5u64;
        assert_eq!(
            super::stub::call(nr::GETPPID, [&raw const there as usize]),
            0
        );
        assert_eq!(super::stub::call(nr::GETPPID, [NON_CANONICAL]), -14);
    });
}
