//! Packed relative relocations (DT_RELR), which glibc's ld.so does since 2.36 and musl's since
//! 1.2.4. Where it has not, the library does its own before anything else of it runs: an
//! initialiser named by DT_INIT, which needs none itself and comes before those of DT_INIT_ARRAY.
//!
//! A copy that is linked to an address (culvert-cli, `library_copy.rs`) has nothing for ld.so to
//! relocate. Where it does not lie there, the initialiser does that, too.

use crate::INITIALISER;
use core::arch::{asm, global_asm};
use culvert_sys::nr;

const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
const PT_GNU_RELRO: u32 = 0x6474_e552;
/// The same segment of a copy, of which ld.so does not know.
const PT_COPY_RELRO: u32 = 0x6c76_6372;
const READ: usize = 1;
const WRITE: usize = 2;

/// elf(5), where the object's headers and its segments' are.
const PHNUM: usize = 56;
const EHDR_SIZE: usize = 64;
const PHDR_SIZE: usize = 56;
const WORD: usize = size_of::<u64>();

/// Where the object lies: address 0 of its own.
pub fn base() -> usize {
    let base: usize;
    // SAFETY: an address that the linker defines, relative to this code.
    unsafe {
        asm!(".hidden __ehdr_start", "lea {}, [rip + __ehdr_start]", out(reg) base,
            options(pure, nomem, nostack));
    }
    base
}

/// Whether the object is a copy that lies at the address that it is linked to.
pub fn is_copy() -> bool {
    let base = base();
    // SAFETY: the object's headers are mapped with it. The first is that of the headers themselves.
    let first = unsafe { ((base + EHDR_SIZE + 16) as *const usize).read() };
    first == base + EHDR_SIZE
}

fn dynamic() -> *const [u64; 2] {
    let dynamic: *const [u64; 2];
    // SAFETY: as above.
    unsafe {
        asm!(".hidden _DYNAMIC", "lea {}, [rip + _DYNAMIC]", out(reg) dynamic,
            options(pure, nomem, nostack));
    }
    dynamic
}

/// The value of `wanted` in the dynamic section; none: 0.
unsafe fn of_dynamic(wanted: u64) -> usize {
    let mut at = dynamic();
    loop {
        // SAFETY: the section ends with a tag that is 0.
        match unsafe { at.read() } {
            [0, _] => return 0,
            [tag, value] if tag == wanted => return value as usize,
            // SAFETY: as above.
            _ => at = unsafe { at.add(1) },
        }
    }
}

/// Lets what is only read once it is relocated be written, or not any more.
unsafe fn protect(base: usize, rights: usize) {
    // SAFETY: the object's headers are mapped with it.
    let count = unsafe { ((base + PHNUM) as *const u16).read() };
    for index in 0..usize::from(count) {
        let at = base + EHDR_SIZE + index * PHDR_SIZE;
        // SAFETY: as above.
        unsafe {
            if matches!((at as *const u32).read(), PT_GNU_RELRO | PT_COPY_RELRO) {
                // In a copy addresses are not relative, places in the file are.
                let start = ((at + 8) as *const usize).read();
                let length = ((at + 40) as *const usize).read();
                mprotect(base + start, length, rights);
            }
        }
    }
}

/// mprotect(2), by no more than the instruction. Where it fails the first write is a fault, and the
/// program's end with that.
unsafe fn mprotect(start: usize, length: usize, rights: usize) {
    // SAFETY: the caller's promise; the call changes two more registers.
    unsafe {
        asm!("syscall", inlateout("rax") nr::MPROTECT => _, in("rdi") start, in("rsi") length,
            in("rdx") rights, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
}

/// Room in the data for the dynamic section of a copy, which ld.so may write (`_dl_relocate`'s
/// `ADJUST_DYN_INFO`, before glibc 2.35): what is only read once it is relocated lies in one segment
/// with the code there. Found by how it begins.
#[used]
#[unsafe(link_section = ".data.culvert_dynamic")]
static ROOM: [u64; 34] = {
    let mut room = [0; 34];
    room[0] = u64::from_le_bytes(*b"culvert ");
    room[1] = u64::from_le_bytes(*b"dynamic ");
    room
};

// Named for the linker's `-init` alone.
global_asm!(
    ".globl culvert_relocate",
    ".hidden culvert_relocate",
    "culvert_relocate:",
    "jmp {}",
    sym relocate
);

/// DT_INIT.
///
/// # Safety
/// ld.so's promise: the object is mapped, and nobody else runs its code.
unsafe extern "C" fn relocate() {
    let base = base();
    // SAFETY: a static of this object, which is a relocated word.
    let first = unsafe { (&raw const INITIALISER).cast::<usize>().read_volatile() };
    let right: usize;
    // SAFETY: an address that the linker knows, relative to this code.
    unsafe {
        asm!("lea {}, [rip + {}]", out(reg) right, sym crate::initialise,
            options(pure, nomem, nostack));
    }
    let add = right.wrapping_sub(first);
    if add == 0 {
        return;
    }
    // SAFETY: what the linker has written says where there are words to relocate.
    unsafe {
        let (table, size) = (of_dynamic(DT_RELR), of_dynamic(DT_RELRSZ));
        protect(base, READ | WRITE);
        apply(base, (base + table) as *const usize, size / WORD, add);
        protect(base, READ);
    }
}

/// Adds `add` to the words that `table` names: a word that is even is the address of the next word
/// to relocate; of one that is odd each further bit is a word behind that.
unsafe fn apply(base: usize, table: *const usize, count: usize, add: usize) {
    const BITS: usize = usize::BITS as usize - 1;
    let relocate = |at: usize| {
        let word = at as *mut usize;
        // SAFETY: the caller's promise.
        unsafe { word.write_volatile(word.read_volatile().wrapping_add(add)) };
    };
    let mut next = 0;
    for index in 0..count {
        // SAFETY: the caller's promise.
        let entry = unsafe { table.add(index).read() };
        if entry & 1 == 0 {
            relocate(base + entry);
            next = base + entry + WORD;
            continue;
        }
        for bit in (0..BITS).filter(|bit| entry >> (bit + 1) & 1 != 0) {
            relocate(next + bit * WORD);
        }
        next += BITS * WORD;
    }
}
