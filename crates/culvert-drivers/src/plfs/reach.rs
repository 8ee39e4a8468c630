//! Which back ends several machines share, and whether flock(2) there excludes all of them.

use super::layout::number;
use crate::archive::host as files;
use crate::passthrough::kernel;
use alloc::{format, string::String, vec::Vec};
use culvert::Result;
use culvert_sys::fd::AsFd;
use culvert_sys::fs;

/// What statfs(2) says of file systems whose client caches what others do not see at once.
pub const NFS: u64 = 0x6969;
const FUSE: u64 = 0x6573_5546;
const SMB: u64 = 0xfe53_4d42;
const BEEGFS: u64 = 0x1983_0326;
const LUSTRE: u64 = 0x0bd0_0bd0;

/// File systems behind FUSE whose servers keep flock(2) for all machines.
const KNOWN: [&[u8]; 2] = [b"fuse.glusterfs", b"fuse.ceph"];

/// How far a back end reaches.
#[derive(Debug, PartialEq, Eq)]
pub struct Reach {
    /// Other machines see what was written when it was synced, and not before.
    pub syncs: bool,
    /// Why flock(2) may exclude processes of this machine alone; none: it reaches all.
    pub alone: Option<String>,
}

/// How far the file system of `root` reaches.
pub fn of(root: impl AsFd) -> Result<Reach> {
    let kind = fs::fstatfs(&root)?.f_type as u64;
    let syncs = matches!(kind, NFS | FUSE | SMB | BEEGFS);
    if !syncs && kind != LUSTRE {
        return Ok(Reach { syncs, alone: None });
    }
    let status = kernel::status(&root, None)?;
    let device = (status.stx_dev_major, status.stx_dev_minor);
    let table = mount_table().unwrap_or_default();
    Ok(Reach {
        syncs,
        alone: alone(kind, mounted(&table, device)),
    })
}

/// A line of mountinfo (proc_pid_mountinfo(5)): the file system's type, and its options.
type Mounted<'a> = (&'a [u8], &'a [u8]);

fn alone(kind: u64, mounted: Option<Mounted<'_>>) -> Option<String> {
    let (name, options) = mounted.unwrap_or_default();
    let has = |one: &[u8]| {
        options
            .split(|&byte| byte == b',')
            .any(|other| other == one)
    };
    let text = |name: &str, why: &str| Some(format!("{name}, {why}"));
    match kind {
        NFS if has(b"nolock") || has(b"local_lock=all") || has(b"local_lock=flock") => {
            text("NFS", "mounted with locks of this machine's own")
        }
        NFS => None,
        LUSTRE if has(b"noflock") || has(b"localflock") => text("Lustre", "mounted without flock"),
        LUSTRE => None,
        FUSE if KNOWN.contains(&name) => None,
        FUSE => text(
            "FUSE",
            "where most servers keep no locks for other machines",
        ),
        BEEGFS => text(
            "BeeGFS",
            "which keeps locks for all machines with tuneUseGlobalFileLocks alone",
        ),
        _ => text("SMB", "where flock(2) is each machine's own"),
    }
}

fn mount_table() -> Option<Vec<u8>> {
    let file = files::open_read(b"/proc/self/mountinfo").ok()?;
    let mut text = Vec::new();
    loop {
        text.reserve(1 << 16);
        if fs::read_more(&file, &mut text).ok()? == 0 {
            return Some(text);
        }
    }
}

/// The mount of `device` in `table`.
fn mounted(table: &[u8], device: (u32, u32)) -> Option<Mounted<'_>> {
    table.split(|&byte| byte == b'\n').find_map(|line| {
        let mut words = line.split(|&byte| byte == b' ');
        let mut numbers = words.nth(2)?.split(|&byte| byte == b':');
        let mut next = || number(numbers.next()?);
        if (next()?, next()?) != (device.0.into(), device.1.into()) {
            return None;
        }
        // Optional fields end at a dash.
        words.find(|word| *word == b"-")?;
        Some((words.next()?, words.nth(1)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"21 1 0:19 / / rw shared:1 master:2 - ext4 /dev/vda rw\n\
        36 35 0:45 / /vol rw,relatime - fuse.glusterfs 10.99.0.1:/shared rw,user_id=0\n\
        37 35 0:46 / /s rw - fuse.sshfs host: rw\n\
        38 35 0:47 / /n rw - nfs4 host:/ rw,vers=4.2,local_lock=none,addr=10.0.0.1\n\
        39 35 0:48 / /m rw - nfs host:/ rw,vers=3,nolock,addr=10.0.0.1\n\
        40 35 0:49 / /l rw - lustre mgs:/l rw,localflock\n";

    #[test]
    fn the_mount_table_says_whose_locks_reach_all_machines() {
        let of = |kind, minor| alone(kind, mounted(TABLE, (0, minor)));
        for (kind, minor) in [(FUSE, 45), (NFS, 47), (LUSTRE, 99)] {
            assert_eq!(of(kind, minor), None, "{minor}");
        }
        for (kind, minor) in [(FUSE, 46), (FUSE, 99), (NFS, 48), (LUSTRE, 49), (BEEGFS, 1)] {
            assert!(of(kind, minor).is_some(), "{minor}");
        }
        let found = mounted(TABLE, (0, 19)).unwrap();
        assert_eq!(found, (&b"ext4"[..], &b"rw"[..]));
        assert_eq!(mounted(b"\n1 2 x:y / /\n", (0, 0)), None);
    }
}
