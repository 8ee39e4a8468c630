//! Acting as the caller: a server of root's, that other users may use, does file operations with
//! their rights.
//!
//! Of the thread alone: `setfsuid(2)` also takes the capabilities over files from a thread that is
//! not root's any more (capabilities(7), "Effect of user ID changes on capabilities"), and gives
//! them back. The umask is the thread's own after `unshare(CLONE_FS)`.

use crate::groups;
use culvert::{Errno, Result};
use culvert_sys::process;
use std::fs;

/// Whom the calling thread acts as.
#[derive(Debug)]
pub struct Identity {
    /// Whether it changes at all: the server is root's.
    switches: bool,
    /// Groups cannot be changed: in a user namespace that an ordinary user has made
    /// (user_namespaces(7), "Writing to uid_map"). Then only the server's own user is served.
    groups_are_fixed: bool,
    /// User and group now; the server's own at first. Supplementary groups are in [`groups`].
    current: (u32, u32),
    server: (u32, u32),
    server_groups: Vec<u32>,
    umask: Option<u32>,
    /// [`Identity::maker`] has given rights that the user has not.
    may_more: bool,
    /// [`Identity::lose_set_id`] has taken CAP_FSETID from root.
    may_less: bool,
    /// [`Identity::lose_special_rights`] has taken `SPECIAL_RIGHTS` from root.
    is_plain: bool,
}

impl Identity {
    /// The calling thread's, which acts as the server. From here on its umask is its own.
    pub fn of_thread() -> Self {
        let uid = rustix::process::geteuid();
        let server = (uid.as_raw(), rustix::process::getegid().as_raw());
        let groups = rustix::process::getgroups().unwrap_or_default();
        // A copy of its working directory and umask.
        let own = process::unshare(culvert_sys::raw::general::CLONE_FS);
        Self {
            switches: uid.is_root(),
            groups_are_fixed: fs::read("/proc/self/setgroups").is_ok_and(|said| said == b"deny\n"),
            current: server,
            server,
            server_groups: groups
                .into_iter()
                .map(rustix::process::Gid::as_raw)
                .collect(),
            // Without its own, the process's is left alone; see `set_umask`.
            umask: own.is_err().then_some(u32::MAX),
            may_more: false,
            may_less: false,
            is_plain: false,
        }
    }

    /// Acts as the server itself.
    pub fn server(&mut self) -> Result<()> {
        if !self.switches {
            return Ok(());
        }
        if !self.groups_are_fixed && !self.is_plain {
            groups::set(&self.server_groups)?;
        }
        self.become_user(self.server.0, self.server.1)
    }

    /// Acts as `uid`, `gid` with the supplementary groups of thread `pid`, which may be left out at
    /// first, see [`groups`].
    pub fn caller(&mut self, uid: u32, gid: u32, pid: u32) -> Result<()> {
        if !self.switches {
            return Ok(());
        }
        match self.groups_are_fixed {
            false => groups::of_caller(uid, pid)?,
            true if uid == self.server.0 => {}
            true => {
                return Err(culvert::Error::because(
                    Errno::EPERM,
                    format!(
                        "cannot act as user {uid}: groups cannot be changed in this user namespace"
                    ),
                ));
            }
        }
        self.become_user(uid, gid)
    }

    /// Acts as `uid`, `gid` in what is made: it is theirs. What they may the kernel has judged, by
    /// ids that mean something else than the caller's own: so rights and groups do not matter here,
    /// the thread may do what it could.
    pub fn maker(&mut self, uid: u32, gid: u32) -> Result<()> {
        if !self.switches {
            return Ok(());
        }
        if !self.groups_are_fixed {
            groups::set(&[])?;
        }
        self.become_user(uid, gid)?;
        if uid != 0 {
            set_effective(DAC_RIGHTS, true)?;
            self.may_more = true;
        }
        Ok(())
    }

    /// Acts as `uid` and `gid`, in no other groups, on a file that is open: what becomes of
    /// set-user-ID and set-group-ID is all that the kernel judges then.
    pub fn user(&mut self, uid: u32, gid: u32) -> Result<()> {
        if !self.switches || self.groups_are_fixed {
            return Ok(());
        }
        groups::set(&[])?;
        self.become_user(uid, gid)
    }

    /// Acts as whoever it is now, but for root without the rights to leave set-user-ID to what is
    /// written and to use what is reserved, and in no file's group; until
    /// [`Identity::take_back_rights`]. That is not the next request: most need none of it, since
    /// root may open everything, and each change of a thread's credentials costs as much as several
    /// system calls.
    pub fn lose_special_rights(&mut self) -> Result<()> {
        if self.switches && self.current.0 == 0 && !self.is_plain {
            if !self.groups_are_fixed {
                groups::set(&[])?;
            }
            if self.current.1 != NOBODY {
                set_and_check(process::setfsgid, NOBODY)?;
                self.current.1 = NOBODY;
            }
            set_effective(SPECIAL_RIGHTS, false)?;
            self.is_plain = true;
            self.may_less = false;
        }
        Ok(())
    }

    /// Has again what [`Identity::lose_special_rights`] has taken; its groups when it next acts as
    /// somebody.
    pub fn take_back_rights(&mut self) -> Result<()> {
        if self.is_plain {
            set_effective(SPECIAL_RIGHTS, true)?;
            self.is_plain = false;
        }
        Ok(())
    }

    /// Acts as the server itself, if it does not: with what [`Identity::lose_special_rights`] has
    /// taken.
    pub fn itself(&mut self) -> Result<()> {
        if !self.is_plain && self.current == self.server {
            return Ok(());
        }
        self.take_back_rights()?;
        self.server()
    }

    /// Acts as the server itself, whom no file's group counts for.
    pub fn server_in_no_group(&mut self) -> Result<()> {
        if !self.switches || self.groups_are_fixed {
            return Ok(());
        }
        groups::set(&[])?;
        self.become_user(self.server.0, NOBODY)
    }

    /// Acts as it does already, but without CAP_FSETID, until it acts as somebody again: what
    /// root changes then loses set-user-ID, as if anybody had changed it
    /// (`setattr_should_drop_suidgid`, fs/attr.c). All others are without it anyway.
    pub fn lose_set_id(&mut self) -> Result<()> {
        if self.switches && self.current.0 == 0 && !self.may_less && !self.is_plain {
            set_effective(CAP_FSETID, false)?;
            self.may_less = true;
        }
        Ok(())
    }

    fn become_user(&mut self, uid: u32, gid: u32) -> Result<()> {
        // While it is root's thread: setfsuid(2) gives and takes the right itself.
        if std::mem::take(&mut self.may_less) {
            set_effective(CAP_FSETID, true)?;
        }
        if std::mem::take(&mut self.may_more) {
            set_effective(DAC_RIGHTS, false)?;
        }
        if self.current.1 != gid && !(self.is_plain && uid == 0) {
            set_and_check(process::setfsgid, gid)?;
            self.current.1 = gid;
        }
        if self.current.0 != uid {
            set_and_check(process::setfsuid, uid)?;
            let was_root = self.current.0 == 0;
            self.current.0 = uid;
            // Who becomes root again gets both.
            self.is_plain = false;
            if was_root != (uid == 0) {
                set_effective(CAP_SYS_RESOURCE, uid == 0)?;
            }
        }
        Ok(())
    }

    /// Makes `umask` the thread's, for drivers that act by the kernel's calls.
    pub fn set_umask(&mut self, umask: u32) -> Result<()> {
        match self.umask {
            Some(now) if now == umask => return Ok(()),
            Some(u32::MAX) => return Err(Errno::EPERM.into()),
            _ => {}
        }
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
        self.umask = Some(umask);
        Ok(())
    }
}

/// Who has no rights over anybody's files.
pub(crate) const NOBODY: u32 = 65534;
/// The right to leave set-user-ID and set-group-ID to files that are changed.
const CAP_FSETID: u32 = 1 << 4;
/// The right to use blocks that a file system reserves, and to go beyond quotas: root's right over
/// files that setfsuid(2) neither takes nor gives back (`CAP_FS_MASK`, include/linux/capability.h).
const CAP_SYS_RESOURCE: u32 = 1 << 24;
/// What the kernel must not have when it writes for anybody who has a file open.
const SPECIAL_RIGHTS: u32 = CAP_FSETID | CAP_SYS_RESOURCE;
/// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`.
const DAC_RIGHTS: u32 = 1 << 1 | 1 << 2;

/// Gives the thread these rights, as far as the server has them, or takes them.
fn set_effective(rights: u32, may: bool) -> Result<()> {
    let mut sets = process::capget()?;
    let [effective, permitted, _] = &mut sets[0];
    *effective = match may {
        true => *effective | rights & *permitted,
        false => *effective & !rights,
    };
    Ok(process::capset(&sets)?)
}

/// setfsuid(2) and setfsgid(2) do not say whether they worked: asking again does.
fn set_and_check(set: fn(u32) -> u32, number: u32) -> Result<()> {
    const ASK: u32 = u32::MAX;
    set(number);
    match set(ASK) == number {
        true => Ok(()),
        false => Err(culvert::Error::because(
            Errno::EPERM,
            format!("cannot act as user or group {number}"),
        )),
    }
}
