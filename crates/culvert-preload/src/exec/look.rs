//! A look into a program file before the kernel starts it.

use super::format::{Elf, PT_INTERP};
use super::{Format, HEAD, format};
use crate::process;
use crate::shadow::{self, Descriptor};
use culvert::Errno;
use culvert_sys::{nr, syscall};

/// The program file `path` on the real file system or a mount, opened for a look.
pub struct Look {
    /// A descriptor of it.
    pub file: Descriptor,
}

impl Look {
    /// Opens the NUL-terminated `path`.
    pub fn open(path: &[u8]) -> Result<Self, Errno> {
        Ok(Self {
            file: shadow::open(path, 0o4000 /* O_NONBLOCK: a FIFO is no program */, 0)?,
        })
    }

    /// Reads what there is at `offset`; 0 for errors too.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        // SAFETY: the slice is given with its length.
        unsafe {
            syscall::call(
                nr::PREAD64,
                [
                    self.file.0 as usize,
                    into.as_mut_ptr() as usize,
                    into.len(),
                    offset as usize,
                ],
            )
        }
        .unwrap_or(0)
    }

    /// What kind of program it is.
    pub fn format(&self) -> Format {
        let mut head = [0u8; HEAD];
        let got = self.read_at(0, &mut head);
        format(&head[..got], &mut |offset, into| self.read_at(offset, into))
    }

    /// Where in the file the program header PT_INTERP lies.
    pub fn interpreter_header(&self) -> Option<u64> {
        let mut head = [0u8; HEAD];
        let got = self.read_at(0, &mut head);
        Elf::of(&head[..got])?.find(PT_INTERP, &mut |offset, into| self.read_at(offset, into))
    }

    /// Whether the caller may execute the file at `path` (NUL-terminated), which this is.
    pub fn is_executable(&self, path: &[u8]) -> bool {
        const X_OK: usize = 1;
        const AT_EACCESS: usize = 0x200;
        // SAFETY: the path ends in NUL.
        let there = unsafe {
            syscall::call(
                nr::FACCESSAT2,
                [
                    crate::calls::path::AT_FDCWD as usize,
                    path.as_ptr() as usize,
                    X_OK,
                    AT_EACCESS,
                ],
            )
        };
        !matches!(there, Err(Errno::EACCES))
    }

    /// Whether the kernel will run it with other rights than the caller's (AT_SECURE), so that ld.so ignores LD_AUDIT.
    pub fn is_privileged(&self) -> bool {
        let Ok(found) = crate::run::stat_descriptor(self.file.0) else {
            return false;
        };
        let caller = process::caller();
        let set_uid = found.st_mode & 0o4000 != 0 && found.st_uid != caller.uid;
        let set_gid = found.st_mode & 0o2010 == 0o2010 && found.st_gid != caller.gid;
        set_uid || set_gid || (caller.uid != 0 && self.has_capabilities())
    }

    /// Whether the file has capabilities (capabilities(7)).
    fn has_capabilities(&self) -> bool {
        // SAFETY: the name ends in NUL; a size of zero asks for the length only.
        unsafe {
            syscall::call(
                nr::FGETXATTR,
                [
                    self.file.0 as usize,
                    c"security.capability".as_ptr() as usize,
                    0,
                    0,
                ],
            )
        }
        .is_ok()
    }
}
