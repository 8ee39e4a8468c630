//! `culvert mount` and `culvert umount`: a kernel mount and its server.

mod daemon;
mod inherited;
mod keeper;
mod log;
mod notify;
pub mod registry;
pub mod remount;
pub mod signals;
mod target;
mod times;

pub use log::Log;
pub use times::Times;

use crate::{
    failure::{Failure, path, reason, shown},
    logs, mounts, prepare,
    run_directory::{self, RunDirectory},
};
use culvert::mount::Request;
use culvert_drivers::{Environment, NodeBook, Source};
use culvert_server::{
    DeviceFuse, Ended, RequestChannel, Served, Session, Settings,
    counters::Counters,
    handover::Handover,
    mounting::{self, Failed, MountIdentity, MountPoint, Mounting, Rights},
};
use inherited::Inherited;
use std::{
    ffi::OsString,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
};

/// The words of `culvert mount`.
#[derive(Debug)]
pub struct Mount {
    /// What is to be mounted where; options that are the kernel mount's own are taken out.
    pub request: Request,
    /// Stay in the foreground.
    pub foreground: bool,
    /// What may be done on it.
    pub rights: Rights,
    /// What the user chooses of the server.
    pub settings: Settings,
    /// A keeper starts the server again when it dies.
    pub restart: bool,
    /// When times of access change.
    pub times: Times,
    /// Where messages go once the mount is up.
    pub log: Option<Log>,
}

/// A mount that is ready to be made.
struct Ready {
    mount: culvert::mount::Mount,
    target: PathBuf,
    directory: RunDirectory,
    /// Where standard error goes once the mount is up, if anywhere else. Open since before the
    /// mount, which may cover the place.
    messages: Option<OwnedFd>,
    /// What the server counts.
    counters: Option<&'static Counters>,
    asked: Mount,
    /// What no server needs.
    inherited: Inherited,
    /// The source, where the server uses it by another mount than its path leads to.
    source: Option<OwnedFd>,
}

impl Ready {
    /// Closes what was inherited, now that the mount is up.
    fn close_inherited(&self) {
        // Each server opens it anew.
        let source = path(&self.asked.request.source);
        let named = source.starts_with("/dev/fd") || source.starts_with("/proc");
        if !(self.asked.restart && named) {
            self.inherited.close();
        }
    }

    /// One line about the mount.
    fn what(&self) -> String {
        let source = shown(path(&self.asked.request.source));
        format!("{} {source} on {}", self.mount.driver, shown(&self.target))
    }
}

/// Makes the mount, and serves it: in the foreground, or in a process of its own that is left
/// behind. The exit status.
pub fn mount(mut asked: Mount) -> Result<u8, Failure> {
    let inherited = Inherited::now();
    let target = target::check(path(&asked.request.target))?;
    let place = target.as_os_str().as_bytes().to_vec();
    let mount = mounts::served(asked.request.clone(), place)?;
    target::check_apart(&target, &crate::base::base()?)?;
    for leaf in mount.leaves() {
        let (kind, source) = (mounts::source_kind(leaf), path(&leaf.source));
        // A directory that is the only source is held open by the keeper.
        let held = mount.branches.is_empty() && kind == Some(Source::Directory);
        if kind == Some(Source::Directory) {
            target::check_outside(&target, source)?;
        }
        if asked.restart && kind != Some(Source::Name) && !held {
            target::check_findable(&target, source)?;
        }
    }
    asked.request.source.clone_from(&mount.source);
    asked.request.target.clone_from(&mount.target);
    mount
        .check()
        .map_err(|error| Failure::new(error.to_string()))?;
    let times = asked.times.source(&mount)?;
    let messages = match &asked.log {
        Some(log) => log.open()?,
        None if asked.foreground => None,
        None => Some(log::append(Path::new("/dev/null"))?),
    };
    if !rustix::process::geteuid().is_root() && (asked.rights.set_id || asked.rights.devices) {
        eprintln!("culvert: warning: suid and dev are for root's mounts alone; without them");
    }
    let directory = run_directory::create()?;
    // Costly or wrong things show here, on the user's terminal.
    let prepared = prepare::prepare(&mount, &directory.path, true).and_then(|mut mount| {
        logs::note_idle(std::slice::from_mut(&mut mount));
        logs::start(std::slice::from_ref(&mount), &directory.path)?;
        Ok(mount)
    });
    let mount = match prepared {
        Ok(mount) => mount,
        Err(failure) => {
            directory.discard();
            return Err(failure);
        }
    };
    target::warn_of_hidden(&target);
    let mut ready = Ready {
        mount,
        target,
        directory,
        messages,
        counters: None,
        asked,
        inherited,
        source: times,
    };
    match registry::counters(&ready) {
        Ok(counters) => ready.counters = Some(counters),
        Err(failure) => {
            ready.directory.discard();
            return Err(failure);
        }
    }
    match ready.asked.foreground {
        true => serve(ready, |ready| {
            if let Some(out) = &ready.messages {
                let failed = |error| Failure::new(std::io::Error::from(error).to_string());
                rustix::stdio::dup2_stderr(out).map_err(failed)?;
            }
            ready.close_inherited();
            notify::ready(std::process::id(), &ready.what());
            Ok(())
        }),
        false => daemon::leave_behind(ready),
    }
}

/// Mounts, says so by `up`, and serves until the mount is gone: itself, or by servers that it
/// keeps.
fn serve(ready: Ready, up: impl FnOnce(&Ready) -> Result<(), Failure>) -> Result<u8, Failure> {
    let outcome = match ready.asked.restart {
        true => keeper::keep(&ready, up),
        false => {
            let held = ready.source.as_ref().map(AsRawFd::as_raw_fd);
            serve_until_unmounted(&ready, held, Default::default(), up)
        }
    };
    if ready.asked.foreground {
        notify::notify("STOPPING=1");
    }
    ready.directory.discard();
    outcome.map(|()| 0)
}

/// One server's life. `held`: a descriptor on the source, a directory.
fn serve_until_unmounted(
    ready: &Ready,
    held: Option<i32>,
    handover: &'static Handover,
    up: impl FnOnce(&Ready) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (session, channel, mounted) = start(ready, held, handover)?;
    if let Some(counters) = ready.counters {
        counters.begin();
    }
    // For `culvert list` alone: the mount goes on without.
    let keeper = handover.has_keeper().then(rustix::process::getppid);
    let keeper = keeper.flatten();
    let keeper = keeper.map(|keeper| keeper.as_raw_nonzero().get().unsigned_abs());
    if let Err(failure) = registry::register(ready, &mounted, keeper) {
        eprintln!("{failure}");
    }
    up(ready).inspect_err(|_| {
        let _ = mounting::unmount(&mounted, true);
    })?;
    signals::unmount_at_signals(mounted);
    if handover.has_keeper() {
        fewer_descriptors();
    }
    match session.serve(channel) {
        Ended::Unmounted => Ok(()),
        Ended::Broken(error) => {
            if handover.has_keeper() {
                session.leave();
            }
            Err(Failure::new(format!(
                "the connection with the kernel broke: {}",
                reason(&error)
            )))
        }
    }
}

/// Opens the driver, mounts, and answers the kernel's first request; or takes the connection over
/// that an earlier server has left.
fn start(
    ready: &Ready,
    held: Option<i32>,
    handover: &'static Handover,
) -> Result<(Session, Box<dyn RequestChannel>, MountIdentity), Failure> {
    let Ready {
        mount,
        target,
        directory,
        asked,
        ..
    } = ready;
    signals::prepare();
    let descriptors = more_descriptors();
    let source = shown(path(&asked.request.source));
    let cache = prepare::cache_directory();
    let environment = Environment {
        cache_directory: cache.as_ref().map(|path| path.as_os_str().as_bytes()),
        run_directory: Some(directory.path.as_os_str().as_bytes()),
        alone: true,
        source: held,
        book: handover
            .has_keeper()
            .then_some(&handover.nodes as &dyn NodeBook),
        // What the server before this one had open is not gone with it.
        in_use: handover.has_keeper().then(|| {
            &*Box::leak(Box::new(move |node, _: culvert_drivers::Attribute<'_>| {
                handover.has_open(node)
            })) as culvert_drivers::InUse
        }),
        // The other half is for open files.
        open_nodes: Some((descriptors / 2).min(OPEN_NODES)),
        interrupted: Some(culvert_server::interrupted),
        caller: Some(culvert_server::caller),
        at_once: Some(at_once),
        library: Some(culvert_library::open),
        ..Environment::default()
    };
    let filesystem = culvert_drivers::open(mount, &environment)
        .map_err(|error| Failure::new(format!("{source}: {error}")))?;
    let read_only = mount.read_only() || filesystem.capabilities().read_only;
    let settings = Settings {
        read_only,
        handover,
        counters: ready.counters,
        ..asked.settings.clone()
    };
    let left = handover.channels().next();
    let is_first = left.is_none();
    let (device, mounted) = match (left, handover.mounted()) {
        (Some(channel), Some(mounted)) => (channel, mounted),
        _ => {
            // It was checked: what is on the way is no link since.
            let place = MountPoint::open(target).map_err(|error| {
                let why = reason(&std::io::Error::from(error));
                Failure::new(format!("target {}: {why}", shown(target)))
            })?;
            let (device, mounted) = mounting::mount(&Mounting {
                source: &source,
                subtype: "culvert",
                target: &place,
                read_only,
                rights: asked.rights,
                times: asked.times.flags(),
            })
            .map_err(failure)?;
            let device = match handover.has_keeper() {
                true => {
                    handover.set_mounted(&mounted);
                    handover.set_channels(DeviceFuse::channels(device, settings.threads()));
                    let first = handover.channels().next();
                    first.ok_or_else(|| Failure::new("the connection has no channel"))?
                }
                false => DeviceFuse::new(device),
            };
            (device, mounted)
        }
    };
    let channel: Box<dyn RequestChannel> = Box::new(device);
    match Session::negotiate(filesystem, settings, &*channel) {
        Ok(session) => Ok((session, channel, mounted)),
        Err(error) => {
            if is_first {
                let _ = mounting::unmount(&mounted, true);
            }
            Err(Failure::new(error.to_string()))
        }
    }
}

/// How many nodes of a mount have a descriptor at most: each costs the kernel some 250 bytes, and
/// keeps the inode behind it in memory, 1 KB and more.
pub const OPEN_NODES: usize = 1 << 17;

/// As many descriptors as there may be, and how many that is: open files and nodes that are in use
/// have one.
pub fn more_descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let most = Rlimit {
        current: maximum,
        maximum,
    };
    let _ = setrlimit(Resource::Nofile, most);
    let now = getrlimit(Resource::Nofile).current;
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

/// How many descriptors a server leaves to the one that may come after it, which needs some before
/// it can answer anything: it begins with the whole limit, the keeper's.
const RESERVE: u64 = 32;

/// As many descriptors as there may be, but for the [`RESERVE`].
fn fewer_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum.map(|most| most.saturating_sub(RESERVE).max(most / 2));
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}

fn failure(failed: Failed) -> Failure {
    let failure = Failure::new(failed.message);
    match failed.advice {
        Some(advice) => failure.advice(advice),
        None => failure,
    }
}

/// What keeps the mount at `target`, as far as it can be seen.
fn in_use(target: &Path) -> Option<Failure> {
    const INSTEAD: &str = "or take the mount from the tree at once: culvert umount --lazy";
    let within = target::mounted_in(target);
    if !within.is_empty() {
        let names: Vec<_> = within.iter().map(shown).collect();
        let text = format!("{} has mounts in it: {}", shown(target), names.join(", "));
        return Some(Failure::new(text).advice(format!("end those first, {INSTEAD}")));
    }
    let users = registry::users(target);
    (!users.is_empty()).then(|| {
        Failure::new(format!("{} is used by {users}", shown(target)))
            .advice(format!("end them, {INSTEAD}"))
    })
}

/// Ends the mounts at `targets`, as many as can be; none given: all of the user's.
pub fn unmount(targets: &[OsString], lazy: bool) -> Result<u8, Failure> {
    let all: Vec<(MountIdentity, PathBuf)> = match targets.is_empty() {
        // The last made first: one may lie on another.
        true => registry::mounted()
            .into_iter()
            .rev()
            .map(|one| (one.which, one.target.into()))
            .collect(),
        false => Vec::new(),
    };
    let typed = targets.iter().map(|typed| {
        let line = target::served(Path::new(typed))?;
        Ok((line.which, line.path()))
    });
    let mut outcome = Ok(0);
    for mount in typed.chain(all.into_iter().map(Ok)) {
        let done = mount.and_then(|(mount, path)| {
            mounting::unmount(&mount, lazy)
                .map(|()| 0)
                .map_err(|failed| match failed.busy && !lazy {
                    true => in_use(&path).unwrap_or_else(|| failure(failed)),
                    false => failure(failed),
                })
        });
        if let (Err(earlier), true) = (&outcome, done.is_err()) {
            eprintln!("{earlier}");
        }
        if done.is_err() {
            outcome = done;
        }
    }
    outcome
}

/// Does all `work` at once, as far as there are threads to be had. A new thread has the identity of
/// the one that makes it (clone(2)).
pub fn at_once(work: &mut [&mut (dyn FnMut() + Send)]) {
    let others = work.len().saturating_sub(1);
    let left = Mutex::new(work.iter_mut());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let go_on = || {
        while let Some(one) = next() {
            one();
        }
    };
    let served = Served::now();
    let help = || {
        served.help();
        go_on();
    };
    thread::scope(|scope| {
        for _ in 0..others {
            if thread::Builder::new().spawn_scoped(scope, help).is_err() {
                break;
            }
        }
        go_on();
    });
}
