//! What killed programs of earlier runs have stored in mappings, and their files have not got: it
//! is written back before the next run's programs look at them.
//!
//! What cannot be written back stays in its run directory, which is said once, and is tried again
//! by later runs.

use crate::failure::{Failure, shown};
use culvert_launch::kept::{self, KEPT};
use culvert_run::files::c_string;
use culvert_sys::{
    BorrowedFd,
    fd::{self, CWD, LockCommand},
    plain::Plain,
    raw::general::{F_UNLCK, F_WRLCK, flock},
};
use std::{
    fs,
    io::{self, IsTerminal},
    os::unix::ffi::OsStrExt,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

/// Whether anything is left in `directory` that must still be written back.
pub fn is_needed(directory: &Path) -> bool {
    let run = c_string(directory.as_os_str().as_bytes());
    is_pending(directory) && !kept::is_given_up(CWD, &run)
}

fn is_pending(directory: &Path) -> bool {
    !owners(directory).is_empty()
}

/// The processes that had something to write back when they ended, and those that live.
fn owners(directory: &Path) -> Vec<u32> {
    let table = fs::read(directory.join("mappings")).unwrap_or_default();
    culvert_run::records::owners_in(&table).collect()
}

/// Waits, not for long, while the pager of the run in `directory` is writing back what a process
/// had stored that is gone.
pub fn await_pager(directory: &Path, held: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(1);
    while held() && Instant::now() < until && is_pager_at_it(directory) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_pager_at_it(directory: &Path) -> bool {
    let owners = owners(directory);
    let open = |name| fs::File::open(directory.join(name));
    let (false, Ok(slots), Ok(pager)) = (owners.is_empty(), open("owners"), open("pager.lock"))
    else {
        return false;
    };
    let free = rustix::fs::FlockOperation::NonBlockingLockShared;
    rustix::fs::flock(&pager, free).is_err()
        && owners.into_iter().any(|owner| match holder(&slots, owner) {
            None => false,
            Some(0) => true,
            Some(process) => fs::read(format!("/proc/{process}/comm"))
                .is_ok_and(|name| name.starts_with(b"culvert-pager")),
        })
}

/// The process that has the slot `owner` of a run (`culvert_run::node_locks`), 0 when nobody
/// has it any more; none where that cannot be told.
fn holder(slots: &fs::File, owner: u32) -> Option<u32> {
    if !culvert_run::node_locks::NodeLocks::is_slot(owner) {
        return None;
    }
    let mut lock = flock {
        l_type: F_WRLCK as i16,
        l_start: owner.into(),
        l_len: 1,
        ..flock::zeroed()
    };
    fd::lock(
        BorrowedFd::number(slots.as_raw_fd()),
        LockCommand::GETLK,
        &mut lock,
    )
    .ok()?;
    match lock.l_type as u32 {
        F_UNLCK => Some(0),
        _ => match lock.l_pid {
            0 => None,
            // A proof of life belongs to a description, not to a process.
            -1 => Some(culvert_run::node_locks::NodeLocks::chooser(owner)),
            process => Some(process as u32),
        },
    }
}

/// Writes back what programs of the run in `directory`, which nobody holds, have stored. Another
/// process does it: one serves one run.
pub fn try_again(directory: &Path) {
    if !is_pending(directory) {
        return;
    }
    let is_told = fs::metadata(directory.join(KEPT)).is_ok_and(|kept| kept.len() != 0);
    let tells = !is_told && io::stderr().is_terminal();
    let _ = std::process::Command::new("/proc/self/exe")
        .arg(crate::RECOVER)
        .arg(directory)
        .env_remove("CULVERT_RUN")
        .env_remove("LD_AUDIT")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(if tells {
            Stdio::inherit()
        } else {
            Stdio::null()
        })
        .status();
    if is_pending(directory) {
        note(directory, tells);
    }
}

/// Notes that the bytes are kept. The time of the file stays that of the first attempt.
fn note(directory: &Path, told: bool) {
    let path = directory.join(KEPT);
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    let Ok(file) = options.open(path) else { return };
    if told && let Ok(since) = file.metadata().and_then(|kept| kept.modified()) {
        let _ = file.set_len(1).and_then(|()| file.set_modified(since));
    }
}

/// The process that writes back; what it cannot write stays there.
pub fn recover(directory: &Path) -> Result<u8, Failure> {
    if let Some(log) = std::env::var_os("CULVERT_LOG") {
        culvert_sys::log::open(Box::leak(log.into_boxed_os_str()).as_bytes());
    }
    // One at a time: the bytes of a second one would come over what the program of the first one's
    // run has written meanwhile.
    let lock = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(directory.join("recovery"));
    if let Ok(lock) = &lock {
        let _ = rustix::fs::flock(lock, rustix::fs::FlockOperation::LockExclusive);
    }
    if !is_pending(directory) {
        return Ok(0);
    }
    let kept = |why: String| {
        culvert_sys::log!("kept in {}: {why}", shown(directory));
        Failure::new(format!(
            "what a killed program had stored in mapped files is kept in {} until it can be \
            written back: {why}",
            shown(directory)
        ))
    };
    culvert_run::outside(directory.as_os_str().as_bytes())
        .map_err(|refusal| kept(refusal.to_string()))?;
    match culvert_cache::recover_all() {
        Ok(()) => Ok(0),
        Err(error) => Err(kept(error.to_string())),
    }
}
