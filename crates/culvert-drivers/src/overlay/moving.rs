//! What is moved (`ovl_rename`, fs/overlayfs/dir.c): a whiteout is left where a lower layer has the
//! old name, at the same moment.

use super::copy_up::Bytes;
use super::looking::{Above, Found};
use super::marks::{Mark, is_dockers};
use super::state::{Core, Parts};
use alloc::vec::Vec;
use culvert::{Caller, Errno, Error, FileKind, Node, RenameFlags, Result};

/// A name, and what it is.
struct Side<'a> {
    dir: Node,
    name: &'a [u8],
    parts: Parts,
    found: Option<Found>,
}

impl Side<'_> {
    fn is_directory(&self) -> bool {
        self.found
            .as_ref()
            .is_some_and(|found| found.attributes.kind == FileKind::Directory)
    }
}

impl Core {
    fn side<'a>(&self, (dir, name): (Node, &'a [u8])) -> Result<Side<'a>> {
        let parts = self.directory(dir)?;
        let found = self.find_in((dir, &parts), name)?;
        Ok(Side {
            dir,
            name,
            parts,
            found,
        })
    }

    pub fn move_name(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.writable()?;
        let is_whiteout = self.layers[0].docker && is_dockers(to.1);
        let both = RenameFlags::NO_REPLACE | RenameFlags::EXCHANGE;
        if flags.0 & !both != 0 || flags.0 == both || self.is_hidden(to.0, to.1) || is_whiteout {
            return Err(Errno::EINVAL.into());
        }
        let _change = self.change();
        let mut old = self.side(from)?;
        let mut new = match self.side(to) {
            Ok(new) => new,
            Err(error) => {
                self.leave_side(&mut old);
                return Err(error);
            }
        };
        let done = self.move_sides(caller, &old, &new, flags);
        let numbers = [&old, &new].map(|side| side.found.as_ref().map(|one| self.number_of(one)));
        self.leave_side(&mut old);
        self.leave_side(&mut new);
        if !done? {
            return Ok(());
        }
        match (flags.exchange(), numbers) {
            (true, [Some(one), Some(other)]) => {
                self.give_back(self.nodes.renamed(one, to));
                self.give_back(self.nodes.renamed(other, from));
            }
            (_, [one, other]) => {
                if let Some(replaced) = other {
                    self.nodes.unnamed(replaced, to);
                    self.forget_directory(replaced);
                }
                if let Some(one) = one
                    && self.nodes.with(one, |_| ()).is_ok()
                {
                    self.give_back(self.nodes.renamed(one, to));
                }
            }
        }
        Ok(())
    }

    fn leave_side(&self, side: &mut Side<'_>) {
        if let Some(found) = side.found.take() {
            self.leave(found);
        }
    }

    /// Whether anything was moved.
    fn move_sides(
        &self,
        caller: &Caller<'_>,
        old: &Side<'_>,
        new: &Side<'_>,
        flags: RenameFlags,
    ) -> Result<bool> {
        let moved = old.found.as_ref().ok_or(Errno::ENOENT)?;
        let node = self.number_of(moved);
        match (&new.found, flags.exchange()) {
            (Some(_), false) if flags.no_replace() => return Err(Errno::EEXIST.into()),
            (None, true) => return Err(Errno::ENOENT.into()),
            _ => {}
        }
        if old.is_directory() && self.is_below_node(new.dir, node) {
            return Err(Errno::EINVAL.into());
        }
        if let Some(replaced) = &new.found {
            let number = self.number_of(replaced);
            if replaced.attributes.kind == FileKind::Directory
                && self.is_below_node(old.dir, number)
            {
                return Err(match flags.exchange() {
                    true => Errno::EINVAL,
                    false => Errno::ENOTEMPTY,
                }
                .into());
            }
            if number == node {
                return Ok(false);
            }
            if !flags.exchange() {
                match (old.is_directory(), new.is_directory()) {
                    (true, false) => return Err(Errno::ENOTDIR.into()),
                    (false, true) => return Err(Errno::EISDIR.into()),
                    _ => {}
                }
            }
        }
        self.may_remove(caller, old.dir, moved.attributes.uid)?;
        match &new.found {
            Some(replaced) => self.may_remove(caller, new.dir, replaced.attributes.uid)?,
            None => self.may_change(caller, new.dir)?,
        }
        self.may_move(moved)?;
        if let Some(other) = new.found.as_ref().filter(|_| flags.exchange()) {
            self.may_move(other)?;
        }
        if let Some(replaced) = new.found.as_ref().filter(|_| !flags.exchange())
            && new.is_directory()
        {
            self.empty(&self.parts_of(replaced)?)?;
        }
        let moved_part = self.raise(old, moved)?;
        let mut other_part = None;
        let old_over = self.copy_up(old.dir, Bytes::All)?;
        let new_over = self.copy_up(new.dir, Bytes::All)?;
        if let Some(other) = new.found.as_ref().filter(|_| flags.exchange()) {
            let part = self.raise(new, other)?;
            other_part = Some((self.number_of(other), part));
            self.elevated(|| self.marks_of_moved((new, other), old, part))?;
        }
        self.elevated(|| self.marks_of_moved((old, moved), new, moved_part))?;
        let is_below = self.is_below(&old.parts, old.name)?;
        let there = self.above(&self.directory(new.dir)?, new.name)?;
        let (from, to) = ((old_over.node, old.name), (new_over.node, new.name));
        self.elevated(|| {
            if flags.exchange() {
                let flags = RenameFlags(RenameFlags::EXCHANGE);
                self.upper()?.rename(&Caller::SYSTEM, from, to, flags)?;
            } else {
                self.carry_over((old, from), (new, to), (is_below, there))?;
            }
            self.say_impure(new.dir, new_over.node, node, moved_part)?;
            match other_part {
                Some((number, part)) => self.say_impure(old.dir, old_over.node, number, part),
                None => Ok(()),
            }
        })?;
        Ok(true)
    }

    /// `EXDEV` for a directory that a lower layer has, where no mark says where that is.
    fn may_move(&self, found: &Found) -> Result<()> {
        let is_directory = found.attributes.kind == FileKind::Directory;
        match is_directory && !self.moves_directories() && self.parts_of(found)?.is_merged() {
            true => Err(Error::because(
                Errno::EXDEV,
                "a directory of a lower layer is moved with redirect_dir=on alone",
            )),
            false => Ok(()),
        }
    }

    /// What was `found` is in the upper layer, copied there.
    fn raise(&self, side: &Side<'_>, found: &Found) -> Result<Node> {
        match self.parts_of(found)?.upper {
            Some(part) => Ok(part.node),
            None => {
                // It is to be known.
                let again = self.find_in((side.dir, &side.parts), side.name)?;
                let again = again.ok_or(Errno::ENOENT)?;
                let checked = self.look_for_changes();
                let entry = self.enter(Some((side.dir, side.name)), again, checked)?;
                let node = entry.attributes.node;
                let part = self.copy_up(node, Bytes::Wanted);
                self.give_back(self.nodes.forget(node, 1));
                part.map(|part| part.node)
            }
        }
    }

    /// Marks what is moved `to` where it is to show what it shows now.
    fn marks_of_moved(
        &self,
        (side, found): (&Side<'_>, &Found),
        to: &Side<'_>,
        part: Node,
    ) -> Result<()> {
        let parts = self.parts_of(found)?;
        let is_directory = found.attributes.kind == FileKind::Directory;
        let lower = match (is_directory, parts.lowers.first()) {
            (true, Some(lower)) => lower,
            (true, None) if to.parts.is_merged() => {
                return self.set_mark(part, Mark::Opaque, b"y");
            }
            (true, None) => return Ok(()),
            // The bytes of a file may be a lower one's.
            (false, Some(lower)) if self.has_mark(0, part, Mark::Metacopy)? => lower,
            (false, _) => return Ok(()),
        };
        let before = self.mark(0, part, Mark::Redirect)?;
        let stays = side.dir == to.dir;
        let is_told = |path: &Vec<u8>| stays || path.first() == Some(&b'/');
        if before.as_ref().is_some_and(is_told) {
            return Ok(());
        }
        let is_beside = stays
            && side
                .parts
                .lowers
                .iter()
                .any(|over| over.layer == lower.layer);
        let redirect = match is_beside {
            true => side.name.to_vec(),
            // What was renamed before has the name that it had first in lower layers.
            false => self.redirect_to(side.dir, before.as_deref().unwrap_or(side.name))?,
        };
        self.set_mark(part, Mark::Redirect, &redirect)
    }

    /// The rename in the upper layer, with what it leaves behind.
    fn carry_over(
        &self,
        (old, from): (&Side<'_>, (Node, &[u8])),
        (new, to): (&Side<'_>, (Node, &[u8])),
        (is_below, there): (bool, Above),
    ) -> Result<()> {
        let (upper, work) = (self.upper()?, self.work()?);
        let system = &Caller::SYSTEM;
        let exchange = RenameFlags(RenameFlags::EXCHANGE);
        let replaces_directory = new.is_directory() && there == Above::Something;
        let is_directory = old.is_directory();
        if is_below {
            // A whiteout of ours at the new name changes places with it.
            let (temporary, is_marked) = self.whiteout()?;
            let put = || {
                if is_marked {
                    self.expect_attribute_whiteouts(old.dir, from.0)?;
                    self.expect_attribute_whiteouts(new.dir, to.0)?;
                }
                // Both names are changed at one moment by the kernel, where there is something.
                let whiteout = RenameFlags(RenameFlags::WHITEOUT);
                if (there == Above::Something || new.found.is_some())
                    && !is_directory
                    && !is_marked
                    && upper.rename(system, from, to, whiteout).is_ok()
                {
                    return upper.unlink(system, work, &temporary);
                }
                let plain = RenameFlags::default();
                match there {
                    // A lower layer's shows until it is replaced, and in a directory without lower
                    // parts a file with an attribute is no whiteout: the old name shows a lower
                    // layer's for a moment.
                    Above::Nothing
                        if new.found.is_some() || is_marked && !new.parts.is_merged() =>
                    {
                        upper.rename(system, from, to, plain)?;
                        upper.rename(system, (work, &temporary), from, plain)
                    }
                    Above::Nothing | Above::Whiteout => {
                        upper.rename(system, (work, &temporary), to, plain)?;
                        upper.rename(system, from, to, exchange)
                    }
                    // The old name shows what was replaced for a moment.
                    Above::Something => {
                        upper.rename(system, from, to, exchange)?;
                        let is_directory = replaces_directory;
                        let how = if is_directory { exchange } else { plain };
                        upper.rename(system, (work, &temporary), from, how)?;
                        match is_directory {
                            true => self.clean(work, &temporary, true),
                            false => Ok(()),
                        }
                    }
                }
            };
            return put().inspect_err(|_| {
                let _ = upper.unlink(system, work, &temporary);
            });
        }
        match (is_directory, there) {
            (true, Above::Whiteout | Above::Something) => {
                upper.rename(system, from, to, exchange)?;
                // Whatever is there now is seen by nobody, or shows nothing.
                match replaces_directory {
                    true => self.throw_away(from),
                    false => upper.unlink(system, from.0, from.1),
                }
            }
            _ => upper.rename(system, from, to, RenameFlags::default()),
        }
    }

    /// Says that the directory `dir` may have copies in it, where one was moved there.
    fn say_impure(&self, dir: Node, over: Node, number: Node, part: Node) -> Result<()> {
        let known = self.nodes.with(dir, |known| known.impure)?;
        if known || number == self.number(0, part) {
            return Ok(());
        }
        self.set_mark(over, Mark::Impure, b"y")?;
        self.nodes.with(dir, |known| known.impure = true)
    }

    /// Whether directory `dir` is `node`, or lies below it.
    fn is_below_node(&self, dir: Node, node: Node) -> bool {
        let mut here = Some(dir);
        while let Some(at) = here {
            if at == node {
                return true;
            }
            here = self.parent_of(at).ok().filter(|above| *above != at);
        }
        false
    }
}
