//! What is left in a server of programs that are killed, and of runs that end.

use culvert_slots::{Area, Caller, Channel, Client, Session};
use culvert_sys::{Errno, process};
use culvert_wire::{
    Plain,
    structures::{ForgetIn, ReleaseIn},
};
use std::{
    os::unix::ffi::OsStrExt,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

const FORGET: u32 = 2;
const RELEASE: u32 = 18;

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
/// may be open in it.
pub fn end_process(area: &Area, identity: u64) {
    if Area::is_gone(identity) {
        let _ = culvert_client::end_process(area.words(), identity);
    }
}

/// No process of the run in directory `run` is there any more: files that several had open are
/// closed, which none of them may have done that was killed.
pub fn end_run(client: &Client, run: &Path) {
    let until = Instant::now() + PATIENCE;
    // A request in hand may be about such a file.
    while client.area().has_orphans() {
        if Instant::now() >= until {
            return;
        }
        sleep(PAUSE);
    }
    let left = culvert_client::end_run(Channel::words(client), run.as_os_str().as_bytes());
    for (node, fh) in left.files {
        let release = ReleaseIn {
            fh,
            ..ReleaseIn::default()
        };
        send(client, RELEASE, node, release.bytes());
    }
    for node in left.nodes {
        send(client, FORGET, node, ForgetIn { nlookup: 1 }.bytes());
    }
}

fn send(client: &Client, opcode: u32, node: u64, body: &[u8]) {
    while client.area().session() == Session::Ready {
        match client.send(caller(), opcode, node, body) {
            Err(Errno::EAGAIN | Errno::EINTR) => sleep(PAUSE),
            _ => return,
        }
    }
}
