//! Which node has which path.

use crate::{Attributes, Errno, FileKind, Node, Result};
use alloc::{collections::BTreeMap, vec::Vec};

pub(super) const ROOT: Node = Node(1);

/// Open files whose name was removed live on under names that start so.
pub(super) const HIDDEN: &[u8] = b".culvert-hidden-";

pub(super) struct Known {
    pub(super) kind: FileKind,
    /// As the driver reports it, 0 when it does not.
    inode: u64,
    /// Every name seen, the latest first; one for a directory, none for the root and for what was
    /// removed.
    names: Vec<(Node, Vec<u8>)>,
    children: BTreeMap<Vec<u8>, Node>,
    references: u64,
    pub(super) opens: u64,
    /// Its only name is one that we gave it to keep it open.
    pub(super) hidden: bool,
    /// What it was when it lost its last name.
    pub(super) last: Option<Attributes>,
    /// Where a directory was when it lost its name: what its `..` leads to.
    was_in: Option<Node>,
    /// What a directory was when it was last looked at.
    seen: Option<Attributes>,
}

impl Known {
    /// What the driver reports so; nothing refers to it, and it has no name.
    const fn new(kind: FileKind, inode: u64) -> Self {
        Self {
            kind,
            inode,
            names: Vec::new(),
            children: BTreeMap::new(),
            references: 0,
            opens: 0,
            hidden: false,
            last: None,
            was_in: None,
            seen: None,
        }
    }

    fn note(&mut self, found: &Attributes) {
        if self.kind == FileKind::Directory {
            self.seen = Some(*found);
        }
    }

    fn lose(&mut self, dir: Node, name: &[u8]) {
        let names = &mut self.names;
        names.retain(|(holder, held)| (*holder, held.as_slice()) != (dir, name));
    }
}

pub(super) struct PathTable {
    nodes: BTreeMap<Node, Known>,
    /// The node of an inode whose number a removed file had that was still referred to.
    renumbered: BTreeMap<u64, Node>,
}

/// Mixes bytes into a number that is the same in every process (FNV-1a, then the finish of
/// splitmix64).
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

impl PathTable {
    pub(super) fn new() -> Self {
        let root = Known {
            references: 1,
            ..Known::new(FileKind::Directory, 0)
        };
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            renumbered: BTreeMap::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn get(&self, node: Node) -> Result<&Known> {
        Ok(self.nodes.get(&node).ok_or(Errno::ESTALE)?)
    }

    pub(super) fn get_mut(&mut self, node: Node) -> Result<&mut Known> {
        Ok(self.nodes.get_mut(&node).ok_or(Errno::ESTALE)?)
    }

    /// The driver's path of `node`; `ENOENT` when it has none any more. A hidden one has one.
    pub(super) fn path(&self, node: Node) -> Result<Vec<u8>> {
        let (mut names, mut at) = (Vec::new(), node);
        while at != ROOT {
            let (dir, name) = self.get(at)?.names.first().ok_or(Errno::ENOENT)?;
            names.push(name.as_slice());
            at = *dir;
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }

    /// The path of `name` in directory `dir`.
    pub(super) fn path_in(&self, dir: Node, name: &[u8]) -> Result<Vec<u8>> {
        if self.get(dir)?.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let mut path = self.path(dir)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Ok(path)
    }

    pub(super) fn parent(&self, dir: Node) -> Result<Node> {
        let known = self.get(dir)?;
        match (known.kind, known.names.first()) {
            (FileKind::Directory, Some((parent, _))) => Ok(*parent),
            (FileKind::Directory, None) if dir == ROOT => Ok(ROOT),
            (FileKind::Directory, None) => known.was_in.ok_or(Errno::ENOENT.into()),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    /// A name of `node`, with the directory that holds it.
    pub(super) fn name(&self, node: Node) -> Option<(Node, Vec<u8>)> {
        self.nodes.get(&node)?.names.first().cloned()
    }

    pub(super) fn child(&self, dir: Node, name: &[u8]) -> Option<Node> {
        self.nodes.get(&dir)?.children.get(name).copied()
    }

    /// Whether `node` has other names than `name` in `dir`.
    pub(super) fn has_other_names(&self, node: Node, dir: Node, name: &[u8]) -> bool {
        let other = |(holder, known): &(Node, Vec<u8>)| (*holder, known.as_slice()) != (dir, name);
        self.nodes
            .get(&node)
            .is_some_and(|known| known.names.iter().any(other))
    }

    /// Whether the driver reported an inode for `node`.
    pub(super) fn is_identified(&self, node: Node) -> Result<bool> {
        Ok(self.get(node)?.inode != 0)
    }

    /// Compares `node` with what the driver found for it now: `ESTALE` when that is another file.
    pub(super) fn compare(&self, node: Node, found: &Attributes) -> Result<()> {
        let known = self.get(node)?;
        let same = known.inode == 0
            || found.inode == 0
            || (known.inode, known.kind) == (found.inode, found.kind);
        same.then_some(()).ok_or(Errno::ESTALE.into())
    }

    /// The same, of what `node` is asked for: a directory's is known from then on.
    pub(super) fn see(&mut self, node: Node, found: &Attributes) -> Result<()> {
        self.compare(node, found)?;
        self.get_mut(node)?.note(found);
        Ok(())
    }

    /// What the directory `node` was when it was last looked at, if it was, now that somebody has
    /// removed it.
    pub(super) fn seen(&self, node: Node) -> Option<Attributes> {
        let seen = self.nodes.get(&node)?.seen?;
        Some(Attributes { links: 0, ..seen })
    }

    /// What the node was when it lost its last name, if it did.
    pub(super) fn removed(&self, node: Node) -> Result<Option<Attributes>> {
        Ok(self.get(node)?.last)
    }

    /// `node`, which has no name any more, is `now` so, but for its links.
    pub(super) fn remember(&mut self, node: Node, now: Attributes) {
        let last = self
            .nodes
            .get_mut(&node)
            .and_then(|known| known.last.as_mut());
        if let Some(last) = last {
            let links = last.links;
            *last = Attributes { links, ..now };
        }
    }

    /// `node` and the directories above it, each with its inode; not the root, nor what has none.
    pub(super) fn itself_and_above(&self, node: Node) -> Vec<(Node, u64)> {
        let (mut all, mut at) = (Vec::new(), node);
        while at != ROOT
            && let Some(known) = self.nodes.get(&at)
        {
            if known.inode != 0 {
                all.push((at, known.inode));
            }
            match known.names.first() {
                Some((dir, _)) => at = *dir,
                None => break,
            }
        }
        all
    }

    /// Whether `node` is `above` or lies below it.
    pub(super) fn is_below(&self, mut node: Node, above: Node) -> bool {
        loop {
            if node == above {
                return true;
            }
            match self.nodes.get(&node).and_then(|known| known.names.first()) {
                Some((dir, _)) => node = *dir,
                None => return false,
            }
        }
    }

    /// The number that `path` with `inode` would be given, were it free.
    pub(super) fn number(path: &[u8], inode: u64) -> Node {
        match inode {
            0 => Node(hash(path)),
            inode => Node(inode),
        }
    }

    /// The node of `name` in `dir`, where the driver found `attributes`: the one known, or a new
    /// one.
    pub(super) fn bind(&mut self, dir: Node, name: &[u8], attributes: &Attributes) -> Result<Node> {
        let path = self.path_in(dir, name)?;
        let (inode, kind) = (attributes.inode, attributes.kind);
        let same = |known: &Known| known.kind == kind && known.inode == inode;
        if let Some(node) = self.child(dir, name) {
            if self.get(node).is_ok_and(same) {
                self.get_mut(node)?.note(attributes);
                return Ok(node);
            }
            // Somebody else has replaced it.
            self.unbind(dir, name, None);
        }
        // A new name of a file that got another number, though its own may be free by now.
        let renumbered = (inode != 0).then(|| self.renumbered.get(&inode)).flatten();
        let own = Self::number(&path, inode);
        let mut number = renumbered.copied().unwrap_or(own);
        while let Some(known) = self.nodes.get(&number) {
            // Another name of a known file, or the only one of a file whose number is in use again.
            let gone = known.last.is_some_and(|last| last.links == 0);
            if inode != 0 && same(known) && !known.hidden && !gone {
                break;
            }
            number = Node(hash(&number.0.to_le_bytes()));
        }
        if number.0 == 0 {
            number = Node(hash(&path) | 2);
        }
        if inode != 0 && number != own {
            self.renumbered.insert(inode, number);
        }
        let made = || Known::new(kind, inode);
        let known = self.nodes.entry(number).or_insert_with(made);
        known.last = None;
        let was_in = known.was_in.take();
        known.note(attributes);
        let moved = match kind {
            // A directory has one name: it was moved behind our back.
            FileKind::Directory => known.names.pop(),
            _ => None,
        };
        known.names.insert(0, (dir, name.to_vec()));
        if let Some(parent) = self.nodes.get_mut(&dir) {
            parent.children.insert(name.to_vec(), number);
        }
        if let Some((old, name)) = moved
            && let Some(parent) = self.nodes.get_mut(&old)
        {
            parent.children.remove(&name);
            self.drop_unused(old);
        }
        if let Some(dir) = was_in {
            self.forget(dir, 1);
        }
        Ok(number)
    }

    /// A node, with one reference, for what was made as `attributes` say and has no name by now.
    pub(super) fn nameless(&mut self, path: &[u8], attributes: Attributes) -> Node {
        let mut number = Self::number(path, attributes.inode);
        while number.0 == 0 || self.nodes.contains_key(&number) {
            number = Node(hash(&number.0.to_le_bytes()));
        }
        let last = Attributes {
            links: 0,
            ..attributes
        };
        let known = Known {
            references: 1,
            last: Some(last),
            ..Known::new(attributes.kind, attributes.inode)
        };
        self.nodes.insert(number, known);
        number
    }

    /// `name` in `dir` is gone; `last` is what its node was, if that was asked.
    pub(super) fn unbind(&mut self, dir: Node, name: &[u8], last: Option<Attributes>) {
        let Some(parent) = self.nodes.get_mut(&dir) else {
            return;
        };
        let Some(node) = parent.children.remove(name) else {
            return;
        };
        let mut leads_up = false;
        if let Some(known) = self.nodes.get_mut(&node) {
            known.lose(dir, name);
            if known.names.is_empty() {
                // Names that were never looked up are not known here: the driver's count says
                // whether there are any.
                let links = match known.kind {
                    FileKind::Directory => 0,
                    _ if known.inode == 0 => 0,
                    _ => last.map_or(0, |last| last.links.saturating_sub(1)),
                };
                known.last = last.map(|last| Attributes { links, ..last });
                known.hidden = false;
                leads_up = known.kind == FileKind::Directory && known.was_in.is_none();
                if leads_up {
                    known.was_in = Some(dir);
                }
            }
        }
        if leads_up {
            self.reference(dir);
        }
        self.drop_unused(node);
        self.drop_unused(dir);
    }

    /// `from` is now called `to`; what was called so must have been unbound.
    pub(super) fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8])) {
        let moved = self
            .nodes
            .get_mut(&from.0)
            .and_then(|dir| dir.children.remove(from.1));
        let Some(node) = moved else { return };
        if let Some(dir) = self.nodes.get_mut(&to.0) {
            dir.children.insert(to.1.to_vec(), node);
        }
        if let Some(known) = self.nodes.get_mut(&node) {
            known.lose(from.0, from.1);
            known.names.insert(0, (to.0, to.1.to_vec()));
        }
        self.drop_unused(from.0);
    }

    /// `one` and `other` have changed places.
    pub(super) fn exchange(&mut self, one: (Node, &[u8]), other: (Node, &[u8])) {
        let aside = b"/"; // no name of a file
        self.rename(one, (ROOT, aside));
        self.rename(other, one);
        self.rename((ROOT, aside), other);
    }

    pub(super) fn reference(&mut self, node: Node) {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.references += 1;
        }
    }

    pub(super) fn forget(&mut self, node: Node, count: u64) {
        if node == ROOT {
            return;
        }
        if let Some(known) = self.nodes.get_mut(&node) {
            known.references = known.references.saturating_sub(count);
            self.drop_unused(node);
        }
    }

    /// Lets go of `node` when nothing needs it, and then of the directories above that were kept
    /// for it.
    pub(super) fn drop_unused(&mut self, mut node: Node) {
        while let Some(known) = self.nodes.get(&node) {
            if known.references > 0 || known.opens > 0 || !known.children.is_empty() {
                return;
            }
            let Some(gone) = self.nodes.remove(&node) else {
                return;
            };
            if self.renumbered.get(&gone.inode) == Some(&node) {
                self.renumbered.remove(&gone.inode);
            }
            let mut above = gone.was_in;
            if let Some(dir) = above.filter(|dir| *dir != ROOT)
                && let Some(known) = self.nodes.get_mut(&dir)
            {
                known.references = known.references.saturating_sub(1);
            }
            for (dir, name) in gone.names {
                if let Some(parent) = self.nodes.get_mut(&dir) {
                    parent.children.remove(&name);
                }
                above = Some(dir);
                if gone.kind != FileKind::Directory {
                    self.drop_unused(dir);
                }
            }
            match above {
                Some(dir) => node = dir,
                None => return,
            }
        }
    }
}
