//! What is moved. Where several branches have a name, the last ones are changed first, so that what
//! the first one shows changes once, at the end.

use super::choice::{Instance, instances, kind};
use super::control::NAME;
use super::found::{All, Found};
use super::options::Function;
use super::state::{At, Core, Look, Parts};
use super::transfer::temporary;
use super::unfinished::Written;
use alloc::vec::Vec;
use culvert::{
    Caller, Errno, Error, FileKind, FileSystem, Node, RenameFlags, Result, SetAttributes,
};

/// A rename within the union that is no exchange.
struct Move<'m> {
    union: &'m Core,
    caller: &'m Caller<'m>,
    from: At<'m>,
    to: At<'m>,
    flags: RenameFlags,
    is_directory: bool,
    /// The directory of the old name on each branch.
    old_parts: &'m Parts,
    /// The directory of the new name on each branch.
    new_parts: &'m Parts,
}

/// What becomes of the names on which branch.
struct Plan {
    /// The first branch that has the new name afterwards, which is changed last.
    shown: usize,
    /// The others on which the name is moved, the last one first.
    others: Vec<usize>,
    /// Those on which the old name is removed.
    leaving: Vec<usize>,
    /// Those before `shown` whose new name would hide what is moved.
    hiding: Vec<usize>,
    /// Those behind it whose new name nobody sees any more.
    behind: Vec<usize>,
    /// What is replaced where, by its permissions.
    takes: Vec<(usize, u32)>,
}

/// A branch, and the directories of the old and the new name there.
type Step = (usize, Node, Node);

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
        let is_directory = kind(&olds)? == FileKind::Directory;
        if flags.no_replace() && !news.is_empty() {
            return Err(Errno::EEXIST.into());
        }
        if flags.exchange() {
            kind(&news)?;
            // Either may be one.
            changing.of_directories();
        }
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
        if let (Some(old), Some(new)) = (olds.first(), news.first())
            && (old.0, old.1.node()) == (new.0, new.1.node())
        {
            // Two names of one file.
            return Ok(());
        }
        let moving = Move {
            union: self,
            caller,
            from,
            to,
            flags,
            is_directory,
            old_parts: &old_parts,
            new_parts: &new_parts,
        };
        let owner = owner(&olds);
        let is_kind =
            |one: &(usize, Found<'_>)| (one.1.kind() == FileKind::Directory) == is_directory;
        let olds: All<'_> = olds.into_iter().filter(is_kind).collect();
        let node = self.node_of(&olds);
        let olds = instances(olds);
        let acting = moving.judged(&olds, owner, &news)?;
        let plan = moving.plan(acting, &news)?;
        let _written = match is_directory {
            true => moving.written_down(&plan, &olds, &news),
            false => None,
        };
        drop(news);
        moving.carry_out(&plan, &olds)?;
        if let Some(node) = node {
            self.nodes.renamed(node, to).give_back();
        }
        Ok(())
    }
}

impl Move<'_> {
    /// The branches that act on `olds`, of this `owner`, if the caller may move them over `news`.
    fn judged(
        &self,
        olds: &[Instance<'_>],
        owner: Option<u32>,
        news: &All<'_>,
    ) -> Result<Vec<usize>> {
        let Self { union, caller, .. } = *self;
        let owner_of_new = self::owner(news);
        let owner = owner.unwrap_or(0);
        let (old, new) = ((self.old_parts, self.from.1), (self.new_parts, self.to.1));
        let replaced = match kind(news) {
            Err(_) => Ok(()),
            Ok(kind) => match (self.is_directory, kind == FileKind::Directory) {
                (true, false) => Err(Errno::ENOTDIR.into()),
                (false, true) => Err(Errno::EISDIR.into()),
                (true, true) => union.empty(caller, news),
                (false, false) => Ok(()),
            },
        };
        let acting = union.acting(caller, Function::Rename, olds);
        if let Err(wrong) = replaced {
            let acting = acting.unwrap_or_default();
            union.may_take(caller, old, &acting, owner)?;
            union.may_take(caller, new, &acting, owner_of_new.unwrap_or(0))?;
            return Err(wrong);
        }
        let acting = acting?;
        union.may_remove(caller, old, &acting, owner)?;
        match owner_of_new {
            Some(owner) => union.may_remove(caller, new, &acting, owner)?,
            None => union.may_change(caller, self.new_parts, &acting)?,
        }
        Ok(acting)
    }

    fn plan(&self, acting: Vec<usize>, news: &All<'_>) -> Result<Plan> {
        let union = self.union;
        let keeps = union.settings().keeps_paths();
        let (mut others, leaving): (Vec<usize>, Vec<usize>) = acting
            .into_iter()
            .partition(|&index| !keeps || self.new_parts[index].is_some());
        let Some(&shown) = others.iter().min() else {
            return Err(Errno::EXDEV.into());
        };
        let at = || news.iter().map(|new| new.0);
        let hiding: Vec<usize> = at().filter(|&at| at < shown).collect();
        if hiding.iter().any(|&at| !union.branches[at].changes()) {
            return Err(Error::because(
                Errno::EROFS,
                "a branch that is not to be changed has the new name",
            ));
        }
        let is_behind =
            |at: &usize| *at > shown && !others.contains(at) && union.branches[*at].changes();
        let behind: Vec<usize> = at().filter(is_behind).collect();
        for gone in [&hiding, &behind] {
            union.judge_removal(self.caller, (self.new_parts, self.to.1), gone)?;
        }
        others.retain(|&at| at != shown);
        others.sort_unstable_by(|left, right| right.cmp(left));
        Ok(Plan {
            shown,
            others,
            leaving,
            hiding,
            behind,
            takes: news
                .iter()
                .map(|new| (new.0, new.1.entry.attributes.permissions))
                .collect(),
        })
    }

    /// Writes down what happens to a directory, so that whoever finds half of it can end it.
    fn written_down(
        &self,
        plan: &Plan,
        olds: &[Instance<'_>],
        news: &All<'_>,
    ) -> Option<Written<'_>> {
        let node_of = |index: usize| olds.iter().find(|one| one.index == index);
        let moves = plan.others.iter().copied().chain([plan.shown]);
        let moves = moves.filter_map(|at| Some((at, node_of(at)?.node, true)));
        let goes = |at: usize| plan.hiding.contains(&at) || plan.behind.contains(&at);
        let goes = news.iter().filter(|new| goes(new.0));
        let goes = goes.map(|new| (new.0, new.1.node(), false));
        let steps: Vec<_> = moves.chain(goes).collect();
        let (names, parts) = ((self.from, self.to), (self.old_parts, self.new_parts));
        self.union.write_down(self.caller, names, parts, &steps)
    }

    fn carry_out(&self, plan: &Plan, olds: &[Instance<'_>]) -> Result<()> {
        let mut done = Vec::new();
        for &index in &plan.others {
            let step = self.step(index).and_then(|step| {
                self.rename(step)?;
                Ok(step)
            });
            done.push(step.inspect_err(|_| self.undo(plan, &done))?);
        }
        let undo = |_: &Error| self.undo(plan, &done);
        let last = self.step(plan.shown).inspect_err(undo)?;
        let source = olds.iter().find(|one| one.index == plan.shown);
        let by_link = match (source, plan.hiding.is_empty() || self.is_directory) {
            (Some(source), false) => {
                let branch = &*self.union.branches[plan.shown].fs;
                let replaces = plan.takes.iter().any(|took| took.0 == plan.shown);
                let at = (branch, source.node, last.2, self.to.1);
                self.union.link_in_place(self.caller, at, replaces).is_ok()
            }
            _ => false,
        };
        if !by_link {
            self.rename(last).inspect_err(undo)?;
        }
        self.remove_new(&plan.hiding)?;
        if by_link {
            let branch = &self.union.branches[plan.shown].fs;
            branch.unlink(self.caller, last.1, self.from.1)?;
        }
        // What nobody sees any more, or would see again.
        let _ = self.remove_new(&plan.behind);
        if !self.is_directory {
            let left =
                |branch: &dyn FileSystem, part| branch.unlink(self.caller, part, self.from.1);
            let _ = self.union.remove_from(self.old_parts, &plan.leaving, left);
        }
        Ok(())
    }

    /// Where the name is moved on branch `index`; the directory of the new one is made if need be.
    fn step(&self, index: usize) -> Result<Step> {
        let new = self
            .union
            .ensure(self.caller, self.to.0, self.new_parts, index)?;
        let old = self.old_parts[index].ok_or(Errno::ESTALE)?;
        Ok((index, old, new))
    }

    fn rename(&self, (index, old, new): Step) -> Result<()> {
        let branch = &self.union.branches[index].fs;
        let (from, to) = ((old, self.from.1), (new, self.to.1));
        branch.rename(self.caller, from, to, self.flags)
    }

    /// Moves back what was `done`. A file that was replaced does not come back.
    fn undo(&self, plan: &Plan, done: &[Step]) {
        for &(index, old, new) in done.iter().rev() {
            let took = plan.takes.iter().find(|one| one.0 == index);
            if took.is_some() && !self.is_directory {
                continue;
            }
            let branch = &*self.union.branches[index].fs;
            let (from, to) = ((old, self.from.1), (new, self.to.1));
            let back = |flags: u32| branch.rename(self.caller, to, from, RenameFlags(flags));
            let undone = match back(RenameFlags::NO_REPLACE) {
                // A file system without it (NFS): a directory replaces an empty one at most.
                Err(error) if error.errno() == Errno::EINVAL && self.is_directory => back(0),
                undone => undone,
            };
            if let (Some(&(_, mode)), Ok(())) = (took, undone) {
                let _ = make_empty(self.caller, branch, to, mode);
            }
        }
    }

    /// Removes the new name on these `branches`.
    fn remove_new(&self, branches: &[usize]) -> Result<()> {
        self.union
            .remove_from(self.new_parts, branches, |branch, part| {
                match self.is_directory {
                    true => branch.rmdir(self.caller, part, self.to.1),
                    false => branch.unlink(self.caller, part, self.to.1),
                }
            })
    }
}

impl Core {
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

/// Who owns what is shown.
fn owner(all: &All<'_>) -> Option<u32> {
    all.first().map(|one| one.1.entry.attributes.uid)
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
