//! The program that a command names, where that is plain.

use crate::path;
use alloc::{ffi::CString, vec, vec::Vec};
use core::ffi::CStr;
use culvert_preload::exec::{Format, HEAD, Loader, format};
use culvert_run::files::c_string;
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general::{S_IFMT, S_IFREG, X_OK};
use culvert_sys::{Errno, OwnedFd, fs, process};

/// How deep interpreters of scripts may nest (`BINPRM_MAX_RECURSION` of fs/exec.c, and one).
const SCRIPT_DEPTH: usize = 5;
/// Bytes of a file's beginning that are read at once: of most programs what is asked for lies
/// there.
const BEGINNING: usize = 1024;

/// The file that `name` means, as the whole command finds it, if it, and each interpreter of a
/// script, is a program that ld.so of glibc loads and that runs with its caller's rights. None:
/// whatever else it is; and where a mount at one of `targets` may have a say in it.
pub fn plain(name: &CStr, search: Option<&[u8]>, targets: &[&[u8]]) -> Option<CString> {
    let is_outside = |place: &[u8]| {
        let place = path::plain(place)?;
        let inside = targets.iter().any(|target| path::is_within(&place, target));
        (!inside).then_some(())
    };
    let found = if name.to_bytes().contains(&b'/') {
        is_outside(name.to_bytes())?;
        CString::from(name)
    } else {
        let directories = search?.split(|&byte| byte == b':');
        let directories = directories.map(|directory| match directory {
            b"" => b".",
            named => named,
        });
        let directories: Vec<&[u8]> = directories.collect();
        directories.iter().try_for_each(|one| is_outside(one))?;
        in_one_of(&directories, name)?
    };
    is_loaded(&found).then_some(found)
}

/// The first program `name` in `directories`.
fn in_one_of(directories: &[&[u8]], name: &CStr) -> Option<CString> {
    for directory in directories {
        let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
        let place = c_string([directory, slash, name.to_bytes()].concat());
        match fs::access(&place, X_OK) {
            Ok(()) => return Some(place),
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Whether what the kernel starts at `path` is loaded by ld.so of glibc.
fn is_loaded(path: &CStr) -> bool {
    let mut path = CString::from(path);
    for _ in 0..SCRIPT_DEPTH {
        if fs::access(&path, X_OK).is_err() {
            return false;
        }
        // A FIFO is no program.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = fs::open(&path, flags, 0) else {
            return false;
        };
        match started(&file) {
            Some(Format::Script { interpreter, .. }) => path = c_string(interpreter),
            Some(Format::Elf { loader, .. }) => return loader == Loader::Glibc,
            _ => return false,
        }
    }
    false
}

/// What kind of program the file is, if it runs with its caller's rights.
fn started(file: &OwnedFd) -> Option<Format> {
    let found = fs::fstat(file).ok()?;
    if found.st_mode & S_IFMT != S_IFREG || found.st_mode & 0o6000 != 0 {
        return None;
    }
    let capable = || fs::fgetxattr(file, c"security.capability", &mut []).is_ok();
    if process::geteuid() != 0 && capable() {
        return None;
    }
    let mut beginning = vec![0; BEGINNING];
    let got = fs::pread(file, &mut beginning, 0).ok()?;
    beginning.truncate(got);
    let mut read_at = |offset: u64, into: &mut [u8]| {
        let known = usize::try_from(offset).ok().and_then(|from| {
            let end = from.checked_add(into.len())?;
            beginning.get(from..end)
        });
        match known {
            Some(known) => {
                into.copy_from_slice(known);
                into.len()
            }
            None => fs::pread(file, into, offset).unwrap_or(0),
        }
    };
    Some(format(&beginning[..got.min(HEAD)], &mut read_at))
}
