//! What is left in a server of programs that are killed, and of runs that end.

use culvert_client::{Estate, Left};
use culvert_run::files::c_string;
use culvert_slots::{Area, Caller, Channel, Client, Heir, OpenFile, Session};
use culvert_sys::{Errno, process};
use culvert_wire::{Plain, structures::ForgetIn};
use std::{
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::mpsc,
    thread::{self, sleep},
    time::{Duration, Instant},
};

const FORGET: u32 = 2;

/// How long a server may take for what is still asked of it; then files stay open.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// For whom the guardian asks.
pub fn caller() -> Caller {
    Caller {
        uid: process::geteuid(),
        gid: process::getegid(),
        pid: process::getpid(),
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
