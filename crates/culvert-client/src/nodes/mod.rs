//! The nodes and names that this process knows of: what it owes the server (lookup counts), and
//! what it may believe for how long.
//!
//! A node stays known while the front end has a reference, a file or a hold on it, or while a node
//! below it is known; then as long as there is room, since its next lookup would bring it again.
//! What is dropped is given back by FORGET: by the last that has a part in its account
//! ([`crate::holders`]), a child of a fork among them. Lookups besides that, of a process for which
//! there was no room, are not given back where a child may have them too, and stay until the server
//! ends.

mod find;
mod holds;
mod learn;
mod names;
mod table;

use crate::holders::Account;
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use culvert::{Attributes, Errno, FileKind, Result, Timespec, sync::Mutex};
use culvert_wire::{ROOT_ID, structures::ForgetOne};

/// How many nodes that nobody uses are kept.
const KEPT: usize = 16384;

/// The longest path that is put together, in names: a server's nodes may lie in a ring.
pub const DEEPEST: usize = 4096;

/// A name that was absent this long ago is not looked up again before it is made, as the kernel's
/// one open(2) with `O_CREAT` looks once, nanoseconds.
const JUST_NOW: u64 = 100_000_000;

/// What is known of a node.
struct Known {
    /// By which this process holds it, together with others.
    account: Option<Account>,
    /// What the server counts for this process besides.
    lookups: u64,
    /// [`Shared::forks`] at the last of them.
    born: u64,
    references: u64,
    /// Open files and holds.
    uses: u64,
    /// Nodes that have this one for their parent.
    children: u64,
    parent: u64,
    /// None: it has none any more, or it was never known.
    name: Option<Box<[u8]>>,
    /// None of a file that was inherited: no lookup has said it yet.
    generation: Option<u64>,
    kind: FileKind,
    attributes: Option<Attributes>,
    /// When it was made, once the server was asked; none within: it does not say so.
    made: Option<Option<Timespec>>,
    expires: u64,
    stamp: u64,
    /// Attributes of its names were asked for since it was listed last.
    lists_plus: bool,
}

impl Known {
    fn new(kind: FileKind, generation: Option<u64>) -> Self {
        Self {
            account: None,
            lookups: 0,
            born: 0,
            references: 0,
            uses: 0,
            children: 0,
            parent: 0,
            name: None,
            generation,
            kind,
            attributes: None,
            made: None,
            expires: 0,
            stamp: 0,
            lists_plus: false,
        }
    }

    const fn is_used(&self) -> bool {
        self.references > 0 || self.uses > 0 || self.children > 0
    }
}

/// What is known of a name.
#[derive(Clone, Copy)]
struct Named {
    /// 0: there is none.
    node: u64,
    expires: u64,
    stamp: u64,
    /// When it was asked for.
    seen: u64,
}

/// How things stand before the server is asked: what it answers is believed only if nothing has
/// changed meanwhile.
#[derive(Clone, Copy)]
pub struct Before {
    /// [`crate::connection::Connection::now`].
    pub now: u64,
    /// Notifications of the server.
    pub told: u64,
    /// Changes of the name that is looked up.
    pub name: u64,
    /// Changes of any node.
    pub all: u64,
    /// What the name led to before, and changes of that.
    pub candidate: Option<(u64, u64)>,
}

/// What a reply said of a node.
pub struct Entered<'a> {
    /// Its directory and its name there.
    pub at: (u64, &'a [u8]),
    pub node: u64,
    pub generation: u64,
    pub attributes: Attributes,
    /// Until when attributes and name may be believed.
    pub attributes_expire: u64,
    pub name_expires: u64,
}

/// What is known of a name now.
pub enum Found {
    /// Nothing that may be believed; the node that it led to last.
    Unknown(Option<u64>),
    Absent,
    /// A node, one more reference on which the front end has.
    Node(Attributes),
}

struct Table {
    nodes: BTreeMap<u64, Known>,
    names: BTreeMap<u64, BTreeMap<Box<[u8]>, Named>>,
    /// How many names there are.
    named: usize,
    told: u64,
    sweep_at: usize,
    /// Another time of change means other bytes (`FUSE_AUTO_INVAL_DATA`).
    times_tell: bool,
}

/// The nodes and names.
pub struct Nodes(Mutex<Table>);

/// What is to be given back to the server.
pub type Back = Vec<ForgetOne>;

/// A node's directory, and its name there.
pub type Step = (u64, Vec<u8>);

impl Nodes {
    /// The root alone; `times_tell`: another time of change means other bytes.
    pub fn new(times_tell: bool) -> Self {
        let mut nodes = BTreeMap::new();
        nodes.insert(ROOT_ID, Known::new(FileKind::Directory, Some(0)));
        Self(Mutex::new(Table {
            nodes,
            names: BTreeMap::new(),
            named: 0,
            told: 0,
            sweep_at: KEPT,
            times_tell,
        }))
    }

    /// What `node` is; `ESTALE`: it is none.
    pub fn kind(&self, node: u64) -> Result<FileKind> {
        let table = self.0.lock();
        Ok(table.nodes.get(&node).ok_or(Errno::ESTALE)?.kind)
    }

    /// `ENOTDIR`: `node` is no directory.
    pub fn directory(&self, node: u64) -> Result<()> {
        match self.kind(node)? {
            FileKind::Directory => Ok(()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    /// The last that was said of the mode of `node`, whether or not it may be believed.
    pub fn last_mode(&self, node: u64) -> Option<u32> {
        let table = self.0.lock();
        Some(table.nodes.get(&node)?.attributes?.permissions)
    }

    /// Whether a listing of `dir` that does not begin at its start is to bring attributes
    /// (`fuse_use_readdirplus`, fs/fuse/readdir.c).
    pub fn takes_plus(&self, dir: u64) -> bool {
        let mut table = self.0.lock();
        let known = table.nodes.get_mut(&dir);
        known.is_some_and(|known| core::mem::take(&mut known.lists_plus))
    }
}
