//! A host: the process in which a driver of ours serves the programs of a run, by slots, as a FUSE
//! server does.

use crate::{
    failure::{Failure, path, reason, shown},
    kernel_mount::{self, signals},
    prepare, run_directory,
};
use culvert::mount::{Mount, decode};
use culvert_client::notices;
use culvert_drivers::Environment;
use culvert_preload::fuse_server::OPTIONS;
use culvert_run::files::c_string;
use culvert_server::{Ended, Session, Settings, Slots};
use culvert_sys::{flags::OFlags, process, trust};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
};

/// Serves the mount of the mount directory `place`, to its end.
pub fn host(place: &Path) -> Result<u8, Failure> {
    let _ = process::set_name(c"culvert-host");
    signals::prepare();
    // No directory is kept from being unmounted.
    let _ = rustix::process::chdir("/");
    let cannot =
        |what: &str, why: String| Failure::new(format!("the {what} cannot be used: {why}"));
    let opened = trust::directory(&c_string(place.as_os_str().as_bytes()), trust::user())
        .map_err(|why| cannot("mount directory", why.to_string()))?;
    let mount = mount(&opened)?;
    let hears = |words: &[AtomicU64], code, body: &[u8]| {
        notices::hear(words, code, body) == notices::Heard::Counted
    };
    let slots =
        Slots::open(&opened, hears).map_err(|errno| cannot("slots", errno.text().to_owned()))?;
    let serves = Arc::new(AtomicBool::new(false));
    let (end, ends) = (slots.clone(), serves.clone());
    thread::spawn(move || {
        signals::until_terminated();
        end.end();
        // A driver that is being opened may wait for long, and nobody would ask it any more.
        if !ends.load(SeqCst) {
            process::exit_group(1);
        }
    });
    let descriptors = kernel_mount::more_descriptors();
    let cache = prepare::cache_directory();
    let environment = Environment {
        cache_directory: cache.as_ref().map(|path| path.as_os_str().as_bytes()),
        run_directory: Some(place.as_os_str().as_bytes()),
        alone: true,
        open_nodes: Some((descriptors / 2).min(kernel_mount::OPEN_NODES)),
        interrupted: Some(culvert_server::interrupted),
        caller: Some(culvert_server::caller),
        at_once: Some(kernel_mount::at_once),
        library: Some(culvert_library::open),
        ..Environment::default()
    };
    let failed =
        |error: culvert::Error| Failure::new(format!("{}: {error}", shown(path(&mount.source))));
    let filesystem = culvert_drivers::open(&mount, &environment).map_err(failed)?;
    let can = filesystem.capabilities();
    let read_only = mount.read_only() || can.read_only;
    // As a server tells mount(2).
    let mut options = vec![if read_only { "ro" } else { "rw" }];
    if !can.checks_permissions {
        options.push("default_permissions");
    }
    fs::write(place.join(OPTIONS), options.join(","))
        .map_err(|error| cannot("mount directory", reason(&error)))?;
    let settings = Settings {
        read_only,
        // The one that reads a channel.
        transport: Some("device"),
        ..Settings::default()
    };
    let session = Session::negotiate(filesystem, settings, &slots).map_err(failed)?;
    serves.store(true, SeqCst);
    match session.serve(Box::new(slots)) {
        Ended::Unmounted => Ok(0),
        Ended::Broken(error) => Err(cannot("slots", reason(&error))),
    }
}

/// The one mount that stands in the mount directory.
fn mount(directory: &trust::Opened) -> Result<Mount, Failure> {
    let wrong = |why: String| Failure::new(format!("cannot read what is to be served: {why}"));
    let file = trust::file(directory, c"mounts", OFlags::empty());
    let file = file.map_err(|why| wrong(why.to_string()))?;
    let mut bytes = Vec::new();
    File::from(run_directory::owned(file))
        .read_to_end(&mut bytes)
        .map_err(|error| wrong(reason(&error)))?;
    let mounts = decode(&bytes).map_err(|error| wrong(error.to_string()))?;
    let one = mounts.into_iter().next();
    one.ok_or_else(|| wrong("it names no mount".into()))
}
