//! Renames of directories that several branches have: one branch comes after the other, and whoever
//! is killed meanwhile leaves the old or the new state.
//!
//! What is to be done stands in an extended attribute of a branch's root until it is done, with the
//! branches and the inodes that it is about. Who finds it there, and its maker dead, does the rest,
//! or nothing where nothing was done: the next server or run of these branches, and the next
//! process that changes names in a run. Where the rest cannot be done, what was done is undone.
//! That its maker lives is said by a lock (flock(2)) on the root, which ends with it; in a run by
//! the turns.
//!
//! It is written to a root in which nobody but its owner, the mount's user or root, can put such an
//! attribute; else there is none.

use super::branch::is_local;
use super::rights::as_superuser;
use super::state::{At, Core, Parts};
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::{Access, Caller, Errno, Node, RenameFlags, Result};
use culvert_sys::fd::{self, AsFd, BorrowedFd};
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general::{LOCK_EX, LOCK_NB};
use culvert_sys::{OwnedFd, fs};

/// The attribute.
pub const ATTRIBUTE: &CStr = c"user.culvert.rename";
const NAME: &[u8] = ATTRIBUTE.to_bytes();

/// Bytes of its value at most: some file systems have one block of 4 KiB for all attributes.
const LONGEST: usize = 3 << 10;

/// Makes an attribute that there is not (setxattr(2), `XATTR_CREATE`).
const CREATE: u32 = 1;

/// A part of a rename, on one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The branch, by its root's number.
    pub branch: Node,
    /// The directory there.
    pub node: Node,
    /// Whether it is moved; else it is empty, in the way of the new name, and removed.
    pub moves: bool,
}

/// A rename, its steps in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The old path below the root.
    pub from: Vec<u8>,
    /// The new path.
    pub to: Vec<u8>,
    /// On each branch.
    pub steps: Vec<Step>,
}

/// One that stands in the attribute of a branch's root, until it is dropped.
pub struct Written<'a> {
    core: &'a Core,
    index: usize,
    _lock: OwnedFd,
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        self.core.strike_out(self.index);
    }
}

impl Rename {
    fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::from([1, self.steps.len() as u8]);
        for step in &self.steps {
            out.push(u8::from(step.moves));
            out.extend(step.branch.0.to_le_bytes());
            out.extend(step.node.0.to_le_bytes());
        }
        out.extend(&self.from);
        out.push(0);
        out.extend(&self.to);
        out
    }

    fn decoded(bytes: &[u8]) -> Option<Self> {
        let [1, count, rest @ ..] = bytes else {
            return None;
        };
        let (steps, paths) = rest.split_at_checked(usize::from(*count) * 17)?;
        let number = |bytes: &[u8]| Some(Node(u64::from_le_bytes(bytes.try_into().ok()?)));
        let step = |bytes: &[u8]| {
            Some(Step {
                moves: bytes[0] == 1,
                branch: number(&bytes[1..9])?,
                node: number(&bytes[9..])?,
            })
        };
        let steps = steps.chunks_exact(17).map(step).collect::<Option<_>>()?;
        let mut paths = paths.split(|&byte| byte == 0);
        let (from, to) = (paths.next()?, paths.next()?);
        let is_plain = |path: &[u8]| {
            let mut names = path.split(|&byte| byte == b'/');
            names.all(|name| !matches!(name, b"" | b"." | b".."))
        };
        (is_plain(from) && is_plain(to) && paths.next().is_none()).then(|| Self {
            from: from.to_vec(),
            to: to.to_vec(),
            steps,
        })
    }
}

/// The directory of `path`, and the last name.
fn parts_of(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// `EPERM` for who changes the extended attribute `name` of anything, should it be the union's own.
pub fn may_change(caller: &Caller<'_>, name: &[u8]) -> Result<()> {
    match name == NAME && !caller.is_system() {
        true => Err(Errno::EPERM.into()),
        false => Ok(()),
    }
}

/// `names` of extended attributes, each with a 0 behind it, without the union's own.
pub fn others(names: Vec<u8>) -> Vec<u8> {
    let mut all = names.split_inclusive(|&byte| byte == 0);
    match all.any(is_own) {
        true => {
            let all = names.split_inclusive(|&byte| byte == 0);
            all.filter(|name| !is_own(name))
                .flatten()
                .copied()
                .collect()
        }
        false => names,
    }
}

fn is_own(name: &[u8]) -> bool {
    name.strip_suffix(&[0]) == Some(NAME)
}

impl Core {
    /// `work` with the rights of who has made the mount.
    fn as_maker<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.elevates {
            true => as_superuser(work),
            false => work(),
        }
    }

    /// Writes down the rename of a directory `from` a place `to` another, which are `olds` and
    /// `news` on the branches, by the steps `all`, each a branch, the directory there, and whether
    /// it is moved. None: it is one step, the caller may not do each, or nothing can be written
    /// where nobody else could.
    pub fn write_down(
        &self,
        caller: &Caller<'_>,
        (from, to): (At<'_>, At<'_>),
        (olds, news): (&Parts, &Parts),
        all: &[(usize, Node, bool)],
    ) -> Option<Written<'_>> {
        if all.len() < 2 {
            return None;
        }
        let changes = Access(Access::WRITE.0 | Access::EXECUTE.0);
        let may = |index: usize| {
            let mut both = [olds[index], news[index]].into_iter().flatten();
            let fs = &self.branches[index].fs;
            both.all(|part| fs.access(caller, part, changes).is_ok())
        };
        // Who finishes it has all rights.
        if self.elevates && !all.iter().all(|one| may(one.0)) {
            return None;
        }
        let path = |(dir, name): At<'_>| super::exdev::joined(&self.seen_path(dir), name);
        let step = |&(index, node, moves): &(usize, Node, bool)| Step {
            branch: self.branches[index].number(super::ROOT),
            node,
            moves,
        };
        let value = Rename {
            from: path(from),
            to: path(to),
            steps: all.iter().map(step).collect(),
        }
        .encoded();
        if value.len() > LONGEST || all.len() > usize::from(u8::MAX) {
            return None;
        }
        let mut moving = all.iter().filter(|one| one.2).map(|one| one.0);
        self.as_maker(|| {
            moving.find_map(|index| {
                let lock = self.lock_root(index)?;
                let fs = &self.branches[index].fs;
                let write = || fs.set_xattr(&Caller::SYSTEM, fs.root(), NAME, &value, CREATE);
                match write() {
                    // Somebody was killed meanwhile.
                    Err(error) if error.errno() == Errno::EEXIST => {
                        self.finish(index);
                        write().ok()?;
                    }
                    written => written.ok()?,
                }
                Some(Written {
                    core: self,
                    index,
                    _lock: lock,
                })
            })
        })
    }

    /// The right to write to the attribute of the root of branch `index`, a lock on the kernel's
    /// directory that it is. None: somebody has it, others could write to it, too, or it is none.
    fn lock_root(&self, index: usize) -> Option<OwnedFd> {
        const STICKY: u32 = 0o1000;
        let branch = &self.branches[index];
        // Those have the roots of their own branches.
        let is_several = ["union", "overlay"].contains(&&*branch.mount.driver);
        if is_several || !branch.changes() {
            return None;
        }
        // Whatever a layer shows of it.
        let root = branch.fs.handed_down(branch.fs.root())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let lock = fs::openat(BorrowedFd::number(root), c".", flags, 0).ok()?;
        let found = fs::fstat(&lock).ok()?;
        let is_ours = [0, self.control.attributes().uid].contains(&found.st_uid);
        let is_open = found.st_mode & 0o022 != 0 && found.st_mode & STICKY == 0;
        if !is_ours || is_open || !is_local(lock.as_fd()) {
            return None;
        }
        fd::flock(&lock, LOCK_EX | LOCK_NB).ok()?;
        Some(lock)
    }

    fn strike_out(&self, index: usize) {
        let fs = &self.branches[index].fs;
        let _ = self.as_maker(|| fs.remove_xattr(&Caller::SYSTEM, fs.root(), NAME));
    }

    fn read(&self, index: usize) -> Option<Vec<u8>> {
        let fs = &self.branches[index].fs;
        self.as_maker(|| fs.get_xattr(&Caller::SYSTEM, fs.root(), NAME))
            .ok()
    }

    /// Finishes renames whose makers were killed.
    pub fn finish_renames(&self) {
        for index in 0..self.branches.len() {
            if self.read(index).is_none() {
                continue;
            }
            // In a run its maker has the turn until it is done.
            let _changing = self.names.change();
            self.as_maker(|| {
                if let Some(_lock) = self.lock_root(index) {
                    self.finish(index);
                }
            });
        }
    }

    /// Finishes the one that branch `index` tells of, which is locked.
    fn finish(&self, index: usize) {
        let rename = self.read(index).and_then(|value| Rename::decoded(&value));
        if let Some(rename) = rename {
            let changes = |step: &Step| {
                let index = self.branch_with(step.branch);
                index.is_some_and(|index| self.branches[index].changes())
            };
            if !rename.steps.iter().all(changes) {
                // Of a union with other branches, or a branch that is not to be changed by now.
                return;
            }
            let (from, to) = (&rename.from, &rename.to);
            let begun = rename.steps.first().is_some_and(|step| {
                let there = self.is_on(step, to);
                step.moves && there
            });
            let steps = &rename.steps;
            for (done, step) in steps.iter().enumerate().filter(|_| begun) {
                let Err(error) = self.take(step, from, to) else {
                    continue;
                };
                culvert_sys::log!("a rename that was not finished: {error}");
                // Then the old state, if that can be had.
                let mut moved = steps[..done].iter().rev().filter(|step| step.moves);
                if moved.any(|step| self.take(step, to, from).is_err()) {
                    // Whoever comes next goes on here.
                    return;
                }
                break;
            }
        }
        self.strike_out(index);
    }

    fn branch_with(&self, root: Node) -> Option<usize> {
        let mut all = self.branches.iter();
        all.position(|one| one.number(super::ROOT) == root)
    }

    /// Whether what `step` is about has the path `path` on its branch.
    fn is_on(&self, step: &Step, path: &[u8]) -> bool {
        let index = self.branch_with(step.branch);
        index.is_some_and(|index| {
            let found = self.at_path(index, path, |_, _, node| Ok(node));
            found.is_ok_and(|found| found == step.node)
        })
    }

    /// Does `step` unless it was done.
    fn take(&self, step: &Step, from: &[u8], to: &[u8]) -> Result<()> {
        let caller = &Caller::SYSTEM;
        let path = if step.moves { from } else { to };
        if !self.is_on(step, path) {
            return Ok(());
        }
        let index = self.branch_with(step.branch).ok_or(Errno::ENOENT)?;
        let fs = &self.branches[index].fs;
        if !step.moves {
            return self.at_path(index, to, |dir, name, _| fs.rmdir(caller, dir, name));
        }
        let (above, name) = parts_of(to);
        let parent = self.walk(caller, above)?;
        let work = || {
            let parts = self.directory(caller, parent)?;
            let target = self.ensure(caller, parent, &parts, index)?;
            self.at_path(index, from, |dir, old, _| {
                fs.rename(caller, (dir, old), (target, name), RenameFlags::default())
            })
        };
        let done = work();
        if parent != super::ROOT {
            self.nodes.forget(parent, 1).give_back();
        }
        done
    }

    /// `work` with the directory, the last name and the node of `path` on branch `index`.
    fn at_path<T>(
        &self,
        index: usize,
        path: &[u8],
        work: impl FnOnce(Node, &[u8], Node) -> Result<T>,
    ) -> Result<T> {
        let (above, last) = parts_of(path);
        let (mut held, mut here) = (Vec::new(), self.branches[index].fs.root());
        for name in above
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
        {
            let found = self.find_exactly(&Caller::SYSTEM, index, here, name)?;
            here = found.node();
            held.push(found);
        }
        let found = self.find_exactly(&Caller::SYSTEM, index, here, last)?;
        work(here, last, found.node())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let step = |number: u64, moves| Step {
            branch: Node(number),
            node: Node(!number),
            moves,
        };
        let rename = Rename {
            from: b"a/b".to_vec(),
            to: b"c".to_vec(),
            steps: Vec::from([step(7, true), step(1 << 40, false)]),
        };
        let value = rename.encoded();
        assert_eq!(Rename::decoded(&value), Some(rename.clone()));
        for length in 0..value.len() - 1 {
            let read = Rename::decoded(&value[..length]);
            assert!(read.is_none(), "{length}: {read:?}");
        }
        assert_eq!(Rename::decoded(&[&value[..], b"\0d"].concat()), None);
        for from in ["", "/a", "a/", "a//b", "a/../b", ".", ".."] {
            let from = from.as_bytes().to_vec();
            let wrong = Rename {
                from,
                ..rename.clone()
            };
            assert_eq!(Rename::decoded(&wrong.encoded()), None, "{wrong:?}");
        }
        assert_eq!(parts_of(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(parts_of(b"c"), (&b""[..], &b"c"[..]));
    }

    #[test]
    fn the_attribute_is_nobody_elses() {
        let names = b"user.a\0user.culvert.rename\0user.culvert.renamed\0";
        let seen = others(names.to_vec());
        assert_eq!(seen, b"user.a\0user.culvert.renamed\0");
        assert_eq!(others(Vec::new()), b"");
        let user = Caller {
            uid: 5,
            pid: 1,
            ..Caller::SYSTEM
        };
        let error = may_change(&user, NAME).unwrap_err();
        assert_eq!(error.errno(), Errno::EPERM);
        assert!(may_change(&user, b"user.a").is_ok());
        assert!(may_change(&Caller::SYSTEM, NAME).is_ok());
    }
}
