//! The connection to the synchronisation service, which says where this process appends.
//!
//! Nothing depends on it: where there is no service, or it does not answer, appends exclude each
//! other by locks, as without one (`container/append.rs`). A service of this host shares the memory
//! in which positions are: once it holds a file, nobody is asked for one.

use super::forks::forks;
use super::hosts;
use super::patience::{be_patient, patiently, receive_all, send_all};
use crate::{Keeper, KeptFd, OwnedFd};
use alloc::{sync::Arc, vec::Vec};
use culvert::Errno;
use culvert::sync::{Mutex, MutexGuard};
use culvert_slots::Noted;
use culvert_sync_wire::memory::{LENGTH, Table};
use culvert_sync_wire::secret::{Session, frame};
use culvert_sync_wire::{ANSWER, Answer, Ask, FileId, Request};
use culvert_sys::fd::{BorrowedFd, Command, fcntl};
use culvert_sys::flags::Protection;
use culvert_sys::fs;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::raw::general::F_SEAL_SHRINK;
use culvert_sys::raw::general::O_CLOEXEC;
use culvert_sys::raw::net::{AF_UNIX, MSG_NOSIGNAL, SOCK_SEQPACKET};
use culvert_sys::{net, process};

/// For how long an answer is waited for, seconds: another service may have the file for a tenth of
/// one.
const PATIENCE: i64 = 2;
/// For how long it is not tried again where it has failed, nanoseconds.
const PAUSE: u64 = 100_000_000;
/// Bytes of an answer by TCP at most.
const LONGEST_ANSWER: usize = ANSWER + 18;
/// Bytes of `struct sockaddr_un`.
const LONGEST_ADDRESS: usize = 110;

const SO_PEERCRED: u32 = 17;

/// See the module.
pub struct Service {
    way: Way,
    link: Mutex<Link>,
}

/// How it is reached.
enum Way {
    /// `struct sockaddr_un`.
    Socket(Vec<u8>),
    /// By the lease in the back end at this path, on whatever host it is, and by TLS if there is
    /// the address of a relay.
    Lease(Vec<u8>, Option<Vec<u8>>),
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
    socket: Option<(u32, Socket)>,
    /// It is on another host.
    session: Option<Session>,
    /// What the service at its other end shares.
    memory: Option<Arc<Memory>>,
    /// When it may be tried again.
    again: u64,
}

/// What leads to a service, as long as this process can be its user.
struct Socket {
    /// Dropped before the descriptor is closed.
    _noted: Noted,
    fd: Arc<KeptFd>,
    /// The service's user.
    uid: u32,
}

impl Socket {
    fn new(fd: KeptFd, uid: u32) -> Self {
        let fd = Arc::new(fd);
        Self {
            _noted: Noted::connection(uid, fd.clone()),
            fd,
            uid,
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.fd()
    }
}

/// The memory of a service; it outlives the connection by which it came. When this process cannot
/// be its user any more, it is zeroes: the service does not live, and no turn goes on.
pub struct Memory {
    /// Dropped before the mapping is removed.
    _noted: Noted,
    mapping: Mapping,
}

impl Memory {
    fn of(fd: &OwnedFd, uid: u32) -> Result<Self, Errno> {
        let seals = fcntl(fd, Command::GET_SEALS, 0)?;
        // Else a touch might be SIGBUS, in a program that knows nothing of it.
        let stays = seals & F_SEAL_SHRINK as usize != 0;
        if !stays || (fs::fstat(fd)?.st_size as usize) < LENGTH {
            return Err(Errno::EPROTO);
        }
        let both = Protection::READ | Protection::WRITE;
        let mapping = Mapping::new(Of::file(fd), LENGTH, both)?;
        // SAFETY: it is mapped until it is forgotten there, and atomic words alone are reached.
        let noted = unsafe { Noted::memory(uid, mapping.address(), LENGTH) };
        Ok(Self {
            _noted: noted,
            mapping,
        })
    }

    /// Its words.
    pub fn table(&self) -> Table {
        // SAFETY: the mapping is so long, to be read and written, it lives as long as `self`, which
        // the callers keep meanwhile, and only atomic words in it are reached.
        unsafe { Table::new(self.mapping.start()) }
    }
}

impl Service {
    /// The service whose socket is at the absolute path `path`; none where that is too long.
    pub fn at(path: &[u8]) -> Option<Self> {
        Some(Self {
            way: Way::Socket(address(path)?),
            link: Mutex::new(Link::default()),
        })
    }

    /// The service of all hosts that share the back end at `path`; by TLS if there is the `relay`
    /// with this address.
    pub fn of_hosts(path: &[u8], relay: Option<Vec<u8>>) -> Self {
        Self {
            way: Way::Lease(path.to_vec(), relay),
            link: Mutex::new(Link::default()),
        }
    }

    /// For how long it is not tried again where it has failed: a host that is down answers nothing.
    fn pause(&self) -> u64 {
        match self.way {
            Way::Socket(_) => PAUSE,
            Way::Lease(..) => 20 * PAUSE,
        }
    }

    /// Whether it is on this host, and what tells it of a write is a word in memory.
    pub fn shares_memory(&self) -> bool {
        matches!(self.way, Way::Socket(_))
    }

    /// The connection, which no other thread uses meanwhile.
    pub fn connection(&self) -> Connection<'_> {
        Connection {
            service: self,
            link: self.link.lock(),
        }
    }

    /// What the service says to `request`, by a connection for that alone.
    pub fn ask_once(&self, keeper: Keeper, request: &Request<'_>) -> Option<Answer> {
        let (socket, mut session) = self.connect(keeper).ok()?;
        exchange(&socket, &mut session, request).ok()
    }

    fn connect(&self, keeper: Keeper) -> Result<(Socket, Option<Session>), Errno> {
        let (socket, uid, session) = match &self.way {
            Way::Socket(address) => {
                let (socket, uid) = connect(address)?;
                (socket, uid, None)
            }
            Way::Lease(path, relay) => {
                let (socket, session) = hosts::connect(path, relay.as_deref(), PATIENCE)?;
                (socket, process::geteuid(), Some(session))
            }
        };
        Ok((Socket::new(keeper.keep(socket), uid), session))
    }
}

/// `struct sockaddr_un` of the absolute path `path`; none where that is too long.
pub fn address(path: &[u8]) -> Option<Vec<u8>> {
    let address = [&(AF_UNIX as u16).to_ne_bytes(), path, b"\0"].concat();
    let right = path.starts_with(b"/") && !path.contains(&0);
    (right && address.len() <= LONGEST_ADDRESS).then_some(address)
}

/// A connection to a service of this user, or root, at `address`, and which of them.
fn connect(address: &[u8]) -> Result<(OwnedFd, u32), Errno> {
    let socket = net::socket(AF_UNIX, SOCK_SEQPACKET | O_CLOEXEC, 0)?;
    be_patient(&socket, PATIENCE)?;
    net::connect(&socket, address)?;
    let [_, uid, _]: [u32; 3] = net::socket_option(&socket, SO_PEERCRED)?;
    match uid == 0 || uid == process::geteuid() {
        true => Ok((socket, uid)),
        false => Err(Errno::EACCES),
    }
}

/// Asks for the memory: an error where the service does not answer.
fn share(socket: &Socket) -> Result<Option<Arc<Memory>>, Errno> {
    let (file, ask) = (
        FileId {
            device: 0,
            inode: 0,
        },
        Ask::Share,
    );
    let bytes = Request { file, ask }.encode();
    patiently(|| net::send(socket.fd(), &bytes, MSG_NOSIGNAL))?;
    let (mut answer, mut fd) = ([0; ANSWER], None);
    let length = patiently(|| {
        let (length, along) = net::receive_with(socket.fd(), &mut answer, 0)?;
        fd = along;
        Ok(length)
    })?;
    match (answer.get(..length).and_then(Answer::decode), fd) {
        (Some(Answer::Memory), Some(fd)) => Ok(Memory::of(&fd, socket.uid).ok().map(Arc::new)),
        (Some(Answer::Refused(_)), _) => Ok(None),
        (None, _) if length == 0 => Err(Errno::ECONNRESET),
        _ => Err(Errno::EPROTO),
    }
}

impl Connection<'_> {
    /// What the service shares, which gave the last answer.
    pub fn memory(&self) -> Option<Arc<Memory>> {
        self.link.memory.clone()
    }

    /// What the service says to `request`, at `now` (nanoseconds); none: it does not.
    pub fn ask(&mut self, keeper: Keeper, now: u64, request: &Request<'_>) -> Option<Answer> {
        let (link, pause) = (&mut *self.link, self.service.pause());
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
                Some((_, socket)) => exchange(socket, &mut link.session, request),
                // The clock may have been set back.
                None if (1..=pause).contains(&link.again.saturating_sub(now)) => return None,
                None => self.service.connect(keeper).and_then(|(socket, session)| {
                    let (_, socket) = link.socket.insert((forks(), socket));
                    link.session = session;
                    link.memory = match link.session {
                        None => share(socket)?,
                        Some(_) => None,
                    };
                    exchange(socket, &mut link.session, request)
                }),
            };
            match answer {
                Ok(answer) => return Some(answer),
                Err(errno) => {
                    link.socket = None;
                    // It sends idle clients away.
                    let sent_away = matches!(errno, Errno::EPIPE | Errno::ECONNRESET);
                    if is_last || !is_old || !sent_away {
                        link.again = now + pause;
                        return None;
                    }
                }
            }
        }
        None
    }
}

fn exchange(
    socket: &Socket,
    session: &mut Option<Session>,
    request: &Request<'_>,
) -> Result<Answer, Errno> {
    let bytes = request.encode();
    if let Some(session) = session {
        send_all(socket.fd(), &session.seal(&bytes))?;
        let mut answer = Vec::from([0; 2]);
        receive_all(socket.fd(), &mut answer)?;
        let length = frame(&answer).ok_or(Errno::EPROTO)?;
        if length > LONGEST_ANSWER {
            return Err(Errno::EPROTO);
        }
        answer.resize(length, 0);
        receive_all(socket.fd(), &mut answer[2..])?;
        let answer = session.open(&answer).and_then(Answer::decode);
        return answer.ok_or(Errno::EPROTO);
    }
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
