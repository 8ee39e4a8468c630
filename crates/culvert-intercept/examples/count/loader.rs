//! Loads a program into this process as the kernel's execve would (`fs/binfmt_elf.c`), and its
//! interpreter; starts it on a fresh stack.

use culvert_intercept::user;
use culvert_sys::{Errno, nr, syscall};
use std::{
    ffi::{CStr, CString},
    os::unix::ffi::OsStringExt,
};

const PAGE: usize = 4096;
const STACK: usize = 8 << 20;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_PHDR: u32 = 6;
const ET_DYN: u16 = 3;

/// A program ready to run.
pub struct Program {
    stack: usize,
    entry: usize,
}

impl Program {
    /// Runs it.
    pub fn start(&self) -> ! {
        // SAFETY: the state that the ABI prescribes for a new process: rsp at argc, rdx 0.
        unsafe {
            core::arch::asm!("mov rsp, {}", "xor edx, edx", "xor ebp, ebp", "jmp \
                {}", in(reg) self.stack, in(reg) self.entry, options(noreturn))
        }
    }
}

/// Whether the file at the program's address `path` is an executable that [`load`] understands:
/// 64-bit ELF or a script, and readable. To be called in a hook.
pub fn can_load(path: usize) -> bool {
    let mut head = [0u8; 5];
    // SAFETY: reads into an array.
    unsafe {
        let Ok(file) = syscall::call(nr::OPEN, [path, 0x8_0000, 0]) else {
            return false;
        };
        let _ = syscall::call(nr::READ, [file, head.as_mut_ptr() as usize, 5]);
        let _ = syscall::call(nr::CLOSE, [file]);
    }
    head == *b"\x7fELF\x02" || head.starts_with(b"#!")
}

/// Finds a command in PATH.
pub fn search(command: &CStr) -> Option<CString> {
    if command.to_bytes().contains(&b'/') {
        return Some(command.to_owned());
    }
    let directories = std::env::var_os("PATH")?;
    std::env::split_paths(&directories)
        .map(|directory| directory.join(command.to_str().unwrap_or_default()))
        .find(|path| path.is_file())
        .and_then(|path| CString::new(path.into_os_string().into_vec()).ok())
}

/// The path without links, as the kernel shows it.
pub fn real_path(path: &CStr) -> CString {
    let real = path
        .to_str()
        .ok()
        .and_then(|path| std::fs::canonicalize(path).ok());
    real.and_then(|real| CString::new(real.into_os_string().into_vec()).ok())
        .unwrap_or_else(|| path.to_owned())
}

/// The handlers and the stack that Rust's standard library has set up for itself are not the
/// program's.
pub fn forget_signals() {
    const SIGBUS: usize = 7;
    const SIGSEGV: usize = 11;
    const SIGPIPE: usize = 13;
    let default = [0u64; 4];
    let none = [0u64, 2, 0];
    // SAFETY: a default action, and no alternate stack.
    unsafe {
        for signal in [SIGBUS, SIGSEGV, SIGPIPE] {
            let _ = syscall::call(nr::RT_SIGACTION, [signal, default.as_ptr() as usize, 0, 8]);
        }
        let _ = syscall::call(nr::SIGALTSTACK, [none.as_ptr() as usize, 0]);
    }
}

/// Loads the program at `path` for `arguments`.
pub fn load(path: &CStr, arguments: &[CString]) -> Result<Program, String> {
    let file = read(path)?;
    if let Some(line) = file.strip_prefix(b"#!") {
        let line = line
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        let mut words = line.splitn(2, |byte| *byte == b' ' || *byte == b'\t');
        let interpreter =
            CString::new(words.next().unwrap_or_default()).map_err(|_| "bad first line")?;
        let mut all = vec![interpreter.clone()];
        all.extend(
            words
                .next()
                .map(|word| CString::new(word.trim_ascii()).expect("no NUL in a line of the file")),
        );
        all.push(path.to_owned());
        all.extend(arguments.iter().skip(1).cloned());
        return load(&interpreter, &all);
    }
    let program = map(path, &file)?;
    let (base, entry) = match &program.interpreter {
        Some(interpreter) => {
            let linker = map(interpreter, &read(interpreter)?)?;
            (linker.base, linker.entry)
        }
        None => (0, program.entry),
    };
    let stack = build_stack(path, arguments, &program, base).ok_or("no memory for a stack")?;
    Ok(Program { stack, entry })
}

fn read(path: &CStr) -> Result<Vec<u8>, String> {
    std::fs::read(path.to_str().map_err(|error| error.to_string())?)
        .map_err(|error| error.to_string())
}

/// A mapped ELF file.
struct Mapped {
    base: usize,
    entry: usize,
    headers: usize,
    count: usize,
    interpreter: Option<CString>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> usize {
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(&bytes[at..at + N]);
    usize::from_le_bytes(wide)
}

fn map(path: &CStr, bytes: &[u8]) -> Result<Mapped, String> {
    if bytes.len() < 64 || !bytes.starts_with(b"\x7fELF\x02\x01") || number::<2>(bytes, 18) != 62 {
        return Err("not an x86-64 ELF file".into());
    }
    let (table, count) = (number::<8>(bytes, 32), number::<2>(bytes, 56));
    let segments: Vec<&[u8]> = bytes
        .get(table..table + 56 * count)
        .ok_or("cut off")?
        .chunks(56)
        .collect();
    let loads = || {
        segments
            .iter()
            .filter(|segment| number::<4>(segment, 0) as u32 == PT_LOAD)
    };
    let start = loads()
        .map(|segment| number::<8>(segment, 16))
        .min()
        .ok_or("nothing to load")?
        & !(PAGE - 1);
    let end = loads()
        .map(|segment| number::<8>(segment, 16) + number::<8>(segment, 40))
        .max()
        .unwrap_or(0);
    let errno = |errno: Errno| errno.to_string();
    let mut base = 0;
    // SAFETY: fresh memory, except that a program with fixed addresses takes those; the kernel
    // would have done the same.
    unsafe {
        if number::<2>(bytes, 16) as u16 == ET_DYN {
            base = syscall::call(nr::MMAP, [0, end - start, 0, 0x22, usize::MAX, 0])
                .map_err(errno)?
                - start;
        }
        let file = syscall::call(nr::OPEN, [path.as_ptr() as usize, 0x8_0000, 0]).map_err(errno)?;
        for segment in loads() {
            load_segment(file, base, segment).map_err(errno)?;
        }
        let _ = syscall::call(nr::CLOSE, [file]);
    }
    let of_kind = |kind: u32| {
        segments
            .iter()
            .find(move |segment| number::<4>(segment, 0) as u32 == kind)
    };
    let interpreter = of_kind(PT_INTERP).and_then(|segment| {
        let at = number::<8>(segment, 8);
        CStr::from_bytes_until_nul(&bytes[at..at + number::<8>(segment, 32)])
            .ok()
            .map(CStr::to_owned)
    });
    let headers = of_kind(PT_PHDR).map_or(base + start + table, |segment| {
        base + number::<8>(segment, 16)
    });
    Ok(Mapped {
        base,
        entry: base + number::<8>(bytes, 24),
        headers,
        count,
        interpreter,
    })
}

unsafe fn load_segment(file: usize, base: usize, segment: &[u8]) -> Result<(), Errno> {
    const MAP_FIXED_PRIVATE: usize = 0x12;
    const MAP_ANONYMOUS: usize = 0x20;
    let flags = number::<4>(segment, 4);
    let protection = (flags & 1) << 2 | flags & 2 | (flags & 4) >> 2;
    let (offset, address) = (number::<8>(segment, 8), base + number::<8>(segment, 16));
    let (in_file, in_memory) = (number::<8>(segment, 32), number::<8>(segment, 40));
    let skew = address % PAGE;
    let file_end = address + in_file;
    let page_end = file_end.next_multiple_of(PAGE);
    // SAFETY: inside the range that `map` has reserved.
    unsafe {
        if in_file > 0 {
            syscall::call(
                nr::MMAP,
                [
                    address - skew,
                    in_file + skew,
                    protection,
                    MAP_FIXED_PRIVATE,
                    file,
                    offset - skew,
                ],
            )?;
        }
        if in_memory > in_file {
            if protection & 2 != 0 {
                core::ptr::write_bytes(file_end as *mut u8, 0, page_end - file_end);
            }
            let end = (address + in_memory).next_multiple_of(PAGE);
            if end > page_end {
                syscall::call(
                    nr::MMAP,
                    [
                        page_end,
                        end - page_end,
                        protection,
                        MAP_FIXED_PRIVATE | MAP_ANONYMOUS,
                        usize::MAX,
                        0,
                    ],
                )?;
            }
        }
    }
    Ok(())
}

/// argc, argv, envp and the auxiliary vector, with the strings above them.
fn build_stack(path: &CStr, arguments: &[CString], program: &Mapped, base: usize) -> Option<usize> {
    let environment: Vec<Vec<u8>> = std::env::vars_os()
        .map(|(name, value)| {
            [
                name.into_vec(),
                b"=".to_vec(),
                value.into_vec(),
                b"\0".to_vec(),
            ]
            .concat()
        })
        .collect();
    // SAFETY: fresh memory, readable and writable.
    let bottom = unsafe { syscall::call(nr::MMAP, [0, STACK, 3, 0x2_0022, usize::MAX, 0]) }.ok()?;
    let mut top = bottom + STACK;
    let mut push = |bytes: &[u8]| {
        top -= bytes.len();
        user::copy_out(top, bytes).map(|()| top).ok()
    };
    let name = push(path.to_bytes_with_nul())?;
    let mut words = vec![arguments.len()];
    for argument in arguments {
        words.push(push(argument.to_bytes_with_nul())?);
    }
    words.push(0);
    for variable in &environment {
        words.push(push(variable)?);
    }
    words.push(0);
    for (kind, value) in auxiliary_vector() {
        let value = match kind {
            3 => program.headers,
            4 => 56,
            5 => program.count,
            7 => base,
            9 => program.entry,
            31 => name,
            _ => value,
        };
        words.extend([kind, value]);
    }
    let at = (top - words.len() * 8) & !15;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    user::copy_out(at, &bytes).ok()?;
    Some(at)
}

fn auxiliary_vector() -> Vec<(usize, usize)> {
    let bytes = std::fs::read("/proc/self/auxv").unwrap_or_default();
    bytes
        .chunks_exact(16)
        .map(|pair| (number::<8>(pair, 0), number::<8>(pair, 8)))
        .collect()
}
