//! Nodes that go to the next program by descriptors of what they are, for it would not find them by
//! their paths (culvert-run, `node_paths.rs`): directories that were removed, and what lies where
//! it may not be searched any more. Open files go so that it may not open again: their mode has
//! changed since, or the process's user.
//!
//! The variable names the descriptors, which are hidden there as all of Culvert's are. Those of
//! nodes are closed once the node is known, or at the next exec, which gets those that were not
//! looked for. Those of open files are closed at the next exec, which gets anew what it needs: what
//! the program has closed does not go on.

use crate::description::{Description, Object};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};
use culvert::{Access, Caller, Entry, FileKind, FileSystem, OpenFlags, Opened};
use culvert_intercept::descriptors as classes;
use culvert_run::files::{dup_high, kernel_flags};
use culvert_run::task::{self, tables};
use culvert_run::{ShadowName, node_paths, stat_descriptor};
use culvert_sys::OwnedFd;
use culvert_sys::raw::general::{O_APPEND, O_DIRECT, O_PATH, O_RDWR};
use culvert_sys::sync::Mutex;

/// More than this are not handed down.
const MOST: usize = 64;
/// What flags say of the right to read and to write.
const HOW: u32 = 3 | O_PATH;

/// What this program was given and has not looked for.
static GIVEN: Mutex<Vec<(u16, &'static AtomicI32)>> = Mutex::new(Vec::new());

/// What this program has inherited need not be looked for: there is nothing, or it is known.
static ALL_KNOWN: AtomicBool = AtomicBool::new(false);

/// What goes to the next program.
pub struct HandedDown {
    /// Descriptors, each with the mount that it is for (two mounts of one source may have the same
    /// node); they survive exec, and are closed where that fails.
    pub nodes: Vec<(u16, OwnedFd)>,
    /// The program may have descriptors of what is found by paths.
    pub inherits: bool,
}

impl Default for HandedDown {
    /// Nothing, to a program whose descriptors nobody has looked at.
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            inherits: true,
        }
    }
}

impl HandedDown {
    /// What this process hands down.
    pub fn of_process() -> Self {
        let given: Vec<(u16, i32)> = {
            let given = GIVEN.lock();
            let numbers = given
                .iter()
                .map(|(mount, place)| (*mount, place.load(Relaxed)));
            numbers.collect()
        };
        let (given, files): (Vec<_>, Vec<_>) = given.into_iter().partition(|(_, fd)| is_path(*fd));
        if !files.is_empty() {
            know_all();
        }
        let mut inherited = super::table().inherited(may_be_lost);
        let which = |it: &(i32, Arc<Description>)| (it.1.mount.0, it.1.node, it.1.access_mode());
        inherited.sort_by_key(which);
        inherited.dedup_by_key(|it| which(it));
        let owns = inherited.iter().filter_map(|(_, description)| {
            let file_system = culvert_cache::file_system(description.mount).ok()?;
            let own = match opened_no_more(file_system, description) {
                Some(own) => Some(own),
                None if !is_lost(file_system, description) => None,
                None => file_system.handed_down(description.node),
            };
            Some((description.mount.0, own?))
        });
        let known: Vec<_> = given
            .iter()
            .map(|&(mount, fd)| (mount, identity(fd)))
            .collect();
        // One that goes on anyway need not be handed down again.
        let nodes = owns
            .filter(|&(mount, fd)| !known.contains(&(mount, identity(fd))))
            .chain(given)
            .take(MOST)
            .filter_map(|(mount, fd)| Some((mount, OwnedFd::from_raw(dup_high(fd, false).ok()?))))
            .collect();
        Self {
            nodes,
            inherits: !inherited.is_empty() || !ALL_KNOWN.load(Relaxed),
        }
    }
}

/// Which file of the kernel's it is, and how it is open.
fn identity(fd: i32) -> Option<(u64, u64, u32)> {
    let found = stat_descriptor(fd).ok()?;
    Some((found.st_dev, found.st_ino, kernel_flags(fd).ok()? & HOW))
}

/// Whether the next program must find its node.
fn may_be_lost(description: &Description) -> bool {
    match &description.object {
        Object::File(file) => file.descriptor().is_none() && !description.is_direct(),
        Object::Directory | Object::Path => true,
        Object::Fifo | Object::Broken => false,
    }
}

/// Whether the next program would not find its node by its path. Files without a name go in another
/// way ([`culvert_cache::orphan_file`]).
fn is_lost(file_system: &dyn FileSystem, description: &Description) -> bool {
    if !file_system.capabilities().transient_nodes {
        return false;
    }
    match file_system.attributes(&Caller::SYSTEM, description.node) {
        Err(_) => false,
        Ok(found) if found.links == 0 => found.kind == FileKind::Directory,
        Ok(_) => {
            let is_found = node_paths::is_found(file_system, description.node);
            if is_found {
                // By the path that it has now: it may have been renamed since it was noted.
                node_paths::note(description.name());
            }
            !is_found
        }
    }
}

/// What continues the open file of `description`, where the next program may not open it again. Not
/// one that may do more than the program: a driver may have opened it for reading, too.
fn opened_no_more(file_system: &dyn FileSystem, description: &Description) -> Option<i32> {
    let Object::File(file) = &description.object else {
        return None;
    };
    let wanted = match description.access_mode() {
        0 => Access::READ,
        1 => Access::WRITE,
        _ => Access(Access::READ.0 | Access::WRITE.0),
    };
    let denied = || {
        file_system
            .access(&task::caller(), description.node, wanted)
            .is_err()
    };
    let is_equal =
        |fd: &i32| kernel_flags(*fd).is_ok_and(|it| it & HOW == description.access_mode());
    file.continued_by()
        .filter(is_equal)
        .filter(|_| description.orphan().is_none() && denied())
}

/// This program was given `fd`, for `mount`.
pub fn receive((mount, fd): (u16, i32)) {
    if super::set_close_on_exec(fd, true).is_ok() {
        let place = culvert_run::get().receive_internal(fd);
        GIVEN.lock().push((mount, place));
    }
}

/// Whether the node of `name` is one that this program was given. It is known to `file_system`
/// then, and stays so.
pub fn find(file_system: &dyn FileSystem, name: ShadowName) -> bool {
    // In a child of vfork numbers are its own, and memory is its parent's.
    if task::vfork_child().is_some() {
        return false;
    }
    let is_it = |fd| knows(file_system, fd, name);
    let mut given = GIVEN.lock();
    let found = given
        .iter()
        .position(|(mount, place)| *mount == name.mount.0 && is_it(place.load(Relaxed)));
    let Some(at) = found else {
        // Another process may have found it, by the same descriptor.
        return tables::are_asked_for() && culvert_run::get().internal().into_iter().any(is_it);
    };
    if is_path(given[at].1.load(Relaxed)) {
        close(given.swap_remove(at).1);
    }
    true
}

/// Whether `fd` is the node of `name`, which `file_system` knows by one reference more then.
fn knows(file_system: &dyn FileSystem, fd: i32, name: ShadowName) -> bool {
    let Ok(entry) = file_system.identify(&Caller::SYSTEM, fd) else {
        return false;
    };
    let node = entry.attributes.node;
    if node != name.node {
        file_system.forget(node, 1);
    }
    node == name.node
}

/// A child of vfork is about to be made, which finds nothing itself: what this program was given
/// is found now.
pub fn before_vfork() {
    static FOUND: AtomicBool = AtomicBool::new(false);
    if !GIVEN.lock().is_empty() && !FOUND.swap(true, Relaxed) {
        know_all();
    }
}

/// A directory's mode or name is about to change, below which nodes may not be found any more.
pub fn before_closing_directory() {
    if task::vfork_child().is_none() && !task::is_confined() && !ALL_KNOWN.swap(true, Relaxed) {
        know_all();
    }
}

/// Another process is about to get the table of descriptors, and finds nodes by their paths: as
/// they are now, where they were renamed since.
pub fn note_paths() {
    for (_, description) in super::table().all(|_, description| may_be_lost(description)) {
        if let Ok(file_system) = culvert_cache::file_system(description.mount) {
            is_lost(file_system, &description);
        }
    }
}

/// This program has inherited nothing that is found by its path.
pub fn nothing_inherited() {
    ALL_KNOWN.store(true, Relaxed);
}

/// The same of what may be a directory, by who has changed modes often enough that it pays to see
/// to it once for all. Whether that is done.
pub fn before_closing_any() -> bool {
    const OFTEN: u32 = 8;
    static CHANGED: AtomicU32 = AtomicU32::new(0);
    let is_often = CHANGED.load(Relaxed) >= OFTEN || CHANGED.fetch_add(1, Relaxed) >= OFTEN;
    if is_often {
        before_closing_directory();
    }
    is_often
}

/// Makes known what this program has inherited and never used.
fn know_all() {
    for fd in culvert_run::files::open_descriptors() {
        super::table().get(fd);
    }
}

fn is_path(fd: i32) -> bool {
    kernel_flags(fd).is_ok_and(|flags| flags & O_PATH != 0)
}

/// Closes a descriptor that was hidden.
fn close(place: &AtomicI32) {
    let fd = place.swap(-1, AcqRel);
    classes::set(fd, classes::UNKNOWN);
    drop(OwnedFd::from_raw(fd));
}

/// The file of `name`, open as `flags` say, from a descriptor that this program was given: the file
/// may not be opened again. With the node's entry, one reference.
pub fn continued(
    file_system: &dyn FileSystem,
    name: ShadowName,
    flags: u32,
) -> Option<(Entry, Opened)> {
    if task::vfork_child().is_some() {
        return None;
    }
    let given: Vec<i32> = {
        let given = GIVEN.lock();
        let given = given.iter().filter(|(mount, _)| *mount == name.mount.0);
        given.map(|(_, place)| place.load(Relaxed)).collect()
    };
    let may = |fd: &i32| kernel_flags(*fd).is_ok_and(|found| found & HOW == flags & HOW);
    let mut given = given.into_iter().filter(may);
    given
        .find_map(|fd| continued_by(file_system, name, fd, flags))
        .or_else(|| continued_by_others(file_system, name, flags))
}

fn continued_by(
    file_system: &dyn FileSystem,
    name: ShadowName,
    fd: i32,
    flags: u32,
) -> Option<(Entry, Opened)> {
    let adopted = file_system.adopt(&task::caller(), fd, OpenFlags(flags));
    let (entry, opened) = adopted.ok()?;
    if entry.attributes.node == name.node {
        return Some((entry, opened));
    }
    file_system.forget(entry.attributes.node, 1);
    None
}

/// The same from a descriptor that another process keeps in the table that both have. It may do
/// more than the program's: who has the table has it anyway.
fn continued_by_others(
    file_system: &dyn FileSystem,
    name: ShadowName,
    flags: u32,
) -> Option<(Entry, Opened)> {
    if !tables::are_asked_for() {
        return None;
    }
    let may = |fd: &i32| {
        kernel_flags(*fd).is_ok_and(|found| {
            found & (O_APPEND | O_DIRECT) == 0 && [flags & HOW, O_RDWR].contains(&(found & HOW))
        })
    };
    let run = culvert_run::get();
    let mut kept = run.internal().into_iter().filter(may);
    let fd = kept.find(|&fd| {
        // The driver makes a dup, whose close drops locks on the same file.
        !run.posix_locks.hold(fd) && knows(file_system, fd, name)
    })?;
    let adopted = file_system.adopt(&task::caller(), fd, OpenFlags(flags));
    file_system.forget(name.node, 1);
    let (entry, opened) = adopted.ok()?;
    let node = entry.attributes.node;
    // The other process may have closed it before the dup was made, and the number be another
    // file's, where nothing may be closed either.
    if node == name.node
        && let Opened::Driven(file) = &opened
        && let Some(own) = file.continued_by()
        && knows(file_system, own, name)
    {
        file_system.forget(node, 1);
        return Some((entry, opened));
    }
    file_system.forget(node, 1);
    core::mem::forget(opened);
    None
}
