//! What nodes are on the branches: lookups, and what they show.

use super::branch::Tree;
use super::choice::candidate;
use super::control::{NAME, NODE};
use super::follow::as_link;
use super::found::{All, Found, Lease};
use super::nodes::{Member, Seen};
use super::options::{Follow, Function, InodeCalc};
use super::state::{Core, Look, Parts};
use crate::sorted_names::hash;
use alloc::{sync::Arc, vec::Vec};
use culvert::{Access, Attributes, Caller, Entry, Errno, FileKind, Node, Reached, Result};

impl Core {
    /// Everything that is called `name` in the directory `parts`; with `first`, no more than the
    /// first unless that is a directory. Empty: `ENOENT`. What a branch does not show the caller
    /// could be what hides the rest: its error is the answer.
    pub fn all(
        &self,
        caller: &Caller<'_>,
        parts: &Parts,
        name: &[u8],
        first: bool,
        look: Look,
    ) -> Result<All<'_>> {
        let mut all = All::new();
        for (index, part) in parts.iter().enumerate() {
            let Some(part) = *part else { continue };
            self.judge(caller, parts, index, Access::EXECUTE)?;
            let found = match look {
                Look::Glance => self.find(caller, index, part, name),
                Look::Exact => self.find_exactly(caller, index, part, name),
            };
            match found {
                Ok(one) => {
                    let ends = first && all.is_empty() && one.kind() != FileKind::Directory;
                    all.push((index, one));
                    if ends {
                        break;
                    }
                }
                Err(error) => match error.errno() {
                    Errno::ENOENT | Errno::ESTALE => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(all)
    }

    /// What `name` in the directory `parts` is: one of each branch of a directory, else one. Empty:
    /// nothing.
    pub fn seek(
        &self,
        caller: &Caller<'_>,
        parts: &Parts,
        name: &[u8],
        look: Look,
    ) -> Result<All<'_>> {
        let policy = self.settings().policy(Function::Getattr);
        let mut found = self.all(caller, parts, name, policy.is_first(), look)?;
        if found.len() > 1 {
            let at = match policy.is_first() {
                true => 0,
                false => {
                    let of = |one: &(usize, Found<'_>)| candidate(one, &self.branches[one.0]);
                    let candidates: Vec<_> = found.iter().map(of).collect();
                    let chosen = policy.choose(&candidates);
                    let of = |index: &usize| found.iter().position(|one| one.0 == *index);
                    chosen.first().and_then(of).unwrap_or(0)
                }
            };
            let is_directory = |one: &(usize, Found<'_>)| one.1.kind() == FileKind::Directory;
            match is_directory(&found[at]) {
                true => found.retain(is_directory),
                false => found = Vec::from([found.swap_remove(at)]),
            }
        }
        Ok(found)
    }

    /// `name` in `dir`, with one reference.
    pub fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let parts = self.directory(caller, dir)?;
        let follow = self.settings().follow;
        self.lookup_in(caller, (dir, &parts), name, follow)?
            .map(|found| found.0)
            .ok_or(Errno::ENOENT.into())
    }

    /// `name` in `dir`, which is `parts`, with one reference, and what it is on each branch should
    /// it be a directory; none where there is nothing.
    fn lookup_in(
        &self,
        caller: &Caller<'_>,
        (dir, parts): (Node, &Parts),
        name: &[u8],
        follow: Follow,
    ) -> Result<Option<(Entry, Parts)>> {
        if (dir, name) == (super::ROOT, NAME) {
            let attributes = self.control.attributes();
            return Ok(Some((Entry { attributes }, Parts::new())));
        }
        let mut look = Look::Glance;
        let _ = self.looks.take((dir, name));
        loop {
            let found = self.seek(caller, parts, name, look)?;
            if found.is_empty() {
                return Ok(None);
            }
            let mut members = alloc::vec![None; self.branches.len()];
            for (index, one) in &found {
                members[*index] = Some(one.node());
            }
            match self.enter(Some((dir, name)), found) {
                // What was known by its name is another by now.
                Err(error) if error.errno() == Errno::ESTALE && look == Look::Glance => {
                    look = Look::Exact;
                }
                entry => {
                    let entry = entry?;
                    let Attributes { node, kind, .. } = entry.attributes;
                    if follow == Follow::Never || kind != FileKind::Symlink {
                        return Ok(Some((entry, members)));
                    }
                    let followed = self.followed(caller, dir, node);
                    if !matches!(followed, Ok(None)) {
                        self.nodes.forget(node, 1).give_back();
                    }
                    return Ok(Some(followed?.unwrap_or((entry, members))));
                }
            }
        }
    }

    /// What `path` below the root leads to, with one reference.
    pub fn walk(&self, caller: &Caller<'_>, path: &[u8]) -> Result<Node> {
        if path.is_empty() {
            return Ok(super::ROOT);
        }
        match self.reach(caller, super::ROOT, path, Follow::Never) {
            None => Err(Errno::ENOTDIR.into()),
            Some(reached) => {
                let reached = reached?;
                if reached.parent != super::ROOT {
                    // What is below keeps it.
                    self.nodes.forget(reached.parent, 1).give_back();
                }
                let entry = reached.entry.ok_or(Errno::ENOENT)?;
                Ok(entry.attributes.node)
            }
        }
    }

    /// [`culvert::FileSystem::reach`]; none where a link is on the way.
    pub fn reach(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
        follow: Follow,
    ) -> Option<Result<Reached>> {
        if let Some(reached) = self.reach_lately(caller, from, path, follow) {
            return Some(reached);
        }
        let mut parent = from;
        let mut parts = match self.directory(caller, from) {
            Ok(parts) => parts,
            Err(error) => return Some(Err(error)),
        };
        let leave = |node: Node| {
            if node != from {
                self.nodes.forget(node, 1).give_back();
            }
        };
        let mut names = path.split(|&byte| byte == b'/').peekable();
        while let Some(name) = names.next() {
            let found = self.lookup_in(caller, (parent, &parts), name, follow);
            let is_last = names.peek().is_none();
            let (entry, members) = match found {
                Ok(found) if is_last => {
                    let entry = found.map(|found| found.0);
                    return Some(Ok(Reached { entry, parent }));
                }
                Ok(Some(found)) => found,
                Ok(None) => {
                    leave(parent);
                    return Some(Err(Errno::ENOENT.into()));
                }
                Err(error) => {
                    leave(parent);
                    return Some(Err(error));
                }
            };
            leave(parent);
            let Attributes { node, kind, .. } = entry.attributes;
            match kind {
                FileKind::Directory => (parent, parts) = (node, members),
                kind => {
                    leave(node);
                    return match kind {
                        FileKind::Symlink => None,
                        _ => Some(Err(Errno::ENOTDIR.into())),
                    };
                }
            }
        }
        leave(parent);
        Some(Err(Errno::ENOENT.into()))
    }

    /// Whether there is nothing called `name` in the directory `parts`: else `EEXIST`.
    pub fn absent(&self, caller: &Caller<'_>, parts: &Parts, name: &[u8]) -> Result<()> {
        let root = self.branches.iter().map(|branch| Some(branch.fs.root()));
        if name == NAME && root.eq(parts.iter().copied()) {
            return Err(Errno::EEXIST.into());
        }
        match self
            .all(caller, parts, name, true, Look::Glance)?
            .is_empty()
        {
            true => Ok(()),
            false => Err(Errno::EEXIST.into()),
        }
    }

    /// The entry of what was `found` in `place`: of one thing.
    pub fn enter(&self, place: Option<(Node, &[u8])>, found: All<'_>) -> Result<Entry> {
        let (shown_index, mut shown) = match found.first() {
            Some((index, found)) => (*index, found.entry.attributes),
            None => return Err(Errno::ENOENT.into()),
        };
        let birth = shown.btime;
        for (_, found) in &found[1..] {
            shown = together(shown, &found.entry.attributes);
        }
        // Archives have no times of birth, and are never younger than what is made of them.
        let age = |(index, found): &&(usize, Found<'_>)| (found.entry.attributes.btime, *index);
        let oldest = found.iter().min_by_key(age).map(|(index, found)| {
            let branch = &self.branches[*index];
            (
                branch.number(found.node()),
                branch.inode(found.entry.attributes.inode),
            )
        });
        let (mut node, inode) = oldest.ok_or(Errno::ENOENT)?;
        if self.is_shown_as_link(&shown) {
            node = as_link(node);
            shown.kind = FileKind::Symlink;
        }
        // Not those on other file systems than their branch's, which somebody may want to unmount.
        let is_home = |(index, found): &(usize, Found<'_>)| {
            let branch = &self.branches[*index];
            let fd = branch
                .glance
                .and_then(|_| branch.fs.kernel_node(found.node()));
            let on = branch.glance.zip(fd);
            on.is_none_or(|(glance, fd)| glance.is_home(fd))
        };
        let stays = shown.kind == FileKind::Directory
            && self.nodes.stays(node, || found.iter().all(is_home));
        let (mut asked, mut pins) = (u64::MAX, Vec::new());
        let member = |(index, found): (usize, Found<'_>)| {
            let (entry, lease) = found.take();
            let count = match lease {
                Lease::Reference => 1,
                Lease::Pin(_, node) => {
                    pins.push(node);
                    0
                }
                Lease::Name(since) => {
                    asked = asked.min(since);
                    0
                }
            };
            Member {
                tree: Arc::clone(&self.branches[index].tree),
                node: entry.attributes.node,
                count,
            }
        };
        let members = found.into_iter().map(member).collect();
        let seen = Seen {
            node,
            kind: shown.kind,
            members,
            inode,
            birth,
            asked,
            stays,
        };
        let (node, returned) = self.nodes.enter(place, seen);
        returned.give_back();
        for pinned in pins {
            self.nodes.unpin(pinned).give_back();
        }
        let node = node?;
        Ok(Entry {
            attributes: self.shown(node, &self.branches[shown_index], shown),
        })
    }

    /// stat(2) of `node`: of a directory what all of its parts say.
    pub fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        if node == NODE {
            return Ok(self.control.attributes());
        }
        let kind = self.nodes.with(node, |known| known.kind)?;
        let (index, part) = match self.one(caller, node, Function::Getattr) {
            Err(error) if error.errno() == Errno::ESTALE => {
                let (tree, part) = self.elsewhere(node).ok_or(error)?;
                let found = tree.fs.attributes(caller, part)?;
                return Ok(self.shown(node, &tree, found));
            }
            one => one?,
        };
        let mut found = self.branches[index].fs.attributes(caller, part)?;
        if kind == FileKind::Symlink {
            // Also a file that is shown as one.
            found.kind = kind;
        }
        if kind == FileKind::Directory {
            let parts = self.directory(caller, node)?.into_iter().enumerate();
            for (at, part) in parts.filter(|part| part.0 != index) {
                let part = part.map(|part| self.branches[at].fs.attributes(caller, part));
                if let Some(Ok(other)) = part {
                    found = together(found, &other);
                }
            }
        }
        Ok(self.shown(node, &self.branches[index], found))
    }

    /// The same where a change of the file `node` on a branch, whose file system lies there, has
    /// told what it is now.
    pub fn attributes_after(
        &self,
        caller: &Caller<'_>,
        node: Node,
        branch: *const (),
        changed: Attributes,
    ) -> Result<Attributes> {
        let is_first = self.settings().policy(Function::Getattr).is_first();
        let shown = self.nodes.with(node, |known| {
            let first = known.members.first();
            let is_it = |first: &&Member| core::ptr::addr_eq(&*first.tree.fs, branch);
            first.filter(is_it).map(|first| Arc::clone(&first.tree))
        })?;
        match shown.filter(|tree| is_first && self.branch_of(tree).is_some()) {
            Some(tree) => Ok(self.shown(node, &tree, changed)),
            None => self.attributes(caller, node),
        }
    }

    /// Where `node` is, a file that is open and lies on what is a branch no more: no policy is
    /// asked of it.
    pub fn elsewhere(&self, node: Node) -> Option<(Arc<Tree>, Node)> {
        let first = self.nodes.with(node, |known| match known.kind {
            FileKind::Directory => None,
            _ => known.members.first().cloned(),
        });
        let first = first.ok().flatten()?;
        let is_elsewhere = self.branch_of(&first.tree).is_none();
        is_elsewhere.then_some((first.tree, first.node))
    }

    /// `attributes` of what is `node`, from the branch `tree`, as the union shows them.
    pub fn shown(&self, node: Node, branch: &Tree, attributes: Attributes) -> Attributes {
        let inode = match self.settings().inodes {
            InodeCalc::Hybrid if attributes.kind == FileKind::Directory => {
                let known = self.nodes.with(node, |known| known.inode);
                known.unwrap_or(node.0)
            }
            InodeCalc::Hybrid | InodeCalc::DevIno => branch.inode(attributes.inode),
            InodeCalc::Passthrough => attributes.inode,
            InodeCalc::Path => hash(&self.seen_path(node)),
        };
        // Of a file that is shown as a link the length is that of its path.
        let size = match self.settings().symlinkify {
            true if attributes.kind == FileKind::Symlink => {
                self.link_size(node, branch, attributes.size)
            }
            _ => attributes.size,
        };
        Attributes {
            node,
            inode: self.width(inode),
            size,
            ..attributes
        }
    }

    /// `inode` in as many bits as are wanted.
    pub fn width(&self, inode: u64) -> u64 {
        match self.settings().narrow {
            true => (inode ^ (inode >> 32)) & 0xffff_ffff,
            false => inode,
        }
    }

    /// The path by which `node` was seen last.
    pub fn seen_path(&self, node: Node) -> Vec<u8> {
        let mut names = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next {
            let place = self.nodes.with(node, |known| known.place.clone());
            next = place.ok().flatten().map(|(above, name)| {
                names.push(name);
                above
            });
        }
        names.reverse();
        names.join(&b'/')
    }
}

/// `shown` of a directory that is `other`, too: a name that is made on one branch changes it, and a
/// directory that several have counts as often, which find(1) does no harm.
fn together(shown: Attributes, other: &Attributes) -> Attributes {
    Attributes {
        links: match (shown.links, other.links) {
            (2.., 2..) => shown.links.saturating_add(other.links - 2),
            (own, _) => own,
        },
        mtime: shown.mtime.max(other.mtime),
        ctime: shown.ctime.max(other.ctime),
        ..shown
    }
}
