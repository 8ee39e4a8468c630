//! Which FUSE servers there are here, and whether `culvert run` can serve their files.

use super::{Check, good, limited};
use crate::{fuse::Way, program, verdict};
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

/// The way of each server that is installed.
pub fn servers() -> Vec<Check> {
    const NAME: &str = "FUSE server";
    let found = KNOWN.iter().filter_map(|name| {
        let found = program::find(OsStr::new(name)).ok()?;
        Some(match Way::of(&found, None) {
            Ok((Way::Slots, _)) => good(NAME, format!("{name}: intercepted")),
            Ok((Way::WithoutRights, _)) => good(
                NAME,
                format!("{name}: intercepted, without its set-user-ID rights"),
            ),
            Ok((Way::Adapter, _)) => {
                let why = verdict::of_program(&found).err();
                let why = why.map_or_else(String::new, |why| format!(": {}", why.reason));
                good(NAME, format!("{name}: by an adapter{why}"))
            }
            Err(refusal) => {
                let what = format!("{name}: not served in a run: {}", refusal.reason);
                limited(NAME, what, refusal.remedy)
            }
        })
    });
    let found: Vec<_> = found.collect();
    match found.is_empty() {
        true => vec![good("FUSE servers", "none is installed that is known here")],
        false => found,
    }
}
