//! What is left in a server of programs that are killed, and of runs that end.

use super::shared;
use culvert::mount::{Mount, decode};
use culvert_client::{Estate, Left};
use culvert_run::files::c_string;
use culvert_slots::{Area, Caller, Channel, Client, Extension, Heir, OpenFile, Session};
use culvert_sys::{
    Errno, OwnedFd,
    fd::{Command, fcntl},
    flags::OFlags,
    fs, process,
    raw::general::F_WRLCK,
};
use culvert_wire::{Plain, structures::ForgetIn};
use std::{
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Mutex, PoisonError, mpsc},
    thread::{self, sleep},
    time::{Duration, Instant},
};

const FORGET: u32 = 2;

/// How long a server may take for what is still asked of it; then files stay open.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Who looks whether others have shadows open. Of two threads that look at once each has them open
/// for the other.
static LOOKING: Mutex<()> = Mutex::new(());

/// For whom the guardian asks.
pub fn caller() -> Caller {
    Caller {
        uid: process::geteuid(),
        gid: process::getegid(),
        pid: process::getpid(),
        extension: Extension::default(),
    }
}

/// The process that has told of itself by `identity` holds no nodes any more, if it is gone. Those
/// that nobody else holds, which have lost their names, stay until the server ends: a file of one
/// may be open in it. `waited`: the server has none of its requests in hand any more.
pub fn end_process(area: &Area, identity: u64, waited: bool) {
    if Area::is_gone(identity) {
        let left = culvert_client::end_process(area.words(), identity);
        // It was killed before it could count what it has changed.
        if left.changed {
            if !waited {
                culvert_client::disbelieve_pages(area.words());
            }
            area.all_may_have_changed();
        }
    }
}

/// Whether the process that has told of itself by `identity` was killed while it shared a file, or
/// ended that.
pub fn has_shares(client: &Client, identity: u64) -> bool {
    Area::is_gone(identity) && culvert_client::has_shares(Channel::words(client), identity)
}

/// What it has left of such files, for [`close`]; before what is noted as open in it is released.
pub fn end_shares(client: &Client, identity: u64) -> Left {
    match Area::is_gone(identity) {
        true => culvert_client::end_shares(Channel::words(client), identity, &|node, handle| {
            client.is_noted(identity, node, handle)
        }),
        false => Left::default(),
    }
}

/// Closes files that several programs had open, all of which are gone: which are left in the runs
/// of the mount in directory `mount`. A program that ends by itself does so for the last of them;
/// one that was killed does not.
pub fn end_unheld(client: &Client, estate: &Estate, mount: &Path) {
    if !culvert_client::are_shared(Channel::words(client)) {
        return;
    }
    for run in shared::users(mount) {
        let mounts = std::fs::read(run.join("mounts")).unwrap_or_default();
        let mounts = decode(&mounts).unwrap_or_default();
        let is_its = |found: &Mount| found.option("slots") == Some(mount.as_os_str().as_bytes());
        for (number, found) in mounts.iter().enumerate().filter(|(_, it)| is_its(it)) {
            let place = culvert_client::place(run.as_os_str().as_bytes(), &found.target);
            let alone = |node: u64| alone(&run.join(format!("shadows/{number:x}.{node:x}")));
            let words = Channel::words(client);
            let left = {
                let _alone = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
                culvert_client::end_unheld(words, place, &Area::is_gone, &alone)
            };
            close(client, estate, left);
        }
    }
}

/// Nobody has the shadow `path` open or mapped, nor opens it while this is kept
/// (`culvert_run::holders`, of programs). None: somebody has it, or that cannot be told.
fn alone(path: &Path) -> Option<Option<OwnedFd>> {
    const SIGURG: usize = 23;
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match fs::open(&c_string(path.as_os_str().as_bytes()), flags, 0) {
        // A file that is open in several processes has one.
        Err(Errno::ENOENT) => Some(None),
        Err(_) => None,
        Ok(file) => {
            let leased = fcntl(&file, Command::SETSIG, SIGURG)
                .and_then(|_| fcntl(&file, Command::SETLEASE, F_WRLCK as usize));
            leased.is_ok().then_some(Some(file))
        }
    }
}

/// Closes what is `left`.
pub fn close(client: &Client, estate: &Estate, left: Left) {
    for (node, handle) in left.files {
        estate.release(&OpenFile {
            node,
            handle,
            flags: 0,
            is_directory: false,
        });
    }
    for (node, nlookup) in left.nodes {
        send(client, FORGET, node, ForgetIn { nlookup }.bytes());
    }
}

/// No process of the run in directory `run` is there any more: files that several had open are
/// closed, which none of them may have done that was killed. `client` is of the mount in directory
/// `mount`.
pub fn end_run(client: &Client, mount: &Path, run: &Path) {
    let until = Instant::now() + PATIENCE;
    // A request in hand may be about such a file.
    while client.area().session() == Session::Ready && client.has_orphans() {
        if Instant::now() >= until {
            return;
        }
        sleep(PAUSE);
    }
    let left = culvert_client::end_run(Channel::words(client), run.as_os_str().as_bytes());
    if !closed(mount, left.files) {
        return;
    }
    for (node, nlookup) in left.nodes {
        send(client, FORGET, node, ForgetIn { nlookup }.bytes());
    }
}

/// Closes `files` at the server of the mount in directory `mount`: whether it has closed all.
fn closed(mount: &Path, files: Vec<(u64, u64)>) -> bool {
    if files.is_empty() {
        return true;
    }
    let directory = c_string(mount.as_os_str().as_bytes());
    let owner = (process::geteuid(), process::getegid());
    let (done, waited) = mpsc::channel();
    thread::spawn(move || {
        let estate = Client::open(&directory, None).and_then(|channel| {
            Estate::new(Box::new(channel), owner).map_err(|error| error.errno())
        });
        let Ok(estate) = estate else {
            return;
        };
        for (node, handle) in files {
            estate.release(&OpenFile {
                node,
                handle,
                flags: 0,
                is_directory: false,
            });
        }
        let _ = done.send(());
    });
    waited.recv_timeout(PATIENCE).is_ok()
}

fn send(client: &Client, opcode: u32, node: u64, body: &[u8]) {
    let until = Instant::now() + PATIENCE;
    while client.area().session() == Session::Ready {
        match client.send(caller(), opcode, node, body) {
            Err(Errno::EAGAIN | Errno::EINTR) if Instant::now() < until => sleep(PAUSE),
            _ => return,
        }
    }
}
