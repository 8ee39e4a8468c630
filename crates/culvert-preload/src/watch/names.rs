//! Names that are made, removed and renamed, in the mirrors of their directories as in the
//! directories themselves.
//!
//! Who changes a name in a directory that has a mirror takes a *turn* in the run: a lock of the
//! kernel's on the folder of the mirrors, which ends with its process. So mirrors change in the
//! order in which the directories do.

use super::mirror::{Mirror, below, make_entry, rename, unlink};
use super::{Event, may_have_mirror, mirror_of, raise, tells};
use alloc::ffi::CString;
use culvert::{Entry, Errno, FileKind, FileSystem, Node, RenameFlags};
use culvert_mounts::MountId;
use culvert_run::make_directory;
use culvert_sys::OwnedFd;
use culvert_sys::raw::general::{O_DIRECTORY, O_PATH};

/// The right to change mirrors.
pub(super) struct Turn {
    locked: OwnedFd,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A copy that went through fork must not keep it.
        let _ = culvert_sys::fd::flock(&self.locked, culvert_sys::raw::general::LOCK_UN);
    }
}

impl Turn {
    /// Waits for it.
    pub fn take() -> Result<Self, Errno> {
        const LOCK_EX: usize = 2;
        let folder = culvert_run::get().file("watch");
        let opened = match culvert_run::files::open(&folder, O_DIRECTORY, 0) {
            Err(Errno::ENOENT) => {
                make_directory(&folder)?;
                culvert_run::files::open(&folder, O_DIRECTORY, 0)?
            }
            opened => opened?,
        };
        loop {
            match culvert_sys::fd::flock(&opened, LOCK_EX as u32) {
                Err(Errno::EINTR) => {}
                locked => return locked.map(|_| Self { locked: opened }),
            }
        }
    }
}

/// Runs `change`, which changes names in `concerned` or removes one of them, and then `tell`, in
/// this process's turn where one of them is watched.
fn in_turn<R>(
    mount: MountId,
    concerned: &[Node],
    change: impl FnOnce() -> Result<R, Errno>,
    tell: impl FnOnce(&R),
) -> Result<R, Errno> {
    let watched = || tells() && concerned.iter().any(|&node| may_have_mirror(mount, node));
    let turn = watched().then(Turn::take);
    let changed = change()?;
    // Watched since: its mirror is being filled, or just was.
    let turn = turn.or_else(|| watched().then(Turn::take));
    if let Some(Ok(_turn)) = &turn {
        tell(&changed);
    }
    Ok(changed)
}

/// `make`, which makes `name` in `directory`, and IN_CREATE.
#[inline]
pub fn made(
    mount: MountId,
    (directory, name): (Node, &[u8]),
    make: impl FnOnce() -> Result<Entry, Errno>,
) -> Result<Entry, Errno> {
    in_turn(mount, &[directory], make, |entry| {
        tell_made(mount, (directory, name), entry.attributes.kind);
    })
}

fn tell_made(mount: MountId, (directory, name): (Node, &[u8]), kind: FileKind) {
    if let Some(mirror) = mirror_of(mount, directory) {
        let _ = make_entry(&mirror.entry(name), kind == FileKind::Directory);
    }
}

/// `link`, which makes `name` in `directory` another name of `node`: IN_ATTRIB and IN_CREATE.
pub fn linked(
    mount: MountId,
    node: Node,
    at: (Node, &[u8]),
    link: impl FnOnce() -> Result<Entry, Errno>,
) -> Result<Entry, Errno> {
    in_turn(mount, &[at.0, node], link, |entry| {
        if let Some(own) = mirror_of(mount, node) {
            raise(own.path(), Event::Attributes);
        }
        tell_made(mount, at, entry.attributes.kind);
    })
}

/// A node that stays what it is while it loses a name, where somebody may watch it: after that it
/// is asked how many names it has.
struct Held<'a> {
    file_system: &'a dyn FileSystem,
    node: Node,
}

impl<'a> Held<'a> {
    fn of(file_system: &'a dyn FileSystem, mount: MountId, node: Node) -> Option<Self> {
        let held = tells() && may_have_mirror(mount, node) && file_system.hold(node).is_ok();
        held.then(|| Self { file_system, node })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.file_system.release(self.node);
    }
}

/// Whether `node` has no name any more.
fn is_gone(file_system: &dyn FileSystem, node: Node) -> bool {
    match file_system.attributes(&culvert_run::task::caller(), node) {
        Ok(attributes) => attributes.links == 0,
        Err(error) => matches!(error.errno(), Errno::ENOENT | Errno::ESTALE),
    }
}

/// `remove`, which removes `name` of the node `node`: IN_ATTRIB or IN_DELETE_SELF, and IN_DELETE.
pub fn removed(
    file_system: &dyn FileSystem,
    mount: MountId,
    (directory, name): (Node, &[u8]),
    (node, kind): (Node, FileKind),
    remove: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let _held = Held::of(file_system, mount, node);
    in_turn(mount, &[directory, node], remove, |()| {
        if let Some(own) = mirror_of(mount, node) {
            lose_name(file_system, own, (node, kind));
        }
        if let Some(mirror) = mirror_of(mount, directory) {
            unlink(&mirror.entry(name));
        }
    })
}

/// What the watchers of a node are told that has lost a name.
fn lose_name(file_system: &dyn FileSystem, own: Mirror, (node, kind): (Node, FileKind)) {
    let directory = kind == FileKind::Directory;
    match directory || is_gone(file_system, node) {
        true => own.remove(directory),
        false => raise(own.path(), Event::Attributes),
    }
}

/// A name, and what has it.
#[derive(Clone, Copy)]
pub struct Link<'a> {
    /// In which directory.
    pub directory: Node,
    /// The name.
    pub name: &'a [u8],
    /// The node.
    pub node: Node,
    /// Its type.
    pub kind: FileKind,
}

/// Where something is renamed to: the directory, the name, and the node and type of what had it, if
/// anything had.
#[derive(Clone, Copy)]
pub struct Replaced<'a> {
    /// In which directory.
    pub directory: Node,
    /// The name.
    pub name: &'a [u8],
    /// What had it.
    pub victim: Option<(Node, FileKind)>,
}

/// `rename`, which renames `from` to `to`: IN_MOVED_FROM and IN_MOVED_TO, IN_MOVE_SELF, and what is
/// told of a file that is replaced.
pub fn renamed(
    file_system: &dyn FileSystem,
    mount: MountId,
    from: Link<'_>,
    to: Replaced<'_>,
    flags: u32,
    rename: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let victim = to.victim.filter(|victim| victim.0 != from.node);
    // Two names of one file: nothing happens (rename(2)).
    if to.victim.is_some() && victim.is_none() {
        return rename();
    }
    let victim_node = victim.map_or(from.node, |victim| victim.0);
    let concerned = [from.directory, to.directory, from.node, victim_node];
    let _held = victim.and_then(|victim| Held::of(file_system, mount, victim.0));
    in_turn(mount, &concerned, rename, |()| {
        let exchange = flags & RenameFlags::EXCHANGE != 0;
        move_entries(mount, from, to, exchange);
        let replaced = victim.filter(|_| !exchange).and_then(|victim| {
            let own = mirror_of(mount, victim.0)?;
            // Its end is told after the move of the other (`vfs_rename`, fs/namei.c): a file that
            // somebody has open is not gone yet.
            let open = culvert_run::files::open(own.path(), O_PATH, 0);
            if victim.1 == FileKind::Directory {
                raise(own.path(), Event::Attributes);
            }
            lose_name(file_system, own, victim);
            open.ok()
        });
        for moved in [Some(from.node), victim.filter(|_| exchange).map(|it| it.0)] {
            if let Some(mut own) = moved.and_then(|node| mirror_of(mount, node)) {
                own.moves();
            }
        }
        drop(replaced);
    })
}

/// The rename of the entries. What leads to or comes from a directory that has no mirror leads to
/// or comes from a folder that nobody watches: so IN_MOVED_FROM and IN_MOVED_TO come with the
/// cookies that they have natively.
fn move_entries(mount: MountId, from: Link<'_>, to: Replaced<'_>, exchange: bool) {
    let old = mirror_of(mount, from.directory);
    let new = mirror_of(mount, to.directory);
    if old.is_none() && new.is_none() {
        return;
    }
    let elsewhere = culvert_run::get().file("watch/elsewhere");
    let _ = make_directory(&elsewhere);
    let unwatched = |name: &[u8]| -> CString {
        let path = below(&elsewhere, name);
        unlink(&path);
        path
    };
    let source = match &old {
        Some(mirror) => mirror.entry(from.name),
        None => unwatched(b"from"),
    };
    let target = match &new {
        Some(mirror) => mirror.entry(to.name),
        None => unwatched(b"to"),
    };
    let is_directory = |kind: FileKind| kind == FileKind::Directory;
    let _ = make_entry(&source, is_directory(from.kind));
    let flags = match (exchange, to.victim) {
        (true, Some((_, kind))) => {
            let _ = make_entry(&target, is_directory(kind));
            RenameFlags::EXCHANGE
        }
        _ => 0,
    };
    if rename(&source, &target, flags).is_err() {
        // What others left there who do not tell.
        unlink(&target);
        let _ = rename(&source, &target, flags);
    }
    for (mirror, left) in [(&old, &source), (&new, &target)] {
        if mirror.is_none() {
            unlink(left);
        }
    }
}
