//! What is changed: on which branches, and in which order.
//!
//! Where several branches have a name, the last ones are changed first, so that what the first one
//! shows changes once, at the end.

use super::branch::Found;
use super::filesystem::UnionFs;
use super::options::Function;
use super::parts::{Instance, Parts};
use alloc::{format, vec::Vec};
use culvert::{
    Caller, Entry, Errno, Error, FileKind, FileSystem, Node, OpenFlags, Opened, RenameFlags,
    Result, SetAttributes,
};

/// The function that makes `changes`.
pub fn function(changes: &SetAttributes) -> Function {
    match () {
        () if changes.permissions.is_some() => Function::Chmod,
        () if changes.size.is_some() => Function::Truncate,
        () if changes.atime.is_some() || changes.mtime.is_some() => Function::Utimens,
        () => Function::Chown,
    }
}

/// A place: a directory and a name in it.
type At<'a> = (Node, &'a [u8]);

/// What a name is on branches.
type All<'a> = Vec<(usize, Found<'a>)>;

impl UnionFs {
    /// Does `work` on what `node` is on each branch that `function` chooses. The error of the
    /// branch that is shown counts, or, if that is not among them, that of all.
    pub(super) fn on_each(
        &self,
        caller: &Caller<'_>,
        node: Node,
        function: Function,
        work: &mut dyn FnMut(&dyn FileSystem, Node) -> Result<()>,
    ) -> Result<()> {
        self.writable()?;
        let all = self.core.instances(caller, node)?;
        let acting = self.core.acting(caller, function, &all)?;
        let first = self.core.first(node)?.0;
        let (mut done, mut refused) = (false, None);
        for one in all.iter().filter(|one| acting.contains(&one.index)) {
            match work(&*self.core.branches[one.index].fs, one.node) {
                Ok(()) => done = true,
                Err(error) if one.index == first => return Err(error),
                Err(error) => refused = Some(error),
            }
        }
        match refused.filter(|_| !done) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    pub(super) fn create_file(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.writable()?;
        let _changing = self.names.change();
        let parts = self.core.directory(caller, dir)?;
        let mut found = self.core.seek(caller, &parts, name)?;
        let index = match found.first() {
            Some(_) if flags.exclusive() => return Err(Errno::EEXIST.into()),
            Some((index, there)) => {
                match there.entry.attributes.kind {
                    FileKind::Regular => {}
                    FileKind::Directory => return Err(Errno::EISDIR.into()),
                    FileKind::Symlink => return Err(Errno::ELOOP.into()),
                    _ => return Err(Errno::ENXIO.into()),
                }
                self.may_open(caller, (*index, there.node()), flags)?;
                *index
            }
            None => self.place(caller, dir, &parts, Function::Create)?,
        };
        let branch = &self.core.branches[index];
        let (entry, opened) = match found.pop() {
            // A read-only file system opens what it has.
            Some((_, there)) if branch.fs.capabilities().read_only => {
                let opened = branch.fs.open(caller, there.node(), flags)?;
                (there.keep(), opened)
            }
            _ => {
                let part = self.core.ensure(caller, dir, &parts, index)?;
                branch.fs.create(caller, part, name, flags, mode)?
            }
        };
        let part = entry.attributes.node;
        let found = Vec::from([(index, Found::new(branch, entry))]);
        let entry = self.core.enter(Some((dir, name)), found)?;
        self.with_opened(caller, entry, (index, part), opened)
    }

    fn with_opened(
        &self,
        caller: &Caller<'_>,
        entry: Entry,
        at: (usize, Node),
        opened: Opened,
    ) -> Result<(Entry, Opened)> {
        let node = entry.attributes.node;
        match self.opened(caller, node, at, opened) {
            Ok(opened) => Ok((entry, opened)),
            Err(error) => {
                self.forget(node, 1);
                Err(error)
            }
        }
    }

    /// The first branch on which something is made in `dir` by `function`.
    fn place(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        parts: &Parts,
        function: Function,
    ) -> Result<usize> {
        let places = self.core.places(caller, dir, parts, function)?;
        places.first().copied().ok_or(Errno::ENOSPC.into())
    }

    pub(super) fn create_unnamed(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.writable()?;
        let parts = self.core.directory(caller, dir)?;
        let index = self.place(caller, dir, &parts, Function::Create)?;
        let directory = self.core.ensure(caller, dir, &parts, index)?;
        let branch = &self.core.branches[index];
        let (entry, opened) = branch.fs.tmpfile(caller, directory, flags, mode)?;
        let part = entry.attributes.node;
        let found = Vec::from([(index, Found::new(branch, entry))]);
        let entry = self.core.enter(None, found)?;
        self.with_opened(caller, entry, (index, part), opened)
    }

    /// Makes what has no bytes, by `work` in the directory on a branch; on several where the policy
    /// says so.
    pub(super) fn make(
        &self,
        caller: &Caller<'_>,
        (dir, name): At<'_>,
        function: Function,
        work: &mut dyn FnMut(&dyn FileSystem, Node) -> Result<Entry>,
    ) -> Result<Entry> {
        self.writable()?;
        let _changing = self.names.change();
        let parts = self.core.directory(caller, dir)?;
        self.core.absent(caller, &parts, name)?;
        let (mut made, mut refused) = (All::new(), None);
        for index in self.core.places(caller, dir, &parts, function)? {
            let branch = &self.core.branches[index];
            let part = self.core.ensure(caller, dir, &parts, index);
            match part.and_then(|part| work(&*branch.fs, part)) {
                Ok(entry) => made.push((index, Found::new(branch, entry))),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match (made.is_empty(), refused) {
            (true, Some(error)) => Err(error),
            _ => {
                if made
                    .first()
                    .is_some_and(|one| one.1.entry.attributes.kind != FileKind::Directory)
                {
                    made.truncate(1);
                }
                self.core.enter(Some((dir, name)), made)
            }
        }
    }

    pub(super) fn add_name(
        &self,
        caller: &Caller<'_>,
        node: Node,
        dir: Node,
        name: &[u8],
    ) -> Result<Entry> {
        self.writable()?;
        let kind = self.core.nodes.with(node, |known| known.kind)?;
        if kind == FileKind::Directory {
            return Err(Errno::EPERM.into());
        }
        let _changing = self.names.change();
        let parts = self.core.directory(caller, dir)?;
        self.core.absent(caller, &parts, name)?;
        let all = self.core.instances(caller, node)?;
        let acting = self.core.acting(caller, Function::Link, &all)?;
        let first = self.core.first(node)?.0;
        // The new name is to be the same file.
        if !acting.contains(&first) {
            return Err(Errno::EXDEV.into());
        }
        let keeps = self.core.settings.keeps_paths();
        let mut entry = None;
        for one in all.iter().rev().filter(|one| acting.contains(&one.index)) {
            let missing = keeps && parts[one.index].is_none();
            let branch = &self.core.branches[one.index];
            let linked = match missing {
                true => Err(Errno::EXDEV.into()),
                false => self
                    .core
                    .ensure(caller, dir, &parts, one.index)
                    .and_then(|part| branch.fs.link(caller, one.node, part, name)),
            };
            match linked {
                Ok(made) if one.index == first => entry = Some(made),
                Ok(made) => branch.fs.forget(made.attributes.node, 1),
                Err(error) if one.index == first => return Err(error),
                Err(_) => {}
            }
        }
        let entry = entry.ok_or(Errno::EXDEV)?;
        let found = Found::new(&self.core.branches[first], entry);
        self.core
            .enter(Some((dir, name)), Vec::from([(first, found)]))
    }

    pub(super) fn remove_file(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.writable()?;
        let _changing = self.names.change();
        let parts = self.core.directory(caller, dir)?;
        let mut all = self.core.all(caller, &parts, name, false)?;
        match kind(&all)? {
            FileKind::Directory => return Err(Errno::EISDIR.into()),
            _ => all.retain(|one| one.1.entry.attributes.kind != FileKind::Directory),
        }
        let acting = self
            .core
            .acting(caller, Function::Unlink, &instances(all))?;
        self.remove_from(&parts, &acting, |branch, part| {
            branch.unlink(caller, part, name)
        })
    }

    pub(super) fn remove_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
    ) -> Result<()> {
        self.writable()?;
        let _changing = self.names.change();
        let parts = self.core.directory(caller, dir)?;
        let mut all = self.core.all(caller, &parts, name, false)?;
        match kind(&all)? {
            FileKind::Directory => {
                all.retain(|one| one.1.entry.attributes.kind == FileKind::Directory);
            }
            _ => return Err(Errno::ENOTDIR.into()),
        }
        self.empty(caller, &all)?;
        let acting = self.core.acting(caller, Function::Rmdir, &instances(all))?;
        self.remove_from(&parts, &acting, |branch, part| {
            branch.rmdir(caller, part, name)
        })
    }

    /// Removes a name from the directory `parts` on the branches in `acting`, by `work`: the last
    /// one first.
    fn remove_from(
        &self,
        parts: &Parts,
        acting: &[usize],
        work: impl Fn(&dyn FileSystem, Node) -> Result<()>,
    ) -> Result<()> {
        let mut refused = None;
        let mut descending = acting.to_vec();
        descending.sort_unstable_by(|left, right| right.cmp(left));
        for index in descending {
            let Some(part) = parts[index] else { continue };
            if let Err(error) = work(&*self.core.branches[index].fs, part) {
                refused = Some(error);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// `ENOTEMPTY` unless there is nothing in the directories `all`.
    fn empty(&self, caller: &Caller<'_>, all: &All<'_>) -> Result<()> {
        for (index, found) in all {
            let mut any = false;
            let branch = &self.core.branches[*index].fs;
            branch.read_directory(caller, found.node(), 0, &mut |_| {
                any = true;
                false
            })?;
            if any {
                return Err(Errno::ENOTEMPTY.into());
            }
        }
        Ok(())
    }

    pub(super) fn move_name(
        &self,
        caller: &Caller<'_>,
        from: At<'_>,
        to: At<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.writable()?;
        let _changing = self.names.change();
        let old_parts = self.core.directory(caller, from.0)?;
        let new_parts = self.core.directory(caller, to.0)?;
        let olds = self.core.all(caller, &old_parts, from.1, false)?;
        let news = self.core.all(caller, &new_parts, to.1, false)?;
        let moved = kind(&olds)?;
        if flags.no_replace() && !news.is_empty() {
            return Err(Errno::EEXIST.into());
        }
        if flags.exchange() {
            kind(&news)?;
        }
        let is_directory = moved == FileKind::Directory;
        let is_kind = |one: &(usize, Found<'_>)| {
            (one.1.entry.attributes.kind == FileKind::Directory) == is_directory
        };
        if is_directory {
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
        if let Ok(replaced) = kind(&news) {
            // Two names of one file.
            let same = |old: &(usize, Found<'_>), new: &(usize, Found<'_>)| {
                (old.0, old.1.node()) == (new.0, new.1.node())
            };
            if same(&olds[0], &news[0]) {
                return Ok(());
            }
            match (is_directory, replaced == FileKind::Directory) {
                (true, false) => return Err(Errno::ENOTDIR.into()),
                (false, true) => return Err(Errno::EISDIR.into()),
                (true, true) => self.empty(caller, &news)?,
                (false, false) => {}
            }
        }
        let olds: All<'_> = olds.into_iter().filter(is_kind).collect();
        let node = self.node_of(&olds);
        let olds = instances(olds);
        let acting = self.core.acting(caller, Function::Rename, &olds)?;
        let keeps = self.core.settings.keeps_paths();
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
        let fixed = |&&at: &&usize| !self.core.branches[at].changes();
        if hiding.iter().any(|at| fixed(&at)) {
            return Err(Error::because(
                Errno::EROFS,
                "a branch that is not to be changed has the new name",
            ));
        }
        let behind: Vec<usize> = news.iter().map(|new| new.0).collect();
        let behind: Vec<usize> = behind
            .into_iter()
            .filter(|at| *at > shown && !moving.contains(at) && self.core.branches[*at].changes())
            .collect();
        let replaces = news.iter().any(|new| new.0 == shown);
        drop(news);
        let remove = |branch: &dyn FileSystem, part: Node, name: &[u8]| match is_directory {
            true => branch.rmdir(caller, part, name),
            false => branch.unlink(caller, part, name),
        };
        let mut descending: Vec<usize> = moving.iter().copied().filter(|&at| at != shown).collect();
        descending.sort_unstable_by(|left, right| right.cmp(left));
        for index in descending {
            let branch = &self.core.branches[index].fs;
            let part = self.core.ensure(caller, to.0, &new_parts, index)?;
            let old = old_parts[index].ok_or(Errno::ESTALE)?;
            branch.rename(caller, (old, from.1), (part, to.1), flags)?;
        }
        let branch = &*self.core.branches[shown].fs;
        let part = self.core.ensure(caller, to.0, &new_parts, shown)?;
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
            branch.rename(caller, (old, from.1), (part, to.1), flags)?;
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
            self.core.nodes.renamed(node, to).to(&self.core.branches);
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
        let random = crate::archive::host::random();
        let temporary = format!(".culvert-{random:016x}").into_bytes();
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
        if !self.core.branches[old.0].changes() {
            return Err(Errno::EROFS.into());
        }
        let nodes = (self.node_of(olds), self.node_of(news));
        let flags = RenameFlags(RenameFlags::EXCHANGE);
        let branch = &self.core.branches[old.0].fs;
        branch.rename(caller, (left, from.1), (right, to.1), flags)?;
        for (node, place) in [(nodes.0, to), (nodes.1, from)] {
            if let Some(node) = node {
                self.core.nodes.renamed(node, place).to(&self.core.branches);
            }
        }
        Ok(())
    }

    /// The number of what `all` are, if anybody has it.
    fn node_of(&self, all: &All<'_>) -> Option<Node> {
        let (index, found) = all.first()?;
        match found.entry.attributes.kind {
            FileKind::Directory => self.core.nodes.part_of(*index, found.node()),
            _ => Some(self.core.branches[*index].number(found.node())),
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

/// Whether the directory `dir` is what `all` are, or lies below it.
fn flagged_below(union: &UnionFs, all: &All<'_>, dir: Node) -> bool {
    let Some(node) = union.node_of(all) else {
        return false;
    };
    let mut here = Some(dir);
    while let Some(at) = here {
        if at == node {
            return true;
        }
        let place = union
            .core
            .nodes
            .with(at, |known| known.place.as_ref().map(|it| it.0));
        here = place.ok().flatten();
    }
    false
}

/// What the first of `all` is; `ENOENT` where there is none.
fn kind(all: &All<'_>) -> Result<FileKind> {
    match all.first() {
        Some((_, found)) => Ok(found.entry.attributes.kind),
        None => Err(Errno::ENOENT.into()),
    }
}

fn instances(all: All<'_>) -> Vec<Instance<'_>> {
    let each = all.into_iter();
    each.map(|(index, found)| Instance::found(index, found))
        .collect()
}
