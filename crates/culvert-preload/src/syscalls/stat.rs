//! stat and its relatives, readlink, statfs.

use super::arguments::{At, descriptor, is_empty, last_step, on_empty_path};
use super::path::{Identity, by_text, on_path, on_path_or_at_once};
use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use crate::vfs::native::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use crate::vfs::node::On;
use crate::vfs::path::{AtOnce, existing, is_kernels};
use crate::vfs::readlink;
use crate::vfs::targets::adopt_target;
use culvert::{Attributes, Errno, Node};
use culvert_intercept::{Call, user};
use culvert_mounts::MountId;
use culvert_mounts::resolver::{Inside, LastStep};
use culvert_run::memory::{self, PathBuffer};
use culvert_sys::nr;

const AT_NO_AUTOMOUNT: usize = 0x800;

const AT_STATX_SYNC_TYPE: usize = 0x6000;

/// `st_dev` of a mount: anonymous (major 0), with minors that the kernel's own counter never
/// reaches.
fn device(mount: MountId) -> u64 {
    let minor = 0xc0000 + u64::from(mount.0);
    (minor & 0xff) | (minor & !0xff) << 12
}

/// The bytes of a `struct stat` (x86-64, 144 bytes).
fn stat_bytes(mount: MountId, attributes: &Attributes) -> [u8; 144] {
    let mut out = [0u8; 144];
    let mut put = |at: usize, value: u64| out[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    put(0, device(mount));
    put(8, attributes.inode);
    put(16, u64::from(attributes.links));
    put(
        24,
        u64::from(attributes.mode()) | u64::from(attributes.uid) << 32,
    );
    put(32, u64::from(attributes.gid));
    put(40, attributes.rdev);
    put(48, attributes.size);
    put(56, u64::from(attributes.block_size));
    put(64, attributes.blocks);
    for (at, time) in [
        (72, attributes.atime),
        (88, attributes.mtime),
        (104, attributes.ctime),
    ] {
        put(at, time.seconds as u64);
        put(at + 8, u64::from(time.nanoseconds));
    }
    out
}

fn give_stat(address: usize, on: On<'_>) -> Answer {
    give(address, &stat_bytes(on.mount(), &on.attributes()?))
}

/// The program gets `bytes` at `address`.
fn give(address: usize, bytes: &[u8]) -> Answer {
    let given = user::copy_out(address, bytes);
    given.map(|()| 0).map_err(|_| Errno::EFAULT)
}

/// `STATX_BTIME`.
const BTIME: u32 = 0x800;

/// The bytes of a `struct statx` (256 bytes).
fn statx_bytes(mount: MountId, attributes: &Attributes, is_root: bool) -> [u8; 256] {
    const BASIC: u32 = 0x7ff;
    const MNT_ID: u32 = 0x1000;
    const ATTR_MOUNT_ROOT: u64 = 0x2000;
    let mut out = [0u8; 256];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    let mask = BASIC | MNT_ID | if attributes.btime.is_some() { BTIME } else { 0 };
    put(0, &mask.to_ne_bytes());
    put(4, &attributes.block_size.to_ne_bytes());
    put(
        8,
        &(if is_root { ATTR_MOUNT_ROOT } else { 0 }).to_ne_bytes(),
    );
    put(16, &attributes.links.to_ne_bytes());
    put(20, &attributes.uid.to_ne_bytes());
    put(24, &attributes.gid.to_ne_bytes());
    put(28, &(attributes.mode() as u16).to_ne_bytes());
    put(32, &attributes.inode.to_ne_bytes());
    put(40, &attributes.size.to_ne_bytes());
    put(48, &attributes.blocks.to_ne_bytes());
    put(56, &ATTR_MOUNT_ROOT.to_ne_bytes());
    for (at, time) in [
        (64, Some(attributes.atime)),
        (80, attributes.btime),
        (96, Some(attributes.ctime)),
        (112, Some(attributes.mtime)),
    ] {
        let time = time.unwrap_or_default();
        put(at, &time.seconds.to_ne_bytes());
        put(at + 8, &time.nanoseconds.to_ne_bytes());
    }
    let split = |dev: u64| {
        (
            ((dev >> 8) & 0xfff | (dev >> 32) & !0xfff) as u32,
            ((dev & 0xff) | (dev >> 12) & !0xff) as u32,
        )
    };
    for (at, dev) in [(128, attributes.rdev), (136, device(mount))] {
        let (major, minor) = split(dev);
        put(at, &major.to_ne_bytes());
        put(at + 4, &minor.to_ne_bytes());
    }
    put(
        144,
        &crate::vfs::proc_files::mount_number(mount).to_ne_bytes(),
    );
    out
}

fn give_statx(address: usize, mask: usize, on: On<'_>) -> Answer {
    let wants_birth = mask & BTIME as usize != 0;
    let birth = wants_birth.then(|| on.birth_time()).flatten();
    let mut attributes = on.attributes()?;
    attributes.btime = attributes.btime.or(birth);
    let is_root = on.file_system()?.root() == attributes.node;
    give(address, &statx_bytes(on.mount(), &attributes, is_root))
}

fn identity_in(address: usize) -> Option<(u64, u64)> {
    let mut both = [0u8; 16];
    user::copy_in(&mut both, address).ok()?;
    let word = |at: usize| u64::from_ne_bytes(core::array::from_fn(|i| both[at + i]));
    Some((word(0), word(8)))
}

/// stat(2), lstat(2)
pub fn stat(process: &Process, call: &mut Call) -> Answer {
    let last = match call.number {
        nr::LSTAT => LastStep::NoFollow,
        _ => LastStep::Follow,
    };
    stat_at(process, call, At::new(0, last))
}

/// stat of a path, whose answer goes where the argument behind it says.
fn stat_at(process: &Process, call: &mut Call, at: At) -> Answer {
    let buffer = call.args[at.path + 1];
    let identity: Identity = match at.directory {
        None => |_, call| identity_in(call.args[1]),
        Some(_) => |_, call| identity_in(call.args[2]),
    };
    let ask = |place: &AtOnce<'_>| {
        let found = place.attributes()?;
        Some(found.and_then(|found| give(buffer, &stat_bytes(place.mount, &found))))
    };
    on_path_or_at_once(process, call, at, Some(identity), Some(ask), |_, found| {
        give_stat(buffer, On::Found(found))
    })
}

/// fstat(2)
pub fn fstat(process: &Process, call: &mut Call) -> Answer {
    let Some(held) = descriptor(process, call.args[0]) else {
        return fstat_foreign(process, call);
    };
    give_stat(call.args[1], On::Held(&held))
}

/// fstat of a foreign descriptor: one on the empty directory under a mount becomes the mount's
/// root.
fn fstat_foreign(process: &Process, call: &mut Call) -> Answer {
    if process.run.is_internal(call.args[0] as i32) {
        return Err(Errno::EBADF);
    }
    if !process.targets_exist {
        return Err(FORWARD);
    }
    let answer = call.execute();
    let mount = answer
        .ok()
        .and_then(|_| identity_in(call.args[1]))
        .and_then(|(dev, ino)| process.mounts.is_target(dev, ino));
    match mount {
        Some(mount) if adopt_target(process, call.args[0] as i32, mount).is_ok() => {
            fstat(process, call)
        }
        _ => answer,
    }
}

/// newfstatat(2)
pub fn newfstatat(process: &Process, call: &mut Call) -> Answer {
    let [fd, path, buffer, flags, ..] = call.args;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH) != 0 {
        return Err(FORWARD);
    }
    if flags & AT_EMPTY_PATH != 0 && is_empty(path) {
        return match on_empty_path(process, fd, |on| give_stat(buffer, on)) {
            Some(outcome) => outcome,
            None if fd as i32 >= 0 => fstat_foreign(
                process,
                &mut Call {
                    number: nr::FSTAT,
                    args: [fd, buffer, 0, 0, 0, 0],
                },
            ),
            None => Err(FORWARD),
        };
    }
    stat_at(process, call, At::below(0, last_step(flags)))
}

/// statx(2)
pub fn statx(process: &Process, call: &mut Call) -> Answer {
    let [fd, path, flags, mask, buffer, _] = call.args;
    const STATX_RESERVED: usize = 0x8000_0000;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE) != 0
        || mask & STATX_RESERVED != 0
        || flags & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE
    {
        return Err(FORWARD);
    }
    if flags & AT_EMPTY_PATH != 0 && is_empty(path) {
        return on_empty_path(process, fd, |on| give_statx(buffer, mask, on))
            .unwrap_or(Err(FORWARD));
    }
    let at = At::below(0, last_step(flags));
    let ask = |place: &AtOnce<'_>| {
        let found = place.attributes()?;
        // The time of birth is asked for by itself where it is not among them.
        if mask & BTIME as usize != 0 && found.as_ref().is_ok_and(|found| found.btime.is_none()) {
            return None;
        }
        Some(found.and_then(|found| give(buffer, &statx_bytes(place.mount, &found, false))))
    };
    let identity: Identity = identity_of_statx;
    on_path_or_at_once(process, call, at, Some(identity), Some(ask), |_, found| {
        give_statx(buffer, mask, On::Found(found))
    })
}

fn identity_of_statx(_: &Process, call: &Call) -> Option<(u64, u64)> {
    let buffer = call.args[4];
    let (inode, major, minor): (u64, u32, u32) = (
        memory::get(buffer + 32).ok()?,
        memory::get(buffer + 136).ok()?,
        memory::get(buffer + 140).ok()?,
    );
    let (major, minor) = (u64::from(major), u64::from(minor));
    Some((
        (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32,
        inode,
    ))
}

fn give_text(text: &[u8], buffer: usize, size: usize) -> Answer {
    let count = text.len().min(size);
    user::copy_out(buffer, &text[..count])
        .map(|()| count)
        .map_err(|_| Errno::EFAULT)
}

/// readlink(2), readlinkat(2)
pub fn readlink(process: &Process, call: &mut Call) -> Answer {
    let below = call.number == nr::READLINKAT;
    let at = At::of(below, 0, LastStep::NoFollow);
    let (path, buffer) = (call.args[at.path], call.args[at.path + 1]);
    let size = call.args[at.path + 2];
    if (size as i32) <= 0 {
        return Err(FORWARD);
    }
    if below && path != 0 && is_empty(path) {
        let give = |on: On<'_>| give_text(&readlink::target(on, Errno::ENOENT)?, buffer, size);
        return on_empty_path(process, call.args[0], give).unwrap_or(Err(FORWARD));
    }
    let mut room = PathBuffer::new();
    let path = room.read(path)?;
    let inside = |_: &Call, found: &mut Inside<'_>| {
        let target = readlink::target(On::Found(found), Errno::EINVAL)?;
        give_text(&target, buffer, size)
    };
    // realpath(3) asks so for each directory on its way.
    if !path.starts_with(b"/proc/") && is_kernels(process, path) {
        return by_text(process, call, at.given(call, path), at, None, inside);
    }
    if let Some(text) = readlink::of_proc(process, at.directory_of(call), path) {
        return give_text(&text?, buffer, size);
    }
    on_path(process, call, at, None, inside)
}

/// The bytes of a `struct statfs` (120 bytes).
fn give_statfs((mount, node): (MountId, Node), buffer: usize) -> Answer {
    const ST_RDONLY: u64 = 1;
    const ST_VALID: u64 = 0x20;
    let of = culvert_cache::file_system(mount)?
        .statfs_of(node)
        .map_err(|error| error.errno())?;
    let words: [u64; 15] = [
        of.magic,
        u64::from(of.block_size),
        of.blocks,
        of.blocks_free,
        of.blocks_available,
        of.files,
        of.files_free,
        device(mount),
        u64::from(of.name_max),
        u64::from(of.block_size),
        ST_VALID | if of.read_only { ST_RDONLY } else { 0 },
        0,
        0,
        0,
        0,
    ];
    let mut bytes = [0u8; 120];
    for (i, word) in words.iter().enumerate() {
        bytes[i * 8..i * 8 + 8].copy_from_slice(&word.to_ne_bytes());
    }
    user::copy_out(buffer, &bytes)
        .map(|()| 0)
        .map_err(|_| Errno::EFAULT)
}

/// statfs(2)
pub fn statfs(process: &Process, call: &mut Call) -> Answer {
    let at = At::new(0, LastStep::Follow);
    on_path(process, call, at, None, |call, found| {
        let node = existing(found)?.node;
        give_statfs((found.mount, node), call.args[1])
    })
}

/// fstatfs(2)
pub fn fstatfs(process: &Process, call: &mut Call) -> Answer {
    let held = descriptor(process, call.args[0]).ok_or(FORWARD)?;
    give_statfs((held.mount, held.node), call.args[1])
}

/// name_to_handle_at(2): no handles on mounts.
pub fn name_to_handle_at(process: &Process, call: &mut Call) -> Answer {
    const AT_SYMLINK_FOLLOW: usize = 0x400;
    let [fd, path, .., flags, _] = call.args;
    if flags & AT_EMPTY_PATH != 0 && is_empty(path) {
        return if descriptor(process, fd).is_some() {
            Err(Errno::EOPNOTSUPP)
        } else {
            Err(FORWARD)
        };
    }
    let last = if flags & AT_SYMLINK_FOLLOW != 0 {
        LastStep::Follow
    } else {
        LastStep::NoFollow
    };
    super::path::refuse_inside(process, call, At::below(0, last), Errno::EOPNOTSUPP)
}
