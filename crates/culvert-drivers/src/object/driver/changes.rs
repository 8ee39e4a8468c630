//! Changes of attributes.

use super::answers::{checked, string, unless_missing};
use super::{Inner, Open};
use culvert::library::{UNCHANGED, times};
use culvert::{Caller, Errno, Result, SetAttributes};
use culvert_sys::waits::Holding;

impl Inner {
    /// truncate, chown, chmod and utime, as far as `changes` has them.
    pub(super) fn change(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Result<()> {
        let path = string(path)?;
        let path = path.as_ptr();
        if let Some(size) = changes.size {
            call!(self, caller, truncate(path, size as i64), Errno::ENOSYS)?;
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            let [uid, gid] = [changes.uid, changes.gid].map(|one| one.unwrap_or(UNCHANGED));
            call!(self, caller, chown(path, uid, gid), Errno::EPERM)?;
        }
        if let Some(permissions) = changes.permissions {
            call!(self, caller, chmod(path, permissions), Errno::EPERM)?;
        }
        if changes.atime.is_some() || changes.mtime.is_some() {
            let times = times(changes);
            call!(self, caller, utime(path, &raw const times), Errno::EPERM)?;
        }
        Ok(())
    }
}

impl Open {
    /// ftruncate, where `changes` are nothing else; none: by its path.
    pub(super) fn resize(&self, changes: &SetAttributes) -> Option<Result<()>> {
        let size = changes.size?;
        let is_all = *changes
            == SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
        if !is_all {
            return None;
        }
        unless_missing(ask!(&self.of, ftruncate(self.file, size as i64)))
    }
}
