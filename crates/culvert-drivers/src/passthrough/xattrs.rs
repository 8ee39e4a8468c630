//! Extended attributes, POSIX ACLs (`system.posix_acl_*`) among them.

use super::filesystem::PassthroughFs;
use super::kernel::{self, Link, proc_needed};
use alloc::vec::Vec;
use culvert::{Errno, Node, Result};
use culvert_sys::{nr, syscall};

/// The largest value and the longest list (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`, limits.h).
const LARGEST: usize = 64 << 10;
/// What nearly all fit in.
const USUAL: usize = 256;

impl PassthroughFs {
    pub(super) fn xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let object = self.object(node)?;
        let (link, name) = (Link::new(object.fd()), kernel::terminated(name)?);
        bytes(|address, length| {
            let arguments = [link.address(), name.as_ptr() as usize, address, length];
            // SAFETY: link and name are NUL-terminated; the kernel writes at most `length` bytes.
            unsafe { syscall::call(nr::GETXATTR, arguments) }
        })
    }

    pub(super) fn xattr_names(&self, node: Node) -> Result<Vec<u8>> {
        let object = self.object(node)?;
        let link = Link::new(object.fd());
        bytes(|address, length| {
            // SAFETY: the link is NUL-terminated; the kernel writes at most `length` bytes.
            unsafe { syscall::call(nr::LISTXATTR, [link.address(), address, length]) }
        })
    }

    pub(super) fn store_xattr(
        &self,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.writable()?;
        let object = self.object(node)?;
        let (link, name) = (Link::new(object.fd()), kernel::terminated(name)?);
        let arguments = [
            link.address(),
            name.as_ptr() as usize,
            value.as_ptr() as usize,
            value.len(),
            flags as usize,
        ];
        // SAFETY: link and name are NUL-terminated, the value is given with its length; all outlive
        // the call.
        let answer = unsafe { syscall::call(nr::SETXATTR, arguments) };
        proc_needed(answer.map(drop).map_err(Into::into))
    }

    pub(super) fn drop_xattr(&self, node: Node, name: &[u8]) -> Result<()> {
        self.writable()?;
        let object = self.object(node)?;
        let (link, name) = (Link::new(object.fd()), kernel::terminated(name)?);
        let arguments = [link.address(), name.as_ptr() as usize];
        // SAFETY: link and name are NUL-terminated and outlive the call.
        let answer = unsafe { syscall::call(nr::REMOVEXATTR, arguments) };
        proc_needed(answer.map(drop).map_err(Into::into))
    }
}

/// What `call` writes to an address and a length, as many bytes as it says.
fn bytes(call: impl Fn(usize, usize) -> core::result::Result<usize, Errno>) -> Result<Vec<u8>> {
    let mut value: Vec<u8> = Vec::with_capacity(USUAL);
    let answer = match call(value.as_mut_ptr() as usize, value.capacity()) {
        Err(Errno::ERANGE) => {
            value.reserve_exact(LARGEST);
            call(value.as_mut_ptr() as usize, value.capacity())
        }
        answer => answer,
    };
    let length = proc_needed(answer.map_err(Into::into))?;
    // SAFETY: the kernel has written so many bytes, no more than the capacity.
    unsafe { value.set_len(length.min(value.capacity())) };
    Ok(value)
}
