//! What a path names: is it in a mount, where does it lead, and what if the kernel does not find
//! it.

use super::backed::Backed;
use super::host::{Kernel, place_of_here};
use super::native::{AT_SYMLINK_NOFOLLOW, stat_at};
use crate::description::Object;
use crate::process::{Here, Process};
use crate::watch;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culvert::{Access, Attributes, Backing, Errno, FileKind, FileSystem, Node, SetAttributes};
use culvert_mounts::resolver::{Inside, LastStep, Magic, Quick, Resolved, Restrictions};
use culvert_mounts::{MountId, Place};
use culvert_run::{files::c_string, memory::Path};
use culvert_sys::raw::general::{AT_FDCWD, S_IFDIR, S_IFLNK, S_IFMT};

/// A path argument of a call.
#[derive(Clone, Copy)]
pub struct Given<'p> {
    /// The descriptor at which a relative path begins.
    pub directory: i32,
    /// The path.
    pub path: Path<'p>,
    /// What its last component is wanted for.
    pub last: LastStep,
    /// What openat2(2) forbids on the way.
    pub restrictions: Restrictions,
}

impl<'p> Given<'p> {
    /// Without restrictions.
    pub const fn new(directory: i32, path: Path<'p>, last: LastStep) -> Self {
        Self {
            directory,
            path,
            last,
            restrictions: Restrictions(0),
        }
    }

    /// From the working directory.
    pub const fn here(path: Path<'p>, last: LastStep) -> Self {
        Self::new(AT_FDCWD, path, last)
    }

    /// Whether it does not begin at the directory that is given.
    fn is_absolute(&self) -> bool {
        self.path.first() == Some(&b'/') && self.restrictions.0 & Restrictions::IN_ROOT == 0
    }
}

/// What a path argument comes to.
// made once for a call, on the stack: a box would cost each path an allocation
#[allow(clippy::large_enum_variant)]
pub enum Found<'p> {
    /// Something in a mount.
    Inside(Inside<'p>),
    /// Something in the backing tree of a mount.
    Backed(Backed<'p>),
    /// The kernel gets this absolute path (NUL-terminated) instead.
    Outside(CString),
    /// A link of proc(5) to something of ours, not followed.
    MagicLink(Magic),
    /// The kernel gets the call as it is.
    Kernel,
}

/// The directory that a descriptor argument stands for; none for a foreign one. ENOTDIR when it is
/// a file of ours.
fn place_of(process: &Process, fd: i32) -> Result<Option<Place>, Errno> {
    match process.table.get(fd) {
        None => Ok(None),
        Some(held) if held.kind == FileKind::Directory => Ok(Some(Place::Mount {
            mount: held.mount,
            node: held.node,
        })),
        // Of before exec(2), and not found again: nobody knows what it was.
        Some(held) if matches!(held.object, Object::Broken) => Err(Errno::EIO),
        Some(_) => Err(Errno::ENOTDIR),
    }
}

/// The directory behind the foreign descriptor `fd`, by its path.
fn foreign_place(process: &Process, fd: i32) -> Option<Place> {
    let path = culvert_run::descriptor_path(fd).ok()?;
    (path.first() == Some(&b'/'))
        .then(|| process.mounts.place(&path).ok())
        .flatten()
}

/// Whether `fd` is open on something that no path begins at, whatever its name leads to by now.
fn is_no_directory(fd: i32) -> bool {
    culvert_run::stat_descriptor(fd).is_ok_and(|found| found.st_mode & S_IFMT != S_IFDIR)
}

/// Where a path starts: `Err` is the call's answer, `Ok(None)` a directory that cannot be named.
fn start(process: &Process, given: Given<'_>) -> Result<Option<Place>, Errno> {
    let directory = given.directory;
    if given.is_absolute() {
        return Ok(Some(Place::Host(Vec::new())));
    }
    if directory == AT_FDCWD {
        return process
            .with_working_directory(|here| here.cloned())
            .map(place_of_here)
            .transpose();
    }
    if let Some(place) = place_of(process, directory)? {
        return Ok(Some(place));
    }
    match process.table.backed(directory) {
        Some(mount) => crate::backing::directory(mount, directory).map(|p| Some(Place::Host(p))),
        None if is_no_directory(directory) => Err(Errno::ENOTDIR),
        None => Ok(foreign_place(process, directory)),
    }
}

/// Finds out what a path is, by text, and by walking the mounts where text does not tell.
pub fn find<'p>(process: &Process, given: Given<'p>) -> Result<Found<'p>, Errno> {
    if given.restrictions == Restrictions(0)
        && let Some(place) = tree_at(process, given).and_then(|tree| in_tree(tree, given))
    {
        return Ok(Found::Backed(place));
    }
    match find_straight(process, given) {
        Some(Ok(inside)) => Ok(Found::Inside(inside)),
        Some(Err(error)) => Err(errno_of(&error)),
        None => find_by_text(process, given),
    }
}

/// The same for who must know where a path into a backing tree leads.
pub fn find_resolved<'p>(process: &Process, given: Given<'p>) -> Result<Found<'p>, Errno> {
    match find(process, given)? {
        Found::Backed(place) if !place.is_resolved() => find_by_walking(process, given),
        found => Ok(found),
    }
}

/// The quickest answer inside a mount: plain names all the way, which the driver takes at once. Not
/// inlined, so that its large answer is made where it stays.
#[inline(never)]
pub fn find_straight<'p>(
    process: &Process,
    given: Given<'p>,
) -> Option<culvert::Result<Inside<'p>>> {
    let found = find_straight_now(process, given);
    if has_more_mounts(process) {
        return find_straight_now(process, given);
    }
    found
}

/// Whether a server was found dead, and another one in its place: also where the path was found, by
/// what is still believed of the dead one's mount.
#[inline]
fn has_more_mounts(process: &Process) -> bool {
    let known = process.mounts.count();
    culvert_run::restarts::look();
    process.mounts.count() != known
}

/// [`find_straight`], among the mounts that are known.
fn find_straight_now<'p>(
    process: &Process,
    given: Given<'p>,
) -> Option<culvert::Result<Inside<'p>>> {
    let (mount, dir, names) = names_in_mount(process, given)?;
    culvert_cache::strangers::bring_all();
    let mounts = &process.mounts;
    // Who asks is found out by nine calls, once, and a tree of the kernel's need not know.
    mounts.straight_in(culvert_run::task::caller, mount, dir, names, given.last)
}

/// What [`FileSystem::attributes_at`] and [`FileSystem::change_at`] are asked for `path`.
pub struct AtOnce<'p> {
    /// The mount.
    pub mount: MountId,
    /// Its driver.
    pub driver: &'p dyn FileSystem,
    /// The directory at which `names` begin.
    pub from: Node,
    /// Plain names.
    pub names: &'p [u8],
}

impl AtOnce<'_> {
    /// stat(2) of a regular file. None: it must be looked up.
    pub fn attributes(&self) -> Option<Result<Attributes, Errno>> {
        let caller = culvert_run::task::caller();
        let asked = self.driver;
        let found = asked.attributes_at(&caller, self.from, self.names, None)?;
        Some(found.map_err(|error| errno_of(&error)))
    }

    /// Whether the caller may do `access` to a regular file. None: as [`AtOnce::attributes`].
    pub fn access(&self, access: u32) -> Option<Result<(), Errno>> {
        if culvert_run::task::credentials::is_elsewhere() {
            return None;
        }
        let caller = culvert_run::task::caller();
        let access = (access != 0).then_some(Access(access));
        let asked = self.driver;
        let found = asked.attributes_at(&caller, self.from, self.names, access)?;
        Some(found.map(drop).map_err(|error| errno_of(&error)))
    }

    /// Makes `changes` to what is there, of which nobody is told. None: it must be looked up.
    pub fn change(&self, changes: &SetAttributes) -> Option<Result<(), Errno>> {
        let caller = culvert_run::task::caller();
        let asked = self.driver;
        let done = asked.change_at(&caller, self.from, self.names, changes)?;
        Some(done.map_err(|error| errno_of(&error)))
    }

    /// The last of the names.
    fn name(&self) -> &[u8] {
        let mut names = self.names.rsplit(|&byte| byte == b'/');
        names.next().unwrap_or(self.names)
    }

    /// Removes a regular file, of which no other process has a shadow. None: it must be looked up.
    pub fn unlink(&self) -> Option<Result<(), Errno>> {
        let caller = culvert_run::task::caller();
        let done = self.driver.unlink_at(&caller, self.from, self.names)?;
        let tell = |(directory, node)| {
            // Nobody did when it began.
            if watch::tells() {
                let (at, of) = ((directory, self.name()), (node, FileKind::Regular));
                let _ = watch::removed(self.driver, self.mount, at, of, || Ok(()));
            }
        };
        Some(done.map(tell).map_err(|error| errno_of(&error)))
    }

    /// The same for the rename of one to what `to` is.
    pub fn rename(&self, to: &AtOnce<'_>) -> Option<Result<(), Errno>> {
        if (self.mount, self.from) != (to.mount, to.from) {
            return None;
        }
        let caller = culvert_run::task::caller();
        let asked = self.driver;
        let done = asked.rename_at(&caller, self.from, self.names, to.names)?;
        let tell = |(directory, node)| {
            if watch::tells() {
                let source = watch::Link {
                    directory,
                    name: self.name(),
                    node,
                    kind: FileKind::Regular,
                };
                let target = watch::Replaced {
                    directory,
                    name: to.name(),
                    victim: None,
                };
                let _ = watch::renamed(asked, self.mount, source, target, 0, || Ok(()));
            }
        };
        Some(done.map(tell).map_err(|error| errno_of(&error)))
    }
}

/// Whether a name of a file on `driver` may be taken at once: nobody is to be told of it, and no
/// file that loses it is to be kept. Of what a driver knows by number alone that is not asked: such
/// take none at once.
pub fn is_nobodys_business(driver: &dyn FileSystem) -> bool {
    driver.capabilities().transient_nodes && !watch::tells() && !culvert_cache::shadow::may_be_any()
}

/// What a path is by text alone, if its driver may be asked at once. None: the path must be looked
/// up.
#[inline]
pub fn at_once<'p>(process: &'p Process, given: Given<'p>) -> Option<AtOnce<'p>> {
    let (mount, dir, names) = names_in_mount(process, given)?;
    let driver = process.mounts.driver_of(mount, names)?;
    if driver.capabilities().access_time_lags {
        return None;
    }
    culvert_cache::strangers::bring_all();
    Some(AtOnce {
        mount,
        driver,
        from: dir.unwrap_or_else(|| driver.root()),
        names,
    })
}

/// The mount that a path is in by text, the directory of its driver's where it begins (none: the
/// root), and the path from there.
#[inline]
fn names_in_mount<'p>(
    process: &Process,
    given: Given<'p>,
) -> Option<(MountId, Option<Node>, &'p [u8])> {
    if given.restrictions != Restrictions(0) || culvert_run::task::has_left() {
        return None;
    }
    let path = given.path.bytes();
    if path.first()? != &b'/' {
        let (mount, node) = directory_inside(process, given.directory)?;
        return Some((mount, Some(node), path));
    }
    let (mount, names) = process.mounts.deepest(path)?;
    match super::own_file::origin(process, path) {
        Some(_) => None,
        None => Some((mount, None, names)),
    }
}

/// The directory of a driver's that descriptor `directory`, or the working directory, is.
#[inline]
fn directory_inside(process: &Process, directory: i32) -> Option<(MountId, Node)> {
    if directory == AT_FDCWD {
        return process.working_node();
    }
    let held = process.table.get(directory)?;
    (held.kind == FileKind::Directory).then_some((held.mount, held.node))
}

/// The errno of a failed look at a path; its cause goes to the log.
pub fn errno_of(error: &culvert::Error) -> Errno {
    if let Some(cause) = error.cause() {
        culvert_sys::log!("a path on a mount cannot be followed: {cause}");
    }
    error.errno()
}

/// What [`find`] does where that is not enough. The path begins in no backing tree.
pub fn find_by_text<'p>(process: &Process, given: Given<'p>) -> Result<Found<'p>, Errno> {
    let Given {
        directory,
        path,
        restrictions,
        ..
    } = given;
    if path.is_empty() || culvert_run::task::has_left() {
        return Ok(Found::Kernel);
    }
    let absolute = given.is_absolute();
    // A program from a mount runs as a file of the run directory: paths made from its own place
    // mean the mount.
    if let Some(original) = absolute
        .then(|| super::own_file::origin(process, path.bytes()))
        .flatten()
        .filter(|original| !original.is_empty())
    {
        let root = Place::Host(Vec::new());
        return walk(process, &root, original, given.last, restrictions);
    }
    let mut known = None;
    let quick = if absolute {
        process.mounts.quick(None, path.bytes())
    } else if directory == AT_FDCWD {
        process.with_working_directory(|here| match here {
            Some(Here::Place(place)) => {
                let quick = process.mounts.quick(Some(place), path.bytes());
                if quick != Quick::Untouched {
                    known = Some(place.clone());
                }
                quick
            }
            Some(Here::Backed(_)) => Quick::Walk,
            None => Quick::Untouched,
        })
    } else {
        known = place_of(process, directory)?;
        match known.is_none() && process.table.backed(directory).is_some() {
            true => Quick::Walk,
            false => process.mounts.quick(known.as_ref(), path.bytes()),
        }
    };
    // A link into a mount is a crossing that the kernel cannot see; with RESOLVE_IN_ROOT the text
    // of a path says little.
    let text_decides = restrictions.0 & (Restrictions::NO_XDEV | Restrictions::IN_ROOT) == 0;
    if quick == Quick::Untouched && text_decides {
        return Ok(Found::Kernel);
    }
    let start = match known {
        Some(place) => Some(place),
        None => start(process, given)?,
    };
    let Some(start) = start else {
        return Ok(Found::Kernel);
    };
    walk(process, &start, path.bytes(), given.last, restrictions)
}

/// The quickest answer of all: `given`, without restrictions, begins in this backing tree, with
/// which no other mount has to do, so that only links could lead elsewhere.
#[inline]
pub fn tree_at(process: &Process, given: Given<'_>) -> Option<(MountId, Backing)> {
    let first = *given.path.first()?;
    if culvert_run::task::has_left() {
        return None;
    }
    if first == b'/' {
        return process.mounts.direct_above(given.path.bytes());
    }
    let mount = process.backed_directory(given.directory)?;
    Some((mount, process.mounts.direct(mount)?))
}

/// What `given` names in the tree that [`tree_at`] has found for it. None: it may leave it.
#[inline]
pub fn in_tree<'p>((mount, backing): (MountId, Backing), given: Given<'p>) -> Option<Backed<'p>> {
    let Given {
        directory, path, ..
    } = given;
    if path[0] == b'/' {
        return Some(Backed::below_target(mount, backing, path));
    }
    if path.starts_with(b"..") && matches!(path.get(2), None | Some(b'/')) {
        return Backed::above_directory(mount, backing, directory, path, given.last);
    }
    Some(Backed::below_directory(mount, backing, directory, path))
}

/// Resolves a path component by component, in any case.
#[cold]
pub fn find_by_walking<'p>(process: &Process, given: Given<'p>) -> Result<Found<'p>, Errno> {
    let start = start(process, given)?.ok_or(Errno::ENOENT)?;
    walk(
        process,
        &start,
        given.path.bytes(),
        given.last,
        given.restrictions,
    )
}

#[inline]
fn walk<'p>(
    process: &Process,
    start: &Place,
    path: &'p [u8],
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    let caller = culvert_run::task::caller();
    let mounts = process.mounts;
    let mut answer = mounts.walk(&Kernel, &caller, start, path, last, restrictions);
    if has_more_mounts(process) {
        answer = mounts.walk(&Kernel, &caller, start, path, last, restrictions);
    }
    resolved(answer)
}

#[inline(always)]
fn resolved<'p>(answer: culvert::Result<Resolved<'p>>) -> Result<Found<'p>, Errno> {
    match answer {
        Ok(Resolved::Inside(inside)) => Ok(Found::Inside(inside)),
        Ok(Resolved::Outside { path }) => Ok(match Backed::resolved(&path) {
            Some(backed) => Found::Backed(backed),
            None => Found::Outside(c_string(&path)),
        }),
        Ok(Resolved::MagicLink(magic)) => Ok(Found::MagicLink(magic)),
        Ok(Resolved::Untouched) => Ok(Found::Kernel),
        Err(error) => Err(errno_of(&error)),
    }
}

/// A second look at a path that the kernel did not find, or (`certain`) that led it to the empty
/// directory under a mount.
pub fn look_again<'p>(
    process: &Process,
    given: Given<'p>,
    certain: bool,
) -> Result<Found<'p>, Errno> {
    // No link leads to what it does not find itself.
    if !certain && process.kernel_sees_all.load(Relaxed) {
        return Ok(Found::Kernel);
    }
    let Some(start) = start(process, given)? else {
        return Ok(Found::Kernel);
    };
    let (path, last, restrictions) = (given.path.bytes(), given.last, given.restrictions);
    if certain {
        return walk(process, &start, path, last, restrictions);
    }
    let (mounts, caller) = (&process.mounts, culvert_run::task::caller);
    resolved(mounts.after_miss(&Kernel, caller, &start, path, last, restrictions))
}

/// Whether the absolute `path`, without restrictions, is the kernel's by its text: it enters no
/// mount, unless a link leads there.
pub fn is_kernels(process: &Process, path: Path<'_>) -> bool {
    path.first() == Some(&b'/')
        && !culvert_run::task::has_left()
        && process.mounts.quick(None, path.bytes()) == Quick::Untouched
        && super::own_file::origin(process, path.bytes()).is_none()
}

/// Whether the kernel's ENOENT or ENOTDIR for the absolute `path` is right.
pub fn confirms_miss(process: &Process, path: Path<'_>) -> bool {
    let root = Place::Host(Vec::new());
    process.kernel_sees_all.load(Relaxed)
        || process.mounts.confirms_miss(&Kernel, &root, path.bytes())
}

/// Whether the kernel finds a symbolic link at `path` below `directory`.
pub fn is_link(directory: i32, path: Path<'_>) -> bool {
    stat_at(directory, path, AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|found| found.st_mode & S_IFMT == S_IFLNK)
}

/// What is there, or ENOENT.
#[inline]
pub fn existing<'f>(found: &'f Inside<'_>) -> Result<&'f Attributes, Errno> {
    found
        .entry
        .as_ref()
        .map(|entry| &entry.attributes)
        .ok_or(Errno::ENOENT)
}
