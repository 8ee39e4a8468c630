//! The mounts of this process and how they nest.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use culvert::{Backing, Caller, Errno, FileKind, FileSystem, Node, Result, sync::OnceCell};
use culvert_sys::sync::{AtomicRef, Mutex};

/// A mount, by its place in the table; stable while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MountId(pub u16);

/// Makes the driver of a mount, on first use. After an error it is called again at the next use.
pub type OpenDriver = Box<dyn Fn() -> Result<Box<dyn FileSystem>> + Send + Sync>;

/// Whether `path` is `prefix` or lies below it. Both canonical; `prefix` has no trailing slash, and
/// is empty for the root.
#[inline]
pub(crate) fn is_below(path: &[u8], prefix: &[u8]) -> bool {
    let length = prefix.len();
    // The last bytes are compared first: targets often share their beginning with the paths around
    // them.
    (path.len() == length || (path.len() > length && path[length] == b'/'))
        && (length == 0 || path[length - 1] == prefix[length - 1])
        && path[..length] == *prefix
}

/// A directory: the current one, the one a descriptor stands for, or where a walk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Directory `node` of a mount.
    Mount {
        /// The mount.
        mount: MountId,
        /// The directory.
        node: Node,
    },
    /// A directory outside all mounts, or in one with a backing tree: by the absolute path at which
    /// it is seen, without links, `.`, `..` or trailing slash (`/` for the root).
    Host(Vec<u8>),
}

/// Where a mount's target lies in the mount that it was put into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered {
    /// The directory that holds the target.
    pub parent: Node,
    /// The covered directory, if it exists.
    node: Option<Node>,
}

/// A driver, and how it is made: the same in a table and in the larger one that follows it.
struct Driver {
    open: OpenDriver,
    made: OnceCell<Box<dyn FileSystem>>,
}

struct Mounted {
    /// Empty where it is the root ([`MountTable::enter_root`]).
    target: Vec<u8>,
    driver: Arc<Driver>,
    identity: Option<(u64, u64)>,
    /// The mount that the target lies in.
    parent: Option<MountId>,
    /// Some mount's target lies in this one.
    has_children: bool,
    /// Its target has nothing to do with those of other mounts: below it text needs no second look.
    alone: bool,
    /// The kernel has its tree at this very target, in its own view of the root.
    is_kernels: bool,
    covered: OnceCell<Option<Covered>>,
}

impl Mounted {
    /// The one at `target`, before it is known how it lies to the others.
    const fn new(target: Vec<u8>, driver: Arc<Driver>, identity: Option<(u64, u64)>) -> Self {
        Self {
            target,
            driver,
            identity,
            parent: None,
            has_children: false,
            alone: false,
            is_kernels: false,
            covered: OnceCell::new(),
        }
    }

    /// The last component of the target.
    fn name(&self) -> &[u8] {
        self.target.get(split(&self.target) + 1..).unwrap_or(b"")
    }
}

/// Whether `target` is an absolute path without links, `.`, `..` or trailing slash that is not `/`.
fn is_canonical(target: &[u8]) -> bool {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
    let rest = target.strip_prefix(b"/");
    rest.is_some_and(|rest| rest.split(|&b| b == b'/').all(is_name)) && !target.contains(&0)
}

/// The deepest of `mounts` that the canonical `path` is in, by text, and how long its target is;
/// the latest of those at one target.
#[inline]
fn deepest(mounts: &[Mounted], path: &[u8]) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize)> = None;
    for (index, mount) in mounts.iter().enumerate() {
        let length = mount.target.len();
        if best.is_none_or(|(_, longest)| longest <= length) && is_below(path, &mount.target) {
            best = Some((index, length));
        }
    }
    best
}

/// Finds out how `mounts` lie to each other.
fn relate(mounts: &mut [Mounted]) {
    for index in 0..mounts.len() {
        let target = &mounts[index].target;
        let parent = match target.is_empty() {
            true => None,
            false => deepest(mounts, &target[..split(target)]),
        };
        let parent = parent.map(|(index, _)| MountId(index as u16));
        let mount = &mut mounts[index];
        if mount.parent != parent {
            mount.parent = parent;
            mount.covered = OnceCell::new();
        }
        if let Some(parent) = parent {
            mounts[parent.0 as usize].has_children = true;
        }
    }
    for index in 0..mounts.len() {
        let target = &mounts[index].target;
        let related = |(other, mount): (usize, &Mounted)| {
            other != index && (is_below(target, &mount.target) || is_below(&mount.target, target))
        };
        mounts[index].alone = !mounts.iter().enumerate().any(related);
    }
}

/// Where the last slash of a canonical path is.
fn split(path: &[u8]) -> usize {
    path.iter().rposition(|&b| b == b'/').unwrap_or(0)
}

/// What stands before the targets of mounts that the root does not lead to (`prepend_path`,
/// fs/d_path.c).
const UNREACHABLE: &[u8] = b"(unreachable)";

/// `target` as it is seen from `root`.
fn seen_from(target: &[u8], root: &[u8]) -> Vec<u8> {
    match is_below(target, root) {
        true => target[root.len()..].to_vec(),
        false => [UNREACHABLE, target].concat(),
    }
}

/// All mounts. Built at start, then only read, but for drivers at their first use; a server that
/// was started again has a further mount at its target ([`MountTable::extend`]).
#[derive(Default)]
pub struct MountTable {
    /// Those that were there at the start.
    first: Vec<Mounted>,
    /// All, where there are more by now. What was read of a table before goes on to be right of it.
    all: AtomicRef<Vec<Mounted>>,
    /// Who adds some.
    extending: Mutex<()>,
    /// The mount whose root is the process's root directory, and its target before it was.
    root: OnceCell<(MountId, Vec<u8>)>,
    /// How many paths are still to be walked ([`MountTable::walk_next`]).
    walks: AtomicU32,
}

impl MountTable {
    /// A table without mounts.
    pub const fn new() -> Self {
        Self {
            first: Vec::new(),
            all: AtomicRef::new(),
            extending: Mutex::new(()),
            root: OnceCell::new(),
            walks: AtomicU32::new(0),
        }
    }

    #[inline]
    fn mounts(&self) -> &[Mounted] {
        self.all.get().unwrap_or(&self.first)
    }

    /// The next `count` paths of this process are walked, and no driver is asked for a whole one
    /// ([`FileSystem::reach`]): what a walk finds stays what it is. A number of paths, not a state:
    /// a call that does not return, exec's in a child of vfork, leaves nothing behind for long.
    pub fn walk_next(&self, count: u32) {
        self.walks.store(count, Relaxed);
    }

    /// Whether the next path is one of those.
    #[inline]
    pub(crate) fn walks_this(&self) -> bool {
        let take = || {
            let less = |left: u32| left.checked_sub(1);
            self.walks.fetch_update(Relaxed, Relaxed, less).is_ok()
        };
        self.walks.load(Relaxed) > 0 && take()
    }

    /// Adds a mount at `target`, an absolute path without links, `.`, `..` or trailing slash that
    /// is not `/` (`EINVAL` otherwise). `identity` is `(st_dev, st_ino)` of the real directory
    /// there, if there is one. A later mount at the same target hides the earlier.
    pub fn add(
        &mut self,
        target: Vec<u8>,
        identity: Option<(u64, u64)>,
        open: OpenDriver,
    ) -> Result<MountId> {
        if !is_canonical(&target) {
            return Err(Errno::EINVAL.into());
        }
        let id = MountId(u16::try_from(self.first.len()).map_err(|_| Errno::ENOSPC)?);
        let made = OnceCell::new();
        let driver = Arc::new(Driver { open, made });
        if self.first.is_empty() {
            // Most runs have one, and each process keeps the table.
            self.first.reserve_exact(1);
        }
        self.first.push(Mounted::new(target, driver, identity));
        relate(&mut self.first);
        Ok(id)
    }

    /// Adds further mounts while others use the table, each at the target of one that there is,
    /// which it hides from then on; what is open there stays. Nothing is done where there are not
    /// `known` mounts any more, or one has another target.
    pub fn extend(&self, known: usize, further: Vec<(Vec<u8>, OpenDriver)>) {
        let _alone = self.extending.lock();
        let before = self.mounts();
        let all = known + further.len();
        if before.len() != known || u16::try_from(all).is_err() {
            return;
        }
        let again = |mount: &Mounted| Mounted {
            is_kernels: mount.is_kernels,
            ..Mounted::new(mount.target.clone(), mount.driver.clone(), mount.identity)
        };
        let mut mounts: Vec<_> = before.iter().map(again).collect();
        for (target, open) in further {
            let target = match self.root.get() {
                Some((_, root)) => seen_from(&target, root),
                None => target,
            };
            let Some(hidden) = self.at_target(&target).and_then(|id| self.get(id)) else {
                return;
            };
            let made = OnceCell::new();
            let driver = Arc::new(Driver { open, made });
            mounts.push(Mounted::new(target, driver, hidden.identity));
        }
        relate(&mut mounts);
        // Leaked: who reads the table now goes on with it, and there are few.
        self.all.set(Some(Box::leak(Box::new(mounts))));
    }

    /// The root of `mount`, a driver's, is the root directory from now on, for good (chroot(2)):
    /// targets below its own lose that beginning, and no path leads to the others any more. Of a
    /// mount and its target from then on `is_kernels` says whether it is what the kernel has there:
    /// its paths are the kernel's. `EBUSY` where another root is, `ESTALE` where there is no such
    /// mount.
    pub fn enter_root(
        &self,
        mount: MountId,
        is_kernels: impl Fn(MountId, &[u8]) -> bool,
    ) -> core::result::Result<(), Errno> {
        let _alone = self.extending.lock();
        match self.root() {
            Some(entered) if entered == mount => return Ok(()),
            Some(_) => return Err(Errno::EBUSY),
            None => {}
        }
        let root = self.get(mount).ok_or(Errno::ESTALE)?.target.clone();
        self.root
            .get_or_try_init(|| Ok::<_, Errno>((mount, root.clone())))?;
        let again = |(id, mount): (MountId, &Mounted)| {
            let target = seen_from(&mount.target, &root);
            let is_kernels = is_kernels(id, &target);
            Mounted {
                is_kernels,
                ..Mounted::new(target, mount.driver.clone(), mount.identity)
            }
        };
        let mut mounts: Vec<_> = self.ids().zip(self.mounts()).map(again).collect();
        relate(&mut mounts);
        // Leaked: who reads the table now goes on with it.
        self.all.set(Some(Box::leak(Box::new(mounts))));
        Ok(())
    }

    /// The mount whose root is the root directory.
    pub fn root(&self) -> Option<MountId> {
        self.root.get().map(|(mount, _)| *mount)
    }

    /// Whether paths of `mount` are the kernel's own ([`MountTable::enter_root`]).
    pub fn is_kernels(&self, mount: MountId) -> bool {
        self.get(mount).is_some_and(|mount| mount.is_kernels)
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.mounts().len()
    }

    /// Whether no later one at the same target hides `mount`.
    pub fn is_shown(&self, mount: MountId) -> bool {
        self.at_target(self.target(mount)) == Some(mount)
    }

    /// Whether there is no mount at all.
    pub fn is_empty(&self) -> bool {
        self.mounts().is_empty()
    }

    /// All mounts in the order they were added.
    pub fn ids(&self) -> impl Iterator<Item = MountId> + '_ {
        (0..self.mounts().len()).map(|index| MountId(index as u16))
    }

    /// The driver of `mount`, made now if this is the first use. `ESTALE` for a mount of another
    /// process that this one does not have.
    #[inline]
    pub fn driver(&self, mount: MountId) -> Result<&dyn FileSystem> {
        let mount = self.get(mount).ok_or(Errno::ESTALE)?;
        match mount.driver.made.get() {
            Some(driver) => Ok(&**driver),
            None => mount
                .driver
                .made
                .get_or_try_init(|| (mount.driver.open)())
                .map(|driver| &**driver),
        }
    }

    /// The same; the errno, and the cause in the log.
    #[inline]
    pub fn file_system(&self, mount: MountId) -> core::result::Result<&dyn FileSystem, Errno> {
        self.driver(mount).map_err(|error| {
            culvert_sys::log!("the mount at {}: {error}", self.shown_name(mount));
            error.errno()
        })
    }

    /// The name that users know `mount` by: its target.
    pub fn shown_name(&self, mount: MountId) -> String {
        let target = self.get(mount).map(|mount| &mount.target[..]);
        String::from_utf8_lossy(target.unwrap_or(b"a mount")).into_owned()
    }

    /// The driver of `mount` if something has used it already.
    pub fn driver_if_open(&self, mount: MountId) -> Option<&dyn FileSystem> {
        self.get(mount)?.driver.made.get().map(|driver| &**driver)
    }

    /// The kernel's tree that `mount` is, if it is one ([`FileSystem::backing`]); opens the driver.
    pub fn backing(&self, mount: MountId) -> Result<Option<Backing>> {
        self.driver(mount).map(|driver| driver.backing())
    }

    /// The mount with a backing tree that the canonical `path` lies in, and the rest of the path
    /// below its root, without leading slash. None also when its driver cannot be opened: no walk
    /// gets into such a mount.
    pub fn backed<'p>(&self, path: &'p [u8]) -> Option<(MountId, Backing, &'p [u8])> {
        let (mount, rest) = self.deepest(path)?;
        if self.is_kernels(mount) {
            return None;
        }
        let backing = self.driver_if_open(mount)?.backing()?;
        Some((mount, backing, rest))
    }

    /// The tree of `mount` when a path that has its target for a beginning needs no look at other
    /// mounts: it is open, and no other mount's target lies above or below its own.
    #[inline]
    pub fn direct(&self, mount: MountId) -> Option<Backing> {
        let mount = self.get(mount)?;
        mount
            .alone
            .then(|| mount.driver.made.get()?.backing())
            .flatten()
    }

    /// The mount with such a tree whose target `path` begins with. The first path of all opens the
    /// driver, as a walk would, which makes a dozen calls more to say who walks: shells begin with
    /// their working directory by its path. None where that fails: a walk says why.
    #[inline]
    pub fn direct_above(&self, path: &[u8]) -> Option<(MountId, Backing)> {
        let fits = |mount: &Mounted| mount.alone && is_below(path, &mount.target);
        let mount = MountId(self.mounts().iter().position(fits)? as u16);
        Some((mount, self.driver(mount).ok()?.backing()?))
    }

    /// Where `mount` is: an absolute path, empty for a mount that this process does not have.
    pub fn target(&self, mount: MountId) -> &[u8] {
        self.get(mount).map_or(b"", |mount| &mount.target)
    }

    /// The last component of its target.
    pub fn name(&self, mount: MountId) -> &[u8] {
        self.get(mount).map_or(b"", Mounted::name)
    }

    /// The mount that `mount` was put into, none when its target is outside all mounts.
    pub fn parent(&self, mount: MountId) -> Option<MountId> {
        self.get(mount)?.parent
    }

    /// The mount whose target's real directory has this `(st_dev, st_ino)`. A call that succeeded
    /// natively and ended there reached the mount through a link outside: what it means is the
    /// mount's root.
    #[inline]
    pub fn is_target(&self, dev: u64, ino: u64) -> Option<MountId> {
        self.find(|mount| mount.identity == Some((dev, ino)))
    }

    /// The deepest mount that the canonical `path` is in, by text, and the rest of the path below
    /// its root, without leading slash.
    #[inline]
    pub fn deepest<'p>(&self, path: &'p [u8]) -> Option<(MountId, &'p [u8])> {
        let (index, length) = deepest(self.mounts(), path)?;
        let rest = match path.get(length..) {
            Some([b'/', rest @ ..]) => rest,
            _ => b"",
        };
        Some((MountId(index as u16), rest))
    }

    /// The directory that the kernel names by the canonical `path` (getcwd, `/proc/self/fd/N`): a
    /// target's own directory is the mount's root.
    pub fn place(&self, path: &[u8]) -> Result<Place> {
        if let Some(mount) = self.at_target(path) {
            let driver = self.driver(mount)?;
            if driver.backing().is_none() {
                let node = driver.root();
                return Ok(Place::Mount { mount, node });
            }
        }
        Ok(Place::Host(path.to_vec()))
    }

    /// The absolute path of a directory, for getcwd and `/proc/self/fd`.
    pub fn path_of(&self, place: &Place) -> Result<Vec<u8>> {
        match place {
            Place::Host(path) => Ok(path.clone()),
            Place::Mount { mount, node } => self.path_of_node(*mount, *node),
        }
    }

    /// The absolute path of a node of any kind.
    pub fn path_of_node(&self, mount: MountId, node: Node) -> Result<Vec<u8>> {
        let below = self.driver(mount)?.path_of(node)?;
        let mut path = self.target(mount).to_vec();
        if !below.is_empty() {
            path.push(b'/');
            path.extend_from_slice(&below);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }

    /// The mounts in directory `node` of `mount`, a driver's, that cover no name of it.
    pub fn without_directory(&self, mount: MountId, node: Node) -> Vec<MountId> {
        let Ok(driver) = self.driver(mount) else {
            return Vec::new();
        };
        let is_missing = |name: &[u8]| match driver.lookup(&Caller::SYSTEM, node, name) {
            Ok(entry) => {
                driver.forget(entry.attributes.node, 1);
                false
            }
            Err(error) => error.errno() == Errno::ENOENT,
        };
        let lies_there = |id: &MountId| {
            self.get(*id).is_some_and(|child| {
                child.parent == Some(mount)
                    && self.covered(child).is_some_and(|c| c.parent == node)
                    && is_missing(child.name())
            })
        };
        self.shown().filter(lies_there).collect()
    }

    /// The mounts in directories of the kernel's, outside of all mounts and in backing trees.
    pub fn in_kernel_directories(&self) -> impl Iterator<Item = MountId> {
        let seen = self.shown().filter(|&id| self.root() != Some(id));
        seen.filter(|&id| match self.parent(id) {
            Some(parent) => self.backing(parent).is_ok_and(|backing| backing.is_some()),
            None => true,
        })
    }

    /// Those that no later one at the same target hides.
    fn shown(&self) -> impl Iterator<Item = MountId> {
        self.ids().filter(|&id| self.is_shown(id))
    }

    pub(crate) fn targets(&self) -> impl Iterator<Item = &[u8]> {
        self.mounts().iter().map(|mount| &mount.target[..])
    }

    pub(crate) fn has_children(&self, mount: MountId) -> bool {
        self.get(mount).is_some_and(|mount| mount.has_children)
    }

    /// The mount whose target is exactly the canonical `path`.
    pub(crate) fn at_target(&self, path: &[u8]) -> Option<MountId> {
        let path = if path == b"/" { b"" } else { path };
        self.find(|mount| mount.target == path)
    }

    /// Whether a target lies below the canonical `path` (root: empty), so that it is a directory
    /// without links for certain.
    pub(crate) fn leads_to_target(&self, path: &[u8]) -> bool {
        path.is_empty() || self.targets().any(|target| is_below(target, path))
    }

    /// The mount that covers `name` in directory `dir` of `mount`, by the name.
    pub(crate) fn covering_name(&self, mount: MountId, dir: Node, name: &[u8]) -> Option<MountId> {
        self.find(|child| {
            child.parent == Some(mount)
                && child.name() == name
                && self.covered(child).is_some_and(|c| c.parent == dir)
        })
    }

    /// The mount that covers directory `node` of `mount`, for drivers to which several names mean
    /// the same.
    pub(crate) fn covering_node(&self, mount: MountId, node: Node) -> Option<MountId> {
        self.find(|child| {
            child.parent == Some(mount) && self.covered(child).is_some_and(|c| c.node == Some(node))
        })
    }

    /// The directory that `..` of a mount's root is (`ENOENT` when the mount around it lost that
    /// directory).
    pub(crate) fn above(&self, mount: MountId) -> Result<Place> {
        let id = mount;
        let mount = self.get(id).ok_or(Errno::ESTALE)?;
        if mount.target.is_empty() {
            let node = self.driver(id)?.root();
            return Ok(Place::Mount { mount: id, node });
        }
        match mount.parent {
            None => Ok(Place::Host(
                mount.target[..split(&mount.target).max(1)].to_vec(),
            )),
            // `..` of a place in a backing tree is found by text, as everywhere in the kernel's
            // own.
            Some(parent) if self.backing(parent)?.is_some() => Ok(Place::Host(
                mount.target[..split(&mount.target).max(1)].to_vec(),
            )),
            Some(parent) => match self.covered(mount) {
                Some(covered) => Ok(Place::Mount {
                    mount: parent,
                    node: covered.parent,
                }),
                None => Err(Errno::ENOENT.into()),
            },
        }
    }

    fn get(&self, mount: MountId) -> Option<&Mounted> {
        self.mounts().get(mount.0 as usize)
    }

    /// The latest mount that fits: of two at one target the later one hides the earlier.
    fn find(&self, fits: impl Fn(&Mounted) -> bool) -> Option<MountId> {
        let index = self.mounts().iter().rposition(fits)?;
        Some(MountId(index as u16))
    }

    /// Where the target of `child` lies in its parent mount; none when there is no parent, or no
    /// directory to hold it.
    fn covered(&self, child: &Mounted) -> Option<Covered> {
        let parent = child.parent?;
        let find = || -> Result<Option<Covered>> {
            let driver = self.driver(parent)?;
            let below = &child.target[self.target(parent).len()..];
            let mut directory = driver.root();
            let way = below[..split(below)].strip_prefix(b"/").unwrap_or(b"");
            if !way.is_empty() {
                let walked = driver.walk(&Caller::SYSTEM, directory, way)?;
                match walked.entry {
                    Some(entry)
                        if walked.consumed == way.len()
                            && entry.attributes.kind == FileKind::Directory =>
                    {
                        // its reference is kept: the mount lies in it
                        directory = entry.attributes.node;
                    }
                    _ => return Ok(None),
                }
            }
            let entry = driver.lookup(&Caller::SYSTEM, directory, child.name());
            Ok(Some(Covered {
                parent: directory,
                node: entry.ok().map(|entry| entry.attributes.node),
            }))
        };
        *child.covered.get_or_try_init(find).unwrap_or(&None)
    }
}
