//! `mount -o remount`: other flags for a mount that stays.

use super::target;
use crate::failure::{Failure, path, reason, shown};
use rustix::{io::Errno, mount::MountFlags};

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
    /// Options of mount(8), of which the last of two that exclude each other holds. Those that are no flags of a mount say what it was
    /// made with, and stay as they are: mount(8) adds what fstab and the mount table say.
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

/// Gives the mount its new flags, and nothing else.
pub fn remount(asked: &Remount) -> Result<u8, Failure> {
    let target = target::mounted(path(&asked.target))?;
    let wrong = |why: &str| Failure::new(format!("remount {}: {why}", shown(&target)));
    let (own, whole) = target::options(&target).ok_or_else(|| wrong("it is gone"))?;
    let now = changed(MountFlags::empty(), own.split(|&byte| byte == b','));
    let flags = changed(now, asked.options.iter().map(Vec::as_slice));
    let is_read_only = whole.split(|&byte| byte == b',').any(|word| word == b"ro");
    if is_read_only && !flags.contains(MountFlags::RDONLY) {
        return Err(wrong("it was mounted read-only, and its server only reads")
            .advice("end it and mount it again with rw: culvert umount TARGET"));
    }
    rustix::mount::mount_remount(&target, MountFlags::BIND | flags, "").map_err(|error| {
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
        let words = |text: &'static str| text.split(',').map(str::as_bytes);
        let now = changed(MountFlags::empty(), words("rw,nosuid,relatime"));
        assert_eq!(now, MountFlags::NOSUID | MountFlags::RELATIME);
        let then = changed(now, words("ro,user_id=0,log=/x,rw,suid,ro,nosymfollow"));
        let expected = MountFlags::RDONLY | MountFlags::RELATIME | NO_SYMFOLLOW;
        assert_eq!(then, expected);
    }
}
