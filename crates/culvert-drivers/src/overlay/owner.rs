//! Whose the upper layer is: one run's, or one kernel mount's, at a time. Processes of two would
//! not hear of each other's changes; the kernel's overlayfs refuses a second mount where it has an
//! index (`ovl_report_in_use`, fs/overlayfs/super.c).

use crate::archive::{host, warning::printable};
use alloc::format;
use core::sync::atomic::AtomicU32;
use culvert::{Caller, Errno, Error, FileSystem, Node, Result};
use culvert_sys::{fd, raw::general as linux, sync::shared_wait};

/// The attribute of the work directory that says the run directory of whose it is. Where the first
/// one cannot be had, as on tmpfs before Linux 6.6, the second one.
const NAMES: [&[u8]; 2] = [b"user.overlay.run", b"trusted.overlay.run"];

/// Nanoseconds between two looks.
const BETWEEN: u32 = 25_000_000;

/// Takes the upper layer whose work directory is `work`, by name `path`, for the run with the
/// directory `run`. `EBUSY`: another one has it, and lives.
pub fn take(fs: &dyn FileSystem, work: Node, path: &[u8], run: &[u8]) -> Result<()> {
    // Whoever else takes it waits; where it is no file of the kernel's nobody else can. The
    // directory inside is ours: others could hold a lock of the one that they see.
    let inside = host::open_read(&[path, b"/", super::WORK].concat());
    let lock = inside.or_else(|_| host::open_read(path)).ok();
    if let Some(lock) = &lock {
        wait_for(lock, path)?;
    }
    let system = &Caller::SYSTEM;
    for name in NAMES {
        match fs.get_xattr(system, work, name) {
            Ok(owner) if owner != run && stays(&owner) => {
                let (path, owner) = (printable(path), printable(&owner));
                let why = format!(
                    "{path}: another run or mount writes to this upper layer ({owner}); it can \
                    when \
                     that has ended"
                );
                return Err(Error::because(Errno::EBUSY, why));
            }
            Err(error) if !is_none(&error) => return Err(error),
            _ => {}
        }
    }
    for name in NAMES {
        match fs.set_xattr(system, work, name, run, 0) {
            Err(error) if is_none(&error) => {}
            done => return done,
        }
    }
    // Without attributes there are no marks, either.
    Ok(())
}

fn is_none(error: &Error) -> bool {
    matches!(
        error.errno(),
        Errno::ENODATA | Errno::EOPNOTSUPP | Errno::EPERM
    )
}

/// Waits for `lock` of the work directory `path`, though not for ever: whoever takes an upper layer
/// holds it for some seconds at most.
fn wait_for(lock: &fd::OwnedFd, path: &[u8]) -> Result<()> {
    const TRIES: u32 = 600;
    let word = AtomicU32::new(0);
    for _ in 0..TRIES {
        match fd::flock(lock, linux::LOCK_EX | linux::LOCK_NB) {
            Err(Errno::EAGAIN) => shared_wait(&word, 0, BETWEEN),
            done => return Ok(done?),
        }
    }
    let why = format!("{}: another process holds its lock", printable(path));
    Err(Error::because(Errno::EBUSY, why))
}

/// Whether the run `owner` lives on. A mount's server ends some time after umount(8) returns.
fn stays(owner: &[u8]) -> bool {
    const TRIES: u32 = 40;
    let word = AtomicU32::new(0);
    (0..TRIES).all(|_| {
        let lives = lives(owner);
        if lives {
            shared_wait(&word, 0, BETWEEN);
        }
        lives
    })
}

/// Whether a process of the run with the directory `run` lives: each holds its lock. One of another
/// user's, of which nothing is seen, may.
fn lives(run: &[u8]) -> bool {
    match host::open_read(&[run, b"/lock"].concat()) {
        Ok(lock) => fd::flock(&lock, linux::LOCK_EX | linux::LOCK_NB).is_err(),
        Err(error) => !matches!(error, Errno::ENOENT | Errno::ENOTDIR),
    }
}
