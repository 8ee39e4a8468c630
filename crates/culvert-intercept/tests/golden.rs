//! Golden tests of rewriting: what each kind of site looks like before and after, and what its stub
//! does.
//!
//! The files in `golden/` are meant to be read. `CULVERT_BLESS=1 cargo test -p culvert-intercept
//! --test golden` writes them anew; then read the difference.

use culvert_intercept::Interest;
use culvert_intercept::elf::{Image, Piece};
use culvert_intercept::functions::Functions;
use culvert_intercept::sites::Site;
use culvert_intercept::stub::{self, Slots};
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use std::fmt::Write;

/// Where the code is linked, and how much higher it is mapped.
const LINKED: u64 = 0x1000;
const BIAS: u64 = 0x7f00_0000_0000;
const STUBS: u64 = BIAS + 0x10_0000;
const RECORD: u64 = BIAS + 0x20_0000;
const SLOTS: u64 = BIAS + 0x30_0000;

/// Name, code of one function, and the interest in its calls.
const CASES: &[(&str, &[u8], Interest)] = &[
    // mov $2,%eax; syscall; ret
    (
        "mov",
        &[0xb8, 2, 0, 0, 0, 0x0f, 0x05, 0xc3],
        Interest::Always,
    ),
    (
        "mov-descriptor-0",
        &[0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3],
        Interest::Descriptor0,
    ),
    (
        "mov-bytes-0",
        &[0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3],
        Interest::Bytes0,
    ),
    (
        "mov-bytes-0-1",
        &[0xb8, 40, 0, 0, 0, 0x0f, 0x05, 0xc3],
        Interest::Bytes01,
    ),
    (
        "mov-bytes-0-2",
        &[0xb8, 0x46, 1, 0, 0, 0x0f, 0x05, 0xc3],
        Interest::Bytes02,
    ),
    // test %edi,%edi; je the mov; nop; mov $2,%eax; syscall; ret: who jumps to the mov reaches the
    // stub
    (
        "mov-jump-to-mov",
        &[
            0x85, 0xff, 0x74, 1, 0x90, 0xb8, 2, 0, 0, 0, 0x0f, 0x05, 0xc3,
        ],
        Interest::Always,
    ),
    // mov $14,%eax; lea 0x1000(%rip),%rsi; syscall; ret
    (
        "before-rip-relative",
        &[
            0xb8, 14, 0, 0, 0, 0x48, 0x8d, 0x35, 0, 0x10, 0, 0, 0x0f, 0x05, 0xc3,
        ],
        Interest::Always,
    ),
    // mov $14,%eax; movl $7,-0x100(%rip); syscall; ret: the displacement does not end the
    // instruction
    (
        "before-rip-relative-immediate",
        &[
            0xb8, 14, 0, 0, 0, 0xc7, 0x05, 0, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0x0f, 0x05, 0xc3,
        ],
        Interest::Always,
    ),
    // glibc's read: cmpb $0,x(%rip); je; xor %eax,%eax; syscall; ret
    (
        "before-jcc",
        &[
            0x80, 0x3d, 0, 0x10, 0, 0, 0, 0x74, 0x7e, 0x31, 0xc0, 0x0f, 0x05, 0xc3,
        ],
        Interest::Descriptor0,
    ),
    // the same with a far je, between instructions of its own size
    (
        "before-jcc-long",
        &[0x0f, 0x84, 0, 0x20, 0, 0, 0x31, 0xc0, 0x0f, 0x05, 0xc3],
        Interest::Descriptor0,
    ),
    // libc's syscall(): mov %rsi,%rdi; mov %rdx,%rsi; syscall; ret
    (
        "before-any-number",
        &[0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x0f, 0x05, 0xc3],
        Interest::Always,
    ),
    // jmp to the syscall; mov $2,%eax; syscall; cmp $-4095,%rax; ret: another way leads between mov
    // and syscall
    (
        "next-jump-between",
        &[
            0xeb, 5, 0xb8, 2, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff, 0xc3,
        ],
        Interest::Always,
    ),
    // endbr64; syscall; test %eax,%eax; jne -6 (the syscall); ret
    (
        "next-jcc-to-itself",
        &[
            0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x05, 0x85, 0xc0, 0x75, 0xfa, 0xc3,
        ],
        Interest::Always,
    ),
    // endbr64; syscall; mov 0x1000(%rip),%eax; ret
    (
        "next-rip-relative",
        &[
            0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x05, 0x8b, 0x05, 0, 0x10, 0, 0, 0xc3,
        ],
        Interest::Always,
    ),
    // endbr64; syscall; ret; padding: cs nopw 0(%rax,%rax)
    (
        "next-ret-padding",
        &[
            0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x05, 0xc3, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0,
        ],
        Interest::Always,
    ),
    // endbr64; syscall; jmp rel32; nothing is left to come back for
    (
        "next-jmp",
        &[
            0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x05, 0xe9, 0, 0x20, 0, 0, 0xcc,
        ],
        Interest::Always,
    ),
    // glibc's endless exit: mov $60,%edx; loop: mov %edx,%eax; syscall; jmp loop
    (
        "around",
        &[0xba, 60, 0, 0, 0, 0x89, 0xd0, 0x0f, 0x05, 0xeb, 0xfa],
        Interest::Always,
    ),
    // pop %rax; syscall; push %rax; call: room for five bytes only with the call, which cannot
    // move; padding behind the ret
    (
        "island",
        &[
            0xf3, 0x0f, 0x1e, 0xfa, 0x58, 0x0f, 0x05, 0x50, 0xe8, 0, 0x10, 0, 0, 0xc3, 0xcc, 0xcc,
            0xcc, 0xcc, 0xcc, 0xcc,
        ],
        Interest::Always,
    ),
    // the same without padding
    (
        "trap",
        &[
            0xf3, 0x0f, 0x1e, 0xfa, 0x58, 0x0f, 0x05, 0x50, 0xe8, 0, 0x10, 0, 0, 0xc3,
        ],
        Interest::Always,
    ),
    // two calls in a row: mov $1,%eax; syscall; mov $60,%eax; syscall; the first may not take the
    // second's mov
    (
        "neighbours",
        &[
            0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0x0f, 0x05, 0xf4,
        ],
        Interest::Always,
    ),
    // lea table(%rip),%rdx; movslq (%rdx,%rax,4),%rax; add %rdx,%rax; jmp *%rax; then case 0: mov
    // %rdi,%rax; case 1: mov %rsi,%rdi; syscall; ret; and the table, whose second entry leads
    // between the movs
    (
        "jump-table",
        &[
            0x48, 0x8d, 0x15, 0x12, 0, 0, 0, 0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0,
            0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x0f, 0x05, 0xc3, 0xf7, 0xff, 0xff, 0xff, 0xfa,
            0xff, 0xff, 0xff,
        ],
        Interest::Always,
    ),
];

fn image(code: &[u8]) -> Image<'_> {
    let piece = Piece {
        address: LINKED,
        bytes: code,
        executable: true,
    };
    Image {
        kind: 3,
        entry: LINKED,
        headers: Vec::new(),
        pieces: vec![piece],
        bias: 0,
    }
}

fn disassemble(title: &str, code: &[u8], address: u64, out: &mut String) {
    writeln!(out, "{title}").unwrap();
    let mut formatter = GasFormatter::new();
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let start = (instruction.ip() - address) as usize;
        let bytes: Vec<String> = code[start..start + instruction.len()]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        writeln!(
            out,
            "  {:x}  {:32} {text}",
            instruction.ip(),
            bytes.join(" ")
        )
        .unwrap();
    }
}

fn put(code: &mut [u8], address: u64, bytes: &[u8]) {
    let start = (address - BIAS - LINKED) as usize;
    code[start..start + bytes.len()].copy_from_slice(bytes);
}

fn describe(code: &[u8], interest: Interest, slots: &Slots) -> String {
    let image = image(code);
    let found = culvert_intercept::search::find(&image, &Functions::of_image(&image));
    let mut out = String::new();
    disassemble("before", code, BIAS + LINKED, &mut out);
    let mut after = code.to_vec();
    let (mut stubs, mut records) = (Vec::new(), Vec::new());
    for (index, site) in found.sites.iter().enumerate() {
        let (at, record) = (STUBS + stubs.len() as u64, RECORD + 20 * index as u64);
        let stub = stub::emit(site, BIAS, interest, slots, at, record).unwrap();
        stubs.extend_from_slice(stub.code());
        let (region, island) = stub::edits(site, BIAS, at).unwrap();
        for edit in island.into_iter().chain([region]) {
            put(&mut after, edit.address, edit.bytes());
        }
        records.push((*site, stub.places));
    }
    disassemble("after", &after, BIAS + LINKED, &mut out);
    disassemble("stub", &stubs, STUBS, &mut out);
    for (Site { kind, number, .. }, record) in records {
        writeln!(
            out,
            "{kind:?}, number {number}: instruction {:x}, restart {:x}, forward {:x}, resume {:x}",
            record.instruction, record.restart, record.forward, record.resume
        )
        .unwrap();
    }
    out
}

#[test]
fn sites_are_rewritten_as_recorded() {
    let mut wrong = Vec::new();
    let near = CASES.iter().map(|(name, code, interest)| {
        (
            String::from(*name),
            describe(code, *interest, &Slots::near(SLOTS)),
        )
    });
    // As in images.
    let fixed = ["mov", "mov-bytes-0-2", "before-any-number"];
    let fixed = CASES.iter().filter(|(name, ..)| fixed.contains(name));
    let fixed = fixed.map(|(name, code, interest)| {
        let slots = Slots::fixed(0x5660_0000_0000);
        (
            format!("{name}-fixed-slots"),
            describe(code, *interest, &slots),
        )
    });
    for (name, now) in near.chain(fixed) {
        let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("CULVERT_BLESS").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        let recorded = std::fs::read_to_string(&path).unwrap_or_default();
        if now != recorded {
            wrong.push(format!("{name}: recorded\n{recorded}now\n{now}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
