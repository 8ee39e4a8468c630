//! A kernel mount from its beginning to its end, for servers that need no more than that.

use crate::mounting::{self, MountIdentity, Mounting};
use crate::{DeviceFuse, Ended, Session, Settings};
use culvert::FileSystem;
use culvert_sys::process::{sigprocmask, sigwait};
use culvert_sys::raw::general::{SIG_BLOCK, SIGHUP, SIGINT, SIGTERM};
use std::thread;

/// The signals that end the mount, as a set.
const ENDING: u64 = 1 << (SIGHUP - 1) | 1 << (SIGINT - 1) | 1 << (SIGTERM - 1);

/// Mounts `filesystem` and serves it until umount(8), or until SIGHUP, SIGINT or SIGTERM comes, which end
/// the mount first: at once where nobody uses it, else for who does not use it yet, as umount(8)
/// with `--lazy`. `mounted` is called when it is there.
///
/// Called before other threads are made: the signals are blocked from here on.
///
/// # Errors
/// With what to do where there is something: it cannot be mounted, or the connection broke.
pub fn serve(
    filesystem: Box<dyn FileSystem>,
    mounting: &Mounting<'_>,
    settings: Settings,
    mounted: impl FnOnce(&MountIdentity),
) -> Result<(), String> {
    sigprocmask(SIG_BLOCK, ENDING).map_err(|errno| errno.text().to_owned())?;
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
    // Ends with the process.
    thread::spawn(move || {
        while sigwait(ENDING).is_err() {}
        let idle = mounting::unmount(&which, false);
        if idle.is_err() && mounting::unmount(&which, true).is_err() {
            // Somebody else has ended it.
        }
    });
    match session.serve(transport) {
        Ended::Unmounted => Ok(()),
        Ended::Broken(error) => Err(error.to_string()),
    }
}
