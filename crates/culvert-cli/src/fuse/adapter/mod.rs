//! The adapter: a process beside a FUSE server that cannot be intercepted. It takes the requests of
//! the programs from the slots and hands them to the server by a socket, which the server takes for
//! /dev/fuse; replies go the same way back. The programs know only slots.
//!
//! ```text
//!     program --slots--> adapter --packets--> server
//!             <--slots--         <--packets--
//! ```
//!
//! The server gets its end of the socket as its mount point `/dev/fd/N`, by opening /dev/fuse
//! ([`calls`]), or from fusermount ([`fusermount`]).

mod calls;
mod device;
pub mod fusermount;
mod init;
mod look;

pub use calls::give_up_new_rights;

use super::{
    DEVICE, DEVICE_PATH,
    ending::{signal_children, until_gone},
};
use crate::{
    failure::{Failure, reason, shown},
    own_path::own_path,
};
use culvert_run::files::c_string;
use culvert_sys::raw::general::{SIG_BLOCK, SIG_UNBLOCK, SIGPIPE, SIGTERM};
use culvert_sys::{Errno, OwnedFd, process, trust};
use device::{Device, End};
use rustix::process::{WaitOptions, WaitStatus, wait};
use std::{
    ffi::OsString,
    io,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
        mpsc::{self, Sender},
    },
    thread,
};

/// SIGTERM, as a set.
const TERMINATION: u64 = 1 << (SIGTERM - 1);

/// What happens.
enum Event {
    /// The device has ended, for a reason.
    Ended(End),
    /// A child is gone, and how.
    Reaped(u32, WaitStatus),
    /// All children are.
    Alone,
    /// The process that has answered INIT is.
    Gone,
}

/// Runs the server `command` of the mount directory `place`, to its end: its exit status, if this
/// process does not end as the server did.
pub fn adapt(place: &Path, command: &[OsString]) -> Result<u8, Failure> {
    let _ = process::set_name(c"culvert-adapter");
    // Before any thread is made: one of them waits for it.
    let _ = process::sigprocmask(SIG_BLOCK, TERMINATION);
    let _ = process::set_ignored(SIGPIPE, true);
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let cannot = |why: String| Failure::new(format!("the slots cannot be used: {why}"));
    let opened = trust::directory(&c_string(place.as_os_str().as_bytes()), trust::user());
    let opened = opened.map_err(|why| cannot(why.to_string()))?;
    let (device, its) = Device::new(&opened).map_err(cannot)?;
    let (device, its) = (Arc::new(device), Arc::new(Mutex::new(Some(its))));
    let (sender, events) = mpsc::channel();
    let first = start(place, command, &device, &its, &sender)?;
    let server = Arc::new(AtomicU32::new(0));
    let asked = server.clone();
    thread::spawn(move || {
        while process::sigwait(TERMINATION).is_err() {}
        match process::pidfd_open(asked.load(SeqCst)) {
            Ok(server) => drop(process::pidfd_send_signal(&server, SIGTERM)),
            // It may be any of them.
            Err(_) => signal_children(SIGTERM),
        }
    });
    let (from, ended) = (device.clone(), sender.clone());
    thread::spawn(move || {
        let _ = ended.send(Event::Ended(from.requests()));
    });
    let (to, serves) = (device.clone(), server.clone());
    thread::spawn(move || {
        let end = match to.answers_init() {
            Ok(number) => {
                // From here on its end is the end of the device.
                its.lock().expect("nobody panics with it").take();
                serves.store(number, SeqCst);
                watch(number, &sender);
                to.replies()
            }
            Err(end) => end,
        };
        let _ = sender.send(Event::Ended(end));
    });
    let mut last = None;
    while let Ok(event) = events.recv() {
        match event {
            // What the server writes at its end is still taken.
            Event::Ended(End::Over) => device.hang_up(),
            Event::Ended(End::Closed) | Event::Gone => device.end(),
            Event::Ended(End::Broken(why)) => {
                eprintln!("culvert: what the server writes is no answer: {why}");
                device.end();
                device.shut();
            }
            Event::Reaped(number, how) => {
                if number == first || number == server.load(SeqCst) {
                    last = Some(how);
                }
                if number == server.load(SeqCst) {
                    break;
                }
            }
            Event::Alone => break,
        }
    }
    device.end();
    Ok(last.map_or(1, end_as))
}

/// Tells when process `number` is gone.
fn watch(number: u32, sender: &Sender<Event>) {
    if let Ok(server) = process::pidfd_open(number) {
        let sender = sender.clone();
        thread::spawn(move || {
            until_gone(&server);
            let _ = sender.send(Event::Gone);
        });
    }
}

/// Ends this process as another has ended, or returns its status.
fn end_as(how: WaitStatus) -> u8 {
    if let Some(signal) = how.terminating_signal() {
        const RLIMIT_CORE: u32 = 4;
        let _ = process::setrlimit(RLIMIT_CORE, &[0, 0]);
        let _ = process::sigprocmask(SIG_UNBLOCK, u64::MAX);
        let _ = process::kill(process::getpid() as i32, signal as u32);
    }
    how.exit_status().map_or(1, |status| status as u8)
}

/// Starts the server, by a thread that waits for it: its number.
fn start(
    place: &Path,
    command: &[OsString],
    device: &Arc<Device>,
    its: &Arc<Mutex<Option<OwnedFd>>>,
    sender: &Sender<Event>,
) -> Result<u32, Failure> {
    let (name, words) = command
        .split_first()
        .ok_or_else(|| Failure::new("no server given"))?;
    let failed = |error: &io::Error| {
        Failure::new(format!("cannot start {}: {}", shown(name), reason(error)))
    };
    let own = own_path().map_err(|error| failed(&error))?;
    let path = fusermount::prepare(place, own).map_err(|error| failed(&error))?;
    let number = its.lock().expect("nobody panics with it");
    let number = number.as_ref().map_or(-1, OwnedFd::raw);
    let has_device = |word: &OsString| word.to_string_lossy().contains(DEVICE_PATH);
    let by_number = !words.iter().any(has_device);
    let mut command = Command::new(name);
    command.args(words).env("PATH", path);
    let adapter = std::process::id();
    // SAFETY: system calls, which use nothing that another thread may hold.
    unsafe {
        command.pre_exec(move || {
            let signal = rustix::process::Signal::TERM;
            rustix::process::set_parent_process_death_signal(Some(signal))?;
            if super::dup2(number, DEVICE) < 0 {
                let error = io::Error::last_os_error();
                // So many descriptors it may not have (RLIMIT_NOFILE): it may open /dev/fuse.
                if error.raw_os_error() != Some(Errno::EBADF.raw()) {
                    return Err(error);
                }
            }
            match std::os::unix::process::parent_id() == adapter {
                true => Ok(()),
                false => Err(io::ErrorKind::Other.into()),
            }
        });
    }
    let (told, started) = mpsc::channel();
    let (listens, listener) = mpsc::channel();
    let (place, device, its) = (place.to_owned(), device.clone(), its.clone());
    // Of itself nothing is asked.
    thread::spawn(move || {
        if let Ok(listener) = listener.recv() {
            let ending = device.clone();
            let unmounted = Box::new(move || ending.end());
            let has_ended = Box::new(move || device.has_ended());
            let answers = calls::Answers {
                listener,
                place,
                device: its,
                by_number,
                unmounted,
                has_ended,
            };
            answers.answer();
        }
    });
    let sender = sender.clone();
    thread::spawn(move || {
        // What the kernel asks of this thread it asks of what the thread starts.
        match calls::listen() {
            Ok(listener) => drop(listens.send(listener)),
            Err(errno) => {
                let why = errno.text();
                eprintln!("culvert: its open of /dev/fuse cannot be answered (seccomp: {why})");
            }
        }
        let child = command.spawn();
        let is_there = child.is_ok();
        let _ = told.send(child.map(|child| child.id()));
        // The server's parent is this thread: with it the server would be told to end.
        if is_there {
            reap(&sender);
        }
    });
    match started.recv() {
        Ok(Ok(child)) => Ok(child),
        Ok(Err(error)) => Err(failed(&error)),
        Err(_) => Err(Failure::new("the server was not started")),
    }
}

/// Waits for children, to the last.
fn reap(sender: &Sender<Event>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, how))) => {
                let number = process.as_raw_nonzero().get() as u32;
                let _ = sender.send(Event::Reaped(number, how));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                let _ = sender.send(Event::Alone);
                return;
            }
        }
    }
}
