//! `culvert mount` and `culvert umount`: a kernel mount and its server.

pub mod arguments;
mod daemon;
mod signals;
mod target;

use crate::{
    failure::{Failure, path, reason, shown},
    mounts, prepare,
    run_directory::{self, Held},
};
use arguments::Mount;
use culvert_drivers::Environment;
use culvert_server::{
    DeviceFuse, Ended, Session, Settings, Transport,
    mounting::{self, Failed, Mounting},
};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// A mount that is ready to be made.
struct Ready {
    mount: culvert::mount::Mount,
    target: PathBuf,
    directory: Held,
    asked: Mount,
}

/// Makes the mount, and serves it: in the foreground, or in a process of its own that is left behind. The exit status.
pub fn mount(mut asked: Mount) -> Result<u8, Failure> {
    let target = target::check(path(&asked.request.target))?;
    let (source, driver) = mounts::source(&asked.request)?;
    asked.request.source = source.into_os_string().into_encoded_bytes();
    asked.request.target = target.as_os_str().as_bytes().to_vec();
    if let Some(log) = &mut asked.log {
        let absolute = std::path::absolute(&log);
        *log = absolute.map_or_else(|_| log.clone(), PathBuf::into_os_string);
    }
    let mount = asked.request.clone().into_mount(driver);
    mount
        .check()
        .map_err(|error| Failure::new(error.to_string()))?;
    let directory = run_directory::create()?;
    // Costly or wrong things show here, on the user's terminal.
    let mount = match prepare::prepare(&mount, &directory.path) {
        Ok(mount) => mount,
        Err(failure) => {
            directory.discard();
            return Err(failure);
        }
    };
    let ready = Ready {
        mount,
        target,
        directory,
        asked,
    };
    match ready.asked.foreground {
        true => serve(ready, |_| Ok(())),
        false => daemon::leave_behind(ready),
    }
}

/// Mounts, says so by `up`, and serves until the mount is gone.
fn serve(ready: Ready, up: impl FnOnce(&Ready) -> Result<(), Failure>) -> Result<u8, Failure> {
    let outcome = start(&ready).and_then(|(session, transport)| {
        up(&ready)?;
        signals::unmount_at_signals(ready.target.clone());
        Ok(session.serve(transport))
    });
    ready.directory.discard();
    match outcome? {
        Ended::Unmounted => Ok(0),
        Ended::Broken(error) => Err(Failure::new(format!(
            "the connection with the kernel broke: {}",
            reason(&error)
        ))),
    }
}

/// Opens the driver, mounts, and answers the kernel's first request.
fn start(ready: &Ready) -> Result<(Session, Box<dyn Transport>), Failure> {
    let Ready {
        mount,
        target,
        directory,
        asked,
    } = ready;
    signals::prepare();
    let source = shown(path(&mount.source));
    let cache = prepare::cache_directory();
    let environment = Environment {
        cache_directory: cache.as_ref().map(|path| path.as_os_str().as_bytes()),
        run_directory: Some(directory.path.as_os_str().as_bytes()),
        alone: true,
        ..Environment::default()
    };
    let filesystem = culvert_drivers::open(mount, &environment)
        .map_err(|error| Failure::new(format!("{source}: {error}")))?;
    let read_only = mount.read_only() || filesystem.capabilities().read_only;
    let device = mounting::mount(&Mounting {
        source: &source,
        subtype: "culvert",
        target,
        allow_other: asked.allow_other,
        read_only,
        privileged_files: asked.privileged_files,
    })
    .map_err(failure)?;
    let transport: Box<dyn Transport> = Box::new(DeviceFuse::new(device));
    let settings = Settings {
        without: asked.without.clone(),
        valid: asked.valid,
        absent: asked.absent,
        read_only,
        threads: 0,
        trace: asked.trace,
    };
    match Session::negotiate(filesystem, settings, &*transport) {
        Ok(session) => Ok((session, transport)),
        Err(error) => {
            let _ = mounting::unmount(target, true);
            Err(Failure::new(error.to_string()))
        }
    }
}

fn failure(failed: Failed) -> Failure {
    let failure = Failure::new(failed.message);
    match failed.advice {
        Some(advice) => failure.advice(advice),
        None => failure,
    }
}

/// Ends the mounts at `targets`, as many as can be.
pub fn unmount(targets: &[OsString], lazy: bool) -> Result<u8, Failure> {
    let mut outcome = Ok(0);
    for target in targets {
        let typed = Path::new(target);
        let done = target::mounted(typed).and_then(|target| {
            mounting::unmount(&target, lazy).map_err(failure)?;
            Ok(0)
        });
        if done.is_err() {
            outcome = done;
        }
    }
    outcome
}
