//! Mounting as root: fsopen(2) and its kin, mount(2) where those are missing.

use super::{Failed, MountIdentity, MountPoint, Mounting, NO_DEVICE};
use crate::channel::DeviceFuse;
use culvert_sys::raw::general::MS_NOSYMFOLLOW;
use rustix::{
    fs::OFlags,
    io::Errno,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags},
};
use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

/// `MOUNT_ATTR_NOSYMFOLLOW` (linux/mount.h, Linux 5.14).
const NO_SYMFOLLOW: MountAttrFlags = MountAttrFlags::from_bits_retain(0x20_0000);

impl Mounting<'_> {
    /// What nobody may do on it, by bits that mean the same to mount(2) and fsmount(2).
    fn forbidden(&self) -> u32 {
        let bits = [
            (self.read_only, MountFlags::RDONLY),
            (!self.rights.set_id, MountFlags::NOSUID),
            (!self.rights.devices, MountFlags::NODEV),
            (self.rights.no_exec, MountFlags::NOEXEC),
        ];
        let wanted = bits.into_iter().filter(|(wanted, _)| *wanted);
        wanted.map(|(_, bit)| bit.bits()).sum()
    }
}

/// Opens the device, or says what to do without.
fn device() -> Result<OwnedFd, Failed> {
    DeviceFuse::open().map_err(|error| {
        let failed = |why: &str| Failed::new(format!("/dev/fuse: {why}")).advise(NO_DEVICE);
        match error.kind() {
            io::ErrorKind::NotFound => failed("there is none"),
            _ => match error.raw_os_error() {
                Some(19 | 6) => failed("the kernel has no FUSE (modprobe fuse)"),
                Some(number @ 1..4096) => failed(culvert_sys::Errno::new(number).text()),
                _ => failed(&error.to_string()),
            },
        }
    })
}

pub fn mount(mounting: &Mounting<'_>) -> Result<(OwnedFd, MountIdentity), Failed> {
    let device = device()?;
    // fsconfig(2) takes strings of at most 255 bytes, mount(2) a page of them.
    let made = match mounting.source.len() {
        0..=255 => by_parts(mounting, &device),
        _ => Err(Errno::NOSYS),
    };
    let made = match made {
        Err(Errno::NOSYS) => at_once(mounting, &device),
        made => made,
    };
    match made {
        Ok(which) => Ok((device, which)),
        Err(error) => Err(refused(mounting.target.path(), error)),
    }
}

/// The words of strerror(3).
fn reason(error: Errno) -> &'static str {
    culvert_sys::Errno::new(error.raw_os_error()).text()
}

fn refused(target: &Path, error: Errno) -> Failed {
    let failed = Failed::new(format!(
        "cannot mount on {}: {}",
        target.display(),
        reason(error)
    ));
    match error {
        Errno::PERM | Errno::ACCESS => failed.advise(
            "mounting needs CAP_SYS_ADMIN; `culvert run` needs no kernel mount and no privilege",
        ),
        Errno::NODEV => failed.advise(NO_DEVICE),
        Errno::NOSPC => {
            failed.advise("this namespace has all the mounts it may (sysctl fs.mount-max)")
        }
        _ => failed,
    }
}

/// The mount API of Linux 5.2.
fn by_parts(mounting: &Mounting<'_>, device: &OwnedFd) -> rustix::io::Result<MountIdentity> {
    use rustix::mount::{
        fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
    };
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let context = context.as_fd();
    let number = device.as_raw_fd().to_string();
    let owner = (
        rustix::process::geteuid().as_raw().to_string(),
        rustix::process::getegid().as_raw().to_string(),
    );
    fsconfig_set_string(context, "source", mounting.source)?;
    fsconfig_set_string(context, "subtype", mounting.subtype)?;
    fsconfig_set_string(context, "fd", &*number)?;
    fsconfig_set_string(context, "rootmode", "40000")?;
    fsconfig_set_string(context, "user_id", &*owner.0)?;
    fsconfig_set_string(context, "group_id", &*owner.1)?;
    fsconfig_set_flag(context, "default_permissions")?;
    if mounting.rights.allow_other {
        fsconfig_set_flag(context, "allow_other")?;
    }
    if mounting.read_only {
        fsconfig_set_flag(context, "ro")?;
    }
    fsconfig_create(context)?;
    let mut flags = MountAttrFlags::from_bits_retain(mounting.times | mounting.forbidden());
    flags.set(NO_SYMFOLLOW, mounting.rights.no_symlinks);
    let made = fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    let which = MountIdentity::holding(made.as_fd())?;
    let there = mounting.target.directory_there(OFlags::PATH)?;
    move_mount(
        made.as_fd(),
        "",
        there.as_fd(),
        "",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH,
    )?;
    Ok(which)
}

/// mount(2).
fn at_once(mounting: &Mounting<'_>, device: &OwnedFd) -> rustix::io::Result<MountIdentity> {
    let mut options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw()
    );
    if mounting.rights.allow_other {
        options += ",allow_other";
    }
    let mut flags = MountFlags::from_bits_retain(mounting.forbidden());
    let no_symlinks = MountFlags::from_bits_retain(MS_NOSYMFOLLOW);
    flags.set(no_symlinks, mounting.rights.no_symlinks);
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    let kind = format!("fuse.{}", mounting.subtype);
    let there = mounting.target.directory_there(OFlags::PATH)?;
    rustix::mount::mount(
        mounting.source,
        format!("/proc/self/fd/{}", there.as_raw_fd()),
        &*kind,
        flags,
        Some(options.as_c_str()),
    )?;
    mounting.target.which()
}

pub fn unmount(place: &MountPoint, lazy: bool) -> Result<(), Failed> {
    let mut flags = UnmountFlags::NOFOLLOW;
    if lazy {
        flags |= UnmountFlags::DETACH;
    }
    rustix::mount::unmount(place.reached(), flags).map_err(|error| {
        let mut failed = Failed::new(format!(
            "cannot unmount {}: {}",
            place.path().display(),
            reason(error)
        ));
        failed.busy = error == Errno::BUSY;
        match error {
            Errno::BUSY => {
                failed.advise("a program uses it; --lazy takes it from the tree at once")
            }
            Errno::INVAL => failed.advise(
                "it is no mount, or one that this user namespace got from outside: who made it \
                there can end it",
            ),
            Errno::PERM => failed.advise("it takes CAP_SYS_ADMIN; the mount's user may end it"),
            _ => failed,
        }
    })
}
