//! Names that change, and ways up.

use super::{Back, DEEPEST, Known, Nodes, Step, Table};
use crate::{remembered::Moved, words::Shared};
use alloc::vec::Vec;
use culvert::{Errno, FileKind, Node, Result};
use culvert_wire::ROOT_ID;

impl Nodes {
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

    /// How often `name` in `dir` had changed when it was looked up last, if that is known.
    pub fn seen(&self, dir: u64, name: &[u8]) -> Option<u64> {
        let table = self.0.lock();
        Some(table.named(dir, name)?.stamp)
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

    /// The directory of `node`, and its name there, as far as this process knows.
    pub fn place(&self, node: u64) -> Option<Step> {
        let table = self.0.lock();
        let known = table.nodes.get(&node).filter(|_| node != ROOT_ID)?;
        Some((known.parent, known.name.as_deref()?.to_vec()))
    }

    /// The way from directory `node`, known here, up to the root, as far as this process knows.
    pub fn way_up(&self, node: u64) -> Vec<(u64, Step)> {
        let (mut way, mut at) = (Vec::new(), node);
        while let Some(place) = self.place(at).filter(|_| way.len() < DEEPEST) {
            let dir = place.0;
            way.push((at, place));
            at = dir;
        }
        way
    }

    /// The path of `node` below the root; where others have moved it, or a directory above it, the
    /// one that they have said.
    pub fn path(&self, words: Shared<'_>, node: u64) -> Result<Vec<u8>> {
        let table = self.0.lock();
        // The very same: under its number there may be another one by now.
        let account = table.nodes.get(&node).and_then(|known| known.account);
        if account.is_some_and(|account| words.removed(node) == Some(account.word())) {
            return Err(Errno::ENOENT.into());
        }
        let told = table.path(node, &|node| words.moved(node));
        // What they have said may lead to what nobody here knows.
        told.or_else(|_| table.path(node, &|_| None))
    }
}

impl Table {
    fn path(&self, node: u64, moved: &dyn Fn(u64) -> Option<Moved>) -> Result<Vec<u8>> {
        let (mut names, mut at) = (Vec::new(), node);
        while at != ROOT_ID {
            let error = if at == node {
                Errno::ESTALE
            } else {
                Errno::ENOENT
            };
            let known = self.nodes.get(&at);
            let own = match known {
                Some(known) => Some((known.parent, known.name.as_deref().ok_or(Errno::ENOENT)?)),
                None => None,
            };
            let named = own.and_then(|(dir, name)| self.named(dir, name));
            let seen = named.filter(|is| is.node == at).map_or(0, |is| is.seen);
            let is_newer = |moved: &Moved| own.is_none() || moved.when >= seen;
            let (dir, name) = match moved(at).filter(is_newer) {
                Some(moved) => (moved.dir, moved.name),
                None => own.map(|(dir, name)| (dir, name.to_vec())).ok_or(error)?,
            };
            names.push(name);
            at = dir;
            if names.len() > DEEPEST {
                return Err(Errno::EIO.into());
            }
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }
}
