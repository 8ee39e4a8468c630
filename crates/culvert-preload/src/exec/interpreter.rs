//! Programs whose interpreter (PT_INTERP) lies where only we find it, as all of a toolchain or of a
//! store of packages do that brings its own C library.
//!
//! The kernel opens the interpreter by itself, so it is given a copy of the program that names
//! another path: the text is put behind the file's end, and the header leads there. What is mapped
//! stays the same, the text that ld.so reads (by `p_vaddr`) too. A copy is made once in a run for
//! each state of a file.

use super::look::Look;
use super::materialise::name_in;
use crate::process::Process;
use alloc::{ffi::CString, format, vec};
use core::ffi::CStr;
use culvert::Errno;
use culvert_cache::shadow;
use culvert_run::files::c_string;
use culvert_sys::raw::general::{O_CREAT, O_EXCL, O_RDWR};
use culvert_sys::{OwnedFd, fs};

/// The path of a copy of the program `look`, which programs see at `path`, whose interpreter is
/// `interpreter`.
pub fn with_interpreter(
    process: &Process,
    look: &Look,
    interpreter: &CStr,
    path: &[u8],
) -> Result<CString, Errno> {
    let found = look.found()?;
    let copy = process.run.file(&format!(
        "copies/{:x}.{:x}.{:x}.{:x}.{:x}",
        found.st_dev, found.st_ino, found.st_mtime, found.st_mtime_nsec, found.st_size
    ));
    match name_in(process, b"interpreted", path, &copy) {
        Err(Errno::ENOENT) => {
            make(process, look, interpreter, found.st_size as u64, &copy)?;
            name_in(process, b"interpreted", path, &copy)
        }
        named => named,
    }
}

fn make(
    process: &Process,
    look: &Look,
    interpreter: &CStr,
    size: u64,
    copy: &CStr,
) -> Result<(), Errno> {
    let directory = process.run.file("copies");
    let _ = culvert_run::make_directory(&directory);
    let thread = culvert_sys::process::gettid() as isize;
    let new = c_string([copy.to_bytes(), format!("-{thread}").as_bytes()].concat());
    // A file of this name is left by a process that ended meanwhile.
    let _ = fs::unlink(&new);
    let file = culvert_run::files::open(&new, O_RDWR | O_CREAT | O_EXCL, 0o700)?;
    let written = write(look, interpreter, size, &file);
    drop(file);
    let done = written.and_then(|()| fs::rename(&new, copy));
    if done.is_err() {
        let _ = fs::unlink(&new);
    }
    done
}

/// Writes the program into `file`, its PT_INTERP changed (`Elf64_Phdr`: p_offset at 8, p_filesz at
/// 32).
fn write(look: &Look, interpreter: &CStr, size: u64, file: &OwnedFd) -> Result<(), Errno> {
    let header = look.interpreter_header().ok_or(Errno::ENOEXEC)?;
    let mut block = vec![0u8; 1 << 18];
    let mut at = 0;
    let put = |at: u64, bytes: &[u8]| {
        shadow::write_all(file.raw(), at, bytes).map_err(|error| error.errno())
    };
    while at < size {
        let count = look.read_at(at, &mut block);
        if count == 0 {
            return Err(Errno::EIO);
        }
        put(at, &block[..count])?;
        at += count as u64;
    }
    let interpreter = interpreter.to_bytes_with_nul();
    put(at, interpreter)?;
    put(header + 8, &at.to_le_bytes())?;
    put(header + 32, &(interpreter.len() as u64).to_le_bytes())
}
