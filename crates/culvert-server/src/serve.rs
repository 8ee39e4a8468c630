//! A kernel mount from its beginning to its end, for servers that need no more than that.

use crate::mounting::{self, MountIdentity, Mounting};
use crate::{DeviceFuse, Ended, Session, Settings};
use culvert::FileSystem;
use culvert_sys::process::{
    getpid, gettid, set_ignored, sigprocmask, sigwait, take_signal, tgkill,
};
use culvert_sys::raw::general::{SIG_BLOCK, SIG_SETMASK, SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::{process, thread};

/// The signals that end the mount, as a set.
const ENDING: u64 = 1 << (SIGHUP - 1) | 1 << (SIGINT - 1) | 1 << (SIGTERM - 1);

/// Mounts `filesystem` and serves it until umount(8), or until SIGHUP, SIGINT or SIGTERM comes,
/// which end the mount first: at once where nobody uses it, else for who does not use it yet, as
/// umount(8) with `--lazy`. Where neither was possible, the next of them ends the process.
/// `mounted` is called when it is there.
///
/// Called before other threads are made: the signals are blocked until it returns, and SIGXFSZ is
/// ignored from here on, so that a file that would become too large is an error (EFBIG).
///
/// # Errors
/// With what to do where there is something: it cannot be mounted, or the connection broke.
pub fn serve(
    filesystem: Box<dyn FileSystem>,
    mounting: &Mounting<'_>,
    settings: Settings,
    mounted: impl FnOnce(&MountIdentity),
) -> Result<(), String> {
    let before = sigprocmask(SIG_BLOCK, ENDING).map_err(|errno| errno.text().to_owned())?;
    let _ = set_ignored(SIGXFSZ, true);
    let served = serve_blocked(filesystem, mounting, settings, mounted);
    // What came after the first was for the mount, too.
    while take_signal(ENDING).is_ok() {}
    let _ = sigprocmask(SIG_SETMASK, before);
    served
}

fn serve_blocked(
    filesystem: Box<dyn FileSystem>,
    mounting: &Mounting<'_>,
    settings: Settings,
    mounted: impl FnOnce(&MountIdentity),
) -> Result<(), String> {
    let (device, which) = mounting::mount(mounting).map_err(|failed| match failed.advice {
        Some(advice) => format!("{failed}; {advice}"),
        None => failed.to_string(),
    })?;
    let transport = Box::new(DeviceFuse::new(device));
    let session = Session::negotiate(filesystem, settings, &*transport);
    let session = session.map_err(|error| match mounting::unmount(&which, true) {
        Ok(()) => error.to_string(),
        Err(failed) => format!("{error}; {failed}"),
    })?;
    mounted(&which);
    let over = Arc::new((AtomicBool::new(false), AtomicU32::new(0)));
    let waiting = Arc::clone(&over);
    thread::spawn(move || unmount_at_signals(&which, &waiting.0, &waiting.1));
    let ended = session.serve(transport);
    over.0.store(true, SeqCst);
    // The signals are the caller's again. It has looked before it waits, where it is not there yet.
    let thread = over.1.load(SeqCst);
    if thread != 0 {
        let _ = tgkill(getpid(), thread, SIGTERM);
    }
    match ended {
        Ended::Unmounted => Ok(()),
        Ended::Broken(error) => Err(error.to_string()),
    }
}

/// Until it is `over`, which a signal to `thread` tells.
fn unmount_at_signals(which: &MountIdentity, over: &AtomicBool, thread: &AtomicU32) {
    thread.store(gettid(), SeqCst);
    let mut is_stuck = false;
    while !over.load(SeqCst) {
        let Ok(signal) = sigwait(ENDING) else {
            continue;
        };
        match (over.load(SeqCst), is_stuck) {
            (true, _) => return,
            (false, true) => process::exit(128 + signal as i32),
            // Also where somebody else has ended it.
            (false, false) => {
                let idle = mounting::unmount(which, false);
                is_stuck = idle.is_err() && mounting::unmount(which, true).is_err();
            }
        }
    }
}
