//! What is done with each operation of a ring.

use crate::descriptors::rings::entry::{Entry, NO_FLAG};
use culvert_cache::nodes;
use culvert_intercept::Call;
use culvert_run::memory::spans;
use culvert_sys::{PAGE, nr};

/// What is done with a request, by its operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// The kernel's: it names no file, or only ones that were registered, which are none of a
    /// mount's.
    Kernel,
    /// The kernel's: what stands for a file of a mount answers as the file would (poll), or not at
    /// all.
    KernelOnFile,
    /// As the call of the same name, where the descriptor is not one of the kernel's own.
    AsCall,
    /// Two descriptors, `fd` and `splice_fd_in`: of a mount's files neither may be.
    Splice,
    /// A descriptor of epoll's, and in `offset` one that it watches.
    Epoll,
    /// An address of a socket in `address`, its length in `offset`: connect(2), bind(2).
    Address,
    /// An address of a socket in `offset`, its length in `addr_len`.
    Send,
    /// Descriptors may go out by SCM_RIGHTS.
    SendMessage,
    /// Descriptors may come in.
    ReceiveMessage,
    /// A ring as `fd`; a descriptor of a file may be passed.
    MessageRing,
    /// Makes sockets: of AF_UNIX, registered ones must be known
    /// ([`crate::descriptors::rings::Ring::unix`]).
    Socket,
    /// Likewise, from one that listens.
    Accept,
    /// The kernel is told that there is no such operation.
    Refused,
}

use Treatment::*;

macro_rules! operations {
    ($($number:literal $name:ident $treatment:ident;)*) => {
        $(const $name: u8 = $number;)*
        /// By their numbers, which have no gaps.
        const TREATMENTS: &[Treatment] = &[$({ let _ = $name; $treatment }),*];
        const _: () = { let mut i = 0; $(assert!($name == i); i += 1;)* let _ = i; };
    };
}

// `enum io_uring_op`, Linux 6.18. What works by path would resolve it past the mounts; what changes
// registered files would read descriptors after they were looked at.
operations! {
    0 _NOP Kernel;
    1 READV AsCall;
    2 WRITEV AsCall;
    3 FSYNC AsCall;
    4 READ_FIXED AsCall;
    5 WRITE_FIXED AsCall;
    6 _POLL_ADD KernelOnFile;
    7 _POLL_REMOVE Kernel;
    8 SYNC_FILE_RANGE AsCall;
    9 _SENDMSG SendMessage;
    10 _RECVMSG ReceiveMessage;
    11 _TIMEOUT Kernel;
    12 _TIMEOUT_REMOVE Kernel;
    13 _ACCEPT Accept;
    14 _ASYNC_CANCEL Kernel;
    15 _LINK_TIMEOUT Kernel;
    16 CONNECT Address;
    17 FALLOCATE AsCall;
    18 _OPENAT Refused;
    19 CLOSE AsCall;
    20 _FILES_UPDATE Refused;
    21 _STATX Refused;
    22 READ AsCall;
    23 WRITE AsCall;
    24 FADVISE AsCall;
    25 MADVISE AsCall;
    26 _SEND Send;
    27 _RECV KernelOnFile;
    28 _OPENAT2 Refused;
    29 EPOLL_CTL Epoll;
    30 _SPLICE Splice;
    31 _PROVIDE_BUFFERS Kernel;
    32 _REMOVE_BUFFERS Kernel;
    33 _TEE Splice;
    34 _SHUTDOWN KernelOnFile;
    35 _RENAMEAT Refused;
    36 _UNLINKAT Refused;
    37 _MKDIRAT Refused;
    38 _SYMLINKAT Refused;
    39 _LINKAT Refused;
    40 _MSG_RING MessageRing;
    41 FSETXATTR AsCall;
    42 _SETXATTR Refused;
    43 FGETXATTR AsCall;
    44 _GETXATTR Refused;
    45 _SOCKET Socket;
    46 _URING_CMD KernelOnFile;
    47 _SEND_ZC Send;
    48 _SENDMSG_ZC SendMessage;
    49 _READ_MULTISHOT KernelOnFile;
    50 _WAITID Kernel;
    51 _FUTEX_WAIT Kernel;
    52 _FUTEX_WAKE Kernel;
    53 _FUTEX_WAITV Kernel;
    54 FIXED_FD_INSTALL Kernel;
    55 FTRUNCATE AsCall;
    56 BIND Address;
    57 _LISTEN KernelOnFile;
    58 _RECV_ZC KernelOnFile;
    59 _EPOLL_WAIT KernelOnFile;
    60 READV_FIXED AsCall;
    61 WRITEV_FIXED AsCall;
    62 _PIPE Kernel;
}

/// `IORING_FSYNC_DATASYNC`
const DATASYNC: u32 = 1;

/// What is done with `operation`. What is not known is refused.
pub fn treatment(operation: u8) -> Treatment {
    TREATMENTS
        .get(usize::from(operation))
        .copied()
        .unwrap_or(Refused)
}

/// `IORING_OP_LINK_TIMEOUT`, which belongs to the request before.
pub const LINK_TIMEOUT: u8 = _LINK_TIMEOUT;

/// How many bytes a request is about, where its chain ends when fewer were moved
/// (`__io_complete_rw_common`, io_uring/rw.c).
pub fn bytes(entry: &Entry) -> Option<usize> {
    match entry.operation {
        READ | WRITE => Some(entry.length as usize),
        READV | WRITEV => {
            let spans = spans(entry.address as usize, entry.length as usize).ok()?;
            Some(spans.iter().map(|span| span.length).sum())
        }
        _ => None,
    }
}

/// Whether all that was done on a file of a mount before the request was made is done before it,
/// whatever else the kernel is doing.
pub fn only_syncs(operation: u8) -> bool {
    matches!(operation, FSYNC)
}

/// Whether it concerns more than bytes, so that a driver hears of it also where these are the
/// kernel's ([`crate::syscalls::arguments::metadata`]).
pub fn is_of_more_than_bytes(operation: u8) -> bool {
    matches!(operation, FSYNC | FTRUNCATE | FSETXATTR | FGETXATTR)
}

/// Whether a layer would hear less than it is to where the request is of a registered file: what
/// concerns more than bytes, and what makes a descriptor of it.
pub fn is_of_more_than_the_kernels(operation: u8) -> bool {
    is_of_more_than_bytes(operation) || operation == FIXED_FD_INSTALL
}

/// Whether it is MADVISE, of memory and not of a descriptor.
pub fn is_of_memory(operation: u8) -> bool {
    operation == MADVISE
}

/// Whether it is MADVISE of memory in which a file of a mount is mapped.
pub fn is_of_mapped_file(entry: &Entry) -> bool {
    let length = if entry.offset != 0 {
        entry.offset
    } else {
        entry.length.into()
    };
    let start = entry.address as usize & !(PAGE - 1);
    nodes::any() && !nodes::between(start, (length as usize).saturating_add(PAGE)).is_empty()
}

/// Whether the kernel takes no such request, of whatever file: a call of the same name has no place
/// for what stands in it (`io_init_req`, and each operation's `prep`, io_uring/opdef.c).
pub fn is_malformed(entry: &Entry) -> bool {
    let Entry {
        offset,
        address,
        length,
        own_flags,
        ..
    } = *entry;
    let other_file = entry.file_index != 0;
    // Of no operation here but those of registered buffers the field says anything.
    let buffer = entry.buffer != 0;
    let transfers = matches!(entry.operation, READ | WRITE | READV | WRITEV);
    let has_more = match entry.operation {
        READ | WRITE | READV | WRITEV => entry.attributes != 0,
        FSYNC => buffer || other_file || address != 0 || own_flags & !DATASYNC != 0,
        SYNC_FILE_RANGE => buffer || other_file || address != 0,
        FALLOCATE => buffer || other_file || own_flags != 0,
        FTRUNCATE => {
            let more = own_flags != 0 || length != 0 || entry.address3 != 0;
            buffer || other_file || more || address != 0
        }
        FADVISE | MADVISE | EPOLL_CTL => buffer || other_file,
        FGETXATTR => own_flags != 0,
        CLOSE => buffer || offset != 0 || address != 0 || length != 0 || own_flags != 0,
        CONNECT | BIND => buffer || other_file || length != 0 || own_flags != 0,
        _ => false,
    };
    let priority = match transfers {
        true => is_no_priority(entry.priority),
        false => entry.priority != 0,
    };
    has_more || priority || entry.has(NO_FLAG)
}

/// Whether `priority` is none of a transfer's (`ioprio_check_cap`, block/ioprio.c); the real-time
/// class, which asks for a right, is among them.
fn is_no_priority(priority: u16) -> bool {
    const LEVEL: u16 = 7;
    match priority >> 13 {
        0 => priority & LEVEL != 0,
        2 | 3 => false,
        _ => true,
    }
}

/// Whether it is CLOSE.
pub fn is_close(operation: u8) -> bool {
    operation == CLOSE
}

/// Whether its bytes are in a buffer that was registered.
pub fn has_registered_buffer(operation: u8) -> bool {
    matches!(
        operation,
        READ_FIXED | WRITE_FIXED | READV_FIXED | WRITEV_FIXED
    )
}

/// Whether the request is CLOSE of a registered file, which is none of a mount's.
pub fn closes_registered(entry: &Entry) -> bool {
    entry.operation == CLOSE && entry.file_index != 0
}

/// The call that does what a request asks for, on a descriptor. `vector`: room for a vector of one.
///
/// None: no call does. What a registered buffer is, only the kernel knows.
pub fn as_call(entry: &Entry, vector: &mut [usize; 2]) -> Option<Call> {
    let (fd, address, length) = (
        entry.fd as usize,
        entry.address as usize,
        entry.length as usize,
    );
    let (offset, flags) = (entry.offset as usize, entry.own_flags as usize);
    // -1: the description's own offset, which it is in preadv2(2) too.
    let at_offset = entry.offset != u64::MAX;
    let (number, args) = match entry.operation {
        READ if flags == 0 && at_offset => (nr::PREAD64, [fd, address, length, offset, 0, 0]),
        READ if flags == 0 => (nr::READ, [fd, address, length, 0, 0, 0]),
        WRITE if flags == 0 && at_offset => (nr::PWRITE64, [fd, address, length, offset, 0, 0]),
        WRITE if flags == 0 => (nr::WRITE, [fd, address, length, 0, 0, 0]),
        READ | WRITE => {
            *vector = [address, length];
            let number = match entry.operation {
                READ => nr::PREADV2,
                _ => nr::PWRITEV2,
            };
            let vector = vector.as_ptr() as usize;
            (number, [fd, vector, 1, offset, 0, flags])
        }
        READV => (nr::PREADV2, [fd, address, length, offset, 0, flags]),
        WRITEV => (nr::PWRITEV2, [fd, address, length, offset, 0, flags]),
        FSYNC if entry.own_flags & DATASYNC != 0 => (nr::FDATASYNC, [fd, 0, 0, 0, 0, 0]),
        FSYNC => (nr::FSYNC, [fd, 0, 0, 0, 0, 0]),
        SYNC_FILE_RANGE => (nr::SYNC_FILE_RANGE, [fd, offset, length, flags, 0, 0]),
        // The length stands where other requests have an address.
        FALLOCATE => (nr::FALLOCATE, [fd, length, offset, address, 0, 0]),
        FTRUNCATE => (nr::FTRUNCATE, [fd, offset, 0, 0, 0, 0]),
        FADVISE => {
            let length = if address != 0 { address } else { length };
            (nr::FADVISE64, [fd, offset, length, flags, 0, 0])
        }
        MADVISE => {
            let length = if offset != 0 { offset } else { length };
            (nr::MADVISE, [address, length, flags, 0, 0, 0])
        }
        FSETXATTR => (nr::FSETXATTR, [fd, address, offset, length, flags, 0]),
        FGETXATTR => (nr::FGETXATTR, [fd, address, offset, length, 0, 0]),
        CLOSE => (nr::CLOSE, [fd, 0, 0, 0, 0, 0]),
        CONNECT => (nr::CONNECT, [fd, address, offset, 0, 0, 0]),
        BIND => (nr::BIND, [fd, address, offset, 0, 0, 0]),
        EPOLL_CTL => (nr::EPOLL_CTL, [fd, length, offset, address, 0, 0]),
        _ => return None,
    };
    Some(Call { number, args })
}
