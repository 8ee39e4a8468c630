//! Changes of attributes: chmod, chown, truncate, utimensat.

use super::{
    content::LARGEST,
    core::{Core, Inode, join, pack_time, split},
    file::Keeps,
    layout::inode,
};
use culvert::{Attributes, Errno, Node, Result, SetAttributes};
use culvert_sys::raw::general as linux;

const SET_GID: u32 = 0o2000;

impl Core {
    /// Makes all of `changes` or none; of the mode stays what the caller `keeps`.
    pub fn set_attributes(
        &self,
        node: Node,
        changes: &SetAttributes,
        keeps: Keeps,
    ) -> Result<Attributes> {
        let of = self.node(node)?;
        let kind = of.mode() & 0o170000;
        if changes.permissions.is_some() && kind == 0o120000 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let Some(size) = changes.size else {
            return self.change_attributes(&of, node, changes, keeps);
        };
        match kind {
            0o100000 if size > LARGEST => return Err(Errno::EFBIG.into()),
            0o100000 => {}
            0o040000 => return Err(Errno::EISDIR.into()),
            _ => return Err(Errno::EINVAL.into()),
        }
        // Open, so that it stays while its content is locked.
        let of = self.open(node, false)?;
        let result = (|| {
            let _held = self.lock_exclusive(&of, &|| false)?;
            match of.is_external() {
                true => {
                    let file = self.open_external(&of, linux::O_RDWR)?;
                    self.resize_external(&of, file.borrow(), size)?;
                }
                false => self.resize(&of, size)?,
            }
            self.drop_privileges(&of, keeps)?;
            self.change_attributes(&of, node, changes, keeps)
        })();
        self.close(of.number, false);
        result
    }

    fn change_attributes(
        &self,
        of: &Inode<'_>,
        node: Node,
        changes: &SetAttributes,
        keeps: Keeps,
    ) -> Result<Attributes> {
        let mut change = self.change()?;
        if of.node() != node {
            return Err(Errno::ESTALE.into());
        }
        let owner = changes.uid.is_some() || changes.gid.is_some();
        if of.is_directory() && (owner || changes.permissions.is_some()) {
            change.paths_change()?;
        }
        if owner {
            let (uid, gid) = split(of.get(inode::OWNER));
            let owner = join(changes.uid.unwrap_or(uid), changes.gid.unwrap_or(gid));
            change.set_word(of, inode::OWNER, owner)?;
        }
        // chown(2), which may name nobody (`chown_common`, fs/open.c).
        let takes = owner || changes.is_empty();
        if takes && !of.is_directory() {
            change.drop_privileges(of, keeps)?;
        }
        if let Some(permissions) = changes.permissions {
            let mut permissions = permissions & 0o7777;
            if !keeps.set_group_id {
                permissions &= !SET_GID;
            }
            change.set_state(of, permissions.into(), 0o7777)?;
        }
        for (index, time) in [
            (inode::ATIME, changes.atime),
            (inode::MTIME, changes.mtime),
            (inode::CTIME, changes.ctime),
        ] {
            if let Some(time) = time {
                change.set_word(of, index, pack_time(time))?;
            }
        }
        if let (true, Some(mtime)) = (of.is_external(), changes.mtime) {
            self.set_external_mtime(of, mtime)?;
        }
        if changes.ctime.is_none() {
            change.touch(of, false)?;
        }
        let attributes = self.attributes(of)?;
        change.commit();
        Ok(attributes)
    }
}
