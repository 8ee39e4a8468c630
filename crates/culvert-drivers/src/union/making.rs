//! What is made: files, directories, links; and what is changed of what there is.

use super::branch::Tree;
use super::control::NAME;
use super::found::{All, Found};
use super::looks::Look;
use super::options::Function;
use super::state::{At, Core, Look as How, Parts};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culvert::{
    Caller, Entry, Errno, Error, FileKind, FileSystem, Node, OpenFlags, Opened, Result,
    SetAttributes,
};

/// Makes a file in a directory of a branch, and opens it.
type MakeFile<'a> = &'a mut dyn FnMut(&dyn FileSystem, Node) -> Result<(Entry, Opened)>;

/// The function that makes `changes`.
pub fn function(changes: &SetAttributes) -> Function {
    match () {
        () if changes.permissions.is_some() => Function::Chmod,
        () if changes.size.is_some() => Function::Truncate,
        () if changes.atime.is_some() || changes.mtime.is_some() => Function::Utimens,
        () => Function::Chown,
    }
}

impl Core {
    /// Does `work` on what `node` is on each branch that `function` chooses. The error of the
    /// branch that is shown counts, or, if that is not among them, that of all.
    pub fn on_each(
        &self,
        caller: &Caller<'_>,
        node: Node,
        function: Function,
        work: &mut dyn FnMut(&dyn FileSystem, Node) -> Result<()>,
    ) -> Result<()> {
        self.writable()?;
        if let Some((tree, part)) = self.elsewhere(node) {
            return match tree.fs.capabilities().read_only {
                true => Err(Errno::EROFS.into()),
                false => work(&*tree.fs, part),
            };
        }
        let all = self.instances(caller, node)?;
        let acting = self.acting(caller, function, &all)?;
        let first = self.first(node)?.0;
        let (mut done, mut refused) = (false, None);
        for one in all.iter().filter(|one| acting.contains(&one.index)) {
            let at = (one.index, one.node);
            let judged = self.judge_attributes(caller, first, at, function);
            match judged.and_then(|()| work(&*self.branches[one.index].fs, one.node)) {
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

    pub fn create_file(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.writable()?;
        if (dir, name) == (super::ROOT, NAME) {
            return Err(match flags.exclusive() {
                true => Errno::EEXIST.into(),
                false => Errno::EACCES.into(),
            });
        }
        let changing = self.names.change_of([Some(name), None]);
        let look = self.look_before((dir, name), &changing);
        // What has the name is looked at again: it is opened.
        let is_good = |look: &Look| match look.unseen {
            Some(_) => flags.exclusive(),
            None => look.is_of_nothing(),
        };
        let look = look.filter(is_good);
        let parts = self.directory_after(caller, dir, look.as_ref())?;
        if let Some(index) = look.as_ref().and_then(|look| look.unseen) {
            return self.create_unseen(caller, (dir, name), (&parts, index), flags, mode);
        }
        let mut found = match look {
            Some(_) => All::new(),
            None => self.seek(caller, &parts, name, How::Glance)?,
        };
        let (index, entry, opened) = match found.first() {
            Some(_) if flags.exclusive() => return Err(Errno::EEXIST.into()),
            Some((index, there)) => {
                match there.entry.attributes.kind {
                    FileKind::Regular => {}
                    FileKind::Directory => return Err(Errno::EISDIR.into()),
                    FileKind::Symlink => return Err(Errno::ELOOP.into()),
                    _ => return Err(Errno::ENXIO.into()),
                }
                let branch = &self.branches[*index].fs;
                self.may_open(caller, (&**branch, there.node()), flags)?;
                let index = *index;
                let there = found.pop().filter(|_| branch.capabilities().read_only);
                match (there, parts[index]) {
                    // A read-only file system opens what it has.
                    (Some((_, there)), _) => {
                        let opened = branch.open(caller, there.node(), flags)?;
                        (index, there.take().0, opened)
                    }
                    (None, Some(part)) => {
                        let (entry, opened) = branch.create(caller, part, name, flags, mode)?;
                        (index, entry, opened)
                    }
                    (None, None) => return Err(Errno::ESTALE.into()),
                }
            }
            None => {
                let made = self.in_place(caller, dir, (&parts, None), &mut |branch, part| {
                    branch.create(caller, part, name, flags, mode)
                })?;
                self.made_in(dir, &parts, made.0);
                made
            }
        };
        self.entered((dir, name), (index, entry), flags, opened)
    }

    /// Makes a file at a place at which nobody has looked, which branch `index` alone may have:
    /// that says whether there is one, before anything else.
    fn create_unseen(
        &self,
        caller: &Caller<'_>,
        (dir, name): At<'_>,
        (parts, index): (&Parts, usize),
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let unseen = Some((index, name));
        let made = self.in_place(caller, dir, (parts, unseen), &mut |branch, part| {
            branch.create(caller, part, name, flags, mode)
        });
        let (index, entry, opened) = match made {
            Err(error) if error.errno() != Errno::EEXIST => {
                self.absent(caller, parts, name)?;
                return Err(error);
            }
            made => made?,
        };
        self.entered((dir, name), (index, entry), flags, opened)
    }

    /// What was made at `place` on branch `index`, and opened there.
    fn entered(
        &self,
        place: At<'_>,
        (index, entry): (usize, Entry),
        flags: OpenFlags,
        opened: Opened,
    ) -> Result<(Entry, Opened)> {
        let branch = &self.branches[index];
        let part = entry.attributes.node;
        let found = Vec::from([(index, Found::new(branch, entry))]);
        let entry = self.enter(Some(place), found)?;
        self.with_opened(entry, (index, part), flags, opened)
    }

    fn with_opened(
        &self,
        entry: Entry,
        (index, part): (usize, Node),
        flags: OpenFlags,
        opened: Opened,
    ) -> Result<(Entry, Opened)> {
        let node = entry.attributes.node;
        let at = (&self.branches[index].tree, part);
        match self.opened(node, at, flags, opened) {
            Ok(opened) => Ok((entry, opened)),
            Err(error) => {
                self.nodes.forget(node, 1).give_back();
                Err(error)
            }
        }
    }

    /// Makes a file by `work` in what `dir` is on the branch where it is to be. `unseen`: the
    /// branch that alone may have the name, and the name, at which nobody has looked.
    fn in_place(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        (parts, unseen): (&Parts, Option<(usize, &[u8])>),
        work: MakeFile<'_>,
    ) -> Result<(usize, Entry, Opened)> {
        loop {
            let places = self.places(caller, dir, parts, Function::Create)?;
            let index = places.first().copied().ok_or(Errno::ENOSPC)?;
            if let Some((_, name)) = unseen.filter(|(only, _)| *only != index) {
                self.absent(caller, parts, name)?;
            }
            self.may_change(caller, parts, &[index])?;
            let settled = self.settle(caller, dir, parts, (index, Function::Create));
            let made = settled.and_then(|(index, part)| {
                let (entry, opened) = work(&*self.branches[index].fs, part)?;
                Ok((index, entry, opened))
            });
            match made {
                Err(error) if self.is_lost(&error, &places[..1]) => {}
                made => return made,
            }
        }
    }

    /// Whether one of the branches `chosen`, by which something failed with `error`, has been
    /// removed altogether. Nothing is made there from then on.
    fn is_lost(&self, error: &Error, chosen: &[usize]) -> bool {
        let is_gone = |tree: &Tree| {
            let found = tree.fs.attributes(&Caller::SYSTEM, tree.fs.root());
            let is_gone = tree.has_links && found.is_ok_and(|found| found.links == 0);
            if is_gone {
                tree.gone.store(true, Relaxed);
            }
            is_gone
        };
        let mut chosen = chosen.iter().map(|&index| &*self.branches[index].tree);
        error.errno() == Errno::ENOENT && chosen.any(is_gone)
    }

    pub fn create_unnamed(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.writable()?;
        // A directory may be made for it.
        let _changing = self.names.change_of([None, None]);
        let parts = self.directory(caller, dir)?;
        let made = self.in_place(caller, dir, (&parts, None), &mut |branch, part| {
            branch.tmpfile(caller, part, flags, mode)
        });
        let (index, entry, opened) = made?;
        let branch = &self.branches[index];
        let part = entry.attributes.node;
        let found = Vec::from([(index, Found::new(branch, entry))]);
        let entry = self.enter(None, found)?;
        self.with_opened(entry, (index, part), flags, opened)
    }

    /// Makes what has no bytes, by `work` in the directory on a branch; on several where the policy
    /// says so.
    pub fn make(
        &self,
        caller: &Caller<'_>,
        (dir, name): At<'_>,
        function: Function,
        work: &mut dyn FnMut(&dyn FileSystem, Node) -> Result<Entry>,
    ) -> Result<Entry> {
        self.writable()?;
        let changing = self.names.change_of([Some(name), None]);
        if function == Function::Mkdir {
            changing.of_directories();
        }
        let look = self.look_before((dir, name), &changing);
        let parts = self.directory_after(caller, dir, look.as_ref())?;
        if !look.is_some_and(|look| look.is_of_nothing()) {
            self.absent(caller, &parts, name)?;
        }
        let (mut made, refused) = loop {
            let (mut made, mut refused) = (All::new(), None);
            let places = self.places(caller, dir, &parts, function)?;
            self.may_change(caller, &parts, &places)?;
            for &index in &places {
                let settled = self.settle(caller, dir, &parts, (index, function));
                let done = settled.and_then(|(index, part)| {
                    let branch = &self.branches[index];
                    if made.iter().all(|one| one.0 != index) {
                        let entry = work(&*branch.fs, part)?;
                        made.push((index, Found::new(branch, entry)));
                    }
                    Ok(())
                });
                if let Err(error) = done {
                    refused = refused.or(Some(error));
                }
            }
            match &refused {
                Some(error) if made.is_empty() && self.is_lost(error, &places) => {}
                _ => break (made, refused),
            }
        };
        made.sort_by_key(|one| one.0);
        match (made.is_empty(), refused) {
            (true, Some(error)) => Err(error),
            _ => {
                if made
                    .first()
                    .is_some_and(|one| one.1.entry.attributes.kind != FileKind::Directory)
                {
                    made.truncate(1);
                }
                self.enter(Some((dir, name)), made)
            }
        }
    }

    pub fn add_name(
        &self,
        caller: &Caller<'_>,
        node: Node,
        dir: Node,
        name: &[u8],
    ) -> Result<Entry> {
        self.writable()?;
        let kind = self.nodes.with(node, |known| known.kind)?;
        if kind == FileKind::Directory {
            return Err(Errno::EPERM.into());
        }
        let changing = self.names.change_of([Some(name), None]);
        let look = self.look_before((dir, name), &changing);
        let parts = self.directory_after(caller, dir, look.as_ref())?;
        if !look.is_some_and(|look| look.is_of_nothing()) {
            self.absent(caller, &parts, name)?;
        }
        let all = self.instances(caller, node)?;
        let acting = self.acting(caller, Function::Link, &all)?;
        let first = self.first(node)?.0;
        // The new name is to be the same file.
        if !acting.contains(&first) {
            return Err(Errno::EXDEV.into());
        }
        self.may_change(caller, &parts, &acting)?;
        let keeps = self.settings().keeps_paths();
        let mut entry = None;
        for one in all.iter().rev().filter(|one| acting.contains(&one.index)) {
            let missing = keeps && parts[one.index].is_none();
            let branch = &self.branches[one.index];
            let linked = match missing {
                true => Err(Errno::EXDEV.into()),
                false => self
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
        let found = Found::new(&self.branches[first], entry);
        self.enter(Some((dir, name)), Vec::from([(first, found)]))
    }
}
