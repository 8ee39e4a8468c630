//! Extended attributes, POSIX ACLs (`system.posix_acl_*`) among them.

use super::filesystem::PassthroughFs;
use super::kernel::{self, Link, proc_needed};
use alloc::vec::Vec;
use culvert::{Errno, Node, Result};
use culvert_sys::fs;

/// The largest value and the longest list (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`, limits.h).
const LARGEST: usize = 64 << 10;
/// What nearly all fit in.
const USUAL: usize = 256;

impl PassthroughFs {
    pub(super) fn xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let object = self.object(node)?;
        let (link, name) = (Link::new(object.fd()), kernel::terminated(name)?);
        bytes(|into| fs::getxattr(link.path(), &name, into))
    }

    pub(super) fn xattr_names(&self, node: Node) -> Result<Vec<u8>> {
        let object = self.object(node)?;
        let link = Link::new(object.fd());
        bytes(|into| fs::listxattr(link.path(), into))
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
        let answer = fs::setxattr(link.path(), &name, value, flags);
        proc_needed(answer.map_err(Into::into))
    }

    pub(super) fn drop_xattr(&self, node: Node, name: &[u8]) -> Result<()> {
        self.writable()?;
        let object = self.object(node)?;
        let (link, name) = (Link::new(object.fd()), kernel::terminated(name)?);
        let answer = fs::removexattr(link.path(), &name);
        proc_needed(answer.map_err(Into::into))
    }
}

/// What `call` writes, as many bytes as it says.
fn bytes(call: impl Fn(&mut [u8]) -> core::result::Result<usize, Errno>) -> Result<Vec<u8>> {
    let mut value = alloc::vec![0; USUAL];
    let answer = match call(&mut value) {
        Err(Errno::ERANGE) => {
            value.resize(LARGEST, 0);
            call(&mut value)
        }
        answer => answer,
    };
    let length = proc_needed(answer.map_err(Into::into))?;
    value.truncate(length);
    Ok(value)
}
