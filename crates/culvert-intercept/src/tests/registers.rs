//! Registers, flags and the red zone around a hooked call.

use super::{alone, start, start_patched, stub};
use crate::{Outcome, SiteRecord, elf::Image, functions::Functions, registry, search};
use core::arch::global_asm;
use culvert_sys::{nr, syscall};

/// Everything a program can see, before or after a call.
#[repr(C, align(64))]
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8 to r15.
    general: [u64; 16],
    flags: u64,
    mxcsr: u32,
    padding: u32,
    padding2: [u64; 6],
    vectors: [[u64; 8]; 32],
    masks: [u64; 8],
    red_zone: [u64; 16],
}

// Loads all of a state, red zone included, jumps to the site, and stores all of what comes back.
// `site` is a code address which comes back to `culvert_test_back`. rsp is the C stack's own.
global_asm!(
    r#"
    .globl culvert_test_run, culvert_test_back
    # (*State in rdi, *State out rsi, site rdx, level ecx)
culvert_test_run:
    push rbx
    push rbp
    push r12
    push r13
    push r14
    push r15
    mov [rip + culvert_test_out], rsi
    mov [rip + culvert_test_site_at], rdx
    mov [rip + culvert_test_level], ecx
    mov [rip + culvert_test_stack], rsp
    sub rsp, 256
    mov [rdi + 56], rsp
    cmp ecx, 2
    jne 2f
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    kmovq k\i, [rdi + 2240 + 8 * \i]
    .endr
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    vmovups zmm\i, [rdi + 192 + 64 * \i]
    .endr
    jmp 4f
2:  cmp ecx, 1
    jne 3f
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovups ymm\i, [rdi + 192 + 64 * \i]
    .endr
    jmp 4f
3:
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movups xmm\i, [rdi + 192 + 64 * \i]
    .endr
4:  ldmxcsr [rdi + 136]
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    mov rax, [rdi + 2304 + 8 * \i]
    mov [rsp - 128 + 8 * \i], rax
    .endr
    mov rbx, [rdi + 8]
    mov rcx, [rdi + 16]
    mov rdx, [rdi + 24]
    mov rsi, [rdi + 32]
    mov rbp, [rdi + 48]
    mov r8, [rdi + 64]
    mov r9, [rdi + 72]
    mov r10, [rdi + 80]
    mov r11, [rdi + 88]
    mov r12, [rdi + 96]
    mov r13, [rdi + 104]
    mov r14, [rdi + 112]
    mov r15, [rdi + 120]
    # Flags last, with a stack of their own, as the red zone is filled.
    mov rax, [rdi + 128]
    mov [rip + culvert_test_flags], rax
    mov rax, [rdi]
    mov [rip + culvert_test_red], rsp
    mov rdi, [rdi + 40]
    lea rsp, [rip + culvert_test_flags]
    popfq
    mov rsp, [rip + culvert_test_red]
    jmp [rip + culvert_test_site_at]
culvert_test_back:
    mov [rip + culvert_test_red], rsp
    lea rsp, [rip + culvert_test_flags + 8]
    pushfq
    mov rsp, [rip + culvert_test_out]
    mov [rsp], rax
    mov [rsp + 8], rbx
    mov [rsp + 16], rcx
    mov [rsp + 24], rdx
    mov [rsp + 32], rsi
    mov [rsp + 40], rdi
    mov [rsp + 48], rbp
    mov rdi, rsp
    mov rsp, [rip + culvert_test_red]
    mov [rdi + 56], rsp
    mov [rdi + 64], r8
    mov [rdi + 72], r9
    mov [rdi + 80], r10
    mov [rdi + 88], r11
    mov [rdi + 96], r12
    mov [rdi + 104], r13
    mov [rdi + 112], r14
    mov [rdi + 120], r15
    mov rax, [rip + culvert_test_flags]
    mov [rdi + 128], rax
    stmxcsr [rdi + 136]
    push 0x202
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14
    mov rax, [rsp - 120 + 8 * \i]
    mov [rdi + 2304 + 8 * \i], rax
    .endr
    popfq
    mov ecx, [rip + culvert_test_level]
    cmp ecx, 2
    jne 2f
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7
    kmovq [rdi + 2240 + 8 * \i], k\i
    .endr
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    vmovups [rdi + 192 + 64 * \i], zmm\i
    .endr
    vzeroupper
    jmp 4f
2:  cmp ecx, 1
    jne 3f
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovups [rdi + 192 + 64 * \i], ymm\i
    .endr
    vzeroupper
    jmp 4f
3:
    .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movups [rdi + 192 + 64 * \i], xmm\i
    .endr
4:  mov rsp, [rip + culvert_test_stack]
    push 0x1f80
    ldmxcsr [rsp]
    pop rax
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbp
    pop rbx
    ret
    .bss
    .balign 16
culvert_test_out: .quad 0
culvert_test_site_at: .quad 0
culvert_test_stack: .quad 0
culvert_test_red: .quad 0
    .zero 64
culvert_test_flags: .quad 0
culvert_test_level: .long 0
    .text
    "#
);

unsafe extern "C" {
    fn culvert_test_run(before: *mut State, after: *mut State, site: usize, level: u32);
    static culvert_test_back: u8;
}

const _: () = assert!(
    core::mem::offset_of!(State, vectors) == 192 && core::mem::offset_of!(State, masks) == 2240
);

/// 0: SSE, 1: AVX, 2: AVX-512.
fn level() -> u32 {
    if std::is_x86_feature_detected!("avx512bw") {
        2
    } else {
        std::is_x86_feature_detected!("avx") as u32
    }
}

/// A small generator (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn state(&mut self) -> State {
        // Carry, parity, adjust, zero, sign, overflow, and sometimes direction and alignment check.
        let rare = if self.next().is_multiple_of(4) {
            self.next() & 0x4_0400
        } else {
            0
        };
        State {
            general: core::array::from_fn(|_| self.next()),
            flags: 0x202 | (self.next() & 0x8d5) | rare,
            mxcsr: 0x1f80 | (self.next() as u32 & 0xe03f),
            padding: 0,
            padding2: [0; 6],
            vectors: core::array::from_fn(|_| core::array::from_fn(|_| self.next())),
            masks: core::array::from_fn(|_| self.next()),
            red_zone: core::array::from_fn(|_| self.next()),
        }
    }
}

/// Uses up every register that compiled code may use.
fn spoil(call: &mut crate::Call) -> Outcome {
    // SAFETY: declares what it destroys.
    unsafe {
        core::arch::asm!(
            ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            "pcmpeqd xmm\\i, xmm\\i",
            ".endr",
            "cmp eax, eax",
            ".irp name, rsi, rdi, r8, r9, r10",
            "mov \\name, -1",
            ".endr",
            out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            out("xmm4") _,
            out("xmm5") _,
            out("xmm6") _,
            out("xmm7") _,
            out("xmm8") _,
            out("xmm9") _,
            out("xmm10") _,
            out("xmm11") _,
            out("xmm12") _,
            out("xmm13") _,
            out("xmm14") _,
            out("xmm15") _,
        );
    }
    match call.number {
        // Executed natively.
        nr::GETPPID => Outcome::Forward,
        // Executed by the engine.
        nr::GETPGRP => {
            call.number = nr::GETPPID;
            Outcome::Forward
        }
        _ => Outcome::Return(0x1234_5678),
    }
}

fn check(random: &mut Random, number: usize, result: u64) {
    check_at(
        random,
        stub::register_site((&raw const culvert_test_back) as usize),
        number,
        result,
    );
}

/// Executes from `site` on, which comes back to `culvert_test_back`.
fn check_at(random: &mut Random, site: usize, number: usize, result: u64) {
    let level = level();
    let mut before = random.state();
    before.general[0] = number as u64;
    let mut after = random.state();
    // SAFETY: the caller's promise.
    unsafe { culvert_test_run(&mut before, &mut after, site, level) };
    assert_eq!(after.general[0], result, "rax");
    for (i, name) in [
        "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ]
    .iter()
    .enumerate()
    {
        if !["rax", "rcx", "r11"].contains(name) {
            assert_eq!(after.general[i], before.general[i], "{name}");
        }
    }
    assert_eq!(after.flags & 0x4_0cd5, before.flags & 0x4_0cd5, "flags");
    assert_eq!(after.mxcsr, before.mxcsr, "MXCSR");
    assert_eq!(after.red_zone[..15], before.red_zone[..15], "red zone");
    let (registers, words) = [(16, 2), (16, 4), (32, 8)][level as usize];
    for i in 0..registers {
        assert_eq!(
            after.vectors[i][..words],
            before.vectors[i][..words],
            "vector register {i}"
        );
    }
    if level == 2 {
        assert_eq!(after.masks, before.masks, "mask registers");
    }
}

#[test]
fn a_hook_keeps_every_register_flag_and_the_red_zone() {
    alone(|| {
        start(spoil);
        // SAFETY: a number.
        let parent = unsafe { culvert_sys::syscall::raw(nr::GETPPID, [0; 6]) } as u64;
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..3000 {
            check(&mut random, nr::GETUID, 0x1234_5678);
            check(&mut random, nr::GETPPID, parent);
            check(&mut random, nr::GETPGRP, parent);
        }
    });
}

#[test]
fn a_thread_with_a_gs_base_of_its_own_keeps_it() {
    alone(|| {
        start(spoil);
        // SAFETY: a number.
        let parent = unsafe { culvert_sys::syscall::raw(nr::GETPPID, [0; 6]) } as u64;
        let mut random = Random(7);
        let own = crate::thread::gs_base();
        let something = [1usize, 2, 3];
        for base in [something.as_ptr() as usize, 0x1000] {
            crate::thread::set_gs_base(base);
            for _ in 0..100 {
                check(&mut random, nr::GETPPID, parent);
                check(&mut random, nr::GETUID, 0x1234_5678);
                assert_eq!(crate::thread::gs_base(), base);
            }
        }
        crate::thread::set_gs_base(own);
        check(&mut random, nr::GETUID, 0x1234_5678);
    });
}

#[test]
fn a_thread_without_a_block_gets_one_at_its_first_hook() {
    alone(|| {
        start(spoil);
        let mut random = Random(3);
        crate::thread::set_gs_base(0);
        check(&mut random, nr::GETUID, 0x1234_5678);
        assert_ne!(crate::thread::gs_base(), 0);
    });
}

/// The record that the stub at `stub` hands to the entry: `lea record(%rip),%r11; jmp *entry(%rip)`
/// is how its slow path ends.
fn record_of(stub: usize) -> Option<*mut SiteRecord> {
    // SAFETY: a stub, and stubs are followed by records.
    let code = unsafe { core::slice::from_raw_parts(stub as *const u8, crate::stub::LONGEST) };
    let at = code.windows(9).position(|bytes| {
        bytes.starts_with(&[0x4c, 0x8d, 0x1d]) && bytes.ends_with(&[0xff, 0x25])
    })?;
    Some((stub + at + 7).wrapping_add_signed(displacement(stub + at + 3)) as *mut SiteRecord)
}

fn displacement(at: usize) -> isize {
    // SAFETY: inside an instruction.
    unsafe { (at as *const i32).read_unaligned() as isize }
}

/// Where the jumps at a patched region lead.
fn stub_of(mut address: usize) -> Option<usize> {
    for _ in 0..2 {
        // SAFETY: patched code.
        address = match unsafe { *(address as *const u8) } {
            0xe9 => (address + 5).wrapping_add_signed(displacement(address + 1)),
            0xeb => {
                // SAFETY: as above.
                let displacement = unsafe { *((address + 1) as *const i8) };
                (address + 2).wrapping_add_signed(displacement.into())
            }
            _ => return None,
        };
        if registry::in_stub(address) {
            return Some(address);
        }
    }
    None
}

/// A jump to `culvert_test_back` in reach of the records on `page`.
fn way_back(page: usize) -> usize {
    const NOREPLACE: usize = 0x10_0000;
    for distance in (1..1000).map(|step| step << 20) {
        let address = page - distance;
        // SAFETY: replaces nothing.
        let made = unsafe {
            let arguments = [address, 4096, 7, 0x22 | NOREPLACE, usize::MAX, 0];
            syscall::call(nr::MMAP, arguments)
        };
        if made == Ok(address) {
            // jmp *2(%rip), and where to, aligned: the flags may ask for that.
            let jump = [0xff, 0x25, 2, 0, 0, 0, 0xcc, 0xcc];
            let target = (&raw const culvert_test_back) as usize;
            // SAFETY: mapped above.
            unsafe {
                core::ptr::copy_nonoverlapping(jump.as_ptr(), address as *mut u8, jump.len());
                ((address + jump.len()) as *mut usize).write(target);
            }
            return address;
        }
    }
    panic!("no room near {page:#x}");
}

#[test]
fn every_patched_site_of_libc_keeps_everything() {
    alone(|| {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let line = maps
            .lines()
            .find(|line| line.contains("/libc.so.6"))
            .expect("a glibc");
        let path = line.split_whitespace().last().expect("a path");
        let bias =
            usize::from_str_radix(line.split('-').next().expect("a range"), 16).expect("a number");
        let bytes = std::fs::read(path).expect("readable");
        let image = Image::of_file(&bytes).expect("an ELF file");
        let sites = search::find(&image, &Functions::of_file(&image, &bytes)).sites;

        start_patched(|call| {
            spoil(call);
            Outcome::Return(0x1234_5678)
        });
        // From here on all calls of libc are answered so: none may be made.
        let mut random = Random(11);
        let mut tried = 0;
        let mut back = None;
        for site in &sites {
            let start = bias + site.start() as usize;
            let record = match registry::trap_site(bias + site.address as usize) {
                Some(record) => core::ptr::from_ref(record).cast_mut(),
                None => match stub_of(start).and_then(record_of) {
                    Some(record) => record,
                    None => continue, // nobody is interested in it, or it is hard
                },
            };
            let page = record as usize & !4095;
            let back = *back.get_or_insert_with(|| way_back(page));
            // SAFETY: the record is the engine's; the program is this test.
            unsafe {
                syscall::raw(nr::MPROTECT, [page, 8192, 7, 0, 0, 0]);
                // Where the program goes on is the first of a record's words.
                let first = record.cast::<i32>();
                let resume = first.read();
                first.write((back as isize - record as isize) as i32);
                let restart = (*record).restart();
                let number = (*record).number().unwrap_or(nr::GETUID);
                for _ in 0..20 {
                    check_at(&mut random, restart, number, 0x1234_5678);
                }
                first.write(resume);
            }
            tried += 1;
        }
        assert!(
            tried > 400 && tried + 10 > sites.len(),
            "{tried} of {}",
            sites.len()
        );
        // The harness's other thread waits in code that was patched under it, so do not go back to
        // it.
        let done = b"1 passed\n";
        // SAFETY: ends the process.
        unsafe {
            syscall::raw(nr::WRITE, [1, done.as_ptr() as usize, done.len(), 0, 0, 0]);
            syscall::raw(nr::EXIT_GROUP, [0; 6]);
        }
    });
}
