//! Mounting without privilege, by the set-user-ID program `fusermount3` (package fuse3): it mounts,
//! and sends the descriptor by a socket.

use super::{Failed, MountIdentity, MountPoint, Mounting, NO_DEVICE};
use culvert_sys::{BorrowedFd, net::receive_with};
use rustix::{
    io::FdFlags,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
};
use std::{
    ffi::OsString,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
    process::{Command, Output, Stdio},
};

/// Names of the helper, the newest first.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

pub fn mount(mounting: &Mounting<'_>) -> Result<(OwnedFd, MountIdentity), Failed> {
    if !Path::new(crate::DeviceFuse::PATH).exists() {
        return Err(Failed::new("/dev/fuse: there is none").advise(NO_DEVICE));
    }
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| Failed::new(format!("socketpair: {}", io::Error::from(error))))?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty())
        .map_err(|error| Failed::new(io::Error::from(error).to_string()))?;
    if mounting.rights.no_symlinks {
        return Err(Failed::new("nosymfollow: fusermount3 does not know it")
            .advise("leave it out; root's mounts may have it"));
    }
    // Commas and backslashes separate and quote.
    let name = mounting.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut options = format!(
        "default_permissions,fsname={name},subtype={}",
        mounting.subtype
    );
    if mounting.rights.allow_other {
        options += ",allow_other";
    }
    if mounting.rights.no_exec {
        options += ",noexec";
    }
    if mounting.read_only {
        options += ",ro";
    }
    let arguments = [
        OsString::from("-o"),
        options.into(),
        "--".into(),
        mounting.target.name().into(),
    ];
    let number = theirs.as_raw_fd().to_string();
    let done = run(&arguments, mounting.target, Some(&number))?;
    drop(theirs);
    if !done.status.success() {
        return Err(said(&done, "cannot mount"));
    }
    let device = receive(&ours).ok_or_else(|| Failed::new("fusermount3 sent no descriptor"))?;
    let which = mounting.target.which();
    let which = which.map_err(|error| Failed::new(io::Error::from(error).to_string()))?;
    Ok((device, which))
}

/// The descriptor that comes by `socket`.
fn receive(socket: &OwnedFd) -> Option<OwnedFd> {
    let socket = BorrowedFd::number(socket.as_raw_fd());
    let (_, came) = receive_with(socket, &mut [0], 0).ok()?;
    // SAFETY: nobody else has it.
    came.map(|fd| unsafe { OwnedFd::from_raw_fd(fd.into_raw()) })
}

pub fn unmount(place: &MountPoint, lazy: bool) -> Result<(), Failed> {
    let mut arguments = vec![OsString::from("-u")];
    if lazy {
        arguments.push("-z".into());
    }
    arguments.extend(["--".into(), place.name().into()]);
    let done = run(&arguments, place, None)?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let mut failed = said(&done, "cannot unmount");
            // "Device or resource busy"
            failed.busy = failed.message.contains("busy");
            Err(failed)
        }
    }
}

/// Runs the helper, the first that is there, in the directory of `place`: it looks up the last name
/// alone (`fuse_mnt_resolve_path`, lib/mount_util.c), and finds its directory by getcwd(3).
fn run(arguments: &[OsString], place: &MountPoint, socket: Option<&str>) -> Result<Output, Failed> {
    for helper in HELPERS {
        let mut command = Command::new(helper);
        command
            .args(arguments)
            .current_dir(place.directory())
            .stdin(Stdio::null());
        if let Some(socket) = socket {
            command.env("_FUSE_COMMFD", socket);
        }
        match command.output() {
            Ok(output) => return Ok(output),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failed::new(format!("{helper}: {error}"))),
        }
    }
    Err(Failed::new("fusermount3 is missing, without which only root can mount").advise(
        "install it (Debian: apt install fuse3), or use `culvert run`, which needs no kernel mount",
    ))
}

/// What to do, by what fusermount3 says (fuse-3.14, `util/fusermount.c`).
const ADVICE: [(&str, &str); 9] = [
    (
        "allow_other",
        "users may say --allow-other only with user_allow_other in /etc/fuse.conf",
    ),
    ("/dev/fuse", NO_DEVICE),
    (
        "too many FUSE",
        "end one (culvert list), or have mount_max in /etc/fuse.conf raised; `culvert run` has no \
        such limit",
    ),
    (
        "no write access",
        "users mount on directories that they may write to; `culvert run` wants no such right",
    ),
    (
        "not owned by user",
        "where the sticky bit is set, users mount on directories of their own",
    ),
    (
        "failed to access mountpoint",
        "fusermount3 is root's and may not enter your other mounts: mount beside them, or use \
        `culvert run`",
    ),
    (
        "is forbidden",
        "users mount on ordinary file systems only: give another directory",
    ),
    (
        "Operation not permitted",
        "fusermount3 must be set-user-ID root (chmod u+s), and containers may forbid mounting; \
        `culvert run` needs neither",
    ),
    (
        "resource busy",
        "a program uses it; --lazy takes it from the tree at once",
    ),
];

/// What the helper said.
fn said(output: &Output, what: &str) -> Failed {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().next().unwrap_or("no reason given").to_owned();
    let failed = Failed::new(format!("{what}: {line}"));
    match ADVICE.iter().find(|(said, _)| line.contains(said)) {
        Some((_, advice)) => failed.advise(advice),
        None => failed,
    }
}
