//! Requests of ioctl(2) of which it is known what they touch.

use crate::Errno;
use crate::fd::{AsFd, BorrowedFd};
use crate::table::calls;

calls! {
    /// `NS_GET_NSTYPE` (ioctl_nsfs(2)): which namespace it is, as a flag of clone(2).
    pub fn kind_of_namespace(fd: BorrowedFd<'_>) -> usize = IOCTL[fd, 0xb703u32];
}

/// A request whose argument is all in the size that it names (ioctl_iflags(2),
/// ioctl_xfs_fsgetxattr(2)). Others hold pointers, descriptors or arrays.
#[derive(Clone, Copy, Debug)]
pub struct OwnSize(u32);

const OWN_SIZE: [u32; 5] = [
    0x8008_6601, // FS_IOC_GETFLAGS
    0x4008_6602, // FS_IOC_SETFLAGS
    0x8008_7601, // FS_IOC_GETVERSION
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x401c_5820, // FS_IOC_FSSETXATTR
];

impl OwnSize {
    /// Request `number`, if it is one.
    pub fn new(number: u32) -> Option<Self> {
        OWN_SIZE.contains(&number).then_some(Self(number))
    }

    /// Bytes of the argument.
    pub const fn size(self) -> usize {
        (self.0 >> 16 & 0x3fff) as usize
    }

    /// Makes the call; EINVAL for an argument that is shorter than the request says.
    pub fn call(self, fd: impl AsFd, argument: &mut [u8]) -> Result<usize, Errno> {
        if argument.len() < self.size() {
            return Err(Errno::EINVAL);
        }
        request(fd.as_fd(), self.0, argument)
    }
}

calls! {
    /// Touches no more of the argument than its size, which is there.
    fn request(fd: BorrowedFd<'_>, number: u32, argument: &mut [u8]) -> usize
        = IOCTL[fd, number, argument.as_mut_ptr()];
}
