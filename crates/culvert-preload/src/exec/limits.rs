//! Whether ld.so will have room for the library in a program that is about to start.
//!
//! Where it has not (RLIMIT_AS, RLIMIT_DATA), ld.so says so, starts the program without the library
//! and its mounts, and nobody stops it. So it is found out before, and the program is not started.
//! Once the library is there, it tells itself what goes wrong.

use super::format::Elf;
use super::look::Look;
use alloc::{format, string::String};
use culvert_run::files::c_string;

/// What else a program has in its address space when ld.so maps the library, bytes: the dynamic
/// loader, the first pages of the stack, the kernel's own; and the C library, without which it
/// would end anyway.
const SPACE_BESIDE: u64 = 5 << 19;
/// Likewise of what can be written.
const DATA_BESIDE: u64 = 3 << 17;
const RLIMIT_DATA: usize = 2;
const RLIMIT_AS: usize = 9;

/// The limits of this process, which a program that it becomes keeps.
pub struct Limits {
    space: u64,
    data: u64,
}

impl Limits {
    /// The limits in force; none where there are none.
    pub fn now() -> Option<Self> {
        let (space, data) = (limit(RLIMIT_AS), limit(RLIMIT_DATA));
        (space.min(data) != u64::MAX).then_some(Self { space, data })
    }

    /// Why the library at the absolute path `library` would find no room in the program `program`,
    /// and what to do.
    pub fn shortage(&self, program: &Look, library: &[u8]) -> Option<String> {
        let library = size(&Look::open(&c_string(library)).ok()?);
        let program = size(program);
        let sum = |a: u64, b: u64, more: u64| a.saturating_add(b).saturating_add(more);
        let space = sum(program.0, library.0, SPACE_BESIDE);
        let data = sum(program.1, library.1, DATA_BESIDE);
        let short = |what: &str, letter: char, limit: u64, least: u64| {
            (limit < least).then(|| {
                format!(
                    "its {what} is limited to {} KiB, and libculvert.so needs {} KiB; raise the \
                    limit (ulimit -{letter})",
                    limit >> 10,
                    least.div_ceil(1024)
                )
            })
        };
        short("address space", 'v', self.space, space)
            .or_else(|| short("data segment", 'd', self.data, data))
    }
}

/// The same of the program at `path` with the library at `library`, for the command.
pub fn shortage(path: &[u8], library: &[u8]) -> Option<String> {
    Limits::now()?.shortage(&Look::open(&c_string(path)).ok()?, library)
}

/// The soft limit `which` (getrlimit(2)).
fn limit(which: usize) -> u64 {
    // `struct rlimit64`: the soft limit, the hard one; RLIM64_INFINITY is the largest number.
    culvert_sys::process::prlimit(which as u32, None).map_or(u64::MAX, |[soft, _]| soft)
}

/// How much address space an ELF file takes once it is mapped, and how much of it can be written,
/// bytes.
fn size(file: &Look) -> (u64, u64) {
    let mut head = [0u8; super::HEAD];
    let got = file.read_at(0, &mut head);
    let elf = head.get(..got).and_then(Elf::of);
    elf.map_or((0, 0), |elf| {
        elf.extent(&mut |offset, into| file.read_at(offset, into))
    })
}
