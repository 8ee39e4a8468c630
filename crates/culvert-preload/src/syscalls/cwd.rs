//! The working directory.
//!
//! One in a mount is kept here by node; the kernel's is then an empty directory of the run
//! directory that stands for it, so that it survives fork and exec. In a mount that is a tree of
//! the kernel's own, the kernel's is the real one.

use super::arguments::{At, descriptor};
use super::path::{on_path, refuse_inside};
use crate::answer::{Answer, FORWARD};
use crate::process::{Here, Keeper, Process};
use crate::vfs::path::{Found, Given, existing, find};
use crate::vfs::working_directory::{INSIDE, backed_path, enter};
use alloc::vec;
use alloc::vec::Vec;
use culvert::{Errno, FileKind, Rights};
use culvert_intercept::{Call, user};
use culvert_mounts::Place;
use culvert_mounts::resolver::{Last, LastStep};
use culvert_run::memory::PathBuffer;
use culvert_run::{ROOT, stat_path, task};
use culvert_sys::fd::CWD;
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::raw::general::{O_DIRECTORY, O_PATH, STATX_INO, STATX_MNT_ID};

/// The identity of the working directory that the kernel has gone to.
fn identity_of_here(process: &Process, _: &Call) -> Option<(u64, u64)> {
    if !process.targets_exist {
        return None;
    }
    stat_path(c".")
        .ok()
        .map(|found| (found.st_dev, found.st_ino))
}

/// chdir(2)
pub fn chdir(process: &Process, call: &mut Call) -> Answer {
    let at = At::new(0, LastStep::Follow);
    let went = on_path(process, call, at, Some(identity_of_here), |_, found| {
        let attributes = *existing(found)?;
        let mounts = &process.mounts;
        let node = attributes.node;
        let reference = found.references.take(mounts, found.mount, node);
        let keeper = Keeper::node(found.mount, node, reference);
        if keeper.is_gone() && matches!(found.last, Last::Name(_)) {
            // It is looked for again.
            return Err(Errno::ESTALE);
        }
        enter(process, found.mount, &attributes, keeper)?;
        Ok(INSIDE)
    })?;
    if went != INSIDE {
        process.set_working_directory(None);
    }
    Ok(0)
}

/// fchdir(2)
pub fn fchdir(process: &Process, call: &mut Call) -> Answer {
    if let Some(held) = descriptor(process, call.args[0]) {
        let attributes = crate::description::described(&held)?;
        let fd = call.args[0] as i32;
        let keeper = Keeper::Description(process.table.reference(fd).ok_or(Errno::EBADF)?);
        return enter(process, held.mount, &attributes, keeper);
    }
    // The program has no descriptor of that number.
    if process.run.is_internal(call.args[0] as i32) {
        return Err(Errno::EBADF);
    }
    let answer = call.execute()?;
    if let Some(mount) = process.table.backed(call.args[0] as i32) {
        process.set_working_directory(Some((Here::Backed(mount), Keeper::nothing())));
        return Ok(answer);
    }
    process.set_working_directory(None);
    let mount =
        identity_of_here(process, call).and_then(|(dev, ino)| process.mounts.is_target(dev, ino));
    let Some(mount) = mount else {
        return Ok(answer);
    };
    if let Some(backing) = crate::backing::of(mount) {
        let entered = culvert_sys::fs::fchdir(culvert_sys::BorrowedFd::number(backing.root));
        process.set_working_directory(Some((Here::Backed(mount), Keeper::nothing())));
        return entered.map(|()| 0);
    }
    let driver = culvert_cache::file_system(mount)?;
    let attributes = driver
        .attributes(&task::caller(), driver.root())
        .map_err(|error| error.errno())?;
    enter(process, mount, &attributes, Keeper::nothing())
}

/// getcwd(2)
pub fn getcwd(process: &Process, call: &mut Call) -> Answer {
    let [buffer, size, ..] = call.args;
    let here = process.with_working_directory(|here| match here {
        Some(here @ (Here::Place(Place::Mount { .. }) | Here::Backed(_))) => Some(here.clone()),
        _ => None,
    });
    let here = here.ok_or(FORWARD)?;
    let mut path = match here {
        Here::Place(place) => process
            .mounts
            .path_of(&place)
            .map_err(|error| error.errno())?,
        Here::Backed(mount) => backed_path(mount)?,
    };
    path.push(0);
    // As fs/d_path.c: glibc builds a longer name itself, and takes ERANGE for its own mistake.
    if path.len() > LONGEST_WITH_NUL {
        return Err(Errno::ENAMETOOLONG);
    }
    if path.len() > size {
        return Err(Errno::ERANGE);
    }
    user::copy_out(buffer, &path)
        .map(|()| path.len())
        .map_err(|_| Errno::EFAULT)
}

/// PATH_MAX: what the kernel can say of a directory, its NUL counted.
const LONGEST_WITH_NUL: usize = 4096;

/// chroot(2): the root of a driver's mount can be had, once; another directory of a mount cannot;
/// after one outside, mounts are out of reach. The root that the process has already changes
/// nothing.
pub fn chroot(process: &Process, call: &mut Call) -> Answer {
    if let Some(answer) = enter_root(process, call) {
        return answer;
    }
    let root = root_to_be(call.args[0]);
    crate::strangers::before_leaving();
    let before = root_now();
    let at = At::new(0, LastStep::Follow);
    let answer = refuse_inside(process, call, at, Errno::EOPNOTSUPP);
    if answer == Ok(0) && (before.is_none() || before != root_now()) {
        task::leave();
        let reason = "it has changed its root directory, and is out of their reach from here on";
        // Elsewhere it would not see mounts of the kernel's either.
        let below = |path: &[u8]| {
            let root = root
                .as_deref()
                .map(|root| root.strip_suffix(b"/").unwrap_or(root));
            root.is_some_and(|root| {
                path.strip_prefix(root)
                    .is_some_and(|rest| rest.starts_with(b"/"))
            })
        };
        if process
            .mounts
            .ids()
            .any(|mount| below(process.mounts.target(mount)))
        {
            let own = culvert_run::read_link(c"/proc/self/exe");
            let name = own.as_deref().unwrap_or(b"this program");
            crate::notice::mounts_are_lost(
                name,
                reason,
                "`culvert mount` shows the same files below every root",
            );
        } else {
            culvert_sys::log!("chroot: {reason}");
        }
    }
    answer
}

/// chroot(2) of the root of a driver's mount, or within one. None: it is neither.
fn enter_root(process: &Process, call: &mut Call) -> Option<Answer> {
    let mut room = PathBuffer::new();
    let path = room.read(call.args[0]).ok()?;
    let found = match find(process, Given::here(path, LastStep::Follow)) {
        Ok(Found::Inside(found)) => found,
        found if process.mounts.root().is_some() || process.flags & ROOT != 0 => {
            return Some(Err(found.err().unwrap_or(Errno::EOPNOTSUPP)));
        }
        _ => return None,
    };
    let attributes = *existing(&found).ok()?;
    let driver = culvert_cache::file_system(found.mount).ok()?;
    if attributes.kind != FileKind::Directory {
        return Some(Err(Errno::ENOTDIR));
    }
    if process.flags & ROOT == 0 && !task::caller().has(Rights::SYS_CHROOT) {
        return Some(Err(Errno::EPERM));
    }
    // A child of vfork has its parent's table of mounts.
    if attributes.node != driver.root() || task::vfork_child().is_some() {
        return Some(Err(Errno::EOPNOTSUPP));
    }
    let entered = process.enter_root(found.mount);
    Some(entered.map(|()| 0).map_err(|_| Errno::EOPNOTSUPP))
}

/// pivot_root(2): likewise, but that the mounts stay where they were.
pub fn pivot_root(process: &Process, call: &mut Call) -> Answer {
    crate::strangers::before_leaving();
    process.forget_what_kernel_sees();
    refuse_inside(process, call, At::new(0, LastStep::Follow), Errno::EINVAL)
}

/// Which directory is the root, on which mount; none where the kernel does not say.
fn root_now() -> Option<[u64; 3]> {
    const WANTED: u32 = STATX_INO | STATX_MNT_ID;
    if task::is_confined() {
        return None;
    }
    let found = fs::statx(CWD, c"/", AtFlags::from_bits(0), WANTED).ok()?;
    let device = u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor);
    let is_told = found.stx_mask & WANTED == WANTED;
    is_told.then_some([found.stx_ino, device, found.stx_mnt_id])
}

/// The path of the directory that the program's `address` names, where the kernel sees one.
fn root_to_be(address: usize) -> Option<Vec<u8>> {
    if task::is_confined() {
        return None;
    }
    let mut path = vec![0u8; 4096];
    let length = culvert_intercept::user::string_in(address, &mut path).ok()?;
    path.truncate(length);
    let root = culvert_run::files::open(
        &culvert_run::files::c_string(&path),
        O_PATH | O_DIRECTORY,
        0,
    )
    .ok()?;
    culvert_run::descriptor_path(root.raw()).ok()
}
