//! Acting as the caller: a server of root's, that other users may use, does file operations with their rights.
//!
//! Of the thread alone: `setfsuid(2)` also takes the capabilities over files from a thread that is not root's any more (capabilities(7), "Effect of
//! user ID changes on capabilities"), and gives them back. The umask is the thread's own after `unshare(CLONE_FS)`.

use culvert::{Caller, Errno, Result};
use culvert_sys::{nr, syscall};
use std::fs;

/// The caller of what the server does for itself: it opens again what somebody had opened, or reads a tree that shows the same to everybody.
pub(crate) const SERVER: Caller<'static> = Caller {
    uid: 0,
    gid: 0,
    groups: &[],
    pid: 0,
    umask: 0,
};

/// Whom the calling thread acts as.
#[derive(Debug)]
pub struct Identity {
    /// Whether it changes at all: the server is root's.
    switches: bool,
    /// Groups cannot be changed: in a user namespace that an ordinary user has made (user_namespaces(7), "Writing to uid_map"). Then only the server's own
    /// user is served.
    groups_are_fixed: bool,
    /// User, group and supplementary groups now; the server's own at first.
    current: (u32, u32, Vec<u32>),
    server: (u32, u32, Vec<u32>),
    umask: Option<u32>,
}

impl Identity {
    /// The calling thread's, which acts as the server. From here on its umask is its own.
    pub fn of_thread() -> Self {
        let uid = rustix::process::geteuid();
        let groups = rustix::process::getgroups().unwrap_or_default();
        let server: (u32, u32, Vec<u32>) = (
            uid.as_raw(),
            rustix::process::getegid().as_raw(),
            groups
                .into_iter()
                .map(rustix::process::Gid::as_raw)
                .collect(),
        );
        const CLONE_FS: usize = 0x200;
        // SAFETY: the thread gets a copy of its working directory and umask.
        let own = unsafe { syscall::call(nr::UNSHARE, [CLONE_FS]) };
        Self {
            switches: uid.is_root(),
            groups_are_fixed: fs::read("/proc/self/setgroups").is_ok_and(|said| said == b"deny\n"),
            current: (server.0, server.1, server.2.clone()),
            server,
            // Without its own, the process's is left alone; see `set_umask`.
            umask: own.is_err().then_some(u32::MAX),
        }
    }

    /// Acts as the server itself.
    pub fn server(&mut self) -> Result<()> {
        let (uid, gid, groups) = self.server.clone();
        self.become_user(uid, gid, groups)
    }

    /// Acts as `uid`, `gid` with the supplementary groups of thread `pid`.
    pub fn caller(&mut self, uid: u32, gid: u32, pid: u32) -> Result<()> {
        if !self.switches {
            return Ok(());
        }
        // Root may do everything, whatever groups it is in.
        let groups = match uid {
            0 => Vec::new(),
            _ => groups_of(pid),
        };
        self.become_user(uid, gid, groups)
    }

    /// Acts as `uid`, for what groups do not matter to: whether a write clears set-user-ID.
    pub fn user(&mut self, uid: u32) -> Result<()> {
        if !self.switches || self.groups_are_fixed || self.current.0 == uid {
            return Ok(());
        }
        let (_, gid, groups) = self.current.clone();
        self.become_user(uid, gid, groups)
    }

    fn become_user(&mut self, uid: u32, gid: u32, groups: Vec<u32>) -> Result<()> {
        if !self.switches {
            return Ok(());
        }
        let groups = match self.groups_are_fixed {
            true if uid == self.server.0 => self.server.2.clone(),
            true => {
                return Err(culvert::Error::because(
                    Errno::EPERM,
                    format!(
                        "cannot act as user {uid}: groups cannot be changed in this user namespace"
                    ),
                ));
            }
            false => groups,
        };
        if self.current.2 != groups {
            // SAFETY: the kernel reads as many groups as there are, for this thread alone (glibc's setgroups would tell all threads).
            unsafe {
                syscall::call(nr::SETGROUPS, [groups.len(), groups.as_ptr() as usize])?;
            }
            self.current.2 = groups;
        }
        if self.current.1 != gid {
            set_and_check(nr::SETFSGID, gid)?;
            self.current.1 = gid;
        }
        if self.current.0 != uid {
            set_and_check(nr::SETFSUID, uid)?;
            let was_root = self.current.0 == 0;
            self.current.0 = uid;
            if was_root != (uid == 0) {
                exceed_limits(uid == 0)?;
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

/// Whether the thread may use blocks that a file system reserves, and go beyond quotas (`CAP_SYS_RESOURCE`): root's right over files that setfsuid(2) neither takes
/// nor gives back (`CAP_FS_MASK`, include/linux/capability.h). A server without that right goes on without.
fn exceed_limits(may: bool) -> Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    const CAP_SYS_RESOURCE: u32 = 1 << 24;
    let header = [VERSION_3, 0];
    // Twice effective, permitted and inheritable: the lower 32 capabilities and the upper ones.
    let mut sets = [[0_u32; 3]; 2];
    let arguments = [(&raw const header) as usize, (&raw mut sets) as usize];
    // SAFETY: header and sets are as the kernel wants them in this version, and outlive the calls, which are about this thread alone.
    unsafe {
        syscall::call(nr::CAPGET, arguments)?;
        let [effective, permitted, _] = &mut sets[0];
        *effective = match may {
            true => *effective | CAP_SYS_RESOURCE & *permitted,
            false => *effective & !CAP_SYS_RESOURCE,
        };
        syscall::call(nr::CAPSET, arguments)?;
    }
    Ok(())
}

/// setfsuid(2) and setfsgid(2) do not say whether they worked: asking again does.
fn set_and_check(call: usize, number: u32) -> Result<()> {
    const ASK: usize = u32::MAX as usize;
    // SAFETY: changes the thread's file-system user or group.
    let now = unsafe {
        syscall::call(call, [number as usize])?;
        syscall::call(call, [ASK])?
    };
    match now == number as usize {
        true => Ok(()),
        false => Err(culvert::Error::because(
            Errno::EPERM,
            format!("cannot act as user or group {number}"),
        )),
    }
}

/// The supplementary groups of thread `pid` (proc(5)); none when it is gone, or is in another pid namespace.
fn groups_of(pid: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    parse_groups(&status)
}

fn parse_groups(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let words = line.unwrap_or_default().split_ascii_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the calling thread may do at this moment.
    fn effective() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    }

    #[test]
    fn users_get_no_right_of_the_servers() {
        // Over files (CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID) and their limits (CAP_SYS_RESOURCE).
        const RIGHTS: u64 = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 24;
        if !rustix::process::geteuid().is_root() || effective() & RIGHTS != RIGHTS {
            eprintln!("not tested: these rights are not there");
            return;
        }
        // A thread of its own: what it may do is.
        let thread = std::thread::spawn(|| {
            let mut identity = Identity::of_thread();
            let before = effective();
            identity.caller(65534, 65534, std::process::id()).unwrap();
            assert_eq!(effective() & RIGHTS, 0);
            identity.user(1).unwrap();
            assert_eq!(effective() & RIGHTS, 0);
            identity.caller(0, 0, std::process::id()).unwrap();
            assert_eq!(effective(), before);
            identity.caller(65534, 65534, std::process::id()).unwrap();
            identity.server().unwrap();
            assert_eq!(effective(), before);
        });
        thread.join().unwrap();
    }

    #[test]
    fn groups_are_read_from_the_status() {
        let status =
            "Name:\tx\nGid:\t1\t1\t1\t1\nFDSize:\t64\nGroups:\t4 24 4294967294 \nNStgid:\t1\n";
        assert_eq!(parse_groups(status), [4, 24, 4_294_967_294]);
        assert!(parse_groups("Groups:\t \n").is_empty());
        assert!(parse_groups("").is_empty());
    }
}
