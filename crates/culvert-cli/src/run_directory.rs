//! The run directory: what the processes of one run have in common. Its layout is written down in
//! `culvert_run`.
//!
//! Nobody stays behind to remove it: every process of the run holds `lock` shared through an
//! inherited descriptor, so the kernel knows when the last one is gone, and the next run removes
//! the directories that nobody holds.

use crate::base::open_base;
use crate::failure::{Failure, reason, shown};
use crate::identifier::{identifier, is_identifier};
use crate::own_path::own_path;
use crate::umask::OwnerRights;
use crate::{recovery, stored_images};
use culvert::mount::Mount;
use culvert_cache::pager::NAMESPACE;
use culvert_preload::start::other_user::Carried;
use culvert_sys::{
    BorrowedFd,
    fd::{Command, fcntl},
    trust,
};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use std::{
    ffi::{CString, OsString},
    fs, io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    os::unix::ffi::OsStrExt,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Descriptors of ours start here: above what programs number by hand (bash uses 10 to 255), below
/// the smallest usual RLIMIT_NOFILE (1024), so that the kernel's descriptor table stays one page
/// pair.
const HIGH_DESCRIPTOR: i32 = 1000;

/// How many left-over run directories one start looks at, and how many of their files it removes: a
/// start must stay quick.
const SWEEP_DIRECTORIES: usize = 64;
const SWEEP_FILES: usize = 4096;

/// A run directory that this process holds, and whatever it becomes.
pub struct RunDirectory {
    /// Where it is.
    pub path: PathBuf,
    /// The inherited descriptor that holds it.
    pub lock: i32,
}

impl RunDirectory {
    /// Writes the file that says what is mounted where.
    pub fn write_mounts(&self, mounts: &[Mount]) -> Result<(), Failure> {
        let mounts = culvert::mount::encode(mounts);
        // Whom the directory is closed to reads the same by the descriptor that he inherits.
        let command = own_path().unwrap_or(Path::new(""));
        let carried = Carried::encode(command.as_os_str().as_bytes(), &mounts);
        for (name, content) in [("mounts", mounts), ("lock", carried)] {
            let file = self.path.join(name);
            fs::write(&file, content).map_err(|error| {
                Failure::new(format!("cannot write {}: {}", shown(&file), reason(&error)))
            })?;
        }
        Ok(())
    }

    /// Says how many bytes of mapped files the run may hold.
    pub fn write_page_memory(&self, bytes: u64) -> Result<(), Failure> {
        let file = self.path.join(culvert_cache::room::FILE);
        fs::write(&file, bytes.to_string()).map_err(|error| {
            Failure::new(format!("cannot write {}: {}", shown(&file), reason(&error)))
        })
    }

    /// Removes the directory: no program came to use it.
    pub fn discard(self) {
        let mut files = usize::MAX;
        remove(&self.path, &mut files);
    }
}

/// Makes a new run directory, without mounts yet.
pub fn create() -> Result<RunDirectory, Failure> {
    let _rights = OwnerRights::new();
    let (base, opened) = open_base()?;
    let failed = |what: &Path, error: io::Error| {
        Failure::new(format!("cannot make {}: {}", shown(what), reason(&error)))
            .advice("culvert keeps a small directory for each run there; see: culvert doctor")
    };
    let gate = owned(opened);
    let names = names(&base);
    let mut runs = run_directories(&base, &names);
    runs.retain(|directory| {
        let mapped = directory.join("mappings").exists();
        if mapped && recovery::rests(directory) {
            return false;
        }
        if mapped {
            recovery::await_pager(directory, || held(directory));
            if !held(directory) {
                recovery::try_again(directory);
            }
        }
        true
    });
    sweep(&runs, gate.as_fd());
    // While we hold the gate shared nobody sweeps, so a directory is never seen without its lock.
    flock(&gate, FlockOperation::LockShared).map_err(|error| failed(&base, error.into()))?;
    let name = identifier()?;
    let directory = base.join(&name);
    match names.iter().any(|(name, _)| name == stored_images::NAME) {
        true => stored_images::tidy(&base),
        false => stored_images::begin(&base),
    }
    // Site tables, for all runs of the user; without it every program would be searched anew.
    if !names.iter().any(|(name, _)| name == "sites") {
        let _ = make_directory(&gate, "sites");
    }
    let build = || -> io::Result<culvert_sys::OwnedFd> {
        let made = make_directory(&gate, &name)?;
        let lock = directory.join("lock");
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&lock)?;
        // For reading: programs of other users inherit it, too.
        let lock = fs::File::open(lock)?;
        flock(&lock, FlockOperation::LockShared)?;
        for folder in ["shadows", "cwd", "exe"] {
            make_directory(&made, folder)?;
        }
        // For the pager; without it mapped files are filled first.
        if let Ok(command) = own_path() {
            let _ = std::os::unix::fs::symlink(command, directory.join("command"));
        }
        if let Ok(namespace) = fs::read_link("/proc/self/ns/pid") {
            let _ = std::os::unix::fs::symlink(namespace, directory.join(NAMESPACE));
        }
        inherit(&lock)
    };
    let lock = build().map_err(|error| {
        remove(&directory, &mut SWEEP_FILES.clone());
        failed(&directory, error)
    })?;
    Ok(RunDirectory {
        path: directory,
        // It belongs to the process from here on, through exec and fork, until the last one ends.
        lock: lock.into_raw(),
    })
}

/// A duplicate of `lock` with a high number that survives exec.
fn inherit(lock: &fs::File) -> io::Result<culvert_sys::OwnedFd> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(i32::MAX, |limit| i32::try_from(limit).unwrap_or(i32::MAX));
    let mut result = Err(io::ErrorKind::Other.into());
    for from in [HIGH_DESCRIPTOR, limit / 2, 3] {
        result = duplicate(lock, from);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// `file` once more, with a number from `from` on, not closed by exec.
fn duplicate(file: &fs::File, from: i32) -> io::Result<culvert_sys::OwnedFd> {
    let file = BorrowedFd::number(file.as_raw_fd());
    let number = fcntl(file, Command::DUPFD, from as usize)
        .map_err(|error| io::Error::from_raw_os_error(error.raw()))?;
    Ok(culvert_sys::OwnedFd::from_raw(number as i32))
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

/// The directory `name` in `parent`, for this user alone.
fn make_directory(parent: &impl AsRawFd, name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let made = trust::make_directory(parent.as_raw_fd(), &name).map_err(io_error)?;
    Ok(owned(made))
}

/// Removes those of `runs` that no process holds any more, as long as it is quick. Whatever goes
/// wrong is left for the next run.
fn sweep(runs: &[PathBuf], gate: impl AsFd) {
    if runs.is_empty() || flock(&gate, FlockOperation::NonBlockingLockExclusive).is_err() {
        return; // somebody else is at it, or making a directory
    }
    let mut files = SWEEP_FILES;
    for directory in runs.iter().take(SWEEP_DIRECTORIES) {
        if !held(directory) && !recovery::is_needed(directory) {
            remove(directory, &mut files);
        }
    }
    let _ = flock(&gate, FlockOperation::Unlock);
}

/// The names in the directory `base`, and whether each is a directory's.
fn names(base: &Path) -> Vec<(OsString, bool)> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries
        .map(|entry| (entry.file_name(), is_directory(&entry)))
        .collect()
}

/// The run directories among the `names` of `base`.
fn run_directories(base: &Path, names: &[(OsString, bool)]) -> Vec<PathBuf> {
    let runs = names
        .iter()
        .filter(|(name, is_directory)| *is_directory && is_identifier(name.as_bytes()));
    runs.map(|(name, _)| base.join(name)).collect()
}

/// Whether a process holds the run directory `directory` (absolute). One without a lock was
/// abandoned while it was made.
pub fn held(directory: &Path) -> bool {
    is_held(rustix::fs::CWD, &directory.join("lock"))
}

/// The same of the file `lock` below `directory`.
pub fn is_held(directory: impl AsFd, lock: &Path) -> bool {
    let lock = openat(
        directory,
        lock,
        // Another user's, who lists as root, may be a FIFO.
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    );
    match lock {
        Ok(lock) => {
            flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() || is_open(&lock)
        }
        Err(error) => error != rustix::io::Errno::NOENT,
    }
}

/// Whether anybody else has the file open. A process that has become another user has the
/// descriptor that all processes of the run inherit, and could give up their lock by it; what
/// others have open it cannot close. The kernel grants a lease for writing only where nobody has
/// (fcntl(2)); where it grants none, the lock counts.
fn is_open(lock: &OwnedFd) -> bool {
    // Who opens it now waits until it is closed here, and this process is sent a signal: one that
    // is ignored.
    use culvert_sys::raw::general::{F_WRLCK, SIGURG};
    let lock = BorrowedFd::number(lock.as_raw_fd());
    let lease = fcntl(lock, Command::SETSIG, SIGURG as usize)
        .and_then(|_| fcntl(lock, Command::SETLEASE, F_WRLCK as usize));
    lease == Err(culvert_sys::Errno::EAGAIN)
}

/// Removes `directory` and at most `files` files; the lock goes last, so that what is left is found
/// again.
fn remove(directory: &Path, files: &mut usize) {
    fn empty(directory: &Path, files: &mut usize) -> io::Result<()> {
        // Copies for programs that are not intercepted may not be written.
        let entries = fs::read_dir(directory).or_else(|_| {
            open_to_owner(directory)?;
            fs::read_dir(directory)
        })?;
        for entry in entries {
            let entry = entry?;
            if *files == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            *files -= 1;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                // Most are empty.
                if fs::remove_dir(&path).is_err() {
                    open_to_owner(directory)?;
                    empty(&path, files)?;
                    fs::remove_dir(&path)?;
                }
            } else if entry.file_name() != "lock" && fs::remove_file(&path).is_err() {
                open_to_owner(directory)?;
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
    fn open_to_owner(directory: &Path) -> io::Result<()> {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
    }
    if empty(directory, files).is_ok() {
        let _ = fs::remove_file(directory.join("lock"));
        let _ = fs::remove_dir(directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::DirBuilderExt;

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("culvert-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::DirBuilder::new().mode(0o700).create(&place).unwrap();
        place
    }

    #[test]
    fn only_directories_that_nobody_holds_are_swept() {
        let place = place("sweep");
        let gate = fs::File::open(&place).unwrap();
        let mut locks = Vec::new();
        let names_in = super::names;
        let names = [
            "00000000000000ab",
            "00000000000000cd",
            "00000000000000ef",
            "something else",
        ];
        for name in names {
            fs::create_dir_all(place.join(name).join("shadows")).unwrap();
            fs::write(place.join(name).join("shadows/0.1"), b"x").unwrap();
            let lock = place.join(name).join("lock");
            match name == names[0] {
                true => locks.push(fs::File::create(lock).unwrap()),
                false if name == names[1] => drop(fs::File::create(lock).unwrap()),
                false => {}
            }
        }
        flock(&locks[0], FlockOperation::LockShared).unwrap();
        sweep(&run_directories(&place, &names_in(&place)), &gate);
        let left = |name: &&&str| place.join(name).exists();
        assert!(names.iter().filter(left).eq([&names[0], &names[3]]));
        // Given up by one of many who have it open.
        flock(&locks[0], FlockOperation::Unlock).unwrap();
        sweep(&run_directories(&place, &names_in(&place)), &gate);
        assert!(names.iter().filter(left).eq([&names[0], &names[3]]));
        drop(locks);
        sweep(&run_directories(&place, &names_in(&place)), &gate);
        assert!(names.iter().filter(left).eq([&names[3]]));
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn what_its_owner_may_not_write_is_removed_too() {
        let place = place("closed");
        for mode in [0o000, 0o400, 0o500, 0o300] {
            let run = place.join("left");
            let inner = run.join("shadows/copy");
            fs::create_dir_all(inner.join("empty")).unwrap();
            fs::write(run.join("lock"), b"").unwrap();
            fs::write(inner.join("file"), b"").unwrap();
            for closed in [&inner, &run.join("shadows")] {
                fs::set_permissions(closed, fs::Permissions::from_mode(mode)).unwrap();
            }
            // Rights of root are none here.
            let as_user = |remove: fn(&Path)| match rustix::process::geteuid().is_root() {
                true => without_capabilities(|| remove(&run)),
                false => remove(&run),
            };
            as_user(|run| remove(run, &mut 64));
            assert!(!run.exists(), "{mode:o}");
        }
        fs::remove_dir_all(&place).unwrap();
    }

    /// Does `work` in a thread of its own that has given its capabilities up.
    fn without_capabilities(work: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let none = rustix::thread::CapabilitySets {
                    effective: rustix::thread::CapabilitySet::empty(),
                    permitted: rustix::thread::CapabilitySet::empty(),
                    inheritable: rustix::thread::CapabilitySet::empty(),
                };
                rustix::thread::set_capabilities(None, none).unwrap();
                work();
            });
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_sweep_is_bounded_and_goes_on_next_time() {
        let place = place("bounded");
        let run = place.join("left");
        fs::create_dir(&run).unwrap();
        fs::write(run.join("lock"), b"").unwrap();
        for name in ["a", "b", "c"] {
            fs::write(run.join(name), b"").unwrap();
        }
        remove(&run, &mut 2);
        assert!(run.join("lock").exists());
        remove(&run, &mut 8);
        assert!(!run.exists());
        fs::remove_dir_all(&place).unwrap();
    }
}
