//! Extended attributes.

use super::Inner;
use super::answers::{checked, sized, string};
use alloc::vec::Vec;
use core::ffi::c_int;
use culvert::{Caller, Errno, Result};
use culvert_sys::waits::Holding;

/// An attribute is no larger (`XATTR_SIZE_MAX`), bytes.
const MOST: usize = 65536;
const NONE: Errno = Errno::EOPNOTSUPP;

impl Inner {
    pub(super) fn get_xattr(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        name: &[u8],
    ) -> Result<Vec<u8>> {
        let (path, name) = (string(path)?, string(name)?);
        let (path, name) = (path.as_ptr(), name.as_ptr());
        sized("getxattr", MOST, |value, size| {
            call!(self, caller, getxattr(path, name, value, size), NONE)
        })
    }

    pub(super) fn list_xattr(&self, caller: &Caller<'_>, path: &[u8]) -> Result<Vec<u8>> {
        if self.driver.listxattr.is_none() {
            return Ok(Vec::new());
        }
        let path = string(path)?;
        sized("listxattr", MOST, |names, size| {
            call!(self, caller, listxattr(path.as_ptr(), names, size), NONE)
        })
    }

    pub(super) fn set_xattr(
        &self,
        caller: &Caller<'_>,
        (path, name): (&[u8], &[u8]),
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let (path, name) = (string(path)?, string(name)?);
        let (path, name) = (path.as_ptr(), name.as_ptr());
        let (bytes, size, flags) = (value.as_ptr(), value.len(), flags as c_int);
        call!(self, caller, setxattr(path, name, bytes, size, flags), NONE)
    }

    pub(super) fn remove_xattr(&self, caller: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<()> {
        let (path, name) = (string(path)?, string(name)?);
        call!(
            self,
            caller,
            removexattr(path.as_ptr(), name.as_ptr()),
            NONE
        )
    }
}
