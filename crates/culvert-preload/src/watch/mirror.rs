//! Mirrors: what stands in the run directory for a node that is watched.
//!
//! `watch/M.N/` holds the mirror of node N of mount M, under one of two names: a rename from one to
//! the other is told as IN_MOVE_SELF. Beside it there may be an empty one for those who watch for
//! what never happens.

use alloc::ffi::CString;
use alloc::format;
use core::ffi::CStr;
use culvert::{Errno, FileKind};
use culvert_run::{ShadowName, files::c_string, list, make_directory, stat_path};
use culvert_sys::fd::CWD;
use culvert_sys::flags::RenameFlags;
use culvert_sys::fs;
use culvert_sys::raw::general::O_DIRECTORY;

/// The two names, and the one under which it is made.
const FIRST: &str = "a";
const SECOND: &str = "b";
const UNFINISHED: &str = "new";
/// The empty one.
const SILENT: &str = "silent";
/// A directory that never changes and has more names gets that one.
const MUCH: usize = 1000;

/// A mirror.
pub struct Mirror {
    name: ShadowName,
    path: CString,
    /// Whether it is [`FIRST`].
    first: bool,
}

/// The path of `part` of the folder that belongs to `name`.
fn in_folder(name: ShadowName, part: &str) -> CString {
    culvert_run::get().file(&format!("watch/{}/{part}", name.text()))
}

impl Mirror {
    /// The mirror of the node, if it has one.
    pub fn of(name: ShadowName) -> Option<Self> {
        [(FIRST, true), (SECOND, false)]
            .into_iter()
            .find_map(|(part, first)| {
                let path = in_folder(name, part);
                stat_path(&path)
                    .is_ok()
                    .then_some(Self { name, path, first })
            })
    }

    /// A new one. ENOSPC whatever stands in the way: so inotify(7) says that there can be no more
    /// watches.
    pub fn make(name: ShadowName, directory: bool) -> Result<Self, Errno> {
        let path = in_folder(name, FIRST);
        let made = (|| {
            let unfinished = in_folder(name, UNFINISHED);
            make_directory(&in_folder(name, ""))?;
            if directory {
                // What somebody who was killed left there.
                if let Ok(left) = culvert_run::files::open(&unfinished, O_DIRECTORY, 0) {
                    for entry in list(&left) {
                        unlink(&below(&unfinished, &entry));
                    }
                }
                make_directory(&unfinished)?;
                fill(name, &unfinished)?;
            } else {
                make_file(&unfinished)?;
            }
            rename(&unfinished, &path, 0)
        })();
        match made {
            Ok(()) => Ok(Self {
                name,
                path,
                first: true,
            }),
            Err(error) => Err(no_room(name, error)),
        }
    }

    /// Its path.
    pub fn path(&self) -> &CStr {
        &self.path
    }

    /// The same.
    pub fn into_path(self) -> CString {
        self.path
    }

    /// The path of what stands in a directory's mirror for the name `name`.
    pub fn entry(&self, name: &[u8]) -> CString {
        below(&self.path, name)
    }

    /// Tells that the node has another name.
    pub fn moves(&mut self) {
        let other = in_folder(self.name, if self.first { SECOND } else { FIRST });
        if rename(&self.path, &other, 0).is_ok() {
            self.path = other;
            self.first = !self.first;
        }
    }

    /// Tells that the node is gone, or will be when nobody has it open any more.
    pub fn remove(self, directory: bool) {
        if directory && !unlink(&self.path) {
            // Names that others left there who do not tell.
            if let Ok(opened) = culvert_run::files::open(&self.path, O_DIRECTORY, 0) {
                for name in list(&opened)
                    .iter()
                    .filter(|name| !matches!(&name[..], b"." | b".."))
                {
                    unlink(&self.entry(name));
                }
            }
        }
        unlink(&self.path);
        unlink(&in_folder(self.name, ""));
    }
}

fn no_room(name: ShadowName, error: Errno) -> Errno {
    culvert_sys::log!(
        "{name} cannot be watched, for its mirror in the run directory cannot be made: {error}"
    );
    Errno::ENOSPC
}

/// The empty mirror of a directory, made where there is none.
pub(crate) fn silent(name: ShadowName) -> Result<CString, Errno> {
    let path = in_folder(name, SILENT);
    make_directory(&in_folder(name, ""))
        .and_then(|()| make_directory(&path))
        .map_err(|error| no_room(name, error))?;
    Ok(path)
}

/// Whether the directory has so many names that copying them is to be avoided.
pub(crate) fn holds_much(name: ShadowName) -> Result<bool, Errno> {
    let file_system = culvert_run::get().mounts.file_system(name.mount)?;
    let mut names = 0;
    file_system
        .read_directory(&culvert_run::task::caller(), name.node, 0, &mut |_| {
            names += 1;
            names <= MUCH
        })
        .map_err(|error| error.errno())?;
    Ok(names > MUCH)
}

/// `name` below the directory `path`.
pub(crate) fn below(path: &CStr, name: &[u8]) -> CString {
    c_string([path.to_bytes(), b"/", name].concat())
}

/// Entries for all names that the directory has.
fn fill(name: ShadowName, mirror: &CStr) -> Result<(), Errno> {
    let file_system = culvert_run::get().mounts.file_system(name.mount)?;
    let mut failed = Ok(());
    file_system
        .read_directory(&culvert_run::task::caller(), name.node, 0, &mut |entry| {
            failed = make_entry(
                &below(mirror, entry.name),
                entry.kind == FileKind::Directory,
            );
            failed.is_ok()
        })
        .map_err(|error| error.errno())?;
    failed
}

/// What stands for a name: a directory or an empty file. One that is there already is as good.
pub(crate) fn make_entry(path: &CStr, directory: bool) -> Result<(), Errno> {
    match directory {
        true => make_directory(path),
        false => make_file(path),
    }
}

fn make_file(path: &CStr) -> Result<(), Errno> {
    exists(fs::mknod(path, 0o100600, 0))
}

fn exists(made: Result<(), Errno>) -> Result<(), Errno> {
    match made {
        Err(Errno::EEXIST) => Ok(()),
        made => made,
    }
}

/// Removes `path`, whatever it is; whether it is gone.
pub(crate) fn unlink(path: &CStr) -> bool {
    let removed = match fs::unlink(path) {
        Err(Errno::EISDIR) => fs::rmdir(path),
        removed => removed,
    };
    matches!(removed, Ok(_) | Err(Errno::ENOENT))
}

/// renameat2(2)
pub(crate) fn rename(from: &CStr, to: &CStr, flags: u32) -> Result<(), Errno> {
    fs::renameat2(CWD, from, CWD, to, RenameFlags::from_bits(flags))
}
