//! From a target directory to a connection with the kernel, and back.

mod helper;
mod identity;
mod mount_point;
mod system;
pub mod table;

pub use identity::MountIdentity;
pub use mount_point::{MountPoint, mount_point_of};
use std::{fmt, os::fd::OwnedFd};

/// What may be done on a mount.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rights {
    /// Other users than the one who mounts may use it.
    pub allow_other: bool,
    /// Set-user-ID programs on it are that. Only root's mounts may have it.
    pub set_id: bool,
    /// Device files on it are devices. Only root's mounts may have it.
    pub devices: bool,
    /// No program on it is executed.
    pub no_exec: bool,
    /// No symbolic link on it is followed. Only root's mounts may have it.
    pub no_symlinks: bool,
}

/// A mount that is to be made.
#[derive(Clone, Debug)]
pub struct Mounting<'a> {
    /// What mount tables show as the source.
    pub source: &'a str,
    /// What they show as the type, after "fuse.".
    pub subtype: &'a str,
    /// Where, an existing directory.
    pub target: &'a MountPoint,
    /// Nothing can be changed.
    pub read_only: bool,
    /// What may be done on it besides.
    pub rights: Rights,
    /// What mount tables show of times of access, which are the driver's: `MOUNT_ATTR_*`
    /// (mount_setattr(2)). Of root's mounts.
    pub times: u32,
}

impl<'a> Mounting<'a> {
    /// One that can be changed, by nobody but its user, as mount tables show `name` for source and
    /// type.
    pub const fn new(name: &'a str, target: &'a MountPoint) -> Self {
        Self {
            source: name,
            subtype: name,
            target,
            read_only: false,
            rights: Rights {
                allow_other: false,
                set_id: false,
                devices: false,
                no_exec: false,
                no_symlinks: false,
            },
            times: 0,
        }
    }
}

/// Why a mount cannot be made or ended, and what to do about it.
#[derive(Debug)]
pub struct Failed {
    /// What happened, one line.
    pub message: String,
    /// What to do.
    pub advice: Option<&'static str>,
    /// Because something uses the mount (EBUSY).
    pub busy: bool,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failed {}

impl Failed {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            advice: None,
            busy: false,
        }
    }
    const fn advise(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }
}

/// What a user without /dev/fuse can do.
const NO_DEVICE: &str = "`culvert run -v SOURCE:TARGET -- COMMAND` needs no kernel mount; \
    containers need --device /dev/fuse";

/// Makes the mount; the connection, on which INIT waits, and which mount it is. Root mounts by
/// itself, others by `fusermount3`.
///
/// # Errors
/// [`Failed`] with what to do: no /dev/fuse, no `fusermount3`, no permission.
pub fn mount(mounting: &Mounting<'_>) -> Result<(OwnedFd, MountIdentity), Failed> {
    match rustix::process::geteuid().is_root() {
        true => system::mount(mounting),
        false => helper::mount(mounting),
    }
}

/// Ends `mount`, wherever it is by now; with `lazy` also while it is in use: it is gone from the
/// tree at once, and ends with its last user.
///
/// # Errors
/// [`Failed`]: it is gone or below another one, in use, somebody else's.
pub fn unmount(mount: &MountIdentity, lazy: bool) -> Result<(), Failed> {
    let Some(place) = mount_point_of(mount) else {
        return Err(Failed::new(
            "cannot unmount: the mount is gone, or another one lies over it",
        ));
    };
    match rustix::process::geteuid().is_root() {
        true => system::unmount(&place, lazy),
        false => helper::unmount(&place, lazy),
    }
}
