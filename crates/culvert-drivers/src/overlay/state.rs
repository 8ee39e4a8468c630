//! What an overlay is: its layers, and what all of its parts use.

use super::nodes::{Known, Nodes, Returned};
use super::options::{Redirects, Settings};
pub use super::parts::{Part, Parts, both};
use super::remembered::Remembered;
use crate::Keeper;
use crate::name_changes::{Changing, NameChanges};
use crate::superuser;
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::*};
use culvert::{
    Attributes, Caller, Capabilities, Errno, FileKind, FileSystem, Node, Result, Rights,
};
use culvert_sys::sync::OnceCell;

/// One layer.
pub struct Layer {
    /// Its file system.
    pub fs: Box<dyn FileSystem>,
    /// The directory in it that is the layer's root.
    pub root: Node,
    /// What tells its nodes from those of others: layers on one device of the kernel's have the
    /// same. None: all lie on one device, and nodes are its inodes.
    pub salt: Option<u64>,
    /// The device that it lies on, where it is a directory of the kernel's.
    pub device: Option<u64>,
    /// Whether `.wh.` names are whiteouts.
    pub docker: bool,
    /// The identity of its file system, as origins have it.
    pub uuid: OnceCell<Option<[u8; 16]>>,
}

/// An overlay.
pub struct Core {
    /// The upper one first, where there is one.
    pub layers: Vec<Layer>,
    /// The options.
    pub settings: Settings,
    /// What the front end knows.
    pub nodes: Nodes,
    /// What is remembered between lookups.
    pub remembered: Remembered,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The right to change anything.
    pub names: NameChanges,
    /// The directory for what is made before it is shown.
    pub work: Option<Node>,
    /// Keeps descriptors.
    pub keeper: Keeper,
    /// Whether this is a server of the superuser's, which acts for others.
    pub elevates: bool,
    /// The root.
    pub root: Node,
    /// How many changes of the run's processes this one has seen.
    pub seen: AtomicU64,
    /// How many there were when another process changed something.
    pub foreign: AtomicU64,
}

/// The right to change, for as long as it is held.
pub struct Change<'a> {
    core: &'a Core,
    changing: Changing<'a>,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // What this one has changed it knows.
        let after = self.changing.note();
        let _ = self
            .core
            .seen
            .compare_exchange(after - 1, after, AcqRel, Relaxed);
    }
}

/// What copies need that are made for others.
const NEEDED: Rights = Rights::CHOWN
    .with(Rights::DAC_OVERRIDE)
    .with(Rights::DAC_READ_SEARCH)
    .with(Rights::FOWNER)
    .with(Rights::FSETID)
    .with(Rights::SYS_ADMIN)
    .with(Rights::MKNOD)
    .with(Rights::SETFCAP);

impl Core {
    /// Waits until nobody else changes anything.
    pub fn change(&self) -> Change<'_> {
        let changing = self.names.change_of([None, None]);
        self.look_for_changes();
        Change {
            core: self,
            changing,
        }
    }

    /// Notes whether other processes have changed anything. The number of changes.
    pub fn look_for_changes(&self) -> u64 {
        let count = self.names.count();
        if self.seen.swap(count, AcqRel) != count {
            self.foreign.fetch_max(count, AcqRel);
        }
        count
    }

    /// Whether what was found when `checked` changes were known is so yet, as far as the run's
    /// processes are concerned.
    pub fn is_fresh(&self, checked: u64) -> bool {
        self.look_for_changes();
        self.names.knows_all() && checked >= self.foreign.load(Acquire)
    }

    /// Whether marks say where directories are.
    pub fn follows(&self) -> bool {
        self.settings.redirects != Redirects::Ignored
    }

    /// `EROFS` on a mount that is to stay as it is.
    pub fn writable(&self) -> Result<()> {
        match self.settings.read_only {
            true => Err(Errno::EROFS.into()),
            false => Ok(()),
        }
    }

    /// The upper layer's file system.
    pub fn upper(&self) -> Result<&dyn FileSystem> {
        self.writable()?;
        Ok(&*self.layers[0].fs)
    }

    /// Whether `part` is one of the upper layer, which other processes change.
    pub fn is_upper(&self, part: &Part) -> bool {
        part.layer == 0 && self.settings.upper
    }

    /// The file system of `part`.
    pub fn fs(&self, part: Part) -> &dyn FileSystem {
        &*self.layers[part.layer].fs
    }

    /// Does `work` with all rights over files that there are.
    pub fn elevated<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.elevates {
            true => superuser::with(NEEDED, work),
            false => work(),
        }
    }

    /// Does `work`, if need be as whoever has made the mount.
    pub fn as_mounter<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if self.elevates && error.errno() == Errno::EACCES => {
                superuser::with(NEEDED, work)
            }
            done => done,
        }
    }

    /// The number of `node` of layer `index`, unless marks say more.
    pub fn number(&self, index: usize, node: Node) -> Node {
        super::numbered(self.layers[index].salt, node)
    }

    /// What node `number` shows, of which the uppermost part has the attributes `found`.
    pub fn shown(&self, number: Node, parts: &Parts, found: Attributes) -> Attributes {
        let is_directory = found.kind == FileKind::Directory;
        Attributes {
            node: number,
            inode: match parts.top() {
                // Its own, or that of a file with several names, each of which has a number.
                Ok(top)
                    if number.0 & super::MADE != 0
                        || number == self.number(top.layer, found.node) =>
                {
                    self.number(top.layer, Node(found.inode)).0
                }
                _ => number.0,
            },
            // As the kernel: find(1) then counts on nothing.
            links: match is_directory && parts.is_merged() {
                true => 1,
                false => found.links,
            },
            ..found
        }
    }

    /// The attributes of `part`, whoever asks.
    pub fn attributes_of(&self, part: Part) -> Result<Attributes> {
        self.as_mounter(|| self.fs(part).attributes(&Caller::SYSTEM, part.node))
    }

    /// Gives references back to layers.
    pub fn give_back(&self, returned: Returned) {
        for (part, count) in returned.0 {
            self.fs(part).forget(part.node, count);
        }
    }

    /// What is known of `node`, as it is now.
    pub fn known<T>(&self, node: Node, look: impl FnOnce(&mut Known) -> T) -> Result<T> {
        self.refresh(node)?;
        self.nodes.with(node, look)
    }

    /// What directory `dir` is in the layers: `ENOTDIR` where it is none, `ENOENT` where it was
    /// removed.
    pub fn directory(&self, dir: Node) -> Result<Parts> {
        let (kind, gone, parts) =
            self.known(dir, |known| (known.kind, known.gone, known.parts.clone()))?;
        match (kind, gone) {
            (FileKind::Directory, false) => Ok(parts),
            (FileKind::Directory, true) => Err(Errno::ENOENT.into()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    /// What `node` is in the layers.
    pub fn parts(&self, node: Node) -> Result<Parts> {
        self.known(node, |known| known.parts.clone())
    }
}
