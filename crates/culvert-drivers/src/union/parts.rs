//! What nodes are on the branches, and which of these an operation is about.

use super::branch::{Branch, Found, mix};
use super::nodes::{Member, Nodes, Seen};
use super::options::{Function, InodeCalc, Settings};
use super::policy::{Candidate, Reach, worse};
use alloc::vec::Vec;
use culvert::{Attributes, Caller, Entry, Errno, FileKind, Node, Result, SetAttributes};
use culvert_sys::process;
use culvert_sys::raw::general::{CLOCK_REALTIME_COARSE, timespec};

/// The branches of a union and what is known of them.
pub struct Core {
    /// In the order in which they are asked.
    pub branches: Vec<Branch>,
    /// What the front end knows.
    pub nodes: Nodes,
    /// What the user wants.
    pub settings: Settings,
}

/// A directory's node on each branch that has it.
pub type Parts = Vec<Option<Node>>;

/// A directory, and a name in it.
type Place = (Node, Vec<u8>);

/// How many milliseconds at most are waited for a tick. A clock that was set back is not.
const MOST_TICKS: usize = 20;

/// How deep below the root directories are looked for on branches that do not have them yet.
const DEEPEST: usize = 128;

impl Core {
    /// What directory `dir` is on each branch, also where others have made it meanwhile.
    pub fn directory(&self, caller: &Caller<'_>, dir: Node) -> Result<Parts> {
        self.directory_within(caller, dir, DEEPEST)
    }

    fn directory_within(&self, caller: &Caller<'_>, dir: Node, depth: usize) -> Result<Parts> {
        let (mut parts, place) = self.known_directory(dir)?;
        let (Some((above, name)), Some(depth)) = (place, depth.checked_sub(1)) else {
            return Ok(parts);
        };
        if parts.iter().all(Option::is_some) {
            return Ok(parts);
        }
        let Ok(mut over) = self.directory_within(caller, above, depth) else {
            return Ok(parts);
        };
        let mut name = name;
        if !self.is_at(caller, &parts, &over, &name) {
            // Others have moved it.
            let moved = self.find_again(caller, dir, &parts);
            let Some((above, new)) = moved else {
                return Ok(parts);
            };
            (over, name) = (self.directory_within(caller, above, depth)?, new);
        }
        for (index, part) in parts.iter_mut().enumerate() {
            let (None, Some(over)) = (*part, over[index]) else {
                continue;
            };
            let Ok(found) = self.branches[index].find(caller, over, &name) else {
                continue;
            };
            if found.entry.attributes.kind == FileKind::Directory {
                let node = found.keep().attributes.node;
                *part = Some(node);
                let member = Member {
                    index,
                    node,
                    count: 1,
                };
                self.nodes.extend(dir, member).to(&self.branches);
            }
        }
        Ok(parts)
    }

    /// What is known of directory `dir`, and where it was seen last.
    fn known_directory(&self, dir: Node) -> Result<(Parts, Option<Place>)> {
        let known = self.nodes.with(dir, |known| {
            let mut parts = alloc::vec![None; self.branches.len()];
            for member in &known.members {
                parts[member.index] = Some(member.node);
            }
            let is_directory = known.kind == FileKind::Directory;
            is_directory.then(|| (parts, known.place.clone()))
        });
        known?.ok_or(Errno::ENOTDIR.into())
    }

    /// Whether `name` in the directory `over` leads to `parts` on a branch.
    fn is_at(&self, caller: &Caller<'_>, parts: &Parts, over: &Parts, name: &[u8]) -> bool {
        let mut both = parts.iter().zip(over).enumerate();
        both.find_map(|(index, both)| match both {
            (Some(part), Some(over)) => {
                let found = self.branches[index].find(caller, *over, name);
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
        self.nodes.forget(node, 1).to(&self.branches);
        let place = self.nodes.with(dir, |known| known.place.clone()).ok()?;
        place.filter(|_| node == dir)
    }

    /// What `path` below the root leads to, with one reference.
    pub fn walk(&self, caller: &Caller<'_>, path: &[u8]) -> Result<Node> {
        let mut node = super::ROOT;
        for name in path
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
        {
            let next = self.lookup(caller, node, name);
            if node != super::ROOT {
                // The one below keeps it.
                self.nodes.forget(node, 1).to(&self.branches);
            }
            node = next?.attributes.node;
        }
        Ok(node)
    }

    /// Everything that is called `name` in the directory `parts`, in the order of branches; with
    /// `first`, no more than the first unless that is a directory. Empty: `ENOENT`, or what stands
    /// in the way.
    pub fn all<'a>(
        &'a self,
        caller: &Caller<'_>,
        parts: &Parts,
        name: &[u8],
        first: bool,
    ) -> Result<Vec<(usize, Found<'a>)>> {
        let mut found = Vec::<(usize, Found<'_>)>::new();
        let mut refused = None;
        for (index, part) in parts.iter().enumerate() {
            let Some(part) = *part else { continue };
            match self.branches[index].find(caller, part, name) {
                Ok(one) => {
                    let is_directory = one.entry.attributes.kind == FileKind::Directory;
                    found.push((index, one));
                    if first && !is_directory && found.len() == 1 {
                        break;
                    }
                }
                Err(error) => match error.errno() {
                    Errno::ENOENT | Errno::ESTALE => {}
                    _ => refused = refused.or(Some(error)),
                },
            }
        }
        match (found.is_empty(), refused) {
            (true, Some(error)) => Err(error),
            _ => Ok(found),
        }
    }

    /// What `name` in the directory `parts` is: one of each branch of a directory, else one. Empty:
    /// nothing.
    pub fn seek<'a>(
        &'a self,
        caller: &Caller<'_>,
        parts: &Parts,
        name: &[u8],
    ) -> Result<Vec<(usize, Found<'a>)>> {
        let policy = self.settings.policy(Function::Getattr);
        let mut found = self.all(caller, parts, name, policy.is_first())?;
        if found.len() > 1 {
            let candidates: Vec<_> = found.iter().map(candidate).collect();
            let chosen = policy.choose(&self.branches, &candidates);
            let chosen = chosen.first().copied().unwrap_or(found[0].0);
            let of = |index: usize| found.iter().position(|one| one.0 == index);
            let at = of(chosen).unwrap_or(0);
            let is_directory =
                |one: &(usize, Found<'_>)| one.1.entry.attributes.kind == FileKind::Directory;
            match is_directory(&found[at]) {
                true => found.retain(is_directory),
                false => found = Vec::from([found.swap_remove(at)]),
            }
        }
        Ok(found)
    }

    /// `name` in `dir`, with one reference.
    pub fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let parts = self.directory(caller, dir)?;
        let found = self.seek(caller, &parts, name)?;
        match found.is_empty() {
            true => Err(Errno::ENOENT.into()),
            false => self.enter(Some((dir, name)), found),
        }
    }

    /// Whether there is nothing called `name` in the directory `parts`: else `EEXIST`.
    pub fn absent(&self, caller: &Caller<'_>, parts: &Parts, name: &[u8]) -> Result<()> {
        match self.all(caller, parts, name, true)?.is_empty() {
            true => Ok(()),
            false => Err(Errno::EEXIST.into()),
        }
    }

    /// The entry of what was `found` in `place`: of one thing.
    pub fn enter(
        &self,
        place: Option<(Node, &[u8])>,
        found: Vec<(usize, Found<'_>)>,
    ) -> Result<Entry> {
        let (shown_index, mut shown) = match found.first() {
            Some((index, found)) => (*index, found.entry.attributes),
            None => return Err(Errno::ENOENT.into()),
        };
        for (_, found) in &found[1..] {
            shown = together(shown, &found.entry.attributes);
        }
        // Archives have no times of birth, and are never younger than what is made of them.
        let age = |(index, found): &&(usize, Found<'_>)| (found.entry.attributes.btime, *index);
        let oldest = found.iter().min_by_key(age).map(|(index, found)| {
            let branch = &self.branches[*index];
            (
                branch.number(found.node()),
                branch.inode(found.entry.attributes.inode),
            )
        });
        let (node, inode) = oldest.ok_or(Errno::ENOENT)?;
        let member = |(index, found): (usize, Found<'_>)| Member {
            index,
            node: found.keep().attributes.node,
            count: 1,
        };
        let seen = Seen {
            node,
            kind: shown.kind,
            members: found.into_iter().map(member).collect(),
            inode,
        };
        let (node, returned) = self.nodes.enter(place, seen);
        returned.to(&self.branches);
        let node = node?;
        Ok(Entry {
            attributes: self.shown(node, shown_index, shown),
        })
    }

    /// stat(2) of `node`: of a directory what all of its parts say.
    pub fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        let kind = self.nodes.with(node, |known| known.kind)?;
        let (index, part) = self.one(caller, node, Function::Getattr)?;
        let mut found = self.branches[index].fs.attributes(caller, part)?;
        if kind == FileKind::Directory {
            let parts = self.directory(caller, node)?.into_iter().enumerate();
            for (at, part) in parts.filter(|part| part.0 != index) {
                let part = part.map(|part| self.branches[at].fs.attributes(caller, part));
                if let Some(Ok(other)) = part {
                    found = together(found, &other);
                }
            }
        }
        Ok(self.shown(node, index, found))
    }

    /// `attributes` of what is `node`, from branch `index`, as the union shows them.
    pub fn shown(&self, node: Node, index: usize, attributes: Attributes) -> Attributes {
        let branch = &self.branches[index];
        let inode = match self.settings.inodes {
            InodeCalc::Hybrid if attributes.kind == FileKind::Directory => {
                let known = self.nodes.with(node, |known| known.inode);
                known.unwrap_or(node.0)
            }
            InodeCalc::Hybrid | InodeCalc::DevIno => branch.inode(attributes.inode),
            InodeCalc::Passthrough => attributes.inode,
            InodeCalc::Path => hash(&self.seen_path(node)),
        };
        Attributes {
            node,
            inode: self.width(inode),
            ..attributes
        }
    }

    /// `inode` in as many bits as are wanted.
    pub const fn width(&self, inode: u64) -> u64 {
        match self.settings.narrow {
            true => (inode ^ (inode >> 32)) & 0xffff_ffff,
            false => inode,
        }
    }

    /// The path by which `node` was seen last.
    pub fn seen_path(&self, node: Node) -> Vec<u8> {
        let mut names = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next {
            let place = self.nodes.with(node, |known| known.place.clone());
            next = place.ok().flatten().map(|(above, name)| {
                names.push(name);
                above
            });
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Where something is made in the directory `dir` by `function`.
    pub fn places(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        parts: &Parts,
        function: Function,
    ) -> Result<Vec<usize>> {
        let policy = self.settings.policy(function);
        let (mut here, mut parts) = (dir, parts.clone());
        loop {
            let mut refused = Errno::ENOENT;
            let mut candidates = Vec::new();
            for (index, branch) in self.branches.iter().enumerate() {
                let least = branch.how.least.unwrap_or(self.settings.least);
                let errno = match (branch.space(), parts[index]) {
                    _ if !branch.creates() => Errno::EROFS,
                    (_, None) if policy.reach() != Reach::Every => Errno::ENOENT,
                    (None, _) => Errno::EROFS,
                    (Some(space), _) if space.available < least => Errno::ENOSPC,
                    (Some(_), part) => {
                        let modified = match policy.reach() {
                            Reach::Every => None,
                            _ => part.and_then(|part| branch.fs.attributes(caller, part).ok()),
                        };
                        candidates.push(Candidate {
                            index,
                            modified: modified.map(|found| found.mtime),
                        });
                        continue;
                    }
                };
                refused = worse(refused, errno);
            }
            let chosen = policy.choose(&self.branches, &candidates);
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

    /// Directory `dir` on branch `index`, made there as it is on others if it is missing.
    pub fn ensure(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        parts: &Parts,
        index: usize,
    ) -> Result<Node> {
        if let Some(part) = parts[index] {
            return Ok(part);
        }
        let place = self.nodes.with(dir, |known| known.place.clone())?;
        let (above, name) = place.ok_or(Errno::ENOENT)?;
        let mut over = self.directory(caller, above)?;
        let (mut above, mut name) = (above, name);
        if !self.is_at(caller, parts, &over, &name) {
            // It was removed or moved.
            let moved = self.find_again(caller, dir, parts);
            (above, name) = moved.ok_or(Errno::ENOENT)?;
            over = self.directory(caller, above)?;
        }
        let parent = self.ensure(caller, above, &over, index)?;
        let mut all = parts.iter().enumerate();
        let model = all.find_map(|(from, part)| Some((from, (*part)?)));
        let model = model.ok_or(Errno::ESTALE)?;
        self.be_younger(caller, parts);
        let node = self.clone_directory(caller, model, (index, parent), &name)?;
        let member = Member {
            index,
            node,
            count: 1,
        };
        self.nodes.extend(dir, member).to(&self.branches);
        Ok(node)
    }

    /// Waits for the kernel's next tick (4 ms at most) where directory `parts` was made in this one:
    /// the oldest of them names it, and what is made now is to be younger.
    fn be_younger(&self, caller: &Caller<'_>, parts: &Parts) {
        let all = parts.iter().zip(&self.branches);
        let births =
            all.filter_map(|(part, branch)| branch.fs.attributes(caller, (*part)?).ok()?.btime);
        let Some(oldest) = births.min() else { return };
        for _ in 0..MOST_TICKS {
            let now = process::clock_gettime(CLOCK_REALTIME_COARSE);
            let later = |now: timespec| (now.tv_sec, now.tv_nsec as u32);
            if now.map_or(true, |now| {
                later(now) > (oldest.seconds, oldest.nanoseconds)
            }) {
                return;
            }
            let _ = process::nanosleep(1_000_000);
        }
    }

    /// A directory like `model`, `name` in `parent`; the one that is there if there is one.
    fn clone_directory(
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
                let found = self.branches[index].find(caller, parent, name)?;
                return match found.entry.attributes.kind {
                    FileKind::Directory => Ok(found.keep().attributes.node),
                    _ => Err(Errno::ENOTDIR.into()),
                };
            }
            made => made?.attributes,
        };
        // As far as the caller may: who may not give it away has it.
        for name in source
            .list_xattr(caller, model)
            .unwrap_or_default()
            .split(|&byte| byte == 0)
        {
            if let (false, Ok(value)) = (name.is_empty(), source.get_xattr(caller, model, name)) {
                let _ = branch.set_xattr(caller, made.node, name, &value, 0);
            }
        }
        if (made.uid, made.gid) != (wanted.uid, wanted.gid) {
            let owner = SetAttributes {
                uid: Some(wanted.uid),
                gid: Some(wanted.gid),
                ..SetAttributes::default()
            };
            let _ = branch.set_attributes(caller, made.node, &owner);
        }
        let rest = SetAttributes {
            permissions: Some(wanted.permissions),
            atime: Some(wanted.atime),
            mtime: Some(wanted.mtime),
            ..SetAttributes::default()
        };
        let _ = branch.set_attributes(caller, made.node, &rest);
        Ok(made.node)
    }

    /// Which of `found` are changed by `function`: `EROFS` when there is none that may be.
    pub fn acting(
        &self,
        caller: &Caller<'_>,
        function: Function,
        found: &[Instance<'_>],
    ) -> Result<Vec<usize>> {
        let may = |one: &&Instance<'_>| {
            self.branches[one.index].changes() && self.branches[one.index].space().is_some()
        };
        let candidates = found
            .iter()
            .filter(may)
            .map(|one| self.candidate(caller, one));
        let candidates: Vec<_> = candidates.collect();
        let chosen = self
            .settings
            .policy(function)
            .choose(&self.branches, &candidates);
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
        let policy = self.settings.policy(function);
        let candidates: Vec<_> = match policy.is_first() {
            true => Vec::new(),
            false => found
                .iter()
                .map(|one| self.candidate(caller, one))
                .collect(),
        };
        let chosen = policy.choose(&self.branches, &candidates);
        let one = found.iter().find(|one| chosen.first() == Some(&one.index));
        one.or(found.first()).ok_or(Errno::ESTALE.into())
    }

    fn candidate(&self, caller: &Caller<'_>, one: &Instance<'_>) -> Candidate {
        let attributes = match &one.found {
            Some(found) => Ok(found.entry.attributes),
            None => self.branches[one.index].fs.attributes(caller, one.node),
        };
        Candidate {
            index: one.index,
            modified: attributes.ok().map(|found| found.mtime),
        }
    }

    /// What `node` is on the branch that knows it first.
    pub fn first(&self, node: Node) -> Result<(usize, Node)> {
        let first = self.nodes.with(node, |known| {
            let first = known.members.first();
            first.map(|one| (one.index, one.node))
        });
        first?.ok_or(Errno::ESTALE.into())
    }

    /// What `node` is for `function`, which asks one branch.
    pub fn one(
        &self,
        caller: &Caller<'_>,
        node: Node,
        function: Function,
    ) -> Result<(usize, Node)> {
        if self.settings.policy(function).is_first() {
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
        let parts = self.directory(caller, dir);
        let all = parts.and_then(|parts| self.all(caller, &parts, &name, false));
        let all = all.unwrap_or_default();
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

/// `shown` of a directory that is `other`, too: a name that is made on one branch changes it, and a
/// directory that several have counts as often, which find(1) does no harm.
fn together(shown: Attributes, other: &Attributes) -> Attributes {
    Attributes {
        links: match (shown.links, other.links) {
            (2.., 2..) => shown.links.saturating_add(other.links - 2),
            (own, _) => own,
        },
        mtime: shown.mtime.max(other.mtime),
        ctime: shown.ctime.max(other.ctime),
        ..shown
    }
}

/// `found` for a policy.
fn candidate((index, found): &(usize, Found<'_>)) -> Candidate {
    Candidate {
        index: *index,
        modified: Some(found.entry.attributes.mtime),
    }
}

/// A number for `bytes`.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0x5eed, |sum, &byte| mix(sum ^ u64::from(byte)))
}

impl Core {
    /// What `user.mergerfs.WORD` of `node` is: where it lies.
    pub fn told(&self, caller: &Caller<'_>, node: Node, word: &[u8]) -> Result<Vec<u8>> {
        let (index, part) = self.first(node)?;
        let branch = &self.branches[index];
        let full = |branch: &Branch, path: &[u8]| match path {
            [] => branch.source.clone(),
            path => [&branch.source[..], b"/", path].concat(),
        };
        let path = branch.fs.path_of(part)?;
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
