//! Directories: what they are on each branch, also where others have made or moved them, and how
//! they are made on one branch more.

use super::nodes::{Known, Member};
use super::state::{Core, Parts};
use super::transfer::{be_later, copy_metadata};
use alloc::{sync::Arc, vec::Vec};
use culvert::{Caller, Errno, FileKind, Node, Result};

/// A directory, and a name in it.
pub type Place = (Node, Vec<u8>);

/// How many directories that some branch lacks are looked for there, from one upwards.
const DEEPEST: usize = 128;

/// How many directories one above the other are made at once. No path is that long.
const MOST_MISSING: usize = 4096;

impl Core {
    /// What directory `dir` is on each branch, also where others have made it meanwhile.
    pub fn directory(&self, caller: &Caller<'_>, dir: Node) -> Result<Parts> {
        let (parts, place) = self.known_directory(dir)?;
        // Those that lack a part, the uppermost last.
        let mut lacking = Vec::new();
        let mut next = (dir, parts, place);
        while next.1.iter().any(Option::is_none) && lacking.len() < DEEPEST {
            let above = next.2.as_ref().map(|place| place.0);
            lacking.push(next);
            let above = above.and_then(|above| Some((above, self.known_directory(above).ok()?)));
            let Some((above, (parts, place))) = above else {
                let top = lacking.pop().ok_or(Errno::ESTALE)?;
                return Ok(self.complete(caller, top.1, lacking));
            };
            next = (above, parts, place);
        }
        Ok(self.complete(caller, next.1, lacking))
    }

    /// Goes down from `over` through the directories `lacking` a part, the uppermost last, and
    /// looks for these: what the lowest one is.
    fn complete(
        &self,
        caller: &Caller<'_>,
        over: Parts,
        lacking: Vec<(Node, Parts, Option<Place>)>,
    ) -> Parts {
        let mut over = over;
        for (dir, mut parts, place) in lacking.into_iter().rev() {
            if let Some((_, name)) = place {
                self.fill(caller, dir, &mut parts, (over, name));
            }
            over = parts;
        }
        over
    }

    /// Looks for what is missing of the `parts` of `dir`, which was seen as a name in `over`.
    fn fill(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        parts: &mut Parts,
        (over, name): (Parts, Vec<u8>),
    ) {
        let (mut over, mut name) = (over, name);
        if !self.is_at(caller, parts, &over, &name) {
            // Others have moved it.
            let moved = self.find_again(caller, dir, parts);
            let known = moved.and_then(|(above, new)| {
                let parts = self.known_parts(above).ok()?;
                Some((parts, new))
            });
            let Some(known) = known else { return };
            (over, name) = known;
        }
        self.fill_from(caller, dir, parts, (&over, &name), 0);
    }

    /// Looks for what is missing of the `parts` of `dir`, which is `name` in `over`, on all
    /// branches but the first ones.
    pub fn fill_from(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        parts: &mut Parts,
        (over, name): (&Parts, &[u8]),
        first: usize,
    ) {
        for (index, part) in parts.iter_mut().enumerate().skip(first) {
            let (None, Some(over)) = (*part, over[index]) else {
                continue;
            };
            let Ok(found) = self.find_exactly(caller, index, over, name) else {
                continue;
            };
            if found.entry.attributes.kind == FileKind::Directory {
                let node = found.take().0.attributes.node;
                *part = Some(node);
                self.extend(dir, (index, node));
            }
        }
    }

    /// Directory `dir` is `node` of branch `index`, too, which has given a reference.
    fn extend(&self, dir: Node, (index, node): (usize, Node)) {
        let member = Member {
            tree: Arc::clone(&self.branches[index].tree),
            node,
            count: 1,
        };
        self.nodes.extend(dir, member).give_back();
    }

    /// What is known of directory `dir`, and where it was seen last.
    pub fn known_directory(&self, dir: Node) -> Result<(Parts, Option<Place>)> {
        self.known_as(dir, |known| known.place.clone())
    }

    /// What is known of directory `dir`.
    pub fn known_parts(&self, dir: Node) -> Result<Parts> {
        Ok(self.known_as(dir, |_| ())?.0)
    }

    /// What is known of directory `dir`, and what `more` makes of it.
    fn known_as<T>(&self, dir: Node, more: impl FnOnce(&Known) -> T) -> Result<(Parts, T)> {
        let known = self.nodes.with(dir, |known| {
            let mut parts = alloc::vec![None; self.branches.len()];
            for member in &known.members {
                if let Some(index) = self.branch_of(&member.tree) {
                    parts[index] = Some(member.node);
                }
            }
            let is_directory = known.kind == FileKind::Directory;
            is_directory.then(|| (parts, more(known)))
        });
        known?.ok_or(Errno::ENOTDIR.into())
    }

    /// Whether `name` in the directory `over` leads to `parts` on a branch.
    pub fn is_at(&self, caller: &Caller<'_>, parts: &Parts, over: &Parts, name: &[u8]) -> bool {
        let mut both = parts.iter().zip(over).enumerate();
        both.find_map(|(index, both)| match both {
            (Some(part), Some(over)) => {
                let found = self.find(caller, index, *over, name);
                Some(found.is_ok_and(|found| found.node() == *part))
            }
            _ => None,
        })
        .unwrap_or(false)
    }

    /// Where directory `dir` is by now, should the union show it there.
    fn find_again(&self, caller: &Caller<'_>, dir: Node, parts: &Parts) -> Option<Place> {
        let mut all = parts.iter().enumerate();
        let (index, part) = all.find_map(|(index, part)| Some((index, (*part)?)))?;
        let path = self.branches[index].fs.path_of(part).ok()?;
        let node = self.walk(caller, &path).ok()?;
        self.nodes.forget(node, 1).give_back();
        let place = self.nodes.with(dir, |known| known.place.clone()).ok()?;
        place.filter(|_| node == dir)
    }

    /// Directory `dir` on branch `index`, made there as it is on others if it is missing, and so
    /// are those above it.
    pub fn ensure(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        parts: &Parts,
        index: usize,
    ) -> Result<Node> {
        // What is to be made, the uppermost last: a directory, its parts, and its name.
        let mut missing = Vec::new();
        let (mut here, mut parts) = (dir, parts.clone());
        let mut parent = loop {
            if let Some(part) = parts[index] {
                break part;
            }
            let place = self.nodes.with(here, |known| known.place.clone())?;
            let (mut above, mut name) = place.ok_or(Errno::ENOENT)?;
            let mut over = self.directory(caller, above)?;
            if !self.is_at(caller, &parts, &over, &name) {
                // It was removed or moved.
                let moved = self.find_again(caller, here, &parts);
                (above, name) = moved.ok_or(Errno::ENOENT)?;
                over = self.directory(caller, above)?;
            }
            missing.push((here, parts, name));
            if missing.len() > MOST_MISSING {
                return Err(Errno::ELOOP.into());
            }
            (here, parts) = (above, over);
        };
        if !self.elevates && !missing.is_empty() {
            self.judge_change(caller, &parts, &[index])?;
        }
        for (dir, parts, name) in missing.into_iter().rev() {
            let mut all = parts.iter().enumerate();
            let model = all.find_map(|(from, part)| Some((from, (*part)?)));
            let model = model.ok_or(Errno::ESTALE)?;
            self.be_younger(caller, &parts);
            let make = || self.clone_directory(caller, model, (index, parent), &name);
            parent = match self.elevates {
                true => super::rights::as_superuser(make),
                false => make(),
            }?;
            self.extend(dir, (index, parent));
        }
        Ok(parent)
    }

    /// Waits for the kernel's next tick (4 ms at most) where directory `parts` was made in this
    /// one: the oldest of them names it, and what is made now is to be younger.
    fn be_younger(&self, caller: &Caller<'_>, parts: &Parts) {
        let all = parts.iter().zip(self.branches.iter());
        let births =
            all.filter_map(|(part, branch)| branch.fs.attributes(caller, (*part)?).ok()?.btime);
        if let Some(oldest) = births.min() {
            be_later(oldest);
        }
    }

    /// A directory like `model`, `name` in `parent`; the one that is there if there is one.
    pub fn clone_directory(
        &self,
        caller: &Caller<'_>,
        (from, model): (usize, Node),
        (index, parent): (usize, Node),
        name: &[u8],
    ) -> Result<Node> {
        let (source, branch) = (&self.branches[from].fs, &self.branches[index].fs);
        let wanted = source.attributes(caller, model)?;
        let made = match branch.mkdir(caller, parent, name, wanted.permissions & 0o1777 | 0o700) {
            Err(error) if error.errno() == Errno::EEXIST => {
                let found = self.find_exactly(caller, index, parent, name)?;
                return match found.entry.attributes.kind {
                    FileKind::Directory => Ok(found.take().0.attributes.node),
                    _ => Err(Errno::ENOTDIR.into()),
                };
            }
            made => made?.attributes,
        };
        let made_in = (&**branch, made.node);
        let copied = copy_metadata(caller, (&**source, model, &wanted), made_in, false);
        self.names.directories_changed();
        copied?;
        Ok(made.node)
    }
}
