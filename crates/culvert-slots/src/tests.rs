//! Clients and servers in threads and processes, stopped and killed at random.

extern crate std;
mod awake;
mod begun;
pub(crate) mod deaths;
mod ends;
mod requests;
mod scribbled;
mod unasked;
use super::*;
use crate::area::{State, Word};
use crate::identity::Identity;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use culvert_sys::trust::{self, Opened};
use culvert_sys::{AsFd, Errno, OwnedFd, fs};
use std::ffi::CString;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::vec::Vec;
use std::{env, format, process, thread};

const ECHO: u32 = 15;
const FORGET: u32 = 2;
const RELEASE: u32 = 18;

/// A mount directory, removed in the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = env::temp_dir().join(format!("culvert-slots-{name}-{}", process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&place)
            .unwrap();
        let place = Self(std::fs::canonicalize(place).unwrap());
        Area::create(place.opened()).unwrap();
        place
    }

    fn path(&self) -> CString {
        CString::new(self.0.to_str().unwrap()).unwrap()
    }

    fn opened(&self) -> Opened {
        trust::directory(&self.path(), trust::user()).unwrap()
    }

    fn server(&self) -> (Server, OwnedFd) {
        let bell = open_fifo(&self.opened(), BELL).unwrap();
        let server = Server::new(Area::open(&self.opened()).unwrap(), (1000, 100));
        server.serves();
        (server, bell)
    }

    fn client(&self) -> Client {
        Client::open(&self.path(), None).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn caller() -> Caller {
    let (uid, gid) = (trust::user(), 0);
    let pid = process::id();
    Caller {
        uid,
        gid,
        pid,
        extension: Extension::default(),
    }
}

/// Waits until `bell` can be read, 50 ms at most, and reads a byte.
fn heard(bell: &OwnedFd) -> bool {
    let mut asked = [culvert_sys::raw::general::pollfd {
        fd: bell.raw(),
        events: 1,
        revents: 0,
    }];
    let _ = culvert_sys::process::poll(&mut asked, 50);
    fs::read(bell, &mut [0]) == Ok(1)
}

/// Answers with the request's body, its bytes plus one.
fn answer(server: &Server, message: Message<'_>, forgotten: &AtomicU64) {
    let number = u64::from_ne_bytes(message.header[8..16].try_into().unwrap());
    let opcode = u32::from_ne_bytes(message.header[4..8].try_into().unwrap());
    assert_eq!(message.header[24..28], 1000u32.to_ne_bytes());
    let mut body = std::vec![0; message.body.len()];
    message.body.read(0, &mut body);
    let interrupt = message.interrupted.is_some();
    message.taken();
    if opcode == FORGET {
        forgotten.fetch_add(1, Relaxed);
        return;
    }
    if interrupt {
        return;
    }
    body.iter_mut()
        .for_each(|byte| *byte = byte.wrapping_add(1));
    if let Ok(reply) = server.reply(number) {
        assert!(server.reply(number).is_err(), "twice");
        reply.payload(body.len()).write(0, &body);
        let _ = reply.finish(0, body.len());
        assert!(server.reply(number).is_err(), "twice");
    }
}

fn serve(server: &Server, bell: &OwnedFd, over: &AtomicBool, forgotten: &AtomicU64) {
    while !over.load(Relaxed) {
        if heard(bell)
            && let Ok(Some(message)) = server.take()
        {
            answer(server, message, forgotten);
        }
    }
}

/// A number that looks random.
fn mixed(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *seed >> 33
}

fn ask(client: &Client, seed: &mut u64) -> Result<(), Errno> {
    let length = mixed(seed) as usize % 3000;
    let first = mixed(seed) as u8;
    let bytes = |by: u8| -> Vec<u8> {
        (0..length)
            .map(|at| first.wrapping_add(at as u8).wrapping_add(by))
            .collect()
    };
    let mut seen = Vec::new();
    client.call(
        caller(),
        ECHO,
        7,
        length,
        &mut |payload| {
            assert_eq!(payload.write(0, &bytes(0)), length);
            Ok(())
        },
        &mut |payload| {
            seen.resize(payload.len(), 0);
            payload.read(0, &mut seen);
            Ok(())
        },
    )?;
    assert!(seen == bytes(1), "another request's reply");
    Ok(())
}

fn free_slots(area: &Area) -> usize {
    let free = |index: &usize| area.slot(*index).owner.load(SeqCst) == 0;
    (0..SLOTS).filter(free).count()
}

fn open_file(node: u64, handle: u64) -> OpenFile {
    OpenFile {
        node,
        handle,
        flags: 0,
        is_directory: false,
    }
}
