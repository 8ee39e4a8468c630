//! What is moved. Where several branches have a name, the last ones are changed first, so that what
//! the first one shows changes once, at the end.

use super::choice::{instances, kind};
use super::control::NAME;
use super::found::{All, Found};
use super::options::Function;
use super::state::{At, Core, Look, Parts};
use super::transfer::temporary;
use alloc::vec::Vec;
use culvert::{
    Caller, Errno, Error, FileKind, FileSystem, Node, RenameFlags, Result, SetAttributes,
};

impl Core {
    pub fn move_name(
        &self,
        caller: &Caller<'_>,
        from: At<'_>,
        to: At<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.writable()?;
        if to == (super::ROOT, NAME) {
            return Err(Errno::EPERM.into());
        }
        let changing = self.names.change_of([Some(from.1), Some(to.1)]);
        let new_look = self.look_before(to, &changing);
        let old_look = self.look_before(from, &changing);
        let new_parts = self.directory_after(caller, to.0, new_look.as_ref())?;
        let old_parts = match to.0 == from.0 {
            true => new_parts.clone(),
            false => self.directory_after(caller, from.0, old_look.as_ref())?,
        };
        let news = self.all_after(caller, &new_parts, to.1, new_look.as_ref())?;
        let olds = match news.is_empty() {
            true => self.all_after(caller, &old_parts, from.1, old_look.as_ref())?,
            // What another branch hides at the new name is linked there.
            false => self.all(caller, &old_parts, from.1, false, Look::Exact)?,
        };
        let moved = kind(&olds)?;
        if flags.no_replace() && !news.is_empty() {
            return Err(Errno::EEXIST.into());
        }
        if flags.exchange() {
            kind(&news)?;
            // Either may be one.
            changing.of_directories();
        }
        let is_directory = moved == FileKind::Directory;
        let is_kind = |one: &(usize, Found<'_>)| {
            (one.1.entry.attributes.kind == FileKind::Directory) == is_directory
        };
        if is_directory {
            changing.of_directories();
            self.not_below(&olds, to.0)?;
        }
        if flags.exchange() {
            return self.exchange(caller, (from, &olds), (to, &news), (&old_parts, &new_parts));
        }
        if flags.whiteout() {
            return Err(Errno::EINVAL.into());
        }
        if flagged_below(self, &news, from.0) {
            return Err(Errno::ENOTEMPTY.into());
        }
        let mut replaced = Ok(());
        if let Ok(kind) = kind(&news) {
            // Two names of one file.
            let same = |old: &(usize, Found<'_>), new: &(usize, Found<'_>)| {
                (old.0, old.1.node()) == (new.0, new.1.node())
            };
            if same(&olds[0], &news[0]) {
                return Ok(());
            }
            replaced = match (is_directory, kind == FileKind::Directory) {
                (true, false) => Err(Errno::ENOTDIR.into()),
                (false, true) => Err(Errno::EISDIR.into()),
                (true, true) => self.empty(caller, &news),
                (false, false) => Ok(()),
            };
        }
        let owner_of = olds.first().map(|one| one.1.entry.attributes.uid);
        let olds: All<'_> = olds.into_iter().filter(is_kind).collect();
        let node = self.node_of(&olds);
        let olds = instances(olds);
        let owner = |all: &All<'_>| all.first().map(|one| one.1.entry.attributes.uid);
        let old_names = (&old_parts, from.1);
        let acting = self.acting(caller, Function::Rename, &olds);
        if let Err(wrong) = replaced {
            let acting = acting.unwrap_or_default();
            self.may_take(caller, old_names, &acting, owner_of.unwrap_or(0))?;
            self.may_take(
                caller,
                (&new_parts, to.1),
                &acting,
                owner(&news).unwrap_or(0),
            )?;
            return Err(wrong);
        }
        let acting = acting?;
        self.may_remove(caller, old_names, &acting, owner_of.unwrap_or(0))?;
        match owner(&news) {
            Some(owner) => self.may_remove(caller, (&new_parts, to.1), &acting, owner)?,
            None => self.may_change(caller, &new_parts, &acting)?,
        }
        let keeps = self.settings().keeps_paths();
        let (moving, leaving): (Vec<usize>, Vec<usize>) = acting
            .into_iter()
            .partition(|&index| !keeps || new_parts[index].is_some());
        let Some(&shown) = moving.iter().min() else {
            return Err(Errno::EXDEV.into());
        };
        // What would hide the new name.
        let hiding: Vec<usize> = news
            .iter()
            .map(|new| new.0)
            .filter(|&at| at < shown)
            .collect();
        let fixed = |&&at: &&usize| !self.branches[at].changes();
        if hiding.iter().any(|at| fixed(&at)) {
            return Err(Error::because(
                Errno::EROFS,
                "a branch that is not to be changed has the new name",
            ));
        }
        let behind: Vec<usize> = news.iter().map(|new| new.0).collect();
        let behind: Vec<usize> = behind
            .into_iter()
            .filter(|at| *at > shown && !moving.contains(at) && self.branches[*at].changes())
            .collect();
        for gone in [&hiding, &behind] {
            self.judge_removal(caller, (&new_parts, to.1), gone)?;
        }
        let replaces = news.iter().any(|new| new.0 == shown);
        let mut descending: Vec<usize> = moving.iter().copied().filter(|&at| at != shown).collect();
        descending.sort_unstable_by(|left, right| right.cmp(left));
        let _written = match is_directory {
            false => None,
            true => {
                let node_of = |index: usize| olds.iter().find(|one| one.index == index);
                let moves = descending.iter().copied().chain([shown]);
                let moves = moves.filter_map(|at| Some((at, node_of(at)?.node, true)));
                let goes = |at: usize| hiding.contains(&at) || behind.contains(&at);
                let goes = news.iter().filter(|new| goes(new.0));
                let goes = goes.map(|new| (new.0, new.1.node(), false));
                let steps: Vec<_> = moves.chain(goes).collect();
                self.write_down(caller, (from, to), (&old_parts, &new_parts), &steps)
            }
        };
        let takes = news.iter().map(|new| (new.0, new.1.entry.attributes));
        let takes: Vec<_> = takes.map(|(at, found)| (at, found.permissions)).collect();
        drop(news);
        let remove = |branch: &dyn FileSystem, part: Node, name: &[u8]| match is_directory {
            true => branch.rmdir(caller, part, name),
            false => branch.unlink(caller, part, name),
        };
        let mut done = Vec::new();
        let back = |done: &[(usize, Node, Node)]| {
            for &(index, old, part) in done.iter().rev() {
                let took = takes.iter().find(|one| one.0 == index).map(|one| one.1);
                if took.is_some() && !is_directory {
                    // What was replaced does not come back.
                    continue;
                }
                let branch = &*self.branches[index].fs;
                let undo = |flags: u32| {
                    let flags = RenameFlags(flags);
                    branch.rename(caller, (part, to.1), (old, from.1), flags)
                };
                let undone = match undo(RenameFlags::NO_REPLACE) {
                    // A file system without it (NFS): a directory replaces an empty one at most.
                    Err(error) if error.errno() == Errno::EINVAL && is_directory => undo(0),
                    undone => undone,
                };
                if let (Some(mode), Ok(())) = (took, undone) {
                    let _ = make_empty(caller, branch, (part, to.1), mode);
                }
            }
        };
        for index in descending {
            let branch = &self.branches[index].fs;
            let mut step = || {
                let part = self.ensure(caller, to.0, &new_parts, index)?;
                let old = old_parts[index].ok_or(Errno::ESTALE)?;
                branch.rename(caller, (old, from.1), (part, to.1), flags)?;
                done.push((index, old, part));
                Ok::<_, Error>(())
            };
            step().inspect_err(|_| back(&done))?;
        }
        let branch = &*self.branches[shown].fs;
        let part = self.ensure(caller, to.0, &new_parts, shown);
        let part = part.inspect_err(|_| back(&done))?;
        let old = old_parts[shown].ok_or(Errno::ESTALE)?;
        let source = olds.iter().find(|one| one.index == shown);
        let by_link = match (source, hiding.is_empty() || is_directory) {
            (Some(source), false) => {
                let at = (branch, source.node, part, to.1);
                self.link_in_place(caller, at, replaces).is_ok()
            }
            _ => false,
        };
        if !by_link {
            let renamed = branch.rename(caller, (old, from.1), (part, to.1), flags);
            renamed.inspect_err(|_| back(&done))?;
        }
        self.remove_from(&new_parts, &hiding, |branch, part| {
            remove(branch, part, to.1)
        })?;
        if by_link {
            branch.unlink(caller, old, from.1)?;
        }
        // What nobody sees any more, or would see again.
        let _ = self.remove_from(&new_parts, &behind, |branch, part| {
            remove(branch, part, to.1)
        });
        if !is_directory {
            let left = |branch: &dyn FileSystem, part| branch.unlink(caller, part, from.1);
            let _ = self.remove_from(&old_parts, &leaving, left);
        }
        if let Some(node) = node {
            self.nodes.renamed(node, to).give_back();
        }
        Ok(())
    }

    /// Makes `name` in `dir` another name of `node`, in the place of what it `replaces`: what is
    /// moved where another branch hides the new name yet has both names until that one is gone, so
    /// that whoever is killed meanwhile leaves the old or the new file.
    fn link_in_place(
        &self,
        caller: &Caller<'_>,
        (branch, node, dir, name): (&dyn FileSystem, Node, Node, &[u8]),
        replaces: bool,
    ) -> Result<()> {
        let link = |name: &[u8]| {
            let made = branch.link(caller, node, dir, name)?;
            branch.forget(made.attributes.node, 1);
            Ok::<_, Error>(())
        };
        if !replaces {
            return link(name);
        }
        let temporary = temporary();
        link(&temporary)?;
        let to = (dir, name);
        let moved = branch.rename(caller, (dir, &temporary), to, RenameFlags::default());
        // Of two names of one file a rename leaves both.
        let _ = branch.unlink(caller, dir, &temporary);
        moved
    }

    /// Swaps two names that the same branch alone has.
    fn exchange(
        &self,
        caller: &Caller<'_>,
        (from, olds): (At<'_>, &All<'_>),
        (to, news): (At<'_>, &All<'_>),
        (old_parts, new_parts): (&Parts, &Parts),
    ) -> Result<()> {
        if flagged_below(self, news, from.0) {
            return Err(Errno::EINVAL.into());
        }
        let ([old], [new]) = (&olds[..], &news[..]) else {
            return Err(Error::because(
                Errno::EINVAL,
                "several branches have a name that is to be exchanged",
            ));
        };
        if old.0 != new.0 {
            return Err(Error::because(
                Errno::EINVAL,
                "the names that are to be exchanged lie on different branches",
            ));
        }
        let (Some(left), Some(right)) = (old_parts[old.0], new_parts[old.0]) else {
            return Err(Errno::ESTALE.into());
        };
        if !self.branches[old.0].changes() {
            return Err(Errno::EROFS.into());
        }
        self.judge_removal(caller, (old_parts, from.1), &[old.0])?;
        self.judge_removal(caller, (new_parts, to.1), &[old.0])?;
        let nodes = (self.node_of(olds), self.node_of(news));
        let flags = RenameFlags(RenameFlags::EXCHANGE);
        let branch = &self.branches[old.0].fs;
        branch.rename(caller, (left, from.1), (right, to.1), flags)?;
        for (node, place) in [(nodes.0, to), (nodes.1, from)] {
            if let Some(node) = node {
                self.nodes.renamed(node, place).give_back();
            }
        }
        Ok(())
    }

    /// The number of what `all` are, if anybody has it.
    fn node_of(&self, all: &All<'_>) -> Option<Node> {
        let (index, found) = all.first()?;
        match found.entry.attributes.kind {
            FileKind::Directory => self.nodes.part_of(&self.branches[*index], found.node()),
            _ => Some(self.branches[*index].number(found.node())),
        }
    }

    /// `EINVAL` where the directory `dir` is one of `all`, or lies below it.
    fn not_below(&self, all: &All<'_>, dir: Node) -> Result<()> {
        match flagged_below(self, all, dir) {
            true => Err(Errno::EINVAL.into()),
            false => Ok(()),
        }
    }
}

/// Makes an empty directory with this `mode` again.
fn make_empty(
    caller: &Caller<'_>,
    branch: &dyn FileSystem,
    (dir, name): At<'_>,
    mode: u32,
) -> Result<()> {
    let made = branch.mkdir(caller, dir, name, mode)?.attributes;
    let changes = SetAttributes {
        permissions: Some(mode),
        ..SetAttributes::default()
    };
    let changed = branch.change_attributes(caller, made.node, &changes);
    branch.forget(made.node, 1);
    changed
}

/// Whether the directory `dir` is what `all` are, or lies below it.
fn flagged_below(union: &Core, all: &All<'_>, dir: Node) -> bool {
    let Some(node) = union.node_of(all) else {
        return false;
    };
    let mut here = Some(dir);
    while let Some(at) = here {
        if at == node {
            return true;
        }
        let place = union
            .nodes
            .with(at, |known| known.place.as_ref().map(|it| it.0));
        here = place.ok().flatten();
    }
    false
}
