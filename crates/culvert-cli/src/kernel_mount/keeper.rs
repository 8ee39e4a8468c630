//! The keeper: a process that holds what a mount needs to live, and starts its server again when
//! that dies.
//!
//! Keeper and server have one table of descriptors (`CLONE_FILES`) and the [`Handover`], but not
//! their memory: kill -9 takes from the server nothing but its threads. The next one finds the
//! connection, nodes and open files, asks the kernel for the requests that were in hand
//! (`FUSE_NOTIFY_RESEND`, Linux 6.9), and goes on. The keeper has one thread and does nothing but
//! wait.

use super::{Ready, serve_until_unmounted, signals};
use crate::{
    failure::{Failure, path, reason, shown},
    fork::fork_with_descriptors,
    mounts,
};
use culvert::mount::Mount;
use culvert_drivers::Source;
use culvert_server::{handover::Handover, mounting};
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Signal, WaitOptions, waitpid},
};
use std::{
    io::{self, Write},
    os::fd::{AsRawFd, IntoRawFd},
    thread,
    time::{Duration, Instant},
};

/// So many servers that died without having answered anything are enough. Those that somebody
/// killed while they had nothing to do are not counted: there was nothing to answer.
const FRUITLESS: u32 = 8;
/// The longest time between two starts of servers of which the first has answered nothing, as a
/// power of two of [`SHORTEST`].
const SLOWEST: u32 = 5;
/// The shortest of them.
const SHORTEST: Duration = Duration::from_millis(10);

/// Mounts, says so by `up`, and keeps a server until the mount is gone.
pub fn keep(ready: &Ready, up: impl FnOnce(&Ready) -> Result<(), Failure>) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::new(format!("cannot start: {}", reason(&error)));
    signals::prepare_keeper();
    super::more_descriptors();
    let handover = Handover::new().map_err(cannot)?;
    let held = match &ready.source {
        Some(source) => Some(source.as_raw_fd()),
        None => held(&ready.mount)?,
    };
    let mut own = culvert_server::handover::open_descriptors();
    own.retain(|number| !ready.inherited.has(*number));
    let mut up = Some(up);
    let mut ending = false;
    let (mut fruitless, mut idle) = (0, 0);
    loop {
        let (before, begun) = (handover.answered(), handover.servers());
        let started = Instant::now();
        let server = start(ready, held, handover).map_err(cannot)?;
        let end = loop {
            match signals::news() {
                signals::News::End(signal) => {
                    ending = true;
                    if let Some(signal) = Signal::from_named_raw(signal as i32) {
                        let _ = rustix::process::kill_process(server, signal);
                    }
                }
                signals::News::Server => {
                    if handover.is_up()
                        && let Some(up) = up.take()
                    {
                        up(ready).inspect_err(|_| end_mount(handover))?;
                    }
                    match waitpid(Some(server), WaitOptions::NOHANG) {
                        Ok(Some((_, status))) => break status,
                        Ok(None) => {}
                        Err(error) => return Err(cannot(error.into())),
                    }
                }
            }
        };
        if up.is_some() {
            let text = handover.failure();
            let text = text.unwrap_or_else(|| "the server ended before the mount was up".into());
            end_mount(handover);
            return Err(Failure::told(text));
        }
        let how = match end.terminating_signal() {
            Some(signal) => format!("was killed by signal {signal}"),
            None => format!("failed with {}", end.exit_status().unwrap_or(0)),
        };
        if end.exit_status() == Some(0) || !handover.is_connected() {
            return Ok(());
        }
        if ending {
            end_mount(handover);
            return Ok(());
        }
        let killed = end.terminating_signal() == Some(Signal::KILL.as_raw());
        let in_hand = handover.servers() != begun && handover.has_request_in_hand();
        (fruitless, idle) = match handover.answered() > before {
            true => (0, 0),
            false if killed && !in_hand => (fruitless, idle + 1),
            false => (fruitless + 1, idle + 1),
        };
        if fruitless == FRUITLESS {
            return Err(Failure::new(format!(
                "the server {how}; {FRUITLESS} in turn have not answered anything, so no other is \
                started"
            ))
            .advice("end the mount: culvert umount TARGET"));
        }
        // Of very many that came to nothing, each twice as many as before.
        if idle == 0 || u32::is_power_of_two(idle) {
            let _ = writeln!(
                io::stderr(),
                "culvert: the server {how}; another one goes on"
            );
        }
        handover.sweep(&own);
        if idle > 0 {
            // What it lacked may come back; and who kills all of them does not get a busy loop.
            let least = SHORTEST * (1 << idle.min(SLOWEST));
            thread::sleep(least.saturating_sub(started.elapsed()));
        }
    }
}

/// Ends the mount, if there is one.
fn end_mount(handover: &Handover) {
    if let Some(mount) = handover.mounted() {
        let _ = mounting::unmount(&mount, true);
    }
}

/// The source, where it is a directory: held open, so that every server finds it, also where the
/// mount lies over it.
fn held(mount: &Mount) -> Result<Option<i32>, Failure> {
    if mounts::source_kind(mount) != Some(Source::Directory) {
        return Ok(None);
    }
    let source = path(&mount.source);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(source, flags, Mode::empty())
        .map_err(|error| Failure::new(format!("{}: {}", shown(source), reason(&error.into()))))?;
    // Open until the keeper ends.
    Ok(Some(directory.into_raw_fd()))
}

/// Starts a server, which has this process's descriptors.
fn start(ready: &Ready, held: Option<i32>, handover: &'static Handover) -> io::Result<Pid> {
    // SAFETY: the keeper has one thread.
    let child = unsafe { fork_with_descriptors() }?;
    Ok(child.unwrap_or_else(|| serve(ready, held, handover)))
}

/// The server's process.
fn serve(ready: &Ready, held: Option<i32>, handover: &'static Handover) -> ! {
    let outcome = serve_until_unmounted(ready, held, handover, |_| {
        handover.set_up();
        signals::tell_keeper();
        Ok(())
    });
    let status = match outcome {
        Ok(()) => 0,
        Err(failure) if handover.is_up() => {
            let _ = writeln!(io::stderr(), "{failure}");
            1
        }
        Err(failure) => {
            handover.fail(&failure.to_string());
            1
        }
    };
    std::process::exit(status)
}
