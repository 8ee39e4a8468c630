//! Calls on sockets.

use crate::Errno;
use crate::fd::{AsFd, BorrowedFd, OwnedFd};
use crate::plain::Packed;
use crate::table::calls;
use core::ptr::{from_mut, from_ref, null};

calls! {
    /// socket(2).
    pub fn socket(family: u32, kind: u32, protocol: u32) -> OwnedFd
        = SOCKET[family, kind, protocol];
    /// bind(2) to an address in the kernel's form.
    pub fn bind(socket: impl AsFd, address: &[u8]) -> ()
        = BIND[socket.as_fd(), address.as_ptr(), address.len()];
    /// connect(2) to an address in the kernel's form.
    pub fn connect(socket: impl AsFd, address: &[u8]) -> ()
        = CONNECT[socket.as_fd(), address.as_ptr(), address.len()];
    /// listen(2).
    pub fn listen(socket: impl AsFd, backlog: u32) -> () = LISTEN[socket.as_fd(), backlog];
    /// accept4(2), close-on-exec, without the address.
    pub fn accept(socket: impl AsFd) -> OwnedFd
        = ACCEPT4[socket.as_fd(), null::<u8>(), null::<u32>(), linux_raw_sys::general::O_CLOEXEC];
    /// send(2).
    pub fn send(socket: impl AsFd, bytes: &[u8], flags: u32) -> usize
        = SENDTO[socket.as_fd(), bytes.as_ptr(), bytes.len(), flags, null::<u8>(), 0];
    /// recv(2).
    pub fn receive(socket: impl AsFd, into: &mut [u8], flags: u32) -> usize
        = RECVFROM[socket.as_fd(), into.as_mut_ptr(), into.len(), flags, null::<u8>(), 0];
    fn option_from(
        socket: BorrowedFd<'_>,
        level: u32,
        option: u32,
        value: &[u8],
        length: usize,
    ) -> ()
        = SETSOCKOPT[socket, level, option, value.as_ptr(), length];
    fn option_into(
        socket: BorrowedFd<'_>,
        level: u32,
        option: u32,
        into: &mut [u8],
        length: &mut u32,
    )
        -> () = GETSOCKOPT[socket, level, option, into.as_mut_ptr(), from_mut(length)];
}

/// getsockopt(2) of the sockets' own level: a value of a size that is known.
pub fn socket_option<T: Packed>(socket: impl AsFd, option: u32) -> Result<T, Errno> {
    let (mut value, mut length) = (T::zeroed(), size_of::<T>() as u32);
    option_into(
        socket.as_fd(),
        SOL_SOCKET,
        option,
        value.bytes_mut(),
        &mut length,
    )?;
    Ok(value)
}

/// setsockopt(2) of the sockets' own level.
pub fn set_socket_option<T: Packed>(
    socket: impl AsFd,
    option: u32,
    value: &T,
) -> Result<(), Errno> {
    set_option(socket, SOL_SOCKET, option, value)
}

/// setsockopt(2).
pub fn set_option<T: Packed>(
    socket: impl AsFd,
    level: u32,
    option: u32,
    value: &T,
) -> Result<(), Errno> {
    let bytes = value.bytes();
    option_from(socket.as_fd(), level, option, bytes, bytes.len())
}

/// `struct cmsghdr` with one descriptor, padded (`SCM_RIGHTS`, unix(7)).
#[repr(C)]
#[derive(Default)]
struct Control {
    length: usize,
    level: u32,
    kind: u32,
    fd: i32,
    padding: i32,
}

const SOL_SOCKET: u32 = 1;
const SCM_RIGHTS: u32 = 1;
/// Of a [`Control`], without its padding.
const LENGTH: usize = 20;

/// `struct msghdr` of one part.
#[repr(C)]
struct Header {
    name: [usize; 2],
    parts: *const [usize; 2],
    part_count: usize,
    control: *mut Control,
    control_length: usize,
    flags: u32,
}

impl Header {
    fn new(part: &[usize; 2], control: &mut Control, control_length: usize) -> Self {
        Self {
            name: [0; 2],
            parts: part,
            part_count: 1,
            control,
            control_length,
            flags: 0,
        }
    }
}

calls! {
    fn sendmsg(socket: BorrowedFd<'_>, header: &Header, flags: u32) -> usize
        = SENDMSG[socket, from_ref(header), flags];
    fn recvmsg(socket: BorrowedFd<'_>, header: &mut Header, flags: u32) -> usize
        = RECVMSG[socket, from_mut(header), flags];
}

/// sendmsg(2), with a descriptor.
pub fn send_with(
    socket: impl AsFd,
    bytes: &[u8],
    fd: Option<BorrowedFd<'_>>,
    flags: u32,
) -> Result<usize, Errno> {
    let part = [bytes.as_ptr() as usize, bytes.len()];
    let mut control = Control {
        length: LENGTH,
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        fd: fd.map_or(-1, BorrowedFd::raw),
        padding: 0,
    };
    let length = fd.map_or(0, |_| size_of::<Control>());
    let header = Header::new(&part, &mut control, length);
    sendmsg(socket.as_fd(), &header, flags)
}

/// recvmsg(2): how many bytes came, and the descriptor that came along, close-on-exec.
pub fn receive_with(
    socket: impl AsFd,
    into: &mut [u8],
    flags: u32,
) -> Result<(usize, Option<OwnedFd>), Errno> {
    let part = [into.as_mut_ptr() as usize, into.len()];
    let mut control = Control::default();
    // Room for one: the kernel would install a second one in what aligns the structure.
    let mut header = Header::new(&part, &mut control, LENGTH);
    let count = recvmsg(
        socket.as_fd(),
        &mut header,
        flags | linux_raw_sys::net::MSG_CMSG_CLOEXEC,
    )?;
    let came = header.control_length >= LENGTH
        && (control.level, control.kind) == (SOL_SOCKET, SCM_RIGHTS);
    Ok((count, came.then(|| OwnedFd::from_raw(control.fd))))
}
