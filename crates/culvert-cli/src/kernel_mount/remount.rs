//! `mount -o remount`: other flags for a mount that stays.

use super::target;
use crate::failure::{Failure, path, reason, shown};
use culvert_server::mounting::{MountIdentity, mount_point_of};
use rustix::{fs::OFlags, io::Errno, mount::MountFlags};
use std::os::fd::{AsFd, AsRawFd};

/// `MS_NOSYMFOLLOW` (linux/mount.h).
const NO_SYMFOLLOW: MountFlags = MountFlags::from_bits_retain(256);

/// The flags that a mount has by itself, each by its word and by the one that takes it away.
const FLAGS: [(&str, &str, MountFlags); 8] = [
    ("ro", "rw", MountFlags::RDONLY),
    ("nosuid", "suid", MountFlags::NOSUID),
    ("nodev", "dev", MountFlags::NODEV),
    ("noexec", "exec", MountFlags::NOEXEC),
    ("noatime", "atime", MountFlags::NOATIME),
    ("nodiratime", "diratime", MountFlags::NODIRATIME),
    ("relatime", "norelatime", MountFlags::RELATIME),
    ("nosymfollow", "symfollow", NO_SYMFOLLOW),
];

/// What is to be changed of a mount.
#[derive(Debug)]
pub struct Remount {
    /// The mount, as typed.
    pub target: Vec<u8>,
    /// Options of mount(8), of which the last of two that exclude each other holds. Those that are
    /// no flags of a mount say what it was made with, and stay as they are: mount(8) adds what
    /// fstab and the mount table say.
    pub options: Vec<Vec<u8>>,
}

/// `now` with what `options` say.
fn changed<'a>(now: MountFlags, options: impl Iterator<Item = &'a [u8]>) -> MountFlags {
    options.fold(now, |mut flags, option| {
        for (on, off, flag) in FLAGS {
            if option == on.as_bytes() {
                flags.insert(flag);
            } else if option == off.as_bytes() {
                flags.remove(flag);
            }
        }
        flags
    })
}

/// The new flags of a mount that has the options `own`.
///
/// For `mount -o remount,suid TARGET` mount(8) puts the words together with those of the mount
/// table, and gives what comes out: `nosuid` is left out then, and `suid` not said. With a source
/// it gives the words as they are.
fn wanted(own: &[u8], options: &[Vec<u8>]) -> MountFlags {
    let is_whole = options.iter().any(|word| word.starts_with(b"user_id="));
    let now = match is_whole {
        true => MountFlags::empty(),
        false => changed(MountFlags::empty(), own.split(|&byte| byte == b',')),
    };
    changed(now, options.iter().map(Vec::as_slice))
}

/// Gives the mount its new flags, and nothing else.
pub fn remount(asked: &Remount) -> Result<u8, Failure> {
    let mount = target::mounted(path(&asked.target))?;
    let wrong = |why: &str| Failure::new(format!("remount {}: {why}", shown(mount.path())));
    let [own, whole] = &mount.options;
    // By descriptor: the path may lead to another mount by now.
    let root = mount_point_of(&mount.which)
        .and_then(|place| place.directory_there(OFlags::PATH).ok())
        .filter(|root| {
            MountIdentity::holding(root.as_fd()).is_ok_and(|found| found.is(&mount.which))
        })
        .ok_or_else(|| wrong("it is gone, or another mount lies over it"))?;
    let there = format!("/proc/self/fd/{}", root.as_raw_fd());
    let flags = wanted(own, &asked.options);
    let before = changed(MountFlags::empty(), own.split(|&byte| byte == b','));
    let of_times = MountFlags::NOATIME | MountFlags::NODIRATIME | MountFlags::RELATIME;
    let said = |word: &str| asked.options.iter().any(|one| one == word.as_bytes());
    let stricter = said("strictatime") && before.intersects(of_times);
    if (before ^ flags).intersects(of_times) || stricter || said("lazytime") {
        return Err(wrong("times of access stay as they were mounted")
            .advice("end it and mount it again: culvert umount TARGET"));
    }
    let is_read_only = whole.split(|&byte| byte == b',').any(|word| word == b"ro");
    if is_read_only && !flags.contains(MountFlags::RDONLY) {
        return Err(wrong("it was mounted read-only, and its server only reads")
            .advice("end it and mount it again with rw: culvert umount TARGET"));
    }
    rustix::mount::mount_remount(there, MountFlags::BIND | flags, "").map_err(|error| {
        let failure = wrong(&reason(&error.into()));
        match error {
            Errno::BUSY => failure.advice("files on it are open for writing: close them first"),
            Errno::PERM => failure.advice(
                "only root may change a mount; end it and mount it again: culvert umount TARGET",
            ),
            _ => failure,
        }
    })?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_holds_and_others_stay() {
        let after = |text: &str| {
            let words: Vec<_> = text
                .split(',')
                .map(|word| word.as_bytes().to_vec())
                .collect();
            wanted(b"rw,nosuid,relatime", &words)
        };
        let (nosuid, relatime) = (MountFlags::NOSUID, MountFlags::RELATIME);
        assert_eq!(after("remount"), nosuid | relatime);
        let read_only = MountFlags::RDONLY | relatime | NO_SYMFOLLOW;
        assert_eq!(after("ro,log=/x,rw,suid,ro,nosymfollow"), read_only);
        // As mount(8) says `remount,suid,dev`.
        assert_eq!(after("rw,relatime,remount,user_id=0,group_id=0"), relatime);
    }
}
