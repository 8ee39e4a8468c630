//! The run directory: what the processes of one run have in common. Its layout is written down in
//! `culvert_run`, and `culvert_launch` makes it.

use crate::base::open_base;
use crate::failure::{Failure, path, reason, shown};
use crate::identifier::identifier;
use crate::own_path::own_path;
use crate::umask::OwnerRights;
use crate::{recovery, stored_images};
use culvert::mount::Mount;
pub use culvert_launch::run_directory::variable;
use culvert_launch::run_directory::{
    self, is_held, keep_from_sweeping, lock_of, remove, runs, sweep,
};
use culvert_launch::{directory::entries, kept, stores};
use culvert_run::files::c_string;
use culvert_sys::{Errno, fd::CWD, flags::OFlags, fs, trust};
use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{FromRawFd, OwnedFd},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// A run directory that this process holds, and whatever it becomes.
pub struct RunDirectory {
    /// Where it is.
    pub path: PathBuf,
    /// The inherited descriptor that holds it: the process's own from here on, through exec and
    /// fork, until the last one ends.
    pub lock: i32,
}

impl RunDirectory {
    /// Writes the files that say what is mounted where.
    pub fn write_mounts(&self, mounts: &[Mount]) -> Result<(), Failure> {
        let command = own_path().unwrap_or(Path::new(""));
        let written = self.open().map_err(|errno| (c"mounts", errno));
        let written = written.and_then(|directory| {
            run_directory::write_mounts(&directory, mounts, command.as_os_str().as_bytes())
        });
        written.map_err(|(name, errno)| self.unwritten(name, errno))
    }

    /// What the first of them says.
    pub fn read_mounts(&self) -> Result<Vec<Mount>, Failure> {
        let at = self.path.join("mounts");
        let failed = |why: String| Failure::new(format!("cannot read {}: {why}", shown(&at)));
        let bytes = std::fs::read(&at).map_err(|error| failed(reason(&error)))?;
        culvert::mount::decode(&bytes).map_err(|error| failed(error.to_string()))
    }

    /// Says how many bytes of mapped files the run may hold.
    pub fn write_page_memory(&self, bytes: u64) -> Result<(), Failure> {
        let name = c_string(culvert_cache::room::FILE);
        let written = self.open().and_then(|directory| {
            run_directory::write(&directory, &name, bytes.to_string().as_bytes())
        });
        written.map_err(|errno| self.unwritten(&name, errno))
    }

    fn open(&self) -> Result<culvert_sys::OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::open(&c_string(self.path.as_os_str().as_bytes()), flags, 0)
    }

    fn unwritten(&self, name: &CStr, errno: Errno) -> Failure {
        let file = self.path.join(path(name.to_bytes()));
        Failure::new(format!("cannot write {}: {}", shown(&file), errno.text()))
    }

    /// Removes the directory: no program came to use it.
    pub fn discard(self) {
        remove(CWD, &c_string(self.path.as_os_str().as_bytes()));
    }
}

/// Makes a new run directory, without mounts yet.
pub fn create() -> Result<RunDirectory, Failure> {
    let _rights = OwnerRights::new();
    let (base, gate) = open_base()?;
    let failed = |what: &Path, error: io::Error| {
        Failure::new(format!("cannot make {}: {}", shown(what), reason(&error)))
            .advice("culvert keeps a small directory for each run there; see: culvert doctor")
    };
    let names = entries(&gate).unwrap_or_default();
    let below = |name: &CString| base.join(path(name.to_bytes()));
    let mut runs = runs(&names);
    runs.retain(|name| {
        let directory = below(name);
        let mapped = directory.join("mappings").exists();
        if mapped && kept::rests(&gate, name) {
            return false;
        }
        if mapped {
            let held = || is_held(&gate, &lock_of(name));
            recovery::await_pager(&directory, held);
            if !held() {
                recovery::try_again(&directory);
            }
        }
        true
    });
    sweep(&gate, &runs, |name| {
        recovery::is_needed(&base.join(path(name.to_bytes())))
    });
    keep_from_sweeping(&gate)
        .map_err(|errno| failed(&base, io_error(trust::Why::Failed(errno))))?;
    let name = identifier()?;
    let directory = base.join(&name);
    let has = |wanted: &str| {
        names
            .iter()
            .any(|entry| entry.name.to_bytes() == wanted.as_bytes())
    };
    match has(stores::NAME) {
        true => stored_images::tidy(&base),
        false => stored_images::begin(&base),
    }
    // Site tables, for all runs of the user; without it every program would be searched anew.
    if !has("sites") {
        let _ = trust::make_directory(gate.number(), c"sites");
    }
    let command = own_path().ok().map(|path| path.as_os_str().as_bytes());
    let name = c_string(name);
    let made = run_directory::RunDirectory::make(&gate, &name, command).map_err(|why| {
        remove(&gate, &name);
        failed(&directory, io_error(why))
    })?;
    Ok(RunDirectory {
        path: directory,
        lock: made.lock.into_raw(),
    })
}

/// What is trusted, as std has it.
pub fn owned(opened: trust::Opened) -> OwnedFd {
    // SAFETY: the descriptor is nobody else's.
    unsafe { OwnedFd::from_raw_fd(opened.release()) }
}

fn io_error(why: trust::Why) -> io::Error {
    match why {
        trust::Why::Failed(errno) => io::Error::from_raw_os_error(errno.raw()),
        why => io::Error::other(why.to_string()),
    }
}
