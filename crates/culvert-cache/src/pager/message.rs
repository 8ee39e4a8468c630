//! What processes tell the pager: fixed messages over a socket that keeps their borders (unix(7),
//! `SOCK_SEQPACKET`).

use culvert::Node;
use culvert_mounts::MountId;
use culvert_run::{self as run, ShadowName};
use culvert_sys::OwnedFd;
use culvert_sys::{Errno, nr, syscall};

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

const BYTES: usize = size_of::<Message>();
const SCM_RIGHTS: i32 = 1;
const SOL_SOCKET: i32 = 1;
const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
const MSG_NOSIGNAL: usize = 0x4000;
const MSG_DONTWAIT: usize = 0x40;
/// MSG_PEEK: what is received stays to be received.
pub const PEEK: usize = 2;

/// `struct cmsghdr` with one descriptor, padded.
#[repr(C)]
#[derive(Default)]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    fd: i32,
    padding: i32,
}

/// `struct msghdr`.
#[repr(C)]
struct Header {
    name: usize,
    name_length: usize,
    parts: usize,
    part_count: usize,
    control: usize,
    control_length: usize,
    flags: i32,
    padding: i32,
}

fn with_header<R>(
    bytes: &mut [u8],
    control: &mut Control,
    control_length: usize,
    act: impl FnOnce(&mut Header) -> R,
) -> R {
    let part = [bytes.as_mut_ptr() as usize, bytes.len()];
    let mut header = Header {
        name: 0,
        name_length: 0,
        parts: part.as_ptr() as usize,
        part_count: 1,
        control: core::ptr::from_mut(control) as usize,
        control_length,
        flags: 0,
        padding: 0,
    };
    act(&mut header)
}

fn call_with(number: usize, fd: i32, header: &mut Header, flags: usize) -> Result<usize, Errno> {
    loop {
        let arguments = [fd as usize, core::ptr::from_mut(header) as usize, flags];
        // SAFETY: header, part and control outlive the call, with the lengths they say.
        match unsafe { syscall::call(number, arguments) } {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

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
        // SAFETY: plain data without padding.
        let mut bytes: [u8; BYTES] = unsafe { core::mem::transmute(*self) };
        let mut control = Control {
            length: 20,
            level: SOL_SOCKET,
            kind: SCM_RIGHTS,
            fd: fd.unwrap_or(-1),
            padding: 0,
        };
        let length = fd.map_or(0, |_| size_of::<Control>());
        with_header(&mut bytes, &mut control, length, |header| {
            call_with(nr::SENDMSG, socket, header, MSG_NOSIGNAL)
        })
        .map(|_| ())
    }

    /// Receives one that is there, with the descriptor that came along. None: the other side is
    /// gone. EAGAIN: there is none.
    pub fn receive(socket: i32, flags: usize) -> Result<Option<(Self, Option<i32>)>, Errno> {
        let mut bytes = [0u8; BYTES];
        let mut control = Control::default();
        let got = with_header(
            &mut bytes,
            &mut control,
            size_of::<Control>(),
            |header| -> Result<(usize, usize), Errno> {
                let got = call_with(
                    nr::RECVMSG,
                    socket,
                    header,
                    flags | MSG_CMSG_CLOEXEC | MSG_DONTWAIT,
                )?;
                Ok((got, header.control_length))
            },
        )?;
        let came = got.1 >= 20 && control.level == SOL_SOCKET && control.kind == SCM_RIGHTS;
        let fd = came.then_some(control.fd);
        match got.0 {
            0 => Ok(None),
            // SAFETY: every pattern of bits is a message.
            BYTES => Ok(Some((
                unsafe { core::mem::transmute::<[u8; BYTES], Message>(bytes) },
                fd,
            ))),
            _ => {
                if let Some(fd) = fd {
                    drop(OwnedFd::from_raw(fd));
                }
                Err(Errno::EBADMSG)
            }
        }
    }
}

/// Answers message `number`.
pub fn answer(socket: i32, number: u32, errno: i32) -> Result<(), Errno> {
    let words = [number, errno as u32];
    let arguments = [
        socket as usize,
        words.as_ptr() as usize,
        size_of_val(&words),
        MSG_NOSIGNAL | MSG_DONTWAIT,
        0,
        0,
    ];
    // SAFETY: the buffer is given with its length.
    unsafe { syscall::call(nr::SENDTO, arguments) }.map(|_| ())
}

/// Waits for the answer to message `number`. EPIPE: the pager is gone.
pub fn answered(socket: i32, number: u32) -> Result<i32, Errno> {
    let mut words = [0u32; 2];
    loop {
        let arguments = [
            socket as usize,
            words.as_mut_ptr() as usize,
            size_of_val(&words),
            0,
            0,
            0,
        ];
        // SAFETY: the buffer is given with its length.
        match unsafe { syscall::call(nr::RECVFROM, arguments) } {
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
        let (place, length) = (words.as_mut_ptr() as usize, size_of_val(&words));
        let arguments = [socket as usize, place, length, MSG_DONTWAIT, 0, 0];
        // SAFETY: the buffer is given with its length.
        match unsafe { syscall::call(nr::RECVFROM, arguments) } {
            // Answers that came twice.
            Ok(8) | Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return false,
            _ => return true,
        }
    }
}

/// Which file a message is about. None: a mount that is not there.
pub fn name_of(message: &Message) -> Option<ShadowName> {
    let mount = u16::try_from(message.mount).ok()?;
    let known = run::get().mounts.ids().any(|known| known == MountId(mount));
    known.then_some(ShadowName {
        mount,
        node: Node(message.node),
    })
}
