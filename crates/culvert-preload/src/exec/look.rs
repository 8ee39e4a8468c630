//! A look into a program file before the kernel starts it.

use super::format::{Elf, PT_INTERP};
use super::{Format, HEAD, Why, format};
use crate::process::Process;
use crate::vfs::busy::may_execute;
use alloc::{vec, vec::Vec};
use core::{cell::OnceCell, ffi::CStr};
use culvert::{Errno, FileKind};
use culvert_intercept::images::{self, Key, StartedBefore};
use culvert_run::{ShadowName, files::c_string, stat_descriptor, stat_path};
use culvert_sys::fd::CWD;
use culvert_sys::flags::AtFlags;
use culvert_sys::raw::general::{O_NOFOLLOW, O_NONBLOCK, R_OK, X_OK, stat};
use culvert_sys::{OwnedFd, fs, trust};

/// The extended attribute that holds a file's capabilities (capabilities(7)).
const CAPABILITIES: &CStr = c"security.capability";

/// Whether the caller may do `what` (`X_OK`, `R_OK`) with the file at `path`, as
/// the kernel sees it.
fn may(what: u32, path: &CStr) -> Result<(), Errno> {
    fs::faccessat2(CWD, path, what, AtFlags::EACCESS)
}

/// Whether the caller may execute the file at `path`.
pub fn is_executable(path: &CStr) -> bool {
    may(X_OK, path) != Err(Errno::EACCES)
}

/// The path of the copy of libculvert.so that this process was started with, if ld.so of a program
/// that is started now finds it. Else it gets the library alone: the copy was removed, the program
/// has another user or root directory, or stands in a sandbox. Where that comes about later, ld.so
/// says a line, and loads the library.
pub fn library_copy() -> Option<&'static [u8]> {
    let process = crate::process::get();
    // Who has become another user may have root's rights until it executes.
    if process.copy.is_empty() || trust::user() != process.run.owner {
        return None;
    }
    let path = c_string(&process.copy[..]);
    // A mount that is noexec by now says so to the first, Landlock to the second.
    may(R_OK | X_OK, &path).ok()?;
    let found = culvert_run::files::open(&path, O_NOFOLLOW | O_NONBLOCK, 0);
    found.is_ok().then_some(&process.copy[..])
}

/// Whether a program that is started now finds libculvert.so: not below another root, in a sandbox
/// without it, or as a user who may not read it.
pub fn library_is_there(process: &Process) -> bool {
    let found = may(R_OK, &c_string(&process.library[..]));
    // A filter, or a kernel before 5.8, says nothing about the file.
    !matches!(found, Err(Errno::ENOENT | Errno::EACCES | Errno::ENOTDIR))
}

/// What is known of the program whose file is `key`, where it was started with the library before,
/// and nothing else needs to be known of it: such a program is not opened. Each change of the file,
/// of its mode or its capabilities makes another key.
pub fn started_before(process: &Process, key: &Key) -> Option<StartedBefore> {
    // Another user than the run's may not read it, or has other rights with it.
    let images = images::get().filter(|_| trust::user() == process.run.owner)?;
    images.started_before(key)
}

/// Why a program whose `struct stat` is `found` runs as another user or group than the caller.
fn changes_of_user(found: &stat) -> Option<Why> {
    if found.st_mode & 0o6000 == 0 {
        return None;
    }
    let caller = culvert_run::task::caller();
    if found.st_mode & 0o4000 != 0 && found.st_uid != caller.uid {
        return Some(Why::SetUser);
    }
    (found.st_mode & 0o2010 == 0o2010 && found.st_gid != caller.gid).then_some(Why::SetGroup)
}

/// What can be said of the program at `path`, which may not be read.
pub fn unreadable(path: &CStr) -> Why {
    let capable = fs::getxattr(path, CAPABILITIES, &mut []);
    let found = stat_path(path).ok();
    found
        .as_ref()
        .and_then(changes_of_user)
        .unwrap_or(match capable {
            Ok(_) if trust::user() != 0 => Why::Capabilities,
            _ => Why::Unreadable,
        })
}

/// Bytes of a file's beginning that are read at once: of most programs what is asked for lies
/// there.
const BEGINNING: usize = 1024;

/// The program file `path` on the real file system or a mount, opened for a look.
pub struct Look {
    /// A descriptor of it.
    pub file: OwnedFd,
    beginning: OnceCell<Vec<u8>>,
    found: OnceCell<stat>,
}

impl Look {
    /// Opens `path`.
    pub fn open(path: &CStr) -> Result<Self, Errno> {
        Ok(Self {
            file: culvert_run::files::open(path, O_NONBLOCK /* a FIFO is no program */, 0)?,
            beginning: OnceCell::new(),
            found: OnceCell::new(),
        })
    }

    /// What the kernel says before it looks at the arguments (`do_open_execat`, fs/exec.c), of a
    /// program that is at `path`.
    pub fn check(&self, path: &CStr) -> Result<(), Errno> {
        let mode = self.found()?.st_mode;
        match FileKind::of_mode(mode) == Some(FileKind::Regular) && is_executable(path) {
            true => crate::vfs::busy::may_execute(self.file.raw()),
            false => Err(Errno::EACCES),
        }
    }

    /// `fstat` of it, when that was asked for first.
    pub fn found(&self) -> Result<&stat, Errno> {
        match self.found.get() {
            Some(found) => Ok(found),
            None => {
                let found = stat_descriptor(self.file.raw())?;
                Ok(self.found.get_or_init(|| found))
            }
        }
    }

    /// Reads what there is at `offset`; 0 for errors too.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let beginning = self.beginning.get_or_init(|| {
            let mut beginning = vec![0; BEGINNING];
            let got = fs::pread(&self.file, &mut beginning, 0).unwrap_or(0);
            beginning.truncate(got);
            beginning
        });
        let known = usize::try_from(offset).ok().and_then(|from| {
            let end = from.checked_add(into.len())?;
            beginning.get(from..end)
        });
        match known {
            Some(known) => {
                into.copy_from_slice(known);
                into.len()
            }
            None => fs::pread(&self.file, into, offset).unwrap_or(0),
        }
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

    /// Why the kernel will run it with other rights than the caller's (AT_SECURE), so that ld.so
    /// ignores LD_AUDIT.
    pub fn privileges(&self) -> Option<Why> {
        let found = self.found().ok()?;
        let capable = || trust::user() != 0 && self.has_capabilities();
        changes_of_user(found).or_else(|| capable().then_some(Why::Capabilities))
    }

    /// Whether the file has capabilities (capabilities(7)).
    fn has_capabilities(&self) -> bool {
        fs::fgetxattr(&self.file, CAPABILITIES, &mut []).is_ok()
    }
}

/// The kernel has refused to execute the shadow of `name` with `ETXTBSY`: whether because of us,
/// who fill it or ask, so that it may be tried again.
pub fn was_ours(process: &Process, name: ShadowName) -> bool {
    // Shadows are opened for writing on our own behalf only under the lock.
    let _lock = process.node_locks.lock(name);
    match Look::open(&process.run.shadow(name)) {
        Ok(look) => may_execute(look.file.raw()).is_ok(),
        Err(_) => false,
    }
}
