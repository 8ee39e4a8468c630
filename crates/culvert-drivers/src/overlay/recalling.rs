//! Lookups by what is remembered of earlier ones.

use super::marks::{Look, Marks};
use super::nodes::Known;
use super::remembered::Kept;
use super::state::{Core, Part};
use culvert::{Attributes, Entry, FileKind, Node, Result};

impl Core {
    /// The directory `name` in `dir`, with one reference, if it is remembered and still there. The
    /// uppermost part of `dir` is asked, and the one that has the uppermost part of what is found:
    /// so whoever may not search there is refused, and changes from outside are seen.
    pub fn remembered(&self, dir: Node, name: &[u8]) -> Result<Option<Entry>> {
        if self.keeper.table() != 0 {
            return Ok(None);
        }
        let Some(node) = self.remembered.directory(dir, name) else {
            return Ok(None);
        };
        let entry = self.as_remembered((dir, name), node)?;
        if entry.is_none() {
            self.forget_directory(node);
        }
        Ok(entry)
    }

    fn as_remembered(&self, (dir, name): (Node, &[u8]), node: Node) -> Result<Option<Entry>> {
        let above = self.directory(dir)?;
        let Ok(parts) = self.known(node, |known| known.parts.clone()) else {
            return Ok(None);
        };
        let (first, top) = (above.top()?, parts.top()?);
        let Some(over) = above.all().find(|part| part.layer == top.layer) else {
            return Ok(None);
        };
        if first.layer != over.layer && !matches!(self.look(&first, name)?, Look::Nothing) {
            return Ok(None);
        }
        let Look::Found(found) = self.look(over, name)? else {
            return Ok(None);
        };
        if found.node != top.node {
            return Ok(None);
        }
        let is_there = |known: &Known| {
            let place = known.place.as_ref().map(|place| (place.0, &place.1[..]));
            !known.gone && known.kind == FileKind::Directory && place == Some((dir, name))
        };
        Ok(self.nodes.refer(top, is_there).map(|node| Entry {
            attributes: self.shown(node, &parts, found),
        }))
    }

    /// What `name` is in `dir`, whose reference is given back.
    fn look(&self, dir: &Part, name: &[u8]) -> Result<Look> {
        let look = self.look_in(dir, name)?;
        if let Look::Found(found) = &look {
            self.fs(*dir).forget(found.node, 1);
        }
        Ok(look)
    }

    /// `node` was found as `name` in `dir`.
    pub fn remember(&self, (dir, name): (Node, &[u8]), entry: &Entry) {
        let found = &entry.attributes;
        if found.kind != FileKind::Directory || self.keeper.table() != 0 {
            return;
        }
        let Ok(key) = self.nodes.pin(found.node) else {
            return;
        };
        let kept = Kept {
            dir,
            name: name.into(),
            key,
        };
        if let Some(key) = self.remembered.keep(kept) {
            self.give_back(self.nodes.unpin(key));
        }
    }

    /// `node` is no longer where it was.
    pub fn forget_directory(&self, node: Node) {
        if self.keeper.table() != 0 {
            return;
        }
        if let Some(key) = self.remembered.take(node) {
            self.give_back(self.nodes.unpin(key));
        }
    }

    /// What the marks of what was `found` in lower layer `index` say.
    pub fn lower_marks(&self, index: usize, found: &Attributes) -> Result<Marks> {
        if self.remembered.is_unmarked(index, found) {
            return Ok(Marks::default());
        }
        let marks = self.marks(index, found.node, found.kind)?;
        if marks == Marks::default() && !self.hides_marks(index) {
            self.remembered.note_unmarked(index, found);
        }
        Ok(marks)
    }
}
