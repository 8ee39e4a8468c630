//! The connection to the synchronisation service, which says where this process appends.
//!
//! Nothing depends on it: where there is no service, or it does not answer, appends exclude each
//! other by locks, as without one (`container.rs`).

use super::forks::forks;
use crate::{Keeper, KeptFd, OwnedFd};
use alloc::vec::Vec;
use culvert::Errno;
use culvert::sync::{Mutex, MutexGuard};
use culvert_sync_wire::{ANSWER, Answer, Request};
use culvert_sys::raw::general::O_CLOEXEC;
use culvert_sys::raw::net::{AF_UNIX, MSG_NOSIGNAL, SOCK_SEQPACKET};
use culvert_sys::{net, process};

/// For how long an answer is waited for, seconds: another service may have the file for a tenth of
/// one.
const PATIENCE: i64 = 2;
/// For how long it is not tried again where it has failed, nanoseconds.
const PAUSE: u64 = 100_000_000;
/// Most signals that interrupt one wait.
const MOST_SIGNALS: usize = 1000;
/// Bytes of `struct sockaddr_un`.
const LONGEST_ADDRESS: usize = 110;

const SO_PEERCRED: u32 = 17;
const SO_RCVTIMEO: u32 = 20;
const SO_SNDTIMEO: u32 = 21;

/// See the module.
pub struct Service {
    /// `struct sockaddr_un`.
    address: Vec<u8>,
    link: Mutex<Link>,
}

/// The connection of a service, as long as this lives. Who takes it waits for answers to others: so
/// nobody takes it while he has a lock that the service may wait for.
pub struct Connection<'a> {
    service: &'a Service,
    link: MutexGuard<'a, Link>,
}

#[derive(Default)]
struct Link {
    /// With the process that made it, as [`forks`] counts them.
    socket: Option<(u32, KeptFd)>,
    /// When it may be tried again.
    again: u64,
}

impl Service {
    /// The service whose socket is at the absolute path `path`; none where that is too long.
    pub fn at(path: &[u8]) -> Option<Self> {
        let address = [&(AF_UNIX as u16).to_ne_bytes(), path, b"\0"].concat();
        let right = path.starts_with(b"/") && !path.contains(&0);
        (right && address.len() <= LONGEST_ADDRESS).then(|| Self {
            address,
            link: Mutex::new(Link::default()),
        })
    }

    /// The connection, which no other thread uses meanwhile.
    pub fn connection(&self) -> Connection<'_> {
        Connection {
            service: self,
            link: self.link.lock(),
        }
    }

    /// A connection to a service of this user, or root.
    fn connect(&self) -> Result<OwnedFd, Errno> {
        let socket = net::socket(AF_UNIX, SOCK_SEQPACKET | O_CLOEXEC, 0)?;
        // Before connect(2), which waits too.
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            net::set_socket_option(&socket, option, &[PATIENCE, 0])?;
        }
        net::connect(&socket, &self.address)?;
        let [_, uid, _]: [u32; 3] = net::socket_option(&socket, SO_PEERCRED)?;
        match uid == 0 || uid == process::geteuid() {
            true => Ok(socket),
            false => Err(Errno::EACCES),
        }
    }
}

impl Connection<'_> {
    /// What the service says to `request`, at `now` (nanoseconds); none: it does not.
    pub fn ask(&mut self, keeper: Keeper, now: u64, request: &Request<'_>) -> Option<Answer> {
        let link = &mut *self.link;
        // After a fork the parent's is the parent's.
        if link
            .socket
            .as_ref()
            .is_some_and(|(made, _)| *made != forks())
        {
            *link = Link::default();
        }
        for is_last in [false, true] {
            let is_old = link.socket.is_some();
            let answer = match &link.socket {
                Some((_, socket)) => exchange(socket, request),
                // The clock may have been set back.
                None if (1..=PAUSE).contains(&link.again.saturating_sub(now)) => return None,
                None => self.service.connect().and_then(|socket| {
                    let (_, socket) = link.socket.insert((forks(), keeper.keep(socket)));
                    exchange(socket, request)
                }),
            };
            match answer {
                Ok(answer) => return Some(answer),
                Err(errno) => {
                    link.socket = None;
                    // It sends idle clients away.
                    let sent_away = matches!(errno, Errno::EPIPE | Errno::ECONNRESET);
                    if is_last || !is_old || !sent_away {
                        link.again = now + PAUSE;
                        return None;
                    }
                }
            }
        }
        None
    }
}

fn exchange(socket: &KeptFd, request: &Request<'_>) -> Result<Answer, Errno> {
    let bytes = request.encode();
    patiently(|| net::send(socket.fd(), &bytes, MSG_NOSIGNAL))?;
    let mut answer = [0; ANSWER];
    match patiently(|| net::receive(socket.fd(), &mut answer, 0))? {
        0 => Err(Errno::ECONNRESET),
        length => {
            let answer = answer.get(..length).and_then(Answer::decode);
            answer.ok_or(Errno::EPROTO)
        }
    }
}

/// `call`, again where signals interrupt it.
fn patiently(mut call: impl FnMut() -> Result<usize, Errno>) -> Result<usize, Errno> {
    for _ in 0..MOST_SIGNALS {
        match call() {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
    Err(Errno::EINTR)
}
