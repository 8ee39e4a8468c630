//! What processes tell the pager: fixed messages over a socket that keeps their borders (unix(7),
//! `SOCK_SEQPACKET`).

use culvert::Node;
use culvert_mounts::MountId;
use culvert_run::{self as run, ShadowName};
use culvert_sys::OwnedFd;
use culvert_sys::plain::{Packed, Plain};
/// What is received stays to be received.
pub use culvert_sys::raw::net::MSG_PEEK as PEEK;
use culvert_sys::raw::net::{MSG_DONTWAIT, MSG_NOSIGNAL};
use culvert_sys::{BorrowedFd, Errno, net};

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// The first of a connection: whose it is. The process's userfaultfd comes with it, if it has
    /// one.
    Hello = 1,
    /// Whether the file can be read by the pager.
    Prepare = 2,
    /// A range whose missing pages the pager fills from now on.
    Attach = 3,
    /// A range where it does not any more. Not answered.
    Detach = 4,
    /// Room for so many bytes in shadows, as far as pages can be dropped.
    Room = 5,
}

/// A message. All but [`Kind::Detach`] are answered by their number and an errno, 0 for success;
/// perhaps more than once, where the one who answered died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Message {
    /// A [`Kind`].
    pub kind: u32,
    /// Of [`Kind::Hello`]: the process's slot (`node_locks`).
    pub slot: u32,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// The file's byte at `start`.
    pub offset: u64,
    /// The file.
    pub node: u64,
    /// Its mount.
    pub mount: u32,
    /// Which message of its connection it is, for the answer.
    pub number: u32,
}

// SAFETY: integers.
unsafe impl Plain for Message {}
// SAFETY: two words, then words of twice that size, then two again.
unsafe impl Packed for Message {}

impl Message {
    /// A message of `kind` about nothing.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind: kind as u32,
            slot: 0,
            start: 0,
            length: 0,
            offset: 0,
            node: 0,
            mount: 0,
            number: 0,
        }
    }

    /// Sends it, with a descriptor.
    pub fn send(&self, socket: i32, fd: Option<i32>) -> Result<(), Errno> {
        let fd = fd.map(BorrowedFd::number);
        let send = || net::send_with(BorrowedFd::number(socket), self.bytes(), fd, MSG_NOSIGNAL);
        uninterrupted(send).map(drop)
    }

    /// Receives one that is there, with the descriptor that came along. None: the other side is
    /// gone. EAGAIN: there is none.
    pub fn receive(socket: i32, flags: u32) -> Result<Option<(Self, Option<OwnedFd>)>, Errno> {
        let (socket, mut message) = (BorrowedFd::number(socket), Self::zeroed());
        let into = message.bytes_mut();
        match uninterrupted(|| net::receive_with(socket, into, flags | MSG_DONTWAIT))? {
            (0, _) => Ok(None),
            (BYTES, fd) => Ok(Some((message, fd))),
            _ => Err(Errno::EBADMSG),
        }
    }
}

const BYTES: usize = size_of::<Message>();

fn uninterrupted<R>(mut call: impl FnMut() -> Result<R, Errno>) -> Result<R, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Answers message `number`.
pub fn answer(socket: i32, number: u32, errno: i32) -> Result<(), Errno> {
    let words = [number, errno as u32];
    let socket = BorrowedFd::number(socket);
    net::send(socket, words.bytes(), MSG_NOSIGNAL | MSG_DONTWAIT).map(drop)
}

/// Waits for the answer to message `number`. EPIPE: the pager is gone.
pub fn answered(socket: i32, number: u32) -> Result<i32, Errno> {
    let mut words = [0u32; 2];
    loop {
        match net::receive(BorrowedFd::number(socket), words.bytes_mut(), 0) {
            Ok(8) if words[0] == number => return Ok(words[1] as i32),
            Ok(8) | Err(Errno::EINTR) => {}
            Ok(_) => return Err(Errno::EPIPE),
            Err(error) => return Err(error),
        }
    }
}

/// Whether the other side of a connection, on which no answer is waited for, is gone.
pub fn is_over(socket: i32) -> bool {
    let mut words = [0u32; 2];
    loop {
        match net::receive(BorrowedFd::number(socket), words.bytes_mut(), MSG_DONTWAIT) {
            // Answers that came twice.
            Ok(8) | Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return false,
            _ => return true,
        }
    }
}

/// Which file a message is about. None: a mount that is not there.
pub fn name_of(message: &Message) -> Option<ShadowName> {
    let mount = MountId(u16::try_from(message.mount).ok()?);
    let mounts = &run::get().mounts;
    let is_known = || (mount.0 as usize) < mounts.count();
    if !is_known() {
        run::restarts::take_up(run::get());
    }
    let known = is_known();
    known.then_some(ShadowName {
        mount,
        node: Node(message.node),
    })
}
