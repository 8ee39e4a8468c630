//! Making, removing and renaming names.
#![allow(unsafe_op_in_unsafe_fn)] // C is called: what it promises stands in fuse.h.

use super::{
    Fuse, checked,
    tree::{Locked, Wanted},
};
use crate::{
    abi::{EntryParam, FileInfo},
    mutex::locked,
};
use libc::{dev_t, mode_t};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint},
    ptr,
};

const RENAME_EXCHANGE: c_uint = 2;

impl Fuse {
    /// What `make` makes as `name` in `parent`, looked up.
    unsafe fn made(
        &self,
        parent: u64,
        name: &CStr,
        make: &mut dyn FnMut(*const c_char) -> c_int,
    ) -> Result<EntryParam, c_int> {
        let path = self.path(parent, Some(name))?;
        let path = path.path.as_ptr();
        checked(make(path))?;
        self.entry(parent, name, path, ptr::null_mut())
    }

    pub(super) unsafe fn mknod(
        &self,
        parent: u64,
        name: &CStr,
        mode: mode_t,
        device: dev_t,
    ) -> Result<EntryParam, c_int> {
        if mode & libc::S_IFMT == libc::S_IFREG
            && let Some(create) = self.operations.create
        {
            let locked = self.path(parent, Some(name))?;
            let path = locked.path.as_ptr();
            let mut file = FileInfo {
                flags: libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY,
                ..FileInfo::default()
            };
            match checked(create(path, mode, &raw mut file)) {
                Err(libc::ENOSYS) => {}
                Err(errno) => return Err(errno),
                Ok(_) => {
                    let entry = self.entry(parent, name, path, &raw mut file);
                    if let Some(release) = self.operations.release {
                        release(path, &raw mut file);
                    }
                    return entry;
                }
            }
        }
        let function = self.operations.mknod.ok_or(libc::ENOSYS)?;
        self.made(parent, name, &mut |path| function(path, mode, device))
    }

    pub(super) unsafe fn mkdir(
        &self,
        parent: u64,
        name: &CStr,
        mode: mode_t,
    ) -> Result<EntryParam, c_int> {
        let function = self.operations.mkdir.ok_or(libc::ENOSYS)?;
        self.made(parent, name, &mut |path| function(path, mode))
    }

    pub(super) unsafe fn symlink(
        &self,
        target: *const c_char,
        parent: u64,
        name: &CStr,
    ) -> Result<EntryParam, c_int> {
        let function = self.operations.symlink.ok_or(libc::ENOSYS)?;
        self.made(parent, name, &mut |path| function(target, path))
    }

    pub(super) unsafe fn link(
        &self,
        node: u64,
        parent: u64,
        name: &CStr,
    ) -> Result<EntryParam, c_int> {
        let function = self.operations.link.ok_or(libc::ENOSYS)?;
        let from = Wanted {
            node,
            name: None,
            write: false,
        };
        let to = Wanted {
            node: parent,
            name: Some(name),
            write: false,
        };
        let [from, to] = self.tree.lock([from, to]).ok_or(libc::ENOENT)?;
        let path = to.path.as_ptr();
        checked(function(from.path.as_ptr(), path))?;
        self.entry(parent, name, path, ptr::null_mut())
    }

    /// `name` in `parent`, which is to be removed or renamed.
    fn for_change(&self, parent: u64, name: &CStr) -> Result<Locked<'_>, c_int> {
        let wanted = Wanted {
            node: parent,
            name: Some(name),
            write: true,
        };
        let [found] = self.tree.lock([wanted]).ok_or(libc::ENOENT)?;
        Ok(found)
    }

    pub(super) unsafe fn unlink(&self, parent: u64, name: &CStr) -> Result<(), c_int> {
        let path = self.for_change(parent, name)?;
        if self.is_kept(parent, name) {
            return self.hide(parent, name, &path.path);
        }
        let function = self.operations.unlink.ok_or(libc::ENOSYS)?;
        checked(function(path.path.as_ptr()))?;
        self.tree.removed(parent, name);
        Ok(())
    }

    pub(super) unsafe fn rmdir(&self, parent: u64, name: &CStr) -> Result<(), c_int> {
        let path = self.for_change(parent, name)?;
        let function = self.operations.rmdir.ok_or(libc::ENOSYS)?;
        checked(function(path.path.as_ptr()))?;
        self.tree.removed(parent, name);
        Ok(())
    }

    pub(super) unsafe fn rename(
        &self,
        (parent, name): (u64, &CStr),
        (new_parent, new_name): (u64, &CStr),
        flags: c_uint,
    ) -> Result<(), c_int> {
        let wanted = |node, name| Wanted {
            node,
            name: Some(name),
            write: true,
        };
        let both = [wanted(parent, name), wanted(new_parent, new_name)];
        let [from, to] = self.tree.lock(both).ok_or(libc::ENOENT)?;
        let function = self.operations.rename.ok_or(libc::ENOSYS)?;
        let exchange = flags & RENAME_EXCHANGE != 0;
        let same = (parent, name) == (new_parent, new_name);
        if !exchange && !same && self.is_kept(new_parent, new_name) {
            self.hide(new_parent, new_name, &to.path)?;
        }
        checked(function(from.path.as_ptr(), to.path.as_ptr(), flags))?;
        self.tree
            .renamed((parent, name), (new_parent, new_name), exchange);
        Ok(())
    }

    /// Whether the file is open, so that it has to live on without its name.
    fn is_kept(&self, parent: u64, name: &CStr) -> bool {
        let node = self.tree.find(parent, name);
        let opens = node.and_then(|node| self.tree.with(node, |node| node.opens));
        self.config().hard_remove == 0 && opens.is_some_and(|opens| opens > 0)
    }

    /// Renames the file at `path` to a name that nobody looks for; its last close removes it.
    unsafe fn hide(&self, parent: u64, name: &CStr, path: &CStr) -> Result<(), c_int> {
        let rename = self.operations.rename.ok_or(libc::ENOSYS)?;
        let node = self.tree.find(parent, name).ok_or(libc::ENOENT)?;
        let path_bytes = path.to_bytes();
        let end = path_bytes.iter().rposition(|&byte| byte == b'/');
        let directory = &path_bytes[..end.map_or(0, |end| end + 1)];
        for _ in 0..100 {
            let number = {
                let mut last = locked(&self.hidden);
                *last += 1;
                *last
            };
            let hidden = format!(".fuse_hidden{node:08x}{number:08x}");
            let hidden = CString::new(hidden).map_err(|_| libc::EIO)?;
            let to = [directory, hidden.to_bytes()].concat();
            let to = CString::new(to).map_err(|_| libc::EIO)?;
            match self.stat(to.as_ptr(), ptr::null_mut()) {
                Err(libc::ENOENT) => {}
                _ => continue,
            }
            checked(rename(path.as_ptr(), to.as_ptr(), 0))?;
            self.tree.renamed((parent, name), (parent, &hidden), false);
            self.tree.with(node, |node| node.hidden = true);
            return Ok(());
        }
        Err(libc::EBUSY)
    }
}
