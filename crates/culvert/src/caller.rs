//! On whose behalf an operation runs, and what may be asked of
//! [`FileSystem::access`](crate::FileSystem::access).

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
    /// Its capabilities, where the front end knows them. None: it does not (FUSE tells no more than
    /// user and group), and the superuser has all of them, others have none.
    pub rights: Option<Rights>,
}

/// Capabilities (capabilities(7)), as far as they concern files: the bits of the thread's effective
/// set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub u64);

impl Rights {
    /// None at all.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(u64::MAX);
    /// `CAP_CHOWN`: give files to other users and groups.
    pub const CHOWN: Self = Self(1);
    /// `CAP_DAC_OVERRIDE`: read, write and search whatever the mode bits say, execute what somebody
    /// may.
    pub const DAC_OVERRIDE: Self = Self(1 << 1);
    /// `CAP_DAC_READ_SEARCH`: read files, read and search directories.
    pub const DAC_READ_SEARCH: Self = Self(1 << 2);
    /// `CAP_FOWNER`: do what only the owner may.
    pub const FOWNER: Self = Self(1 << 3);
    /// `CAP_FSETID`: leave set-user-ID and set-group-ID where others' changes take them.
    pub const FSETID: Self = Self(1 << 4);
    /// `CAP_SYS_CHROOT`: have another root directory.
    pub const SYS_CHROOT: Self = Self(1 << 18);
    /// `CAP_SYS_ADMIN`: extended attributes `trusted.` and `security.`.
    pub const SYS_ADMIN: Self = Self(1 << 21);
    /// `CAP_MKNOD`: make devices.
    pub const MKNOD: Self = Self(1 << 27);
    /// `CAP_SETFCAP`: give files capabilities.
    pub const SETFCAP: Self = Self(1 << 31);

    /// Those of user `uid` where nobody says more: the superuser has all.
    pub const fn of_user(uid: u32) -> Self {
        match uid {
            0 => Self::ALL,
            _ => Self::NONE,
        }
    }

    /// Whether all of `wanted` are among them.
    pub const fn has(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// These and `more`.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }
}

impl Caller<'static> {
    /// Nobody: the front end does something for itself, such as comparing a file with what it has
    /// cached of it. A driver answers as it would the superuser.
    pub const SYSTEM: Self = Self {
        uid: 0,
        gid: 0,
        groups: &[],
        pid: 0,
        umask: 0,
        rights: None,
    };
}

impl Caller<'_> {
    /// Whether it is [`Caller::SYSTEM`].
    pub const fn is_system(&self) -> bool {
        self.pid == 0 && self.uid == 0 && self.groups.is_empty() && self.rights.is_none()
    }

    /// Whether it has the right `wanted`.
    pub const fn has(&self, wanted: Rights) -> bool {
        match self.rights {
            Some(rights) => rights.has(wanted),
            None => Rights::of_user(self.uid).has(wanted),
        }
    }

    /// Whether it may do what the owner `uid` of a file may (`inode_owner_or_capable`, fs/inode.c).
    pub const fn is_owner(&self, uid: u32) -> bool {
        self.uid == uid || self.has(Rights::FOWNER)
    }

    /// Whether it may search every directory.
    pub const fn searches_all(&self) -> bool {
        self.has(Rights::DAC_OVERRIDE) || self.has(Rights::DAC_READ_SEARCH)
    }

    /// Whether set-group-ID stays on what it changes that belongs to group `gid`
    /// (`in_group_or_capable`, fs/attr.c).
    pub fn keeps_set_group_id(&self, gid: u32) -> bool {
        self.in_group(gid) || self.has(Rights::FSETID)
    }

    /// Whether `gid` is one of the caller's groups.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the mode bits in `attributes` allow `access`, as the kernel decides it
    /// (`generic_permission`, fs/namei.c): owner, else group, else others. `CAP_DAC_OVERRIDE`
    /// allows all but to execute a file that nobody may execute, `CAP_DAC_READ_SEARCH` what its
    /// name says. `EACCES` when not.
    pub fn may(&self, access: Access, attributes: &Attributes) -> Result<()> {
        let owner = (attributes.uid, attributes.gid);
        self.may_as(access, owner, attributes.permissions, attributes.kind)
    }

    /// The same of something of type `kind` with the permission bits `mode` that belongs to
    /// `owner`: its user and group.
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
        if access.0 & !class & 0o7 == 0 {
            return Ok(());
        }
        let is_directory = kind == FileKind::Directory;
        let executable = is_directory || mode & 0o111 != 0;
        let only_reads = match is_directory {
            true => !access.write(),
            false => access.0 & 0o7 == Access::READ.0,
        };
        let granted = self.has(Rights::DAC_OVERRIDE)
            && (access.0 & Access::EXECUTE.0 == 0 || executable)
            || self.has(Rights::DAC_READ_SEARCH) && only_reads;
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
            rights: None,
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

    #[test]
    fn capabilities_decide_where_they_are_known() {
        let (read, write, run) = (Access::READ, Access::WRITE, Access::EXECUTE);
        let (all, reads) = (Rights::DAC_OVERRIDE, Rights::DAC_READ_SEARCH);
        let (plain, directory) = (FileKind::Regular, FileKind::Directory);
        for (uid, rights, kind, access, want) in [
            (0, Rights::NONE, plain, read, false),
            (5, all, plain, Access(6), true),
            (5, all, plain, run, false),
            (5, all, directory, Access(7), true),
            (5, reads, plain, read, true),
            (5, reads, plain, Access(6), false),
            (5, reads, plain, Access(5), false),
            (5, reads, directory, Access(5), true),
            (5, reads, directory, write, false),
            (5, Rights::FOWNER.with(Rights::CHOWN), plain, read, false),
        ] {
            let caller = Caller {
                uid,
                gid: 5,
                groups: &[],
                pid: 1,
                umask: 0,
                rights: Some(rights),
            };
            let granted = caller.may_as(access, (9, 9), 0, kind).is_ok();
            assert_eq!(granted, want, "{rights:?} {kind:?} {access:?}");
        }
    }
}
