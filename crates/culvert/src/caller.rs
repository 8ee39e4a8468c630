//! On whose behalf an operation runs, and what may be asked of [`FileSystem::access`](crate::FileSystem::access).

use crate::{Attributes, Errno, FileKind, Result};

/// On whose behalf an operation runs.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Effective (file-system) user.
    pub uid: u32,
    /// Effective (file-system) group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: &'a [u32],
    /// Process, for logs.
    pub pid: u32,
    /// umask(2), already applied to modes that reach the driver; for drivers with default ACLs.
    pub umask: u32,
}

impl Caller<'_> {
    /// Whether this is the superuser. Drivers take it for all of `CAP_DAC_OVERRIDE`, `CAP_FOWNER`, `CAP_CHOWN` and
    /// `CAP_FSETID` (capabilities(7)): FUSE tells no more about a caller, so no transport does.
    pub const fn is_superuser(&self) -> bool {
        self.uid == 0
    }

    /// Whether `gid` is one of the caller's groups.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the mode bits in `attributes` allow `access`, as the kernel decides it (`generic_permission`, fs/namei.c): owner, else
    /// group, else others; the superuser may all but execute a file that nobody may execute. `EACCES` when not.
    pub fn may(&self, access: Access, attributes: &Attributes) -> Result<()> {
        let owner = (attributes.uid, attributes.gid);
        self.may_as(access, owner, attributes.permissions, attributes.kind)
    }

    /// The same of something of type `kind` with the permission bits `mode` that belongs to `owner`: its user and group.
    pub fn may_as(
        &self,
        access: Access,
        (uid, gid): (u32, u32),
        mode: u32,
        kind: FileKind,
    ) -> Result<()> {
        let class = match () {
            () if self.uid == uid => mode >> 6,
            () if self.in_group(gid) => mode >> 3,
            () => mode,
        };
        let executable = kind == FileKind::Directory || mode & 0o111 != 0;
        let granted = access.0 & !class & 0o7 == 0
            || self.is_superuser() && (access.0 & Access::EXECUTE.0 == 0 || executable);
        granted.then_some(()).ok_or(Errno::EACCES.into())
    }
}

/// What access(2) asks for: a union of `R_OK`, `W_OK` and `X_OK`, in their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// `X_OK`: execute a file, search a directory.
    pub const EXECUTE: Self = Self(1);
    /// `W_OK`.
    pub const WRITE: Self = Self(2);
    /// `R_OK`.
    pub const READ: Self = Self(4);

    /// Whether writing is asked for.
    pub const fn write(self) -> bool {
        self.0 & Self::WRITE.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Node, Timespec};

    fn file(uid: u32, gid: u32, permissions: u32, kind: FileKind) -> Attributes {
        Attributes {
            node: Node(1),
            inode: 1,
            kind,
            permissions,
            links: 1,
            uid,
            gid,
            rdev: 0,
            size: 0,
            blocks: 0,
            block_size: 4096,
            atime: Timespec::default(),
            mtime: Timespec::default(),
            ctime: Timespec::default(),
            btime: None,
        }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let caller = |uid, gid| Caller {
            uid,
            gid,
            groups: &[7],
            pid: 1,
            umask: 0,
        };
        let (read, write, run) = (Access::READ, Access::WRITE, Access::EXECUTE);
        for (who, owner, mode, access, want) in [
            (caller(5, 5), (5, 5), 0o400, read, true),
            (caller(5, 5), (5, 5), 0o077, read, false),
            (caller(5, 6), (9, 6), 0o707, read, false),
            (caller(5, 6), (9, 7), 0o020, write, true),
            (caller(5, 6), (9, 8), 0o004, read, true),
            (caller(5, 6), (9, 8), 0o004, Access(6), false),
            (caller(0, 0), (9, 8), 0o000, Access(6), true),
            (caller(0, 0), (9, 8), 0o666, run, false),
            (caller(0, 0), (9, 8), 0o010, run, true),
        ] {
            let attributes = file(owner.0, owner.1, mode, FileKind::Regular);
            assert_eq!(
                who.may(access, &attributes).is_ok(),
                want,
                "{mode:o} {access:?}"
            );
        }
        let directory = file(9, 8, 0, FileKind::Directory);
        assert!(caller(0, 0).may(run, &directory).is_ok());
    }
}
