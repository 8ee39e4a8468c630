//! Which branches an operation is about.

use super::branch::Branch;
use super::found::{All, Found};
use super::nodes::Member;
use super::options::Function;
use super::policy::{Candidate, Policy, Reach, Space, worse};
use super::state::{Core, Look, Parts};
use alloc::vec::Vec;
use culvert::{Caller, Errno, FileKind, Node, Result};

impl Core {
    /// Where something is made in the directory `dir` by `function`.
    pub fn places(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        parts: &Parts,
        function: Function,
    ) -> Result<Vec<usize>> {
        let policy = self.settings().policy(function);
        let (mut here, mut parts) = (dir, parts.clone());
        loop {
            let mut refused = Errno::ENOENT;
            let mut candidates = Vec::new();
            for (index, branch) in self.branches.iter().enumerate() {
                match self.may_hold(caller, policy, (index, branch), parts[index]) {
                    Ok(candidate) => candidates.push(candidate),
                    Err(errno) => refused = worse(refused, errno),
                }
                if policy.is_the_first() && !candidates.is_empty() {
                    break;
                }
            }
            let chosen = policy.choose(&candidates);
            if !chosen.is_empty() {
                return Ok(chosen);
            }
            if !candidates.is_empty() {
                // Refused by the policy, or nothing is free.
                return Err(match policy.is_random_by_free() {
                    true => Errno::ENOSPC,
                    false => Errno::EROFS,
                }
                .into());
            }
            let above = self
                .nodes
                .with(here, |known| known.place.as_ref().map(|it| it.0))?;
            match above.filter(|_| policy.reach() == Reach::Shared) {
                Some(above) => (here, parts) = (above, self.directory(caller, above)?),
                None => return Err(refused.into()),
            }
        }
    }

    /// Directory `dir` on branch `index`, which `function` has chosen, made there if it is missing.
    /// By who may not make it there: on the branch that would be chosen of those that have it.
    pub fn settle(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        parts: &Parts,
        (index, function): (usize, Function),
    ) -> Result<(usize, Node)> {
        let refused = match self.ensure(caller, dir, parts, index) {
            Ok(part) => return Ok((index, part)),
            Err(error) if error.errno() == Errno::EACCES && parts[index].is_none() => error,
            Err(error) => return Err(error),
        };
        let policy = self.settings().policy(function);
        let mut candidates = Vec::new();
        for (index, branch) in self.branches.iter().enumerate() {
            if let (Some(part), false) = (parts[index], self.elevates) {
                let candidate = self.may_hold(caller, policy, (index, branch), Some(part));
                candidates.extend(candidate.ok());
            }
        }
        let chosen = policy.choose(&candidates).first().copied();
        let part = chosen.and_then(|index| Some((index, parts[index]?)));
        let (index, part) = part.ok_or(refused)?;
        self.judge_change(caller, parts, &[index])?;
        Ok((index, part))
    }

    /// Whether something is made by `policy` on a branch, where the directory is `part`.
    pub fn may_hold(
        &self,
        caller: &Caller<'_>,
        policy: Policy,
        (index, branch): (usize, &Branch),
        part: Option<Node>,
    ) -> core::result::Result<Candidate, Errno> {
        if !branch.creates() {
            return Err(Errno::EROFS);
        }
        if part.is_none() && policy.reach() != Reach::Every {
            return Err(Errno::ENOENT);
        }
        let space = branch.space().ok_or(Errno::EROFS)?;
        if space.available < branch.how.least.unwrap_or(self.settings().least) {
            return Err(Errno::ENOSPC);
        }
        let modified = part.filter(|_| policy.is_newest());
        let modified = modified.and_then(|part| branch.fs.attributes(caller, part).ok());
        Ok(Candidate {
            index,
            modified: modified.map(|found| found.mtime),
            space,
        })
    }

    /// Which of `found` are changed by `function`: `EROFS` when there is none that may be.
    pub fn acting(
        &self,
        caller: &Caller<'_>,
        function: Function,
        found: &[Instance<'_>],
    ) -> Result<Vec<usize>> {
        let policy = self.settings().policy(function);
        let mut candidates = Vec::new();
        for one in found {
            let branch = &self.branches[one.index];
            if !branch.changes() {
                continue;
            }
            // A file system that may not be written to says so itself, where it is the only one.
            let space = match found.len() > 1 || policy.weighs_space() {
                true => branch.space(),
                false => Some(Space::default()),
            };
            if let Some(space) = space {
                candidates.push(self.candidate(caller, policy, one, space));
            }
        }
        let chosen = policy.choose(&candidates);
        match chosen.is_empty() {
            true => Err(Errno::EROFS.into()),
            false => Ok(chosen),
        }
    }

    /// The one of `found` that is asked by `function`.
    pub fn asked<'a, 'b>(
        &self,
        caller: &Caller<'_>,
        function: Function,
        found: &'b [Instance<'a>],
    ) -> Result<&'b Instance<'a>> {
        let policy = self.settings().policy(function);
        let candidates: Vec<_> = match policy.is_first() {
            true => Vec::new(),
            false => {
                let space = |index: usize| self.branches[index].space().unwrap_or_default();
                let one = |one| self.candidate(caller, policy, one, space(one.index));
                found.iter().map(one).collect()
            }
        };
        let chosen = policy.choose(&candidates);
        let one = found.iter().find(|one| chosen.first() == Some(&one.index));
        one.or(found.first()).ok_or(Errno::ESTALE.into())
    }

    fn candidate(
        &self,
        caller: &Caller<'_>,
        policy: Policy,
        one: &Instance<'_>,
        space: Space,
    ) -> Candidate {
        let attributes = match &one.found {
            _ if !policy.is_newest() => None,
            Some(found) => Some(found.entry.attributes),
            None => {
                let found = self.branches[one.index].fs.attributes(caller, one.node);
                found.ok()
            }
        };
        Candidate {
            index: one.index,
            modified: attributes.map(|found| found.mtime),
            space,
        }
    }

    /// What `node` is on the branch that knows it first, with a node of the branch's. `ESTALE`:
    /// nobody keeps it, or it was known by its name, which is another's by now.
    pub fn first(&self, node: Node) -> Result<(usize, Node)> {
        let known = self.nodes.with(node, |known| {
            // Who began before branches came or went asks those that there were.
            let mut members = known.members.iter();
            let first = members.find(|one| self.branch_of(&one.tree).is_some());
            let first = first.cloned();
            let by_name = first.as_ref().is_some_and(|first| first.count == 0);
            let by_name = by_name && node != super::ROOT;
            (first, known.place.clone().filter(|_| by_name), by_name)
        });
        let (first, place, by_name) = known?;
        let first = first.ok_or(Errno::ESTALE)?;
        let index = self.branch_of(&first.tree).ok_or(Errno::ESTALE)?;
        let part = first.node;
        if by_name {
            let (dir, name) = place.ok_or(Errno::ESTALE)?;
            let part = self.nodes.with(dir, |known| {
                let mut parts = known.members.iter();
                let part = parts.find(|part| part.tree.id == first.tree.id);
                part.map(|part| part.node)
            });
            let caller = Caller::SYSTEM;
            let over = part?.ok_or(Errno::ESTALE)?;
            let found = self.find_exactly(&caller, index, over, &name);
            let found = found.map_err(|error| match error.errno() {
                Errno::ENOENT => Errno::ESTALE.into(),
                _ => error,
            })?;
            if found.node() != first.node {
                return Err(Errno::ESTALE.into());
            }
            // The reference is the union's from now on.
            let _ = found.take();
            let member = Member { count: 1, ..first };
            self.nodes.firm(node, member).give_back();
        }
        // Of a file that was moved while it was open, who has it open knows the node that it had.
        if self.settings().moves.is_some() && self.moves.have_own() {
            let tree = &self.branches[index].tree;
            let found = tree.fs.attributes(&Caller::SYSTEM, part);
            let is_gone = found.is_ok_and(|found| found.links == 0);
            if let Some(to) = self.moved((tree, part)).filter(|_| is_gone) {
                return Ok(to);
            }
        }
        Ok((index, part))
    }

    /// Where `node`, a file that is `part` of branch `index`, was seen last, if it is there still.
    pub fn place_of(&self, node: Node, (index, part): (usize, Node)) -> Option<(Node, Vec<u8>)> {
        let known = self
            .nodes
            .with(node, |known| (known.kind, known.place.clone()));
        let (kind, place) = known.ok()?;
        let (dir, name) = place.filter(|_| kind != FileKind::Directory)?;
        let parts = self.known_parts(dir).ok()?;
        let found = self.find_exactly(&Caller::SYSTEM, index, parts[index]?, &name);
        let is_it = found.is_ok_and(|found| found.node() == part);
        is_it.then_some((dir, name))
    }

    /// What `node` is for `function`, which asks one branch.
    pub fn one(
        &self,
        caller: &Caller<'_>,
        node: Node,
        function: Function,
    ) -> Result<(usize, Node)> {
        if self.settings().policy(function).is_first() {
            return self.first(node);
        }
        let all = self.instances(caller, node)?;
        self.asked(caller, function, &all)
            .map(|one| (one.index, one.node))
    }

    /// What `node` is on each branch: of what is no directory, what has its name there.
    pub fn instances<'a>(&'a self, caller: &Caller<'_>, node: Node) -> Result<Vec<Instance<'a>>> {
        let (kind, place) = self
            .nodes
            .with(node, |known| (known.kind, known.place.clone()))?;
        if kind == FileKind::Directory {
            let parts = self.directory(caller, node)?.into_iter().enumerate();
            let part = |(index, node): (usize, Option<Node>)| Some(Instance::known(index, node?));
            return Ok(parts.filter_map(part).collect());
        }
        let first = self.first(node)?;
        let mut instances = Vec::from([Instance::known(first.0, first.1)]);
        let place = place.filter(|_| self.branches.len() > 1);
        let Some((dir, name)) = place else {
            return Ok(instances);
        };
        // What the lookup of this call has found is it.
        if let Some(look) = self.look((dir, &name))
            && self.nodes.is_looked_up_once(node)
            && look.looked_at == first.0 + 1
            && look.found.is_some_and(|found| found.node == first.1)
        {
            let others = self.others_after(caller, (dir, &name), &look, kind)?;
            instances.extend(
                others
                    .into_iter()
                    .map(|(index, found)| Instance::found(index, found)),
            );
            return Ok(instances);
        }
        let parts = self.directory(caller, dir);
        let all = parts.and_then(|parts| self.all(caller, &parts, &name, false, Look::Exact));
        let all = all?;
        // Where the name is another's by now, what others have of it is nobody's here.
        if all
            .iter()
            .any(|(index, found)| (*index, found.node()) == first)
        {
            let others = all.into_iter().filter(|one| one.0 != first.0);
            let others = others.filter(|one| one.1.entry.attributes.kind == kind);
            instances.extend(others.map(|(index, found)| Instance::found(index, found)));
            instances.sort_by_key(|one| one.index);
        }
        Ok(instances)
    }

    /// What `user.mergerfs.WORD` of `node` is: where it lies.
    pub fn told(&self, caller: &Caller<'_>, node: Node, word: &[u8]) -> Result<Vec<u8>> {
        let (index, part) = self.first(node)?;
        let branch = &self.branches[index];
        let full = |branch: &Branch, path: &[u8]| match path {
            [] => branch.source.clone(),
            path => [&branch.source[..], b"/", path].concat(),
        };
        let path = match branch.fs.path_of(part) {
            // Of several names it has lost the one that the branch knows it by.
            Err(error) if error.errno() == Errno::ENOENT => {
                let place = self.nodes.with(node, |known| known.place.is_some())?;
                place.then(|| self.seen_path(node)).ok_or(error)?
            }
            path => path?,
        };
        match word {
            b"basepath" => Ok(branch.source.clone()),
            b"relpath" => Ok([b"/", &path[..]].concat()),
            b"fullpath" => Ok(full(branch, &path)),
            b"allpaths" => {
                let all = self.instances(caller, node)?;
                let all = all.iter().map(|one| full(&self.branches[one.index], &path));
                Ok(all.collect::<Vec<_>>().join(&0))
            }
            _ => Err(Errno::ENODATA.into()),
        }
    }
}

/// What something is on one branch.
pub struct Instance<'a> {
    /// Which branch.
    pub index: usize,
    /// Its node there.
    pub node: Node,
    /// It was looked up for this.
    pub found: Option<Found<'a>>,
}

impl<'a> Instance<'a> {
    /// What a node that the front end has is there.
    pub const fn known(index: usize, node: Node) -> Self {
        Self {
            index,
            node,
            found: None,
        }
    }

    /// What was looked up.
    pub fn found(index: usize, found: Found<'a>) -> Self {
        Self {
            index,
            node: found.node(),
            found: Some(found),
        }
    }
}

/// `found` on `branch` for a policy.
pub fn candidate((index, found): &(usize, Found<'_>), branch: &Branch) -> Candidate {
    Candidate {
        index: *index,
        modified: Some(found.entry.attributes.mtime),
        space: branch.space().unwrap_or_default(),
    }
}

/// What the first of `all` is; `ENOENT` where there is none.
pub fn kind(all: &All<'_>) -> Result<FileKind> {
    match all.first() {
        Some((_, found)) => Ok(found.kind()),
        None => Err(Errno::ENOENT.into()),
    }
}

/// `all` as they were looked up.
pub fn instances(all: All<'_>) -> Vec<Instance<'_>> {
    let each = all.into_iter();
    each.map(|(index, found)| Instance::found(index, found))
        .collect()
}
