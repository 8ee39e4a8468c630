//! Runs a piece of code in another process, one instruction at a time, and stops behind every store
//! into a shared file (ptrace(2)).

use culvert_sys::raw::general::{SIGTRAP, SIGURG};
use culvert_sys::{Errno, nr, syscall};
use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory,
};
use std::collections::HashMap;

const PTRACE_TRACEME: usize = 0;
const PTRACE_CONT: usize = 7;
const SIGKILL: usize = 9;
const PTRACE_SINGLESTEP: usize = 9;
const PTRACE_GETREGS: usize = 12;
const SIGSTOP: usize = 19;

/// `struct user_regs_struct` (sys/user.h), as far as it is read.
#[derive(Default)]
#[repr(C)]
struct Registers {
    all: [u64; 27],
}

impl Registers {
    const RIP: usize = 16;

    /// Where a register stands in the kernel's order.
    fn get(&self, register: Register) -> Option<u64> {
        let index = match register.full_register() {
            Register::R15 => 0,
            Register::R14 => 1,
            Register::R13 => 2,
            Register::R12 => 3,
            Register::RBP => 4,
            Register::RBX => 5,
            Register::R11 => 6,
            Register::R10 => 7,
            Register::R9 => 8,
            Register::R8 => 9,
            Register::RAX => 10,
            Register::RCX => 11,
            Register::RDX => 12,
            Register::RSI => 13,
            Register::RDI => 14,
            Register::RSP => 19,
            Register::FS => 21,
            Register::GS => 22,
            // The other segments begin at 0.
            Register::DS | Register::ES | Register::SS | Register::CS => return Some(0),
            _ => return None,
        };
        Some(self.all[index])
    }
}

/// What an instruction may change.
#[derive(Clone)]
enum Effect {
    /// Registers only.
    None,
    /// Memory, here.
    Stores(Vec<UsedMemory>),
    /// Memory, here, again and again: a string instruction.
    Repeats(Vec<UsedMemory>),
    /// Whatever the kernel does.
    SystemCall,
}

/// The stepped process.
pub struct Stepped {
    process: usize,
    known: HashMap<u64, Effect>,
    factory: InstructionInfoFactory,
    /// Where the file is mapped over there.
    mappings: Vec<(u64, u64)>,
    file: String,
    /// Steps of string instructions so far.
    repeated: u64,
    ended: bool,
}

/// One in so many steps of string instructions counts: a prime, so that blocks are met at different
/// places.
const REPEATS: u64 = 509;

/// How it went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A store into the file, or a system call, has happened.
    Changed,
    /// The piece of code is done.
    Done,
}

fn call(number: usize, arguments: [usize; 4]) -> Result<usize, Errno> {
    // SAFETY: ptrace, wait4, kill and fork on processes of this test, with buffers that outlive the
    // calls.
    unsafe { syscall::call(number, arguments) }
}

/// Stops this process until its tracer lets it go on.
fn stop() {
    let me = call(nr::GETPID, [0; 4]).expect("getpid never fails");
    call(nr::KILL, [me, SIGSTOP, 0, 0]).expect("a process may stop itself");
}

impl Stepped {
    /// Forks a process that does `prepare`, and waits in front of what that returns. The caller has
    /// no other threads. `file` is part of the name of the shared file as /proc/PID/maps shows it.
    pub fn start<F: FnOnce()>(file: &str, prepare: impl FnOnce() -> F) -> Self {
        let process = call(nr::FORK, [0; 4]).expect("fork");
        if process == 0 {
            call(nr::PTRACE, [PTRACE_TRACEME, 0, 0, 0]).expect("nobody else traces us");
            let work = prepare();
            stop();
            work();
            stop();
            loop {
                let _ = call(nr::EXIT_GROUP, [0; 4]);
            }
        }
        let mut stepped = Self {
            process,
            known: HashMap::new(),
            factory: InstructionInfoFactory::new(),
            mappings: Vec::new(),
            file: file.to_owned(),
            repeated: 0,
            ended: false,
        };
        stepped.wait();
        stepped.look_at_mappings();
        stepped
    }

    /// Waits for the process to stop, and returns by which signal. Panics when it has ended
    /// instead.
    fn wait(&mut self) -> u32 {
        let mut status = 0u32;
        let place = &raw mut status as usize;
        call(nr::WAIT4, [self.process, place, 0, 0]).expect("it is our child");
        if status & 0xff != 0x7f {
            self.ended = true;
            panic!("the stepped process has ended (status {status:#x})");
        }
        status >> 8 & 0xff
    }

    fn look_at_mappings(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process))
            .expect("it is our child");
        let ours = maps.lines().filter(|line| line.contains(&self.file));
        let range = |line: &str| {
            let (from, to) = line.split(' ').next()?.split_once('-')?;
            let number = |text| u64::from_str_radix(text, 16).ok();
            Some((number(from)?, number(to)?))
        };
        self.mappings = ours.filter_map(range).collect();
    }

    /// Goes on until behind the next store or system call.
    pub fn next(&mut self) -> Step {
        loop {
            let registers = self.registers();
            let effect = self.effect(registers.all[Registers::RIP]);
            let changes = match &effect {
                Effect::None => false,
                Effect::Stores(places) => self.any_shared(places, &registers),
                // Of thousands of bytes that are copied or cleared one by one, some.
                Effect::Repeats(places) => {
                    self.repeated += 1;
                    self.repeated % REPEATS == 1 && self.any_shared(places, &registers)
                }
                Effect::SystemCall => true,
            };
            call(nr::PTRACE, [PTRACE_SINGLESTEP, self.process, 0, 0]).expect("it is stopped");
            match self.wait() {
                SIGTRAP => {}
                // Somebody opens the file of which it holds a lease.
                SIGURG => continue,
                _ => return Step::Done,
            }
            if matches!(effect, Effect::SystemCall) {
                self.look_at_mappings();
            }
            if changes {
                return Step::Changed;
            }
        }
    }

    /// Where it stands, for messages.
    pub fn place(&self) -> u64 {
        self.registers().all[Registers::RIP]
    }

    fn registers(&self) -> Registers {
        let mut registers = Registers::default();
        let place = &raw mut registers as usize;
        call(nr::PTRACE, [PTRACE_GETREGS, self.process, 0, place]).expect("it is stopped");
        registers
    }

    /// What the instruction at `address` changes. The process is a fork of this one: its code is
    /// ours.
    fn effect(&mut self, address: u64) -> Effect {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        // SAFETY: code that the fork executes is mapped readable here, and 15 bytes behind it: no
        // function ends at the end of its mapping.
        let code = unsafe { std::slice::from_raw_parts(address as *const u8, 15) };
        let mut instruction = Instruction::default();
        Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode_out(&mut instruction);
        let effect = if instruction.mnemonic() == iced_x86::Mnemonic::Syscall {
            Effect::SystemCall
        } else {
            let info = self.factory.info(&instruction);
            let writes = |place: &&UsedMemory| {
                matches!(
                    place.access(),
                    OpAccess::Write
                        | OpAccess::CondWrite
                        | OpAccess::ReadWrite
                        | OpAccess::ReadCondWrite
                )
            };
            let places: Vec<_> = info.used_memory().iter().filter(writes).copied().collect();
            let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
            match (places.is_empty(), repeats) {
                (true, _) => Effect::None,
                (false, false) => Effect::Stores(places),
                (false, true) => Effect::Repeats(places),
            }
        };
        self.known.insert(address, effect.clone());
        effect
    }

    fn any_shared(&self, places: &[UsedMemory], registers: &Registers) -> bool {
        places.iter().any(|place| {
            // One whose address cannot be computed (a scatter) may go anywhere.
            let address = place.virtual_address(0, |register, _, _| registers.get(register));
            address.is_none_or(|address| {
                let mappings = &mut self.mappings.iter();
                mappings.any(|&(from, to)| (from..to).contains(&address))
            })
        })
    }

    /// Lets it run to its end.
    pub fn finish(mut self) {
        call(nr::PTRACE, [PTRACE_CONT, self.process, 0, 0]).expect("it is stopped");
        let mut status = 0u32;
        let place = &raw mut status as usize;
        call(nr::WAIT4, [self.process, place, 0, 0]).expect("it is our child");
        self.ended = true;
        assert_eq!(status, 0, "the stepped process ends well");
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        if !self.ended {
            let _ = call(nr::KILL, [self.process, SIGKILL, 0, 0]);
            let mut status = 0u32;
            let place = &raw mut status as usize;
            let _ = call(nr::WAIT4, [self.process, place, 0, 0]);
        }
    }
}
