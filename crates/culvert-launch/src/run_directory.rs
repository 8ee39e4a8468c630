//! Making run directories, and removing those that nobody holds. Their layout is written down in
//! `culvert_run`.
//!
//! Nobody stays behind to remove one: every process of the run holds `lock` shared through an
//! inherited descriptor, so the kernel knows when the last one is gone, and the next run removes
//! the directories that nobody holds.

use crate::directory;
use alloc::{ffi::CString, format, string::String, vec::Vec};
use core::ffi::CStr;
use culvert::mount::Mount;
use culvert_cache::pager::NAMESPACE;
use culvert_run::{files::c_string, state::State};
use culvert_sys::fd::{AsFd, BorrowedFd, CWD, Command, fcntl, flock};
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::raw::general::{
    F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, RLIMIT_NOFILE, SIGURG,
};
use culvert_sys::trust::{self, Opened, Why};
use culvert_sys::{Errno, OwnedFd, fs, process};

/// Descriptors of ours start here: above what programs number by hand (bash uses 10 to 255), below
/// the smallest usual RLIMIT_NOFILE (1024), so that the kernel's descriptor table stays one page
/// pair.
const HIGH_DESCRIPTOR: i32 = 1000;

/// How many left-over run directories one start looks at, and how many of their files it removes: a
/// start must stay quick.
const SWEEP_DIRECTORIES: usize = 64;
const SWEEP_FILES: usize = 4096;

/// A new run directory.
pub struct RunDirectory {
    /// It, open.
    pub opened: Opened,
    /// The descriptor that holds it: the process's own, through exec and fork, until the last one
    /// ends.
    pub lock: OwnedFd,
}

/// 16 hexadecimal digits that no other run has.
pub fn identifier() -> Result<String, Errno> {
    let mut bytes = [0; 8];
    // Up to 256 bytes are never short (getrandom(2)).
    process::getrandom(&mut bytes, 0)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// Whether `name` is one that [`identifier`] gives.
pub fn is_identifier(name: &[u8]) -> bool {
    name.len() == 16 && name.iter().all(u8::is_ascii_hexdigit)
}

impl RunDirectory {
    /// Makes the run directory `name` in `base`, without mounts yet. `command` is the whole
    /// command's path, for the pager; without it mapped files are filled first.
    ///
    /// The caller holds `base` shared, so that nobody sweeps it meanwhile: a directory is never
    /// seen without its lock.
    pub fn make(base: &Opened, name: &CStr, command: Option<&[u8]>) -> Result<Self, Why> {
        let made = trust::make_directory(base.number(), name)?;
        let flags = OFlags::WRONLY | OFlags::CREAT | OFlags::EXCL | OFlags::CLOEXEC;
        fs::openat(&made, c"lock", flags, 0o600).map_err(Why::Failed)?;
        // For reading: programs of other users inherit it, too.
        let lock = fs::openat(&made, c"lock", OFlags::RDONLY | OFlags::CLOEXEC, 0);
        let lock = lock.map_err(Why::Failed)?;
        flock(&lock, LOCK_SH).map_err(Why::Failed)?;
        for folder in [c"shadows", c"cwd", c"exe"] {
            trust::make_directory(made.number(), folder)?;
        }
        if let Some(command) = command {
            let _ = fs::symlinkat(&c_string(command), &made, c"command");
        }
        if let Ok(namespace) = fs::read_link(CWD, c"/proc/self/ns/pid") {
            let _ = fs::symlinkat(&c_string(namespace), &made, &c_string(NAMESPACE));
        }
        let lock = inherit(&lock).map_err(Why::Failed)?;
        Ok(Self { opened: made, lock })
    }
}

/// Writes the files of the run directory `directory` that say what is mounted where: also what each
/// process reads by the descriptor that it inherits, of whatever user.
pub fn write_mounts(
    directory: &impl AsFd,
    mounts: &[Mount],
    command: &[u8],
) -> Result<(), (&'static CStr, Errno)> {
    let found = fs::fstat(directory).map_err(|errno| (c"lock", errno))?;
    let images = culvert_preload::start::known_images(directory.as_fd(), mounts);
    let mounts = culvert::mount::encode(mounts);
    write(directory, c"mounts", &mounts).map_err(|errno| (c"mounts", errno))?;
    let state = State {
        directory: (found.st_dev, found.st_ino),
        command,
        mounts: &mounts,
        images: &images,
    };
    let shorter = State {
        images: &[],
        ..state
    };
    write(directory, c"lock", &state.encode())
        .or_else(|_| write(directory, c"lock", &shorter.encode()))
        .map_err(|errno| (c"lock", errno))
}

/// Makes the file `name` in `directory`, which is nothing but `content`.
pub fn write(directory: impl AsFd, name: &CStr, content: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREAT | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = fs::openat(directory, name, flags, 0o666)?;
    let mut rest = content;
    while !rest.is_empty() {
        match fs::write(&file, rest) {
            Ok(0) => return Err(Errno::EIO),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// A duplicate of `lock` with a high number that survives exec.
fn inherit(lock: &OwnedFd) -> Result<OwnedFd, Errno> {
    let duplicate = |from: i32| {
        fcntl(lock, Command::DUPFD, from as usize).map(|number| OwnedFd::from_raw(number as i32))
    };
    duplicate(HIGH_DESCRIPTOR)
        .or_else(|_| {
            let limit = process::getrlimit(RLIMIT_NOFILE).map_or(u64::MAX, |[soft, _]| soft);
            duplicate(i32::try_from(limit).unwrap_or(i32::MAX) / 2)
        })
        .or_else(|_| duplicate(3))
}

/// Removes those of `runs`, directories of `base`, that no process holds any more and `is_kept`
/// does not want, as long as it is quick. Whatever goes wrong is left for the next run.
pub fn sweep(base: &impl AsFd, runs: &[CString], is_kept: impl Fn(&CStr) -> bool) {
    if runs.is_empty() || flock(base, LOCK_EX | LOCK_NB).is_err() {
        return; // somebody else is at it, or making a directory
    }
    let mut files = SWEEP_FILES;
    for name in runs.iter().take(SWEEP_DIRECTORIES) {
        if !is_held(base, &lock_of(name)) && !is_kept(name) {
            remove_some(base, name, &mut files);
        }
    }
    let _ = flock(base, LOCK_UN);
}

/// Waits until nobody sweeps `base`, and keeps others from it as long as that is open.
pub fn keep_from_sweeping(base: &impl AsFd) -> Result<(), Errno> {
    flock(base, LOCK_SH)
}

/// The path of the lock of the run directory `name`, below its base.
pub fn lock_of(name: &CStr) -> CString {
    c_string([name.to_bytes(), b"/lock"].concat())
}

/// Whether a process holds the run whose lock is the file `lock` below `directory`. One without a
/// lock was abandoned while it was made.
pub fn is_held(directory: impl AsFd, lock: &CStr) -> bool {
    // Another user's, who lists as root, may be a FIFO.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match fs::openat(directory, lock, flags, 0) {
        Ok(lock) => flock(&lock, LOCK_EX | LOCK_NB).is_err() || is_open(&lock),
        Err(errno) => errno != Errno::ENOENT,
    }
}

/// Whether anybody else has the file open. A process that has become another user has the
/// descriptor that all processes of the run inherit, and could give up their lock by it; what
/// others have open it cannot close. The kernel grants a lease for writing only where nobody has
/// (fcntl(2)); where it grants none, the lock counts.
fn is_open(lock: &OwnedFd) -> bool {
    // Who opens it now waits until it is closed here, and this process is sent a signal: one that
    // is ignored.
    let lease = fcntl(lock, Command::SETSIG, SIGURG as usize)
        .and_then(|_| fcntl(lock, Command::SETLEASE, F_WRLCK as usize));
    lease == Err(Errno::EAGAIN)
}

/// Removes the run directory `name` of `base`.
pub fn remove(base: impl AsFd, name: &CStr) {
    remove_some(base, name, &mut { usize::MAX });
}

/// Removes the run directory `name` of `base`, and at most `files` files; the lock goes last, so
/// that what is left is found again.
fn remove_some(base: impl AsFd, name: &CStr, files: &mut usize) {
    let base = base.as_fd();
    let emptied = open_directory(base, name).and_then(|directory| {
        empty(&directory, files, |name| name == c"lock")?;
        fs::unlinkat(&directory, c"lock", AtFlags::empty())
    });
    if emptied.is_ok() || emptied == Err(Errno::ENOENT) {
        let _ = fs::unlinkat(base, name, AtFlags::REMOVEDIR);
    }
}

/// Opens a directory of ours. Copies for programs that are not intercepted may not be read.
fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(parent, name, flags, 0).or_else(|_| {
        fs::fchmodat(parent, name, 0o700)?;
        fs::openat(parent, name, flags, 0)
    })
}

/// Removes what is in `directory` but what `stays`, at most `files` of them.
fn empty(directory: &OwnedFd, files: &mut usize, stays: fn(&CStr) -> bool) -> Result<(), Errno> {
    // Copies for programs that are not intercepted may not be written.
    let open_to_owner = || fs::fchmod(directory, 0o700);
    directory::each(directory.borrow(), |entry| {
        *files = files.checked_sub(1).ok_or(Errno::ETIMEDOUT)?;
        let kind = match entry.is_directory {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        if entry
            .name
            .to_bytes()
            .ends_with(culvert_drivers::memory::SPILL_SUFFIX)
        {
            // What lies elsewhere goes with it.
            culvert_drivers::memory::remove_spill(directory, entry.name.to_bytes());
        }
        if stays(&entry.name) || fs::unlinkat(directory, &entry.name, kind).is_ok() {
            return Ok(());
        }
        open_to_owner()?;
        if entry.is_directory {
            // Most are empty.
            let inner = open_directory(directory.borrow(), &entry.name)?;
            empty(&inner, files, |_| false)?;
        }
        fs::unlinkat(directory, &entry.name, kind)
    })
}

/// The run directories among `entries` of a base.
pub fn runs(entries: &[directory::Entry]) -> Vec<CString> {
    let runs = entries
        .iter()
        .filter(|entry| entry.is_directory && is_identifier(entry.name.to_bytes()));
    runs.map(|entry| entry.name.clone()).collect()
}

/// The value of `CULVERT_RUN`, as `culvert_preload::start` reads it: the run directory's path, the
/// descriptor of its lock, and flags (1: strict, 2: no patching, 4: the working directory is in no
/// mount).
pub fn variable(path: &[u8], lock: i32, flags: u8) -> Vec<u8> {
    [path, format!(":{lock}:{flags}").as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    fn open(path: &Path) -> OwnedFd {
        let path = c_string(path.as_os_str().as_bytes());
        culvert_sys::fs::open(&path, OFlags::DIRECTORY | OFlags::CLOEXEC, 0).unwrap()
    }

    fn remove_left(place: &Path, files: &mut usize) {
        remove_some(open(place), c"left", files);
    }

    fn sweep_all(place: &Path) {
        let base = open(place);
        let found = directory::entries(&base).unwrap();
        sweep(&base, &runs(&found), |_| false);
    }

    fn place(name: &str) -> PathBuf {
        let place =
            std::env::temp_dir().join(format!("culvert-launch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::DirBuilder::new().mode(0o700).create(&place).unwrap();
        place
    }

    #[test]
    fn only_directories_that_nobody_holds_are_swept() {
        let place = place("sweep");
        let mut locks = Vec::new();
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
        let number = |file: &fs::File| BorrowedFd::number(std::os::fd::AsRawFd::as_raw_fd(file));
        flock(number(&locks[0]), LOCK_SH).unwrap();
        sweep_all(&place);
        let left = |name: &&&str| place.join(name).exists();
        assert!(names.iter().filter(left).eq([&names[0], &names[3]]));
        // Given up by one of many who have it open.
        flock(number(&locks[0]), LOCK_UN).unwrap();
        sweep_all(&place);
        assert!(names.iter().filter(left).eq([&names[0], &names[3]]));
        drop(locks);
        sweep_all(&place);
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
                fs::set_permissions(closed, Permissions::from_mode(mode)).unwrap();
            }
            // Rights of root are none here.
            let remove = || remove_left(&place, &mut 64);
            match process::geteuid() == 0 {
                true => without_capabilities(remove),
                false => remove(),
            }
            assert!(!run.exists(), "{mode:o}");
        }
        fs::remove_dir_all(&place).unwrap();
    }

    /// Does `work` in a thread of its own that has given its capabilities up.
    fn without_capabilities(work: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                process::capset(&[[0; 3]; 2]).unwrap();
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
        remove_left(&place, &mut 2);
        assert!(run.join("lock").exists());
        remove_left(&place, &mut 8);
        assert!(!run.exists());
        fs::remove_dir_all(&place).unwrap();
    }
}
