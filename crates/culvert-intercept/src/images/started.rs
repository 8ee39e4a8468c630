//! What the kernel has mapped when a program starts: the program and ld.so.

use crate::elf::{self, LOAD, long, word};
use core::ffi::CStr;
use culvert_sys::{PAGE, process};

/// Where program and ld.so lie in a process that has run nothing but ld.so yet.
#[derive(Debug)]
pub struct Started {
    /// Addresses from the first to the last of the program's segments.
    pub program: (usize, usize),
    /// The same of ld.so.
    pub loader: (usize, usize),
    /// The path by which the kernel has found ld.so.
    pub interpreter: &'static CStr,
    /// The path by which the program was executed: of a script, the script's.
    pub name: &'static CStr,
}

impl Started {
    /// As the auxiliary vector tells it; `None` for a program that ld.so runs as its own.
    ///
    /// # Safety
    /// The program and ld.so are mapped as the kernel has left them, and stay so.
    pub unsafe fn find() -> Option<Self> {
        const AT_PHDR: usize = 3;
        const AT_PHNUM: usize = 5;
        const AT_BASE: usize = 7;
        const AT_EXECFN: usize = 31;
        const ENTRY: usize = 56;
        const PHDR: u32 = 6;
        const INTERPRETER: u32 = 3;
        let asked = [AT_PHDR, AT_PHNUM, AT_BASE, AT_EXECFN];
        let [table, count, base, name] = process::auxiliaries(asked);
        let (table, count, base) = (table?, count?, base.filter(|base| *base != 0)?);
        // SAFETY: the kernel's word, and the caller's promise.
        let bytes =
            unsafe { core::slice::from_raw_parts(table as *const u8, count.min(64) * ENTRY) };
        let headers = || bytes.as_chunks::<ENTRY>().0.iter();
        let address = |kind: u32| {
            let found = headers().find(|header| word(*header, 0) == Some(kind))?;
            Some(long(found, 16)? as usize)
        };
        let bias = table.wrapping_sub(address(PHDR)?);
        let loads = headers().filter(|header| word(*header, 0) == Some(LOAD));
        let program = span(
            loads.filter_map(|header| Some((long(header, 16)?, long(header, 40)?))),
            bias,
        )?;
        // SAFETY: as above; the string ends in NUL, as the kernel has looked.
        let interpreter = unsafe {
            CStr::from_ptr(bias.wrapping_add(address(INTERPRETER)?) as *const core::ffi::c_char)
        };
        // SAFETY: a string that the kernel has put on the stack (`create_elf_tables`).
        let name = name.map_or(c"", |name| unsafe { CStr::from_ptr(name as *const _) });
        // SAFETY: ld.so begins with its ELF header.
        let first = unsafe { core::slice::from_raw_parts(base as *const u8, PAGE) };
        let (_, _, headers) = elf::header(first).ok()?;
        let loads = headers.iter().filter(|header| header.kind == LOAD);
        let loader = span(loads.map(|load| (load.address, load.memory_size)), base)?;
        Some(Self {
            program,
            loader,
            interpreter,
            name,
        })
    }
}

/// From the first to the last address of segments.
fn span(loads: impl Iterator<Item = (u64, u64)>, bias: usize) -> Option<(usize, usize)> {
    let ends = |(start, length): (u64, u64)| {
        let start = bias.wrapping_add(start as usize);
        (start & !(PAGE - 1), start.saturating_add(length as usize))
    };
    loads
        .map(ends)
        .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}
