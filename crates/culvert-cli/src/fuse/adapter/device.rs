//! The socket that stands for /dev/fuse: each packet is one message. Requests come from the slots,
//! and replies go there.
//!
//! A read of the device gives one message and a write takes one, and so it is on a socket of
//! packets: also for several workers that read at once. But a server is not told what is wrong with
//! what it has written, and a packet has less room than the device ([`PACKET`]).

use super::{init, look::Look};
use culvert_client::notices::{self, Heard};
use culvert_slots::{
    Area, BELL, Message, OUT_HEADER, Reply, SLOTS, Server, Session, open_fifo, waiters,
};
use culvert_sys::raw::general::pollfd;
use culvert_sys::{BorrowedFd, Errno, OwnedFd, fd, fs, net, process, trust::Opened};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, Shutdown, SocketFlags,
    SocketType, recvmsg, shutdown, socketpair,
    sockopt::{set_socket_passcred, set_socket_send_buffer_size, socket_send_buffer_size},
};
use std::{
    io::IoSliceMut,
    mem::MaybeUninit,
    os::fd::IntoRawFd,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

/// The largest packet, bytes: with the largest buffer that Linux gives who has no rights
/// (net.core.wmem_max) a larger one is refused, and its request would never be answered.
const PACKET: usize = 256 << 10;
/// Bytes of a packet that are no data: headers, and the structure of a WRITE.
const HEADS: usize = 4096;
/// The smallest packets with which a server works: the longest names and extended attributes.
const LEAST: usize = (64 << 10) + HEADS;
/// What the kernel takes of a buffer for itself (`unix_dgram_sendmsg`, net/unix/af_unix.c).
const KERNELS: usize = 32;
/// From here on a reply is worth a look at its head, so that its bytes need not be copied twice.
const LARGE: usize = 16 << 10;

culvert_sys::calls! {
    /// writev(2) of memory that is mapped for as long.
    fn writev(fd: BorrowedFd<'_>, parts: &[[usize; 2]]) -> usize
        = WRITEV[fd, parts.as_ptr(), parts.len()];
    /// readv(2) into memory that is mapped for as long, and that only copies touch.
    fn readv(fd: BorrowedFd<'_>, parts: &[[usize; 2]]) -> usize
        = READV[fd, parts.as_ptr(), parts.len()];
}

/// Why nothing comes any more.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The session is over.
    Over,
    /// The server has closed the device.
    Closed,
    /// What came was no message, or could not be read.
    Broken(String),
}

/// The adapter's end of the socket, and the slots.
#[derive(Debug)]
pub struct Device {
    slots: Server,
    directory: Opened,
    bell: OwnedFd,
    socket: OwnedFd,
    /// Who takes and sends a request has it: what poll(2) says of the room holds until it is sent.
    turn: Mutex<()>,
    /// The most bytes of a packet.
    packet: usize,
    /// The number of INIT, while it has no reply.
    init: AtomicU64,
    look: Look,
}

impl Device {
    /// For the slots in `directory`: also the server's end of the socket.
    pub fn new(directory: &Opened) -> Result<(Self, OwnedFd), String> {
        let slots = |errno: Errno| format!("cannot use the slots: {}", errno.text());
        let bell = open_fifo(directory, BELL).map_err(slots)?;
        fd::fcntl(&bell, fd::Command::SETFL, 0).map_err(slots)?;
        let owner = (directory.stat().st_uid, process::getegid());
        let area = Area::open(directory).map_err(slots)?;
        let (socket, its, packet) = pair()?;
        let device = Self {
            slots: Server::new(area, owner),
            directory: directory.duplicate().map_err(slots)?,
            bell,
            socket,
            turn: Mutex::new(()),
            packet,
            init: AtomicU64::new(0),
            look: Look::new(),
        };
        Ok((device, its))
    }

    /// The session is over: whoever waits for a reply is told, and the server finds its device
    /// gone.
    pub fn end(&self) {
        let bell = fd::duplicate(&self.bell, 0);
        // A full FIFO has bytes enough, and is not waited for.
        if let Ok(bell) = bell {
            self.slots.area().end(&bell);
        }
        self.hang_up();
    }

    /// Whether the session is over.
    pub fn has_ended(&self) -> bool {
        self.slots.area().session() == Session::Ended
    }

    /// The server reads the end of the device; what it writes is still taken.
    pub fn hang_up(&self) {
        let _ = shutdown(owned(&self.socket), Shutdown::Write);
    }

    /// Nor is what it writes: its write fails, also one that waits for room.
    pub fn shut(&self) {
        let _ = shutdown(owned(&self.socket), Shutdown::Both);
    }

    /// Hands requests to the server, to the end.
    pub fn requests(&self) -> End {
        loop {
            match fs::read(&self.bell, &mut [0]) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(errno) => return End::Broken(format!("cannot wait: {}", errno.text())),
            }
            let _turn = self.turn.lock().expect("nobody panics with it");
            match self.slots.take() {
                Ok(Some(message)) => {
                    if self.hand(message) == Err(Errno::EPIPE) {
                        return End::Closed;
                    }
                }
                // Taken back meanwhile.
                Ok(None) => {}
                Err(_) => return End::Over,
            }
        }
    }

    fn hand(&self, message: Message<'_>) -> Result<(), Errno> {
        let length = message.length();
        if length > self.packet {
            message.failed(Errno::EIO);
            return Ok(());
        }
        self.look.took(&self.slots, &message);
        let mut clipped = Vec::new();
        if message.is_init() {
            self.slots.serves();
            let number = message.header[8..16].try_into().unwrap_or_default();
            self.init.store(u64::from_ne_bytes(number), SeqCst);
            clipped.resize(message.body.len(), 0);
            message.body.read(0, &mut clipped);
            init::offered(&mut clipped);
        }
        let body = match &message.interrupted {
            Some(interrupted) => part(interrupted),
            None if message.is_init() => part(&clipped),
            None => [message.body.start() as usize, message.body.len()],
        };
        let parts = [part(&message.header), body, part(message.extension())];
        let sent = loop {
            match writev(self.socket.borrow(), &parts) {
                Err(Errno::EINTR) => {}
                sent => break sent,
            }
        };
        match sent {
            Ok(_) => {
                if message.handed() {
                    let _ = fs::write(&self.bell, &[0]);
                }
                Ok(())
            }
            Err(errno @ (Errno::EPIPE | Errno::ECONNRESET | Errno::ENOTCONN)) => {
                message.failed(Errno::ECONNABORTED);
                let _ = errno;
                Err(Errno::EPIPE)
            }
            Err(errno) => {
                message.failed(errno);
                Err(errno)
            }
        }
    }

    /// The process that has answered INIT; none when the device ended before.
    pub fn answers_init(&self) -> Result<u32, End> {
        let broken = |what: &str| End::Broken(format!("{what} before INIT was answered"));
        let mut room = vec![0; self.packet];
        let _ = set_socket_passcred(owned(&self.socket), true);
        let found = loop {
            let (count, sender) = match receive_from(&self.socket, &mut room) {
                Ok((0, _)) => return Err(End::Closed),
                Ok(received) => received,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::CONNRESET) => return Err(End::Closed),
                Err(errno) => return Err(broken(&format!("it cannot be read ({errno})"))),
            };
            let message = room.get_mut(..count);
            let message = message.ok_or_else(|| broken("a packet was too large"))?;
            if self.takes_init(message)? {
                break sender;
            }
        };
        let _ = set_socket_passcred(owned(&self.socket), false);
        Ok(found)
    }

    /// Takes a message: whether it was INIT's reply.
    fn takes_init(&self, message: &mut [u8]) -> Result<bool, End> {
        let head = Head::of(message, message.len())?;
        let is_init = head.number != 0 && head.number == self.init.load(SeqCst);
        if is_init {
            self.init.store(0, SeqCst);
            init::agreed(&mut message[OUT_HEADER..], self.packet - HEADS);
        }
        self.takes(&head, &message[OUT_HEADER..]);
        Ok(is_init)
    }

    /// Puts replies into the slots, to the end.
    pub fn replies(&self) -> End {
        match self.put_replies() {
            Ok(()) => End::Closed,
            Err(end) => end,
        }
    }

    fn put_replies(&self) -> Result<(), End> {
        const MSG_PEEK: u32 = 2;
        const MSG_TRUNC: u32 = 0x20;
        let mut room = vec![0; self.packet];
        let mut is_large = false;
        let receive = |into: &mut [u8], flags: u32| loop {
            match net::receive(&self.socket, into, flags | MSG_TRUNC) {
                Err(Errno::EINTR) => {}
                Ok(count) => return Ok(count),
                // It was closed with requests that nobody has read.
                Err(Errno::ECONNRESET) => return Ok(0),
                Err(errno) => {
                    let what = format!("its replies cannot be read: {}", errno.text());
                    return Err(End::Broken(what));
                }
            }
        };
        loop {
            if is_large {
                let mut bytes = [0; OUT_HEADER];
                let count = receive(&mut bytes, MSG_PEEK)?;
                if count == 0 {
                    return Ok(());
                }
                is_large = count > LARGE;
                if is_large && count <= self.packet {
                    let head = Head::of(&bytes, count)?;
                    if self.takes_in_place(&head)? {
                        self.look_on();
                        continue;
                    }
                }
            }
            let count = receive(&mut room, 0)?;
            if count == 0 {
                return Ok(());
            }
            is_large = count > LARGE;
            let head = Head::of(&room, count)?;
            let Some(message) = room.get(..count) else {
                if let Ok(reply) = self.slots.reply(head.number) {
                    let _ = reply.finish(-Errno::EIO.raw(), 0);
                }
                return Err(End::Broken(format!(
                    "a reply of {count} bytes is too large"
                )));
            };
            self.takes(&head, &message[OUT_HEADER..]);
            self.look_on();
        }
    }

    /// After a reply: hands on the next request where it comes at once. This thread must not wait
    /// for the server, which may wait for it.
    fn look_on(&self) {
        const POLLOUT: i16 = 4;
        if !self.look.finds(&self.slots) {
            return;
        }
        // The other thread is sending, and may wait for room.
        let Ok(_turn) = self.turn.try_lock() else {
            return;
        };
        let mut polled = [pollfd {
            fd: self.socket.raw(),
            events: POLLOUT,
            revents: 0,
        }];
        // Half of the buffer is free then, and what is under way is one request.
        if process::poll(&mut polled, 0) == Ok(1)
            && let Ok(Some(message)) = self.slots.take()
        {
            let _ = self.hand(message);
        }
    }

    /// Receives the packet of `head` into its slot; false: that is for the usual way.
    fn takes_in_place(&self, head: &Head) -> Result<bool, End> {
        if !head.is_reply() || head.error != 0 {
            return Ok(false);
        }
        let Ok(reply) = self.slots.reply(head.number) else {
            return Ok(false);
        };
        if let Err(errno) = reply.secure(head.body) {
            let _ = reply.finish(-errno.raw(), 0);
            return Ok(false);
        }
        let payload = reply.payload(head.body);
        let mut bytes = [0_u8; OUT_HEADER];
        let parts = [
            [bytes.as_mut_ptr() as usize, bytes.len()],
            [payload.start() as usize, payload.len()],
        ];
        let received = loop {
            match readv(self.socket.borrow(), &parts) {
                Err(Errno::EINTR) => {}
                received => break received,
            }
        };
        match received {
            Ok(count) if count == OUT_HEADER + head.body => {
                let _ = reply.finish(0, head.body);
                Ok(true)
            }
            _ => {
                let _ = reply.finish(-Errno::EIO.raw(), 0);
                Err(End::Broken("a reply cannot be read".into()))
            }
        }
    }

    /// Takes a message of the server: `head`, and what follows it.
    fn takes(&self, head: &Head, body: &[u8]) {
        if head.number == 0 {
            return self.notified(head.error, body);
        }
        if Server::is_interrupt(head.number) {
            if self.slots.answered_interrupt(head.number, head.error) {
                let _ = fs::write(&self.bell, &[0]);
            }
            return;
        }
        // One that nobody waits for, or that was answered before.
        let Ok(reply) = self.slots.reply(head.number) else {
            return;
        };
        let _ = match put(&reply, head, body) {
            Ok(()) => reply.finish(head.error, body.len()),
            Err(errno) => reply.finish(-errno.raw(), 0),
        };
    }

    /// Notification `code` with `body`.
    fn notified(&self, code: i32, body: &[u8]) {
        let ring = |times: usize| {
            let _ = fs::write(&self.bell, &[0; SLOTS][..times.min(SLOTS)]);
        };
        match notices::hear_all(&self.slots.caches(), code, body) {
            Heard::All => self.slots.notified(),
            Heard::Ready(number) => waiters::wake(&self.directory, Some(number)),
            Heard::Resend => ring(self.slots.resend()),
            Heard::Retrieved(found) => {
                if self
                    .slots
                    .tell(found.number, found.node, &found.body)
                    .is_ok()
                {
                    ring(1);
                }
            }
            // The device would tell the server that it is none. Who waits for pages is answered.
            Heard::Refused(_) => {
                if let Some(none) = notices::nothing_retrieved(code, body)
                    && self.slots.tell(none.number, none.node, &none.body).is_ok()
                {
                    ring(1);
                }
            }
            Heard::Counted | Heard::Question | Heard::Malformed => {}
        }
    }
}

fn put(reply: &Reply<'_>, head: &Head, body: &[u8]) -> Result<(), Errno> {
    if !(-511..=0).contains(&head.error) || head.error != 0 && !body.is_empty() {
        return Err(Errno::EIO);
    }
    if !body.is_empty() {
        reply.secure(body.len())?;
        reply.payload(body.len()).write(0, body);
    }
    Ok(())
}

/// `struct fuse_out_header` of a packet.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    error: i32,
    number: u64,
    /// Bytes behind it.
    body: usize,
}

impl Head {
    /// Of a packet of `length` bytes that begins with `bytes`. One that is no message, or a part of
    /// one, ends all: what follows it cannot be told from replies.
    fn of(bytes: &[u8], length: usize) -> Result<Self, End> {
        let short = || End::Broken(format!("a reply of {length} bytes is too short"));
        let bytes = bytes.first_chunk::<OUT_HEADER>();
        let &[a, b, c, d, e, f, g, h, ref number @ ..] =
            bytes.filter(|_| length >= OUT_HEADER).ok_or_else(short)?;
        let said = u32::from_ne_bytes([a, b, c, d]);
        if said as usize != length {
            return Err(End::Broken(format!(
                "a reply of {said} bytes came as a packet of {length}"
            )));
        }
        Ok(Self {
            error: i32::from_ne_bytes([e, f, g, h]),
            number: u64::from_ne_bytes(*number),
            body: length - OUT_HEADER,
        })
    }

    fn is_reply(&self) -> bool {
        self.number != 0 && !Server::is_interrupt(self.number)
    }
}

fn part(bytes: &[u8]) -> [usize; 2] {
    [bytes.as_ptr() as usize, bytes.len()]
}

/// Both ends of a socket, and the most bytes of a packet.
fn pair() -> Result<(OwnedFd, OwnedFd, usize), String> {
    let failed = |errno: rustix::io::Errno| format!("cannot make a socket: {errno}");
    let flags = SocketFlags::CLOEXEC;
    let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (own, its) = ends.map_err(failed)?;
    let mut packet = PACKET;
    for end in [&own, &its] {
        set_socket_send_buffer_size(end, PACKET).map_err(failed)?;
        let size = socket_send_buffer_size(end).map_err(failed)?;
        packet = packet.min(size.saturating_sub(KERNELS) / culvert_sys::PAGE * culvert_sys::PAGE);
    }
    if packet < LEAST {
        return Err(format!(
            "a packet may have {packet} bytes here (net.core.wmem_max), and a server needs {LEAST}"
        ));
    }
    let raw = |end: std::os::fd::OwnedFd| OwnedFd::from_raw(end.into_raw_fd());
    Ok((raw(own), raw(its), packet))
}

/// The same descriptor as rustix has it.
fn owned(socket: &OwnedFd) -> std::os::fd::BorrowedFd<'_> {
    // SAFETY: it is open as long as it is borrowed.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(socket.raw()) }
}

/// The next packet: its bytes, which may be more than had room, and its sender's process.
fn receive_from(socket: &OwnedFd, room: &mut [u8]) -> rustix::io::Result<(usize, u32)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(room)];
    let received = recvmsg(owned(socket), &mut parts, &mut control, RecvFlags::TRUNC)?;
    let sender = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_pid() as u32),
        _ => None,
    });
    Ok((received.bytes, sender.unwrap_or(0)))
}
