//! Mounting and unmounting: by mount(2), or by fusermount for who may not.

use libc::{c_ulong, iovec, msghdr};
use std::{
    ffi::{CStr, CString, OsStr, c_int},
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{ffi::OsStrExt, net::UnixStream, process::CommandExt},
    },
    process::{Command, Stdio},
};

/// Options of mount(2), and whether they set the flag.
const FLAGS: [(&str, c_ulong, bool); 15] = [
    ("rw", libc::MS_RDONLY, false),
    ("ro", libc::MS_RDONLY, true),
    ("suid", libc::MS_NOSUID, false),
    ("nosuid", libc::MS_NOSUID, true),
    ("dev", libc::MS_NODEV, false),
    ("nodev", libc::MS_NODEV, true),
    ("exec", libc::MS_NOEXEC, false),
    ("noexec", libc::MS_NOEXEC, true),
    ("async", libc::MS_SYNCHRONOUS, false),
    ("sync", libc::MS_SYNCHRONOUS, true),
    ("atime", libc::MS_NOATIME, false),
    ("noatime", libc::MS_NOATIME, true),
    ("nodiratime", libc::MS_NODIRATIME, true),
    ("norelatime", libc::MS_RELATIME, false),
    ("dirsync", libc::MS_DIRSYNC, true),
];
/// Options of the kernel's file system, and those with a value.
const OF_KERNEL: [&str; 2] = ["allow_other", "default_permissions"];
const WITH_VALUE: [&str; 2] = ["max_read=", "blksize="];

/// A mount, and what options ask of it.
#[derive(Debug)]
pub struct Mount {
    flags: c_ulong,
    /// As typed, for fusermount.
    typed: Vec<String>,
    kernel: Vec<String>,
    source: Option<String>,
    subtype: Option<String>,
    block_device: bool,
    auto_unmount: bool,
    target: Option<CString>,
    /// Ends the mount when it is closed, with `auto_unmount`.
    watched: Option<UnixStream>,
    by_helper: bool,
}

impl Default for Mount {
    fn default() -> Self {
        Self {
            // Unless `suid` and `dev` say otherwise.
            flags: libc::MS_NOSUID | libc::MS_NODEV,
            typed: Vec::new(),
            kernel: Vec::new(),
            source: None,
            subtype: None,
            block_device: false,
            auto_unmount: false,
            target: None,
            watched: None,
            by_helper: false,
        }
    }
}

impl Mount {
    /// Option `word`, if it is one of a mount's.
    pub fn take(&mut self, word: &str) -> Option<Result<(), ()>> {
        let value = |name: &str| word.strip_prefix(name)?.strip_prefix('=');
        if let Some((_, flag, set)) = FLAGS.iter().find(|(name, ..)| *name == word) {
            self.flags = match set {
                true => self.flags | flag,
                false => self.flags & !flag,
            };
            self.typed.push(word.to_owned());
        } else if OF_KERNEL.contains(&word) || WITH_VALUE.iter().any(|name| word.starts_with(name))
        {
            self.kernel.push(word.to_owned());
            self.typed.push(word.to_owned());
        } else if let Some(name) = value("fsname") {
            self.source = Some(name.to_owned());
        } else if let Some(name) = value("subtype") {
            self.subtype = Some(name.to_owned());
        } else if word == "auto_unmount" {
            self.auto_unmount = true;
        } else if word == "blkdev" {
            self.block_device = true;
        } else if word.starts_with("context=") {
            crate::log::say("option context is not there: the mount has the label of its kind");
        } else if word == "allow_root" {
            crate::log::say("option allow_root is not there; allow_other is");
            return Some(Err(()));
        } else if matches!(
            word,
            "nonempty" | "large_read" | "user" | "nouser" | "users" | "auto" | "noauto" | "_netdev"
        ) || word.starts_with("x-")
            || word.starts_with("user=")
        {
            // The kernel needs none of them.
        } else {
            return None;
        }
        Some(Ok(()))
    }

    fn names(&self) -> (CString, CString) {
        let kind = match self.block_device {
            true => "fuseblk",
            false => "fuse",
        };
        let kind = match &self.subtype {
            Some(subtype) => format!("{kind}.{subtype}"),
            None => kind.to_owned(),
        };
        let source = self.source.as_ref().or(self.subtype.as_ref());
        let source = source.map_or("/dev/fuse", String::as_str);
        let c_string = |text: &str| CString::new(text).unwrap_or_default();
        (c_string(source), c_string(&kind))
    }
}

/// Mounts at `target`: the device; else the reason why not.
pub fn mount(mount: &mut Mount, target: &CStr) -> Result<RawFd, String> {
    let shown = target.to_string_lossy().into_owned();
    if let Some(fd) = shown
        .strip_prefix("/dev/fd/")
        .and_then(|fd| fd.parse().ok())
    {
        mount.target = None;
        // SAFETY: a question of flags.
        return match unsafe { libc::fcntl(fd, libc::F_GETFD) } {
            -1 => Err(format!("{shown}: {}", io::Error::last_os_error())),
            _ => Ok(fd),
        };
    }
    let direct = match mount.auto_unmount {
        true => Err(io::Error::from_raw_os_error(libc::EPERM)),
        false => by_system_call(mount, target),
    };
    let fd = match direct {
        Ok(fd) => fd,
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) => {
            mount.by_helper = true;
            by_helper(mount, target)?
        }
        Err(error) => return Err(format!("mount at {shown} failed: {error}")),
    };
    mount.target = Some(target.to_owned());
    Ok(fd)
}

fn by_system_call(mount: &Mount, target: &CStr) -> io::Result<RawFd> {
    let stat = |target: &CStr| {
        let mut stat = crate::files::zeroed::<libc::stat>();
        // SAFETY: a string and a place.
        match unsafe { libc::stat(target.as_ptr(), &raw mut stat) } {
            0 => Ok(stat),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let root_mode = stat(target)?.st_mode & libc::S_IFMT;
    // SAFETY: a string.
    let fd = unsafe { libc::open(c"/dev/fuse".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: nobody else has it yet.
    let device = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: they only answer.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let mut data = format!("fd={fd},rootmode={root_mode:o},user_id={uid},group_id={gid}");
    for option in &mount.kernel {
        data.push(',');
        data.push_str(option);
    }
    let data = CString::new(data)?;
    let (source, kind) = mount.names();
    // SAFETY: strings.
    let done = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            mount.flags,
            data.as_ptr().cast(),
        )
    };
    match done {
        0 => Ok(std::os::fd::IntoRawFd::into_raw_fd(device)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// fusermount, of version 3 where there is one.
fn helper(arguments: &[&OsStr], socket: Option<&UnixStream>) -> io::Result<std::process::Child> {
    let start = |name: &str| {
        let mut command = Command::new(name);
        command.args(arguments);
        if let Some(socket) = socket {
            let fd = socket.as_raw_fd();
            command.env("_FUSE_COMMFD", fd.to_string());
            let keep = move || {
                // SAFETY: flags of a descriptor that is open in the child, too.
                match unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } {
                    -1 => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                }
            };
            // SAFETY: it makes one system call.
            unsafe { command.pre_exec(keep) };
        } else {
            command.stderr(Stdio::null());
        }
        command.spawn()
    };
    start("fusermount3").or_else(|_| start("fusermount"))
}

fn by_helper(mount: &mut Mount, target: &CStr) -> Result<RawFd, String> {
    let failed = |error: io::Error| format!("fusermount: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let mut options = mount.typed.clone();
    let escaped = |text: &str| text.replace('\\', "\\\\").replace(',', "\\,");
    for (name, value) in [("fsname", &mount.source), ("subtype", &mount.subtype)] {
        options.extend(
            value
                .as_ref()
                .map(|value| format!("{name}={}", escaped(value))),
        );
    }
    if mount.auto_unmount {
        options.push("auto_unmount".into());
    }
    let options = options.join(",");
    let mut words: Vec<&OsStr> = Vec::new();
    if !options.is_empty() {
        words.extend([OsStr::new("-o"), OsStr::new(&options)]);
    }
    words.extend([OsStr::new("--"), OsStr::from_bytes(target.to_bytes())]);
    let mut child = helper(&words, Some(&theirs)).map_err(failed)?;
    drop(theirs);
    let fd = received(&ours);
    if mount.auto_unmount && fd.is_some() {
        // It waits for our end.
        mount.watched = Some(ours);
    } else {
        let _ = child.wait();
    }
    // What was wrong it has said itself.
    let fd = fd.ok_or_else(|| format!("{} could not be mounted", target.to_string_lossy()))?;
    // SAFETY: a descriptor of our own.
    unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    Ok(fd)
}

/// The descriptor that comes by `socket`.
fn received(socket: &UnixStream) -> Option<RawFd> {
    let (mut byte, mut control) = ([0_u8; 1], [0_u64; 8]);
    let mut part = iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut header: msghdr = crate::files::zeroed();
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    // SAFETY: header and what it names live as long as the calls; a message of SCM_RIGHTS holds a
    // descriptor.
    unsafe {
        loop {
            match libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) {
                1.. => break,
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return None,
            }
        }
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        if first.is_null() || (*first).cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        Some(libc::CMSG_DATA(first).cast::<c_int>().read_unaligned())
    }
}

/// Ends the mount and closes its device `fd`.
pub fn unmount(mount: &mut Mount, fd: RawFd) {
    let mut gone = false;
    if fd >= 0 {
        let mut poll = libc::pollfd {
            fd,
            events: 0,
            revents: 0,
        };
        // SAFETY: one structure; then a descriptor that nobody else has.
        unsafe {
            gone = libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLERR != 0;
            libc::close(fd);
        }
    }
    mount.watched = None;
    let Some(target) = mount.target.take().filter(|_| !gone) else {
        return;
    };
    // SAFETY: a string.
    let done = unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    if done != 0 && mount.by_helper {
        let target = OsStr::from_bytes(target.to_bytes());
        let words = ["-u", "-q", "-z", "--"].map(OsStr::new);
        let words = [&words[..], &[target]].concat();
        if let Ok(mut child) = helper(&words, None) {
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_the_kernels_or_the_helpers() {
        let mut mount = Mount::default();
        for word in [
            "ro",
            "nosuid",
            "allow_other",
            "max_read=4096",
            "fsname=a b",
            "subtype=x",
            "dev",
        ] {
            assert_eq!(mount.take(word), Some(Ok(())), "{word}");
        }
        assert_eq!(mount.take("another"), None);
        assert_eq!(mount.take("allow_root"), Some(Err(())));
        assert_eq!(mount.flags, libc::MS_RDONLY | libc::MS_NOSUID);
        assert_eq!(mount.kernel, ["allow_other", "max_read=4096"]);
        assert_eq!(mount.names(), (c"a b".to_owned(), c"fuse.x".to_owned()));
    }
}
