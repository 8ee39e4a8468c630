//! Looking names up.
#![allow(unsafe_op_in_unsafe_fn)] // C is called: what it promises stands in fuse.h.

use super::{Fuse, checked};
use crate::abi::{EntryParam, FileInfo};
use std::{
    ffi::{CStr, CString, c_char, c_int},
    ptr,
};

/// The longest target of a link (`PATH_MAX`).
const LONGEST: usize = 4096;

impl Fuse {
    /// The node that `name` in `parent` is, looked up once more.
    pub(super) unsafe fn entry(
        &self,
        parent: u64,
        name: &CStr,
        path: *const c_char,
        file: *mut FileInfo,
    ) -> Result<EntryParam, c_int> {
        let stat = self.stat(path, file)?;
        let (ino, generation) = self.tree.look_up(parent, name);
        let config = self.config();
        Ok(EntryParam {
            ino,
            generation,
            attr: self.shown(ino, stat),
            attr_timeout: config.attr_timeout,
            entry_timeout: config.entry_timeout,
        })
    }

    pub(super) unsafe fn lookup(&self, parent: u64, name: &CStr) -> Result<EntryParam, c_int> {
        let path = self.path(parent, Some(name))?;
        self.entry(parent, name, path.path.as_ptr(), ptr::null_mut())
    }

    pub(super) unsafe fn readlink(&self, node: u64) -> Result<CString, c_int> {
        let path = self.path(node, None)?;
        let function = self.operations.readlink.ok_or(libc::ENOSYS)?;
        let mut target = vec![0_u8; LONGEST + 1];
        let place = target.as_mut_ptr().cast();
        checked(function(path.path.as_ptr(), place, target.len()))?;
        let last = target.len() - 1;
        target[last] = 0;
        let target = CStr::from_bytes_until_nul(&target).map_err(|_| libc::EIO)?;
        Ok(target.to_owned())
    }
}
