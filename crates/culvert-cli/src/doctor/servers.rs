//! Which FUSE servers there are here, and whether `culvert run` can serve their files.

use super::{Check, good, limited};
use crate::{program, verdict};
use std::ffi::OsStr;

/// Those of docs/drivers/fuse-servers.md.
const KNOWN: &[&str] = &[
    "archivemount",
    "avfsd",
    "bindfs",
    "borg",
    "curlftpfs",
    "encfs",
    "fuse2fs",
    "fuse-overlayfs",
    "fuse-zip",
    "fuseiso",
    "gocryptfs",
    "goofys",
    "juicefs",
    "lowntfs-3g",
    "mergerfs",
    "mount.exfat-fuse",
    "mount-s3",
    "mp3fs",
    "ntfs-3g",
    "ratarmount",
    "rclone",
    "restic",
    "s3fs",
    "squashfuse",
    "sshfs",
    "unionfs",
];

/// Of each server that is installed, whether it is intercepted.
pub fn servers() -> Check {
    const NAME: &str = "FUSE servers";
    let (mut taken, mut not) = (Vec::new(), Vec::new());
    for name in KNOWN {
        let Ok(found) = program::find(OsStr::new(name)) else {
            continue;
        };
        match verdict::of_program(&found) {
            Ok(_) => taken.push(*name),
            Err(refusal) => not.push(format!("{name} is not: {}", refusal.reason)),
        }
    }
    let found = match (taken.is_empty(), not.is_empty()) {
        (true, true) => return good(NAME, "none is installed that is known here"),
        (true, false) => "none is intercepted".to_owned(),
        _ => format!("intercepted: {}", taken.join(", ")),
    };
    match not.is_empty() {
        true => good(NAME, found),
        false => limited(NAME, found, &not.join("; ")),
    }
}
