//! Which process it is: its number and when it began, so that the next one with its number is
//! another.

use alloc::format;
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general::pollfd;
use culvert_sys::{Errno, fs, process};

/// Bits of a process's number (`PID_MAX_LIMIT`, include/linux/threads.h).
const NUMBER: u32 = 22;
/// The process lives in another PID namespace than the server: its number says nothing here.
const ELSEWHERE: u64 = 1 << 63;

/// The upper half of an orphan's.
const ORPHANS: u64 = 0x7fff_ffff;
/// It does not wait for the reply: whoever finds no other slot may take this one.
const SPARE: u64 = 1 << 62;

/// A process, as an owner of slots is written down. 0: nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(pub u64);

impl Identity {
    /// Nobody.
    pub const NOBODY: Self = Self(0);
    /// Whoever is to free the slot when the reply to its request `count` comes: the one that waited
    /// for it is gone. No process began so late.
    pub const fn orphan(count: u32) -> Self {
        Self(ORPHANS << 32 | count as u64)
    }

    /// Whether it is such a one.
    pub const fn is_orphan(self) -> bool {
        self.0 >> 32 == ORPHANS
    }

    /// This process, in an area of the PID namespace `home`.
    pub fn own(home: u64) -> Self {
        let number = process::getpid();
        let (began, _) = began(number).unwrap_or((0, false));
        let elsewhere = if namespace() == home { 0 } else { ELSEWHERE };
        Self(elsewhere | began << NUMBER & !(ELSEWHERE | SPARE) | u64::from(number))
    }

    /// The same, which does not wait for the reply.
    pub const fn spare(self) -> Self {
        Self(self.0 | SPARE)
    }

    /// Whether it is a process that does not wait for the reply.
    pub const fn is_spare(self) -> bool {
        !self.is_orphan() && self.0 & SPARE != 0
    }

    /// The process, whether it waits or not.
    pub const fn process(self) -> Self {
        match self.is_spare() {
            true => Self(self.0 & !SPARE),
            false => self,
        }
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        (self.0 & ((1 << NUMBER) - 1)) as u32
    }

    /// Whether it is a process whose number means something here, and that is there.
    pub fn is_here(self) -> bool {
        self.0 & ELSEWHERE == 0 && self.number() != 0 && !self.is_orphan() && !self.is_gone()
    }

    /// Whether it is known to be gone. Of another namespace nothing is known; and who is in another
    /// one itself must not ask.
    pub fn is_gone(self) -> bool {
        let this = self.process();
        if this.0 & ELSEWHERE != 0 || this.is_orphan() || this == Self::NOBODY {
            return false;
        }
        let number = this.number();
        match process::kill(number as i32, 0) {
            Err(Errno::ESRCH) => true,
            _ => match began(number) {
                Ok((began, _))
                    if began << NUMBER & !(ELSEWHERE | SPARE) != this.0 >> NUMBER << NUMBER =>
                {
                    true
                }
                Ok((_, is_zombie)) => is_zombie && has_ended(number),
                // It has gone meanwhile, or this process may not see it in /proc.
                Err(_) => process::kill(number as i32, 0) == Err(Errno::ESRCH),
            },
        }
    }

    /// Whether this process, `self`, may judge who is gone: numbers of processes mean the same to
    /// it.
    pub fn judges(self) -> bool {
        self != Self::NOBODY && self.0 & ELSEWHERE == 0
    }
}

/// Whether all threads of process `number`, a zombie, have ended: its first may have done so alone.
fn has_ended(number: u32) -> bool {
    const POLLIN: i16 = 1;
    let process = match process::pidfd_open(number) {
        Ok(process) => process,
        Err(errno) => return errno == Errno::ESRCH,
    };
    let mut asked = [pollfd {
        fd: process.raw(),
        events: POLLIN,
        revents: 0,
    }];
    process::poll(&mut asked, 0) == Ok(1)
}

/// The inode number of this process's PID namespace.
pub(crate) fn namespace() -> u64 {
    fs::stat(c"/proc/self/ns/pid").map_or(0, |found| found.st_ino)
}

/// When process `number` began, in ticks since the machine did, and whether its first thread has
/// ended (proc_pid_stat(5)).
fn began(number: u32) -> Result<(u64, bool), Errno> {
    let path = format!("/proc/{number}/stat\0");
    let path = core::ffi::CStr::from_bytes_with_nul(path.as_bytes()).map_err(|_| Errno::EINVAL)?;
    let file = fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, 0)?;
    let mut text = [0; 1024];
    let length = fs::read(&file, &mut text)?;
    // The name before it may hold blanks and parentheses.
    let text = &text[..length];
    let end = text.iter().rposition(|&byte| byte == b')');
    let rest = text.get(end.ok_or(Errno::EIO)? + 1..).unwrap_or_default();
    let mut fields = rest
        .split(|&byte| byte == b' ')
        .filter(|word| !word.is_empty());
    // The third field is the first here.
    let is_zombie = matches!(fields.next(), Some(b"Z" | b"X"));
    let began = fields.nth(18).and_then(|word| str::from_utf8(word).ok());
    let began = began.and_then(|word| word.parse().ok());
    Ok((began.ok_or(Errno::EIO)?, is_zombie))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn a_process_is_gone_when_it_has_ended() {
        let home = namespace();
        assert!(!Identity::own(home).is_gone());
        assert_eq!(Identity::own(home).number(), std::process::id());
        assert!(!Identity::own(home + 1).is_gone());
        assert!(Identity::own(home).judges() && !Identity::own(home + 1).judges());
        assert!(!Identity::NOBODY.judges() && !has_ended(std::process::id()));
        let mut child = std::process::Command::new("sleep")
            .arg("9")
            .spawn()
            .unwrap();
        let (began, _) = began(child.id()).unwrap();
        let of = Identity(began << NUMBER | u64::from(child.id()));
        assert!(!of.is_gone());
        child.kill().unwrap();
        // A zombie at last.
        while !of.is_gone() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(of.is_gone());
        // Another process with its number.
        let later = Identity(Identity::own(home).0 + (1 << NUMBER));
        assert!(later.is_gone());
        assert!(!Identity::NOBODY.is_gone() && !Identity::orphan(7).is_gone());
        assert!(later.spare().is_gone() && !Identity::own(home).spare().is_gone());
        assert!(!Identity::orphan(7).is_spare() && later.spare().process() == later);
    }
}
