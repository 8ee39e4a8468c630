//! Times of access: `noatime` and its kin (mount(8)).
//!
//! FUSE keeps none itself (`fuse_init_inode`, fs/fuse/inode.c): what is read of a directory's files
//! changes their times as the mount says that the server reads them by. So that is a clone of the
//! source's mount, seen by the server alone, with the flags that the user wants. What cannot be had
//! so is refused.

use crate::failure::{Failure, path, reason, shown};
use culvert::mount::Mount;
use culvert_drivers::AccessTimes;
use culvert_sys::{BorrowedFd, flags::AtFlags, fs::mount_setattr, raw::general::mount_attr};
use rustix::{
    fs::StatVfsMountFlags,
    mount::{OpenTreeFlags, open_tree},
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// `MOUNT_ATTR__ATIME` (linux/mount.h): the bits that say when files' times change.
const WHEN: u64 = 0x70;
const RELATIVE: u64 = 0;
const NEVER: u64 = 0x10;
const STRICT: u64 = 0x20;
/// `MOUNT_ATTR_NODIRATIME`.
const NOT_DIRECTORIES: u64 = 0x80;

/// What the user has said; nothing: as the source's own mount has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// One of the above.
    when: Option<u64>,
    directories: Option<bool>,
}

impl Times {
    /// Takes `word` up, if it is one of these; whether it is.
    ///
    /// # Errors
    /// FUSE has no such thing.
    pub fn take(&mut self, word: &str) -> Result<bool, Failure> {
        match word {
            "noatime" => self.when = Some(NEVER),
            "relatime" => self.when = Some(RELATIVE),
            "strictatime" => self.when = Some(STRICT),
            // The kernel's own choice (mount(8)).
            "atime" | "norelatime" | "nostrictatime" => self.when = None,
            "nodiratime" => self.directories = Some(false),
            "diratime" => self.directories = Some(true),
            "nolazytime" => {}
            "lazytime" => {
                return Err(Failure::new(
                    "option lazytime: a FUSE mount keeps no times of its own",
                )
                .advice("mount the source's file system with it"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `now`, bits of a mount, as they are wanted.
    const fn of(self, now: u64) -> u64 {
        let when = match self.when {
            Some(when) => now & !WHEN | when,
            None => now,
        };
        match self.directories {
            Some(true) => when & !NOT_DIRECTORIES,
            Some(false) => when | NOT_DIRECTORIES,
            None => when,
        }
    }

    /// The flags of the kernel mount, for who looks at the table of mounts.
    pub const fn flags(self) -> u32 {
        self.of(RELATIVE) as u32
    }

    /// The source of `mount` with these times: a directory by which the server is to use it, where
    /// that is another one than the source itself.
    ///
    /// # Errors
    /// It cannot be had: another driver keeps times in its own way; only root may; Linux 5.12.
    pub fn source(self, mount: &Mount) -> Result<Option<OwnedFd>, Failure> {
        if self == Self::default() {
            return Ok(None);
        }
        let alone = mount.branches.is_empty();
        let sources = mount
            .leaves()
            .into_iter()
            .map(|leaf| self.of_source(leaf, alone));
        Ok(sources.collect::<Result<Vec<_>, _>>()?.pop().flatten())
    }

    /// The same of one source, which the server can use by another mount if it is `alone`.
    fn of_source(self, mount: &Mount, alone: bool) -> Result<Option<OwnedFd>, Failure> {
        let name = match self.of(RELATIVE) {
            bits if bits & WHEN == NEVER => "noatime",
            bits if bits & WHEN == STRICT => "strictatime",
            bits if bits & NOT_DIRECTORIES != 0 => "nodiratime",
            _ => "relatime",
        };
        let refused = |why: String| Failure::new(format!("option {name}: {why}"));
        match culvert_drivers::declared(mount).map(|declared| declared.access_times) {
            Some(AccessTimes::Source) => {}
            Some(AccessTimes::Never) if self.of(RELATIVE) & WHEN != STRICT => return Ok(None),
            _ if self.of(RELATIVE) == RELATIVE => return Ok(None),
            _ => {
                return Err(refused(format!(
                    "type {} has its own times of access",
                    mount.driver
                )));
            }
        }
        let source = path(&mount.source);
        let failed = |error: io::Error| refused(format!("{}: {}", shown(source), reason(&error)));
        let found = rustix::fs::statvfs(source).map_err(|error| failed(error.into()))?;
        let has = |flag| found.f_flag.contains(flag);
        let now = match () {
            () if has(StatVfsMountFlags::NOATIME) => NEVER,
            () if has(StatVfsMountFlags::RELATIME) => RELATIVE,
            () => STRICT,
        };
        let now = match has(StatVfsMountFlags::NODIRATIME) {
            true => now | NOT_DIRECTORIES,
            false => now,
        };
        if self.of(now) == now {
            return Ok(None);
        }
        if !alone {
            return Err(refused(
                "each of several sources keeps its own times of access".into(),
            ));
        }
        if !rustix::process::geteuid().is_root() {
            return Err(refused(
                "only root's mounts may have other times of access than the source".into(),
            )
            .advice("leave it out"));
        }
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        let clone =
            open_tree(rustix::fs::CWD, source, flags).map_err(|error| failed(error.into()))?;
        let change = mount_attr {
            attr_set: self.of(now),
            attr_clr: WHEN | NOT_DIRECTORIES,
            propagation: 0,
            userns_fd: 0,
        };
        let tree = BorrowedFd::number(clone.as_raw_fd());
        mount_setattr(tree, c"", AtFlags::EMPTY_PATH | AtFlags::RECURSIVE, &change)
            .map_err(|error| failed(io::Error::from_raw_os_error(error.raw())))?;
        Ok(Some(clone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_sources_each_is_asked() {
        let mount = |driver: &str, branches: &[Mount]| Mount {
            driver: driver.into(),
            source: b"/".to_vec(),
            target: b"/mnt".to_vec(),
            options: Vec::new(),
            branches: branches.to_vec(),
        };
        let [archive, memory] = ["archive", "memory"].map(|driver| mount(driver, &[]));
        let mut times = Times::default();
        assert!(times.take("noatime").unwrap());
        let archives = mount("last", &[archive.clone(), archive.clone()]);
        assert!(times.source(&archives).unwrap().is_none());
        let both = mount("last", &[archive, memory]);
        let refused = times.source(&both).unwrap_err().to_string();
        assert!(
            refused.contains("type memory has its own times"),
            "{refused}"
        );
    }
}
