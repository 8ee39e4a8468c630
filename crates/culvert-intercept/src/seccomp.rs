//! A seccomp filter of the program's, and what it says of a call.

use crate::{Call, user};
use alloc::{vec, vec::Vec};
use core::iter;
use culvert_sys::sync::AtomicRef;

/// `struct sock_filter` (include/uapi/linux/filter.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub code: u16,
    pub if_true: u8,
    pub if_false: u8,
    pub k: u32,
}

// SAFETY: numbers.
unsafe impl culvert_sys::plain::Plain for Instruction {}

/// `struct seccomp_data` as words.
type Data = [u32; 16];

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// What a filter returns to refuse, in the order of precedence: anything from
/// SECCOMP_RET_KILL_PROCESS, which is negative, up to SECCOMP_RET_ERRNO.
const RET_ERRNO: i32 = 0x0005_0000;
const RET_ALLOW: i32 = 0x7fff_0000;
const ACTION: u32 = 0xffff_0000;
/// BPF_MAXINSNS
const LONGEST: usize = 4096;

/// A filter to be installed.
#[derive(Debug)]
pub struct Filter {
    program: Program,
    /// The one that was installed before it.
    pub(crate) previous: Option<&'static Self>,
}

#[derive(Debug)]
enum Program {
    /// SECCOMP_MODE_STRICT
    Strict,
    Instructions(Vec<Instruction>),
}

/// Where a thread's chain begins.
pub(crate) type Chain = AtomicRef<Filter>;

/// The chain that all threads have in common: that of threads which are found without a block.
pub(crate) static COMMON: Chain = Chain::new();

impl Filter {
    /// SECCOMP_MODE_STRICT: read, write, exit and the return from a signal handler.
    pub fn strict() -> Self {
        Self {
            program: Program::Strict,
            previous: None,
        }
    }

    /// A copy of the filter that the program's `struct sock_fprog` at `address` describes; `None`
    /// for what the kernel refuses.
    pub fn read(address: usize) -> Option<Self> {
        let [length, instructions] = user::read::<[usize; 2]>(address).ok()?;
        let length = length & 0xffff;
        if length == 0 || length > LONGEST {
            return None;
        }
        let mut program = vec![Instruction::default(); length];
        for (index, place) in program.iter_mut().enumerate() {
            *place = user::read(instructions + index * size_of::<Instruction>()).ok()?;
        }
        Some(Self {
            program: Program::Instructions(program),
            previous: None,
        })
    }

    fn evaluate(&self, data: &Data) -> i32 {
        match &self.program {
            Program::Strict if matches!(data[0], 0 | 1 | 15 | 60) => RET_ALLOW,
            Program::Strict => 0,
            Program::Instructions(program) => (evaluate(program, data) & ACTION) as i32,
        }
    }
}

/// What tracers and supervisors are asked (SECCOMP_RET_TRACE, SECCOMP_RET_USER_NOTIF) is not
/// refused: they may let the kernel execute it.
pub(crate) fn refused(chain: Option<&'static Filter>, call: &Call, instruction: usize) -> bool {
    let mut data: Data = [0; 16];
    data[0] = call.number as u32;
    data[1] = AUDIT_ARCH_X86_64;
    let longs = iter::once(&instruction).chain(&call.args);
    for (place, value) in data[2..].chunks_exact_mut(2).zip(longs) {
        place.copy_from_slice(&[*value as u32, (*value >> 32) as u32]);
    }
    iter::successors(chain, |filter| filter.previous)
        .map(|filter| filter.evaluate(&data))
        .min()
        .is_some_and(|action| action <= RET_ERRNO)
}

/// Runs a filter that the kernel has accepted (`seccomp_check_filter`, kernel/seccomp.c;
/// `bpf_check_classic`, net/core/filter.c). What it does not accept ends as a filter that kills.
fn evaluate(program: &[Instruction], data: &Data) -> u32 {
    let (mut a, mut x) = (0u32, 0u32);
    let mut memory = [0u32; 16];
    let mut at = 0;
    // Jumps lead forward only.
    while let Some(&Instruction {
        code,
        if_true,
        if_false,
        k,
    }) = program.get(at)
    {
        at += 1;
        let place = k as usize & 15;
        // BPF_SRC
        let operand = if code & 8 != 0 { x } else { k };
        let mut jump = |condition| at += usize::from(if condition { if_true } else { if_false });
        match code {
            // ld [k], ld #len, ldx #len
            0x20 => a = data.get(k as usize / 4).copied().unwrap_or(0),
            0x80 => a = size_of::<Data>() as u32,
            0x81 => x = size_of::<Data>() as u32,
            // ld #k, ldx #k, ld M[k], ldx M[k], st, stx
            0x00 => a = k,
            0x01 => x = k,
            0x60 => a = memory[place],
            0x61 => x = memory[place],
            0x02 => memory[place] = a,
            0x03 => memory[place] = x,
            // tax, txa
            0x07 => x = a,
            0x87 => a = x,
            0x04 | 0x0c => a = a.wrapping_add(operand),
            0x14 | 0x1c => a = a.wrapping_sub(operand),
            0x24 | 0x2c => a = a.wrapping_mul(operand),
            // Division by a register that is zero ends the program with 0.
            0x34 | 0x3c => match a.checked_div(operand) {
                Some(quotient) => a = quotient,
                None => return 0,
            },
            0x44 | 0x4c => a |= operand,
            0x54 | 0x5c => a &= operand,
            0x64 | 0x6c => a = a.wrapping_shl(operand),
            0x74 | 0x7c => a = a.wrapping_shr(operand),
            0x84 => a = a.wrapping_neg(),
            0xa4 | 0xac => a ^= operand,
            0x05 => at += k as usize,
            0x15 | 0x1d => jump(a == operand),
            0x25 | 0x2d => jump(a > operand),
            0x35 | 0x3d => jump(a >= operand),
            0x45 | 0x4d => jump(a & operand != 0),
            0x06 => return k,
            0x16 => return a,
            _ => return 0,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;

    fn instruction(code: u16, if_true: u8, if_false: u8, k: u32) -> Instruction {
        Instruction {
            code,
            if_true,
            if_false,
            k,
        }
    }

    #[test]
    fn a_filter_looks_at_number_and_arguments() {
        // openat (257) with O_CREAT among its flags, the lower half of argument 2.
        let program = [
            instruction(0x20, 0, 0, 0),
            instruction(0x15, 0, 3, 257),
            instruction(0x20, 0, 0, 32),
            instruction(0x45, 0, 1, 0o100),
            instruction(0x06, 0, 0, 0x3_0000),
            instruction(0x06, 0, 0, 0x7fff_0000),
        ];
        let filter = Filter {
            program: Program::Instructions(program.to_vec()),
            previous: None,
        };
        let chain: Option<&Filter> = Some(Box::leak(Box::new(filter)));
        for (number, flags, expected) in [(257, 0o101, true), (257, 1, false), (2, 0o100, false)] {
            let call = Call {
                number,
                args: [0, 0, flags, 0, 0, 0],
            };
            assert_eq!(refused(chain, &call, 0), expected, "{number} {flags:o}");
        }
    }

    #[test]
    fn arithmetic_is_the_kernels() {
        for (code, first, k, expected) in [
            (0x04, u32::MAX, 2, 1),
            (0x14, 1, 2, u32::MAX),
            (0x24, 1 << 31, 2, 0),
            (0x34, 7, 2, 3),
            (0x44, 5, 2, 7),
            (0x54, 6, 3, 2),
            (0x64, 1, 31, 1 << 31),
            (0x74, 1 << 31, 31, 1),
            (0x84, 1, 0, u32::MAX),
            (0xa4, 6, 3, 5),
        ] {
            let program = [
                instruction(0x00, 0, 0, first),
                instruction(code, 0, 0, k),
                instruction(0x16, 0, 0, 0),
            ];
            assert_eq!(evaluate(&program, &[0; 16]), expected, "{code:x}");
            let by_register = [
                instruction(0x01, 0, 0, k),
                instruction(0x00, 0, 0, first),
                instruction(if code == 0x84 { code } else { code | 8 }, 0, 0, 0),
                instruction(0x02, 0, 0, 15),
                instruction(0x00, 0, 0, 0),
                instruction(0x60, 0, 0, 15),
                instruction(0x16, 0, 0, 0),
            ];
            assert_eq!(evaluate(&by_register, &[0; 16]), expected, "{code:x}");
        }
    }

    #[test]
    fn the_strictest_of_a_chain_decides() {
        let chain = |actions: &[u32]| {
            actions.iter().fold(None, |previous, action| {
                let filter = Filter {
                    program: Program::Instructions(vec![instruction(0x06, 0, 0, *action)]),
                    previous,
                };
                Some(&*Box::leak(Box::new(filter)))
            })
        };
        const KILL_PROCESS: u32 = 0x8000_0000;
        const ALLOW: u32 = 0x7fff_0000;
        const TRACE: u32 = 0x7ff0_0000;
        const LOG: u32 = 0x7ffc_0000;
        for (actions, expected) in [
            (&[][..], false),
            (&[ALLOW, LOG, TRACE], false),
            (&[ALLOW, 0x5_0001], true),
            (&[0x3_0000, ALLOW], true),
            (&[ALLOW, KILL_PROCESS, ALLOW], true),
            (&[0], true),
        ] {
            let call = Call {
                number: 0,
                args: [0; 6],
            };
            assert_eq!(refused(chain(actions), &call, 0), expected, "{actions:x?}");
        }
    }
}
