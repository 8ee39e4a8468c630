//! The workers: from a request to its answer.

use crate::clients::{Clients, Peer};
use crate::files::Files;
use crate::memory::Memory;
use crate::queue::Queue;
use crate::remote::{Remote, Step};
use culvert_sync_wire::{Answer, Ask, FileId, LONGEST_PATH, REQUEST, Request};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::net::{recv, send, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Files of a writer on another host that are known by its numbers at most.
const MOST_REMOTE_FILES: usize = 4096;

/// What the listener, the workers and those who wait for locks use.
pub struct Shared {
    pub epoll: OwnedFd,
    pub clients: Clients,
    pub queue: Queue<u64>,
    pub stop: OwnedFd,
    pub memory: Option<Arc<Memory>>,
}

/// One request, and then none until the answer has gone.
fn awaited() -> epoll::EventFlags {
    epoll::EventFlags::IN | epoll::EventFlags::ONESHOT
}

/// Answers the request of client `number`. It is the worker who reads and understands it, not the
/// listener.
pub fn serve(shared: &Arc<Shared>, files: &Arc<Files>, number: u64) {
    let Some(peer) = shared.clients.take(number) else {
        return;
    };
    let mut packet = [0; REQUEST + LONGEST_PATH + 1];
    let length = match recv(&*peer, &mut packet, RecvFlags::DONTWAIT) {
        Ok((length, _)) if length > 0 => length,
        Err(Errno::AGAIN | Errno::INTR) => return shared.await_next(number, &*peer),
        // It is gone.
        _ => return shared.lose(files, number),
    };
    let Some(remote) = &peer.remote else {
        return match Request::decode(&packet[..length]) {
            Some(request) => perform(shared, files, (number, &peer), request),
            None => shared.lose(files, number),
        };
    };
    let step = {
        let mut remote = remote.lock().unwrap_or_else(PoisonError::into_inner);
        match remote.take(&packet[..length]) {
            Ok(()) => remote.step(),
            Err(_) => Step::Wrong,
        }
    };
    match step {
        Step::More => shared.answer_with(files, number, &peer, |_| Vec::new()),
        Step::Answer(bytes) => shared.answer_with(files, number, &peer, |_| bytes),
        Step::Request(bytes) => match Request::decode(&bytes) {
            Some(request) => perform_for_host(shared, files, (number, &peer), request),
            None => shared.lose(files, number),
        },
        Step::Wrong => shared.lose(files, number),
    }
}

/// Of another host's writer: its files are found by their paths, which are the same on all hosts,
/// and have the same inodes, and another device.
fn perform_for_host(
    shared: &Arc<Shared>,
    files: &Arc<Files>,
    (number, peer): (u64, &Arc<Peer>),
    mut request: Request<'_>,
) {
    let known = |change: &mut dyn FnMut(&mut Remote)| {
        if let Some(remote) = &peer.remote {
            change(&mut remote.lock().unwrap_or_else(PoisonError::into_inner));
        }
    };
    let (theirs, mut own) = (request.file, None);
    known(&mut |remote| own = remote.files.get(&theirs).copied());
    if let Ask::Hold(path) = request.ask {
        let found = rustix::fs::lstat(path).ok();
        let found = found.filter(|found| found.st_ino == theirs.inode);
        own = found.map(|found| FileId {
            device: found.st_dev,
            inode: found.st_ino,
        });
        if let Some(own) = own {
            known(&mut |remote| {
                // More than a client has open: it asks again.
                if remote.files.len() >= MOST_REMOTE_FILES {
                    remote.files.clear();
                }
                remote.files.insert(theirs, own);
            });
        }
    }
    let refused = Answer::Refused(Errno::STALE.raw_os_error() as u32);
    match (own, request.ask) {
        (_, Ask::Share) => shared.answer(files, number, peer, refused),
        (Some(own), _) => {
            request.file = own;
            perform(shared, files, (number, peer), request);
        }
        (None, Ask::Hold(_)) => shared.answer(files, number, peer, refused),
        (None, _) => shared.answer(files, number, peer, Answer::NotHeld),
    }
}

fn perform(
    shared: &Arc<Shared>,
    files: &Arc<Files>,
    (number, peer): (u64, &Arc<Peer>),
    request: Request<'_>,
) {
    let file = request.file;
    let answer = match request.ask {
        Ask::Append { turn, count, size } => files.append(file, turn, count, size),
        Ask::Release => {
            files.release(file);
            Answer::Done
        }
        Ask::Reach(size) => files.reach(file, size),
        Ask::Share => return shared.share(files, number, peer),
        Ask::Hold(path) => {
            let (shared, table) = (Arc::clone(shared), Arc::clone(files));
            let peer = Arc::clone(peer);
            let waiter = move |answer| shared.answer(&table, number, &peer, answer);
            return files.hold(file, path, Box::new(waiter));
        }
    };
    shared.answer(files, number, peer, answer);
}

impl Shared {
    /// Takes in who has connected.
    pub fn welcome(&self, peer: Peer) {
        if let Some((number, peer)) = self.clients.admit(peer, Instant::now()) {
            let (data, flags) = (epoll::EventData::new_u64(number), awaited());
            if epoll::add(&self.epoll, &*peer, data, flags).is_err() {
                self.clients.remove(number);
            }
        }
    }

    fn answer(&self, files: &Files, number: u64, peer: &Peer, answer: Answer) {
        let bytes = answer.encode();
        match peer.remote {
            None => self.send(files, number, peer, &bytes),
            Some(_) => self.answer_with(files, number, peer, |remote| remote.seal(&bytes)),
        }
    }

    /// Sends a writer of another host what `make` says, and TLS by itself; where that is nothing,
    /// the writer has to say more.
    fn answer_with(
        &self,
        files: &Files,
        number: u64,
        peer: &Peer,
        make: impl FnOnce(&mut Remote) -> Vec<u8>,
    ) {
        let bytes = peer.remote.as_ref().map_or(Ok(Vec::new()), |remote| {
            let mut remote = remote.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes = make(&mut remote);
            remote.covered(bytes)
        });
        match bytes {
            Ok(bytes) if bytes.is_empty() => self.await_next(number, peer),
            Ok(bytes) => self.send(files, number, peer, &bytes),
            Err(_) => self.lose(files, number),
        }
    }

    fn send(&self, files: &Files, number: u64, peer: &Peer, bytes: &[u8]) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // It may come again, or go, as soon as it has the answer.
        self.clients.answered(number, Instant::now());
        match send(peer, bytes, flags) {
            Ok(sent) if sent == bytes.len() => self.await_next(number, peer),
            // Of so few bytes some find no room where nobody reads.
            _ => self.lose(files, number),
        }
    }

    /// Gives client `number` the memory.
    fn share(&self, files: &Files, number: u64, peer: &Peer) {
        let Some(memory) = &self.memory else {
            let none = Answer::Refused(Errno::NOTSUP.raw_os_error() as u32);
            return self.answer(files, number, peer, none);
        };
        let (fds, mut space) = ([memory.fd().as_fd()], [MaybeUninit::uninit(); 64]);
        let mut along = SendAncillaryBuffer::new(&mut space);
        along.push(SendAncillaryMessage::ScmRights(&fds));
        let (answer, flags) = (
            Answer::Memory.encode(),
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        );
        self.clients.answered(number, Instant::now());
        match sendmsg(peer, &[IoSlice::new(&answer)], &mut along, flags) {
            Ok(_) => self.await_next(number, peer),
            Err(_) => self.lose(files, number),
        }
    }

    fn await_next(&self, number: u64, socket: impl AsFd) {
        self.clients.answered(number, Instant::now());
        let data = epoll::EventData::new_u64(number);
        if epoll::modify(&self.epoll, socket, data, awaited()).is_err() {
            self.clients.remove(number);
        }
    }

    /// Client `number` is gone, or talks nonsense. With the last one all files are let go of.
    fn lose(&self, files: &Files, number: u64) {
        if self.clients.remove(number) == 0 {
            files.release_all();
        }
    }
}
