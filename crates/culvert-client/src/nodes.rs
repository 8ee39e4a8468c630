//! The nodes and names that this process knows of: what it owes the server (lookup counts), and
//! what it may believe for how long.
//!
//! A node stays known while the front end has a reference, a file or a hold on it, or while a node
//! below it is known; then as long as there is room, since its next lookup would bring it again.
//! What is dropped is given back by FORGET: by the last that has a part in its account
//! ([`crate::holders`]), a child of a fork among them. Lookups besides that, of a process for which
//! there was no room, are not given back where a child may have them too, and stay until the server
//! ends.

use crate::{
    holders::Account,
    remembered::{NameRecord, NodeRecord},
    words::Shared,
};
use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};
use culvert::{Attributes, Errno, FileKind, Node, Result, sync::Mutex};
use culvert_wire::{ROOT_ID, structures::ForgetOne};

/// How many nodes that nobody uses are kept.
const KEPT: usize = 16384;

/// The longest path that is put together, in names: a server's nodes may lie in a ring.
const DEEPEST: usize = 4096;

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
}

/// The nodes and names.
pub struct Nodes(Mutex<Table>);

/// What is to be given back to the server.
pub type Back = Vec<ForgetOne>;

/// A node on a way up, its directory and its name there.
pub type Step = (u64, u64, Box<[u8]>);

impl Nodes {
    /// The root alone.
    pub fn new() -> Self {
        let mut nodes = BTreeMap::new();
        nodes.insert(ROOT_ID, Known::new(FileKind::Directory, Some(0)));
        Self(Mutex::new(Table {
            nodes,
            names: BTreeMap::new(),
            named: 0,
            told: 0,
            sweep_at: KEPT,
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

    /// The attributes of `node`, if they may be believed.
    pub fn believed(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        node: u64,
    ) -> Option<Attributes> {
        let mut table = self.0.lock();
        table.told(told);
        table.nodes.get(&node)?.believed(words, now, node)
    }

    /// Until when, from `now` on, what the server said of `node` last may be believed; `now`: not at
    /// all.
    pub fn believed_until(&self, words: Shared<'_>, (now, told): (u64, u64), node: u64) -> u64 {
        let mut table = self.0.lock();
        table.told(told);
        let known = table.nodes.get(&node);
        match known.filter(|_| words.is_shared) {
            Some(known) => known.expires.max(now),
            None => now,
        }
    }

    /// What `name` in `dir` is, if that may be believed.
    pub fn find(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        dir: u64,
        name: &[u8],
    ) -> Result<Found> {
        let mut table = self.0.lock();
        table.told(told);
        let parent = table.nodes.get_mut(&dir).ok_or(Errno::ESTALE)?;
        if parent.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        parent.lists_plus = true;
        let Some(named) = table.named(dir, name) else {
            return Ok(Found::Unknown(None));
        };
        let candidate = Some(named.node).filter(|&node| node != 0);
        if !named.is_believed(words, now, dir, name) {
            return Ok(Found::Unknown(candidate));
        }
        let Some(node) = candidate else {
            return Ok(Found::Absent);
        };
        let Some(known) = table.nodes.get_mut(&node) else {
            return Ok(Found::Unknown(None));
        };
        Ok(match known.believed(words, now, node) {
            Some(attributes) => {
                known.references = known.references.saturating_add(1);
                Found::Node(attributes)
            }
            None => Found::Unknown(candidate),
        })
    }

    /// What all remember of `name` in `dir`, if that may be believed and its node held: known here
    /// from now on, as if this process had looked it up. None: the server is to be asked.
    pub fn take_over(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        dir: u64,
        name: &[u8],
    ) -> Option<(Found, Back)> {
        let record = words.remembered_name((now, told), dir, name)?;
        let mut table = self.0.lock();
        if table.told != told || !table.nodes.contains_key(&dir) {
            return None;
        }
        let named = Named {
            node: record.node,
            expires: record.expires,
            stamp: record.stamp,
            seen: now,
        };
        if record.node == 0 {
            table.leave_known_name(dir, name);
            table.put_name(dir, name, named);
            return Some((Found::Absent, Vec::new()));
        }
        let node = record.node;
        let found = words.remembered_node((now, told), node)?;
        let (account, attributes) = (record.account?, found.attributes);
        // Under its number there may have been another node since.
        let is_same = words.is_held(account) && found.account.is_some_and(|of| words.is_held(of));
        if node == ROOT_ID || node == dir || !is_same {
            return None;
        }
        match table.nodes.get(&node) {
            // Another one, under its number.
            Some(known)
                if known.kind != attributes.kind
                    || known.generation.is_some_and(|is| is != found.generation) =>
            {
                return None;
            }
            Some(known) if known.account.is_some() || known.lookups > 0 => {}
            _ if !words.join(account) => return None,
            _ => {
                let new = || Known::new(attributes.kind, None);
                table.nodes.entry(node).or_insert_with(new).account = Some(account);
            }
        }
        let known = table.nodes.get_mut(&node)?;
        known.generation = Some(found.generation);
        known.references = known.references.saturating_add(1);
        known.attributes = Some(attributes);
        known.stamp = found.stamp;
        known.expires = found.expires;
        table.move_to(node, dir, name);
        table.put_name(dir, name, named);
        let back = match table.nodes.len() + table.named > table.sweep_at {
            true => table.sweep(words, now),
            false => Vec::new(),
        };
        Some((Found::Node(attributes), back))
    }

    /// What all remember of the attributes of `node`, which is known here, if that may be believed.
    pub fn take_attributes(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        node: u64,
    ) -> Option<Attributes> {
        let found = words.remembered_node((now, told), node)?;
        let mut table = self.0.lock();
        if table.told != told {
            return None;
        }
        let known = table.nodes.get_mut(&node)?;
        let other = known.generation.is_some_and(|is| is != found.generation);
        // Under its number there may have been another node since.
        let is_same = node == ROOT_ID || found.account.is_some_and(|of| words.is_held(of));
        if other || known.kind != found.attributes.kind || !is_same {
            return None;
        }
        known.attributes = Some(found.attributes);
        known.stamp = found.stamp;
        known.expires = found.expires;
        Some(found.attributes)
    }

    /// The directory that `name` in `dir` is, if that may be believed, whatever its attributes are
    /// now; one more reference on it.
    pub fn step(
        &self,
        words: Shared<'_>,
        (now, told): (u64, u64),
        dir: u64,
        name: &[u8],
    ) -> Option<u64> {
        let mut table = self.0.lock();
        table.told(told);
        let named = table.named(dir, name)?;
        if !named.is_believed(words, now, dir, name) {
            return None;
        }
        let known = table.nodes.get_mut(&named.node)?;
        if known.kind != FileKind::Directory {
            return None;
        }
        known.references = known.references.saturating_add(1);
        Some(named.node)
    }

    /// Whether `name` in `dir` was looked up just now and was not there.
    pub fn just_absent(&self, words: Shared<'_>, now: u64, dir: u64, name: &[u8]) -> bool {
        let table = self.0.lock();
        let recent = |named: Named| {
            let same = words.is_shared && words.name(dir, name).now() == named.stamp;
            named.node == 0 && same && now.saturating_sub(named.seen) < JUST_NOW
        };
        table.named(dir, name).is_some_and(recent)
    }

    /// What the name led to last, and how often that has changed.
    pub fn candidate(&self, words: Shared<'_>, node: Option<u64>) -> Option<(u64, u64)> {
        node.map(|node| (node, words.of_node(node)))
    }

    /// The name was not there, as the server said for `valid` nanoseconds.
    pub fn absent(
        &self,
        words: Shared<'_>,
        (dir, name): (u64, &[u8]),
        before: &Before,
        valid: u64,
    ) {
        let mut table = self.0.lock();
        // Somebody has made it since.
        if words.name(dir, name).now() != before.name {
            return;
        }
        table.leave_known_name(dir, name);
        let expires = before.now.saturating_add(valid);
        if valid > 0 && table.told == before.told {
            let known = NameRecord {
                expires,
                node: 0,
                stamp: before.name,
                told: before.told,
                account: None,
            };
            words.remember_name(dir, name, &known);
        }
        if table.nodes.contains_key(&dir) {
            table.put_name(
                dir,
                name,
                Named {
                    node: 0,
                    expires,
                    stamp: before.name,
                    seen: before.now,
                },
            );
        }
    }

    /// The server has counted one more lookup of a node; with `reference` the front end gets one.
    /// What is to be given back, and the error: `EIO` where the node is another than the one that
    /// is in use under its number (`fuse_stale_inode`, fs/fuse/inode.c).
    pub fn enter(
        &self,
        words: Shared<'_>,
        before: &Before,
        entered: &Entered<'_>,
        reference: bool,
    ) -> (Back, Result<()>) {
        let mut table = self.0.lock();
        let node = entered.node;
        let (dir, name) = entered.at;
        let attributes = &entered.attributes;
        let differs = table.nodes.get(&node).is_some_and(|known| {
            let other = |known| known != entered.generation;
            known.generation.is_some_and(other) || known.kind != attributes.kind
        });
        let mut back = Vec::new();
        if differs {
            let used = table.nodes.get(&node).is_some_and(Known::is_used) || node == ROOT_ID;
            if used {
                back.push(ForgetOne {
                    nodeid: node,
                    nlookup: 1,
                });
                return (back, Err(Errno::EIO.into()));
            }
            back.extend(table.drop_node(node, words));
        }
        let stamp = words.of_node(node);
        let untold = before.told == table.told;
        let steady = match before.candidate {
            Some((candidate, then)) if candidate == node => then == stamp,
            _ => before.all == words.of_all(),
        };
        let known = table
            .nodes
            .entry(node)
            .or_insert_with(|| Known::new(attributes.kind, None));
        known.generation = Some(entered.generation);
        let first = known.account.is_none() && known.lookups == 0;
        if first {
            let (account, evicted) = words.open_account(node);
            known.account = account;
            back.extend(evicted.map(|nodeid| ForgetOne { nodeid, nlookup: 1 }));
        }
        // A child of a fork since then has the node by those from before, unless by the account:
        // they are not given back.
        let forks = words.forks();
        if core::mem::replace(&mut known.born, forks) != forks && known.account.is_none() {
            known.lookups = 0;
        }
        if !first || known.account.is_none() {
            known.lookups = known.lookups.saturating_add(1);
        }
        known.references = known.references.saturating_add(u64::from(reference));
        known.attributes = Some(*attributes);
        known.stamp = stamp;
        known.expires = match steady && untold {
            true => entered.attributes_expire,
            false => 0,
        };
        let account = known.account;
        if known.expires > before.now && account.is_some() {
            words.remember_node(&NodeRecord {
                expires: known.expires,
                generation: entered.generation,
                stamp,
                told: before.told,
                account,
                attributes: *attributes,
            });
        }
        // Where it has a name, and this one has changed since, the other may be the newer.
        let changed = words.name(dir, name).now() != before.name;
        if !changed || known.name.is_none() {
            table.move_to(node, dir, name);
            let named = Named {
                node,
                expires: match untold {
                    true => entered.name_expires,
                    false => 0,
                },
                stamp: before.name,
                seen: before.now,
            };
            if named.expires > before.now && account.is_some() {
                let known = NameRecord {
                    expires: named.expires,
                    node,
                    stamp: before.name,
                    told: before.told,
                    account,
                };
                words.remember_name(dir, name, &known);
            }
            table.put_name(dir, name, named);
        }
        if table.nodes.len() + table.named > table.sweep_at {
            back.extend(table.sweep(words, before.now));
        }
        (back, Ok(()))
    }

    /// What the server says of a node that is known: `EIO` where it is something else
    /// (`inode_wrong_type`, fs/fuse/dir.c). Believed until `expires` if it has changed `stamp`
    /// times still.
    pub fn learn(
        &self,
        words: Shared<'_>,
        node: u64,
        attributes: &Attributes,
        expires: u64,
        (stamp, told): (u64, u64),
    ) -> Result<()> {
        let mut table = self.0.lock();
        let same = table.told == told;
        let Some(known) = table.nodes.get_mut(&node) else {
            return Ok(());
        };
        if known.kind != attributes.kind {
            return Err(Errno::EIO.into());
        }
        known.attributes = Some(*attributes);
        known.stamp = stamp;
        let steady = same && words.of_node(node) == stamp;
        known.expires = if steady { expires } else { 0 };
        let account = known.account;
        let lasts = known.expires > 0 && (account.is_some() || node == ROOT_ID);
        if let Some(generation) = known.generation.filter(|_| lasts) {
            words.remember_node(&NodeRecord {
                expires,
                generation,
                stamp,
                told,
                account,
                attributes: *attributes,
            });
        }
        Ok(())
    }

    /// The front end gives `count` references back.
    pub fn forget(&self, words: Shared<'_>, node: u64, count: u64) -> Back {
        self.less(words, node, |known| {
            known.references = known.references.saturating_sub(count);
        })
    }

    /// One more file or hold on `node`.
    pub fn hold(&self, node: u64) -> Result<()> {
        let mut table = self.0.lock();
        let known = table.nodes.get_mut(&node).ok_or(Errno::ESTALE)?;
        known.uses = known.uses.saturating_add(1);
        Ok(())
    }

    /// The server has a request on `node` in hand that nobody waits for: what it has counted so far is
    /// not given back.
    pub fn keep(&self, node: u64) {
        if let Some(known) = self.0.lock().nodes.get_mut(&node) {
            known.lookups = 0;
            // Nobody leaves it.
            known.account = None;
        }
    }

    /// The end of one.
    pub fn release(&self, words: Shared<'_>, node: u64) -> Back {
        self.less(words, node, |known| {
            known.uses = known.uses.saturating_sub(1);
        })
    }

    fn less(&self, words: Shared<'_>, node: u64, change: impl FnOnce(&mut Known)) -> Back {
        let mut table = self.0.lock();
        let Some(known) = table.nodes.get_mut(&node) else {
            return Vec::new();
        };
        change(known);
        let nameless = known.name.is_none() && !known.is_used() && node != ROOT_ID;
        match nameless {
            true => table.drop_node(node, words),
            false => Vec::new(),
        }
    }

    /// A file that another process, or an earlier program of this one, has opened: its node is
    /// known here from now on, by no lookup of ours.
    pub fn adopt(&self, words: Shared<'_>, node: u64, account: Option<Account>) {
        let mut table = self.0.lock();
        let known = table
            .nodes
            .entry(node)
            .or_insert_with(|| Known::new(FileKind::Regular, None));
        known.uses = known.uses.saturating_add(1);
        if known.account.is_none() && known.lookups == 0 {
            known.account = account.filter(|&account| words.join(account));
        }
    }

    /// The account by which this process holds `node`.
    pub fn account(&self, node: u64) -> Option<Account> {
        self.0.lock().nodes.get(&node)?.account
    }

    /// `node` was made in `dir` without a name.
    pub fn unname(&self, node: u64, dir: u64) {
        let mut table = self.0.lock();
        table.leave_known_name(dir, b"");
        if let Some(known) = table.nodes.get_mut(&node) {
            known.name = None;
        }
    }

    /// `name` in `dir` is gone, or leads elsewhere: it means nothing here any more.
    pub fn remove(&self, words: Shared<'_>, dir: u64, name: &[u8]) -> Back {
        let mut table = self.0.lock();
        let node = table.leave_name(dir, name);
        match node.filter(|node| table.is_droppable(*node)) {
            Some(node) => table.drop_node(node, words),
            None => Vec::new(),
        }
    }

    /// What was `from` is `to`; with `exchange` the other way round too.
    pub fn rename(
        &self,
        words: Shared<'_>,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        exchange: bool,
    ) -> Back {
        let mut table = self.0.lock();
        let moved = table.leave_name(from.0, from.1);
        let replaced = table.leave_name(to.0, to.1);
        if let Some(node) = moved {
            table.move_to(node, to.0, to.1);
        }
        match replaced {
            Some(node) if exchange => {
                table.move_to(node, from.0, from.1);
                Vec::new()
            }
            Some(node) if table.is_droppable(node) => table.drop_node(node, words),
            _ => Vec::new(),
        }
    }

    /// The node that `name` in `dir` led to last, if that is known, and its kind.
    pub fn last(&self, dir: u64, name: &[u8]) -> Option<(u64, FileKind)> {
        let table = self.0.lock();
        let node = table.named(dir, name)?.node;
        Some((node, table.nodes.get(&node)?.kind))
    }

    /// The node that was looked up last as `name` in `dir`, or moved there.
    pub fn last_node(&self, dir: u64, name: &[u8]) -> Option<u64> {
        let table = self.0.lock();
        let named = table.named(dir, name).map(|named| named.node);
        let moved = || {
            let is = |known: &Known| known.parent == dir && known.name.as_deref() == Some(name);
            let found = table.nodes.iter().find(|(_, known)| is(known));
            found.map(|(node, _)| *node)
        };
        named.filter(|&node| node != 0).or_else(moved)
    }

    /// The directory of `node`.
    pub fn parent(&self, node: u64) -> Result<Node> {
        let table = self.0.lock();
        let known = table.nodes.get(&node).ok_or(Errno::ESTALE)?;
        if known.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        match (node, &known.name) {
            (ROOT_ID, _) => Ok(Node(ROOT_ID)),
            (_, Some(_)) => Ok(Node(known.parent)),
            (_, None) => Err(Errno::ENOENT.into()),
        }
    }

    /// From `node` up to `above`, if it is that or lies in it, as far as that is known.
    pub fn way(&self, node: u64, above: u64) -> Option<Vec<Step>> {
        let table = self.0.lock();
        let (mut way, mut at) = (Vec::new(), node);
        while at != above {
            let known = table.nodes.get(&at).filter(|_| at != ROOT_ID)?;
            way.push((at, known.parent, known.name.clone()?));
            at = known.parent;
            if way.len() > DEEPEST {
                return None;
            }
        }
        Some(way)
    }

    /// The path of `node` below the root.
    pub fn path(&self, node: u64) -> Result<Vec<u8>> {
        let table = self.0.lock();
        let (mut names, mut at) = (Vec::new(), node);
        while at != ROOT_ID {
            let error = if at == node {
                Errno::ESTALE
            } else {
                Errno::ENOENT
            };
            let known = table.nodes.get(&at).ok_or(error)?;
            names.push(known.name.as_ref().ok_or(Errno::ENOENT)?);
            at = known.parent;
            if names.len() > DEEPEST {
                return Err(Errno::EIO.into());
            }
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        Ok(path)
    }

    /// Whether a listing of `dir` that does not begin at its start is to bring attributes
    /// (`fuse_use_readdirplus`, fs/fuse/readdir.c).
    pub fn takes_plus(&self, dir: u64) -> bool {
        let mut table = self.0.lock();
        let known = table.nodes.get_mut(&dir);
        known.is_some_and(|known| core::mem::take(&mut known.lists_plus))
    }

    /// Drops what nobody uses.
    pub fn drop_unused(&self, words: Shared<'_>) -> Back {
        let mut table = self.0.lock();
        table.names.clear();
        table.named = 0;
        table.sweep(words, u64::MAX)
    }

    /// Whether anything is held by an account.
    pub fn has_accounts(&self) -> bool {
        let table = self.0.lock();
        table.nodes.values().any(|known| known.account.is_some())
    }

    /// Whether that is so, or a file open.
    pub fn holds_any(&self) -> bool {
        let table = self.0.lock();
        let holds = |known: &Known| known.account.is_some() || known.uses > 0;
        table.nodes.values().any(holds)
    }

    /// This is the child of a fork: what the parent has looked up is the parent's to give back. The
    /// child has a part in the parent's accounts from here on; what the parent has given back
    /// before it came to this is known no more.
    pub fn forked(&self, words: Shared<'_>) {
        let mut table = self.0.lock();
        table.names.clear();
        table.named = 0;
        let mut lost = Vec::new();
        for (&node, known) in &mut table.nodes {
            known.lookups = 0;
            match known.account {
                Some(account) if words.join(account) => {}
                Some(account) if words.place.is_some() || !words.keep(account) => lost.push(node),
                _ => known.account = None,
            }
        }
        for node in lost {
            if let Some(known) = table.nodes.remove(&node) {
                table.leaves(known.parent);
            }
        }
    }
}

impl Known {
    fn believed(&self, words: Shared<'_>, now: u64, node: u64) -> Option<Attributes> {
        let believed = words.is_shared && now < self.expires && words.of_node(node) == self.stamp;
        self.attributes.filter(|_| believed)
    }
}

impl Named {
    fn is_believed(&self, words: Shared<'_>, now: u64, dir: u64, name: &[u8]) -> bool {
        words.is_shared && now < self.expires && words.name(dir, name).now() == self.stamp
    }
}

impl Table {
    /// The server has sent so many notifications.
    fn told(&mut self, told: u64) {
        if self.told != told {
            self.told = told;
            self.names.clear();
            self.named = 0;
            self.nodes.values_mut().for_each(|known| known.expires = 0);
        }
    }

    fn named(&self, dir: u64, name: &[u8]) -> Option<Named> {
        self.names.get(&dir)?.get(name).copied()
    }

    fn put_name(&mut self, dir: u64, name: &[u8], named: Named) {
        let names = self.names.entry(dir).or_default();
        if names.insert(name.into(), named).is_none() {
            self.named += 1;
        }
    }

    /// Takes the name off; the node that it led to.
    fn leave_name(&mut self, dir: u64, name: &[u8]) -> Option<u64> {
        self.leave_known_name(dir, name).or_else(|| {
            // What names led to was dropped since: the nodes know.
            let mut all = self.nodes.iter_mut();
            let has = |known: &Known| known.parent == dir && known.name.as_deref() == Some(name);
            let (node, known) = all.find(|(_, known)| has(known))?;
            known.name = None;
            Some(*node)
        })
    }

    fn leave_known_name(&mut self, dir: u64, name: &[u8]) -> Option<u64> {
        let names = self.names.get_mut(&dir)?;
        let named = names.remove(name)?;
        self.named = self.named.saturating_sub(1);
        if names.is_empty() {
            self.names.remove(&dir);
        }
        let known = self.nodes.get_mut(&named.node)?;
        if known.parent == dir && known.name.as_deref() == Some(name) {
            known.name = None;
        }
        Some(named.node)
    }

    /// `node` lies in `dir` under `name`.
    fn move_to(&mut self, node: u64, dir: u64, name: &[u8]) {
        if node == ROOT_ID {
            return;
        }
        let Some(known) = self.nodes.get_mut(&node) else {
            return;
        };
        if known.name.as_deref() != Some(name) {
            known.name = Some(name.into());
        }
        let before = core::mem::replace(&mut known.parent, dir);
        if before != dir {
            self.leaves(before);
            if let Some(parent) = self.nodes.get_mut(&dir) {
                parent.children = parent.children.saturating_add(1);
            }
        }
    }

    /// A node does not lie in `dir` any more.
    fn leaves(&mut self, dir: u64) {
        if let Some(parent) = self.nodes.get_mut(&dir) {
            parent.children = parent.children.saturating_sub(1);
        }
    }

    fn is_droppable(&self, node: u64) -> bool {
        node != ROOT_ID && self.nodes.get(&node).is_some_and(|known| !known.is_used())
    }

    /// Drops a node that nobody uses.
    fn drop_node(&mut self, node: u64, words: Shared<'_>) -> Back {
        let Some(known) = self.nodes.remove(&node) else {
            return Vec::new();
        };
        self.leaves(known.parent);
        if let Some(names) = self.names.remove(&node) {
            self.named = self.named.saturating_sub(names.len());
        }
        if let Some(name) = &known.name
            && let Some(names) = self.names.get_mut(&known.parent)
            && names.get(&**name).is_some_and(|named| named.node == node)
        {
            names.remove(&**name);
            self.named = self.named.saturating_sub(1);
        }
        let last = known.account.is_some_and(|account| match &known.name {
            Some(_) => words.leave(account),
            None => words.leave_nameless(account),
        });
        // A child of a fork since then may have it, too.
        let held = known.account.is_some();
        let own = match held || known.born == words.forks() {
            true => known.lookups,
            false => 0,
        };
        let nlookup = own + u64::from(last);
        let one = ForgetOne {
            nodeid: node,
            nlookup,
        };
        (nlookup > 0).then_some(one).into_iter().collect()
    }

    /// Drops nodes that nobody uses, from the leaves up, and names that are not believed.
    fn sweep(&mut self, words: Shared<'_>, now: u64) -> Back {
        let mut back = Vec::new();
        loop {
            let unused = self.nodes.iter().filter(|(_, known)| {
                // Before all that may still be believed goes, what may not.
                !known.is_used() && (known.expires <= now || self.nodes.len() > KEPT)
            });
            let unused: Vec<u64> = unused
                .map(|(&node, _)| node)
                .filter(|&node| node != ROOT_ID)
                .collect();
            if unused.is_empty() {
                break;
            }
            for node in unused {
                back.extend(self.drop_node(node, words));
            }
        }
        if self.named > KEPT {
            self.names.clear();
            self.named = 0;
        }
        self.sweep_at = KEPT.max(2 * (self.nodes.len() + self.named));
        back
    }
}
