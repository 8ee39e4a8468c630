//! What a link or a rename becomes that the policy keeps from its branch: a symbolic link (options
//! `link-exdev` and `rename-exdev`).

use super::choice::{Instance, instances, kind};
use super::options::{Exdev, Function};
use super::rights::as_superuser;
use super::state::{At, Core, Look, Parts};
use super::transfer::temporary;
use alloc::vec::Vec;
use culvert::{
    Attributes, Caller, Entry, Errno, Error, FileKind, FileSystem, Node, RenameFlags, Result,
    SetAttributes,
};

/// Where files lie that were renamed so, on each branch.
const KEPT: &[u8] = b".mergerfs_rename_exdev";

/// Bytes of a name at most.
const LONGEST: usize = 255;

impl Core {
    /// [`Core::add_name`], or a symbolic link.
    pub fn link_or_symlink(
        &self,
        caller: &Caller<'_>,
        node: Node,
        (dir, name): At<'_>,
    ) -> Result<Entry> {
        let how = self.settings().link_exdev;
        match self.add_name(caller, node, dir, name) {
            Err(error) if error.errno() == Errno::EXDEV && how != Exdev::Error => {}
            linked => return linked,
        }
        let old = self.seen_path(node);
        let target = match how {
            Exdev::AbsoluteBase => {
                let (index, _) = self.first(node)?;
                [&self.branches[index].source[..], b"/", &old].concat()
            }
            how => self.target_of(how, dir, &old),
        };
        let made = self.make(
            caller,
            (dir, name),
            Function::Symlink,
            &mut |branch, dir| branch.symlink(caller, dir, name, &target),
        )?;
        self.nodes.forget(made.attributes.node, 1).give_back();
        // As a link: who asked for it gets the file.
        let attributes = self.attributes(caller, node)?;
        self.nodes.with(node, |known| known.refer())?;
        Ok(Entry { attributes })
    }

    /// [`Core::move_name`], or a move to a directory of the branch's own and a symbolic link to
    /// there.
    pub fn move_or_symlink(
        &self,
        caller: &Caller<'_>,
        from: At<'_>,
        to: At<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        let refused = match self.move_name(caller, from, to, flags) {
            Err(error) if error.errno() == Errno::EXDEV => error,
            moved => return moved,
        };
        let how = self.settings().rename_exdev;
        if how == Exdev::Error || flags.exchange() {
            return Err(refused);
        }
        let _changing = self.names.change();
        let old_parts = self.directory(caller, from.0)?;
        let new_parts = self.directory(caller, to.0)?;
        let news = self.all(caller, &new_parts, to.1, true, Look::Glance)?;
        if !news.is_empty() {
            // A link cannot take its place at one moment.
            return Err(refused);
        }
        let olds = self.all(caller, &old_parts, from.1, false, Look::Exact)?;
        let is_directory = kind(&olds)? == FileKind::Directory;
        let owner = olds.first().map_or(0, |one| one.1.entry.attributes.uid);
        let olds = instances(olds);
        let mut acting = self.acting(caller, Function::Rename, &olds)?;
        self.may_remove(caller, (&old_parts, from.1), &acting, owner)?;
        acting.sort_unstable_by(|left, right| right.cmp(left));
        let above = self.seen_path(from.0);
        let mut stashes = Vec::new();
        for &index in &acting {
            let make = || self.stash(caller, index, &above);
            let stash = match self.elevates {
                true => as_superuser(make),
                false => make(),
            }?;
            stashes.push((index, stash));
        }
        let name = self.free_name(caller, &stashes, from.1)?;
        let stashed = joined(KEPT, &joined(&above, &name));
        let target = self.target_of(how, to.0, &stashed);
        let old_target = self.target_of(how, from.0, &stashed);
        let mut moving = Moving {
            core: self,
            caller,
            from,
            old_parts: &old_parts,
            is_directory,
            stashes,
            name,
            moved: Vec::new(),
        };
        moving.stash_all(&olds, &old_target)?;
        let (index, part) = self
            .new_place(caller, to.0, &new_parts)
            .inspect_err(|_| moving.undo())?;
        let branch = &self.branches[index].fs;
        let made = branch
            .symlink(caller, part, to.1, &target)
            .inspect_err(|_| moving.undo())?;
        branch.forget(made.attributes.node, 1);
        moving.finish(&mut || {
            let _ = branch.unlink(caller, part, to.1);
        })
    }

    fn new_place(&self, caller: &Caller<'_>, dir: Node, parts: &Parts) -> Result<(usize, Node)> {
        let places = self.places(caller, dir, parts, Function::Symlink)?;
        let index = *places.first().ok_or(Errno::ENOSPC)?;
        self.may_change(caller, parts, &[index])?;
        self.settle(caller, dir, parts, (index, Function::Symlink))
    }

    /// What a link in the directory `dir` says that leads to `path` below the root.
    fn target_of(&self, how: Exdev, dir: Node, path: &[u8]) -> Vec<u8> {
        match how {
            Exdev::Relative => relative(&self.seen_path(dir), path),
            _ => [&self.target[..], b"/", path].concat(),
        }
    }
}

/// What is moved to directories of the branches' own, before a link to it is made.
///
/// A file has both names until the link is there: whoever is killed meanwhile leaves the old or the
/// new name. A directory changes its name for a link to it, at one moment, which the old name is
/// until the new one is there.
struct Moving<'m> {
    core: &'m Core,
    caller: &'m Caller<'m>,
    from: At<'m>,
    /// The directory of `from` on each branch.
    old_parts: &'m Parts,
    is_directory: bool,
    /// The branches that have it, each with the directory where it goes.
    stashes: Vec<(usize, Node)>,
    /// What it is called there.
    name: Vec<u8>,
    /// The branches on which it is there.
    moved: Vec<usize>,
}

impl Moving<'_> {
    /// Moves it where that can be; `old_target` is what a link says that takes a directory's place.
    fn stash_all(&mut self, olds: &[Instance<'_>], old_target: &[u8]) -> Result<()> {
        let (caller, name) = (self.caller, &self.name[..]);
        for &(index, stash) in &self.stashes {
            let branch = &self.core.branches[index].fs;
            let old = olds.iter().find(|one| one.index == index);
            let (node, old) = (old.map(|one| one.node), self.old_parts[index]);
            let (node, old) = node.zip(old).ok_or(Errno::ESTALE)?;
            let done = match self.is_directory {
                true => {
                    let places = ((old, self.from.1), (stash, name));
                    exchange_for_link(caller, &**branch, places, old_target)
                }
                false => branch.link(caller, node, stash, name).map(|made| {
                    branch.forget(made.attributes.node, 1);
                }),
            };
            if done.is_ok() {
                self.moved.push(index);
            }
        }
        Ok(())
    }

    /// Puts everything back.
    fn undo(&self) {
        let moved = self
            .stashes
            .iter()
            .filter(|one| self.moved.contains(&one.0));
        for &(index, stash) in moved {
            let branch = &self.core.branches[index].fs;
            let back = match self.old_parts[index].filter(|_| self.is_directory) {
                Some(old) => {
                    let flags = RenameFlags(RenameFlags::EXCHANGE);
                    let (from, to) = ((stash, &self.name[..]), (old, self.from.1));
                    branch.rename(self.caller, from, to, flags)
                }
                None => Ok(()),
            };
            // Where it does not go back, the link leads to it.
            let _ = back.and_then(|()| branch.unlink(self.caller, stash, &self.name));
        }
    }

    /// The new name is there: takes the old one away on all branches. Where the first one does not
    /// let it go, `unlink_new` takes the new one away.
    fn finish(&self, unlink_new: &mut dyn FnMut()) -> Result<()> {
        for (at, &(index, stash)) in self.stashes.iter().enumerate() {
            let branch = &self.core.branches[index].fs;
            let old = self.old_parts[index].ok_or(Errno::ESTALE)?;
            let done = match self.moved.contains(&index) {
                true => branch.unlink(self.caller, old, self.from.1),
                false => {
                    let to = (stash, &self.name[..]);
                    let flags = RenameFlags(RenameFlags::NO_REPLACE);
                    branch.rename(self.caller, (old, self.from.1), to, flags)
                }
            };
            if let Err(error) = done {
                if at == 0 {
                    unlink_new();
                    self.undo();
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Core {
    /// What `name` is called in each of `places`: itself, unless an earlier rename has left
    /// something there, which somebody may see by a link.
    fn free_name(
        &self,
        caller: &Caller<'_>,
        places: &[(usize, Node)],
        name: &[u8],
    ) -> Result<Vec<u8>> {
        for &(index, kept) in places {
            match self.find_exactly(caller, index, kept, name) {
                Err(error) if error.errno() == Errno::ENOENT => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    let other = temporary();
                    return Ok(match name.len() + other.len() <= LONGEST {
                        true => [name, &other].concat(),
                        false => other,
                    });
                }
            }
        }
        Ok(name.to_vec())
    }

    /// The directory of branch `index` where what was in `above` is kept, made as that is. `EXDEV`
    /// where others could take away what is put there.
    fn stash(&self, caller: &Caller<'_>, index: usize, above: &[u8]) -> Result<Node> {
        let fs = &*self.branches[index].fs;
        let top = fs.attributes(caller, fs.root())?;
        let mut here = match fs.lookup(caller, fs.root(), KEPT) {
            Ok(found) => found.attributes.node,
            Err(error) if error.errno() == Errno::ENOENT => {
                let made = fs.mkdir(caller, fs.root(), KEPT, 0o1777)?;
                // Everybody's, as far as who asks may give it away.
                let owner = SetAttributes {
                    uid: Some(top.uid),
                    gid: Some(top.gid),
                    ..SetAttributes::default()
                };
                if (made.attributes.uid, made.attributes.gid) != (top.uid, top.gid) {
                    let _ = fs.set_attributes(caller, made.attributes.node, &owner);
                }
                // Whatever the umask.
                let mode = SetAttributes {
                    permissions: Some(0o1777),
                    ..SetAttributes::default()
                };
                let _ = fs.set_attributes(caller, made.attributes.node, &mode);
                made.attributes.node
            }
            Err(error) => return Err(error),
        };
        let wanted = Attributes {
            permissions: 0o1777,
            ..top
        };
        is_trusted(caller, &wanted, &fs.attributes(caller, here)?)?;
        let mut model = fs.root();
        let names = above.split(|&byte| byte == b'/');
        for name in names.filter(|name| !name.is_empty()) {
            let wanted = fs.lookup(caller, model, name)?.attributes;
            model = wanted.node;
            here = self.clone_directory(caller, (index, model), (index, here), name)?;
            is_trusted(caller, &wanted, &fs.attributes(caller, here)?)?;
        }
        Ok(here)
    }
}

/// Puts a link that says `target` in the place of the directory `old`, and that in the place
/// `kept`, which is free, at one moment.
fn exchange_for_link(
    caller: &Caller<'_>,
    branch: &dyn FileSystem,
    (old, kept): (At<'_>, At<'_>),
    target: &[u8],
) -> Result<()> {
    let made = branch.symlink(caller, kept.0, kept.1, target)?;
    branch.forget(made.attributes.node, 1);
    let flags = RenameFlags(RenameFlags::EXCHANGE);
    let exchanged = branch.rename(caller, old, kept, flags);
    exchanged.inspect_err(|_| {
        let _ = branch.unlink(caller, kept.0, kept.1);
    })
}

/// `EXDEV` unless the directory `found` belongs to who `caller` trusts, and nobody else may change
/// names in it who may not in `wanted`.
fn is_trusted(caller: &Caller<'_>, wanted: &Attributes, found: &Attributes) -> Result<()> {
    const STICKY: u32 = 0o1000;
    let owned = [0, caller.uid, wanted.uid].contains(&found.uid);
    let writes = |bits: u32| found.permissions & bits != 0;
    let more = found.permissions & !wanted.permissions & 0o022 != 0;
    let others = writes(0o020) && !writes(0o002) && found.gid != wanted.gid;
    let loose = writes(0o022) && wanted.permissions & !found.permissions & STICKY != 0;
    match owned && !more && !others && !loose && found.kind == FileKind::Directory {
        true => Ok(()),
        false => Err(Error::because(
            Errno::EXDEV,
            "others may change names in the directory where it would be kept",
        )),
    }
}

/// `name` in the directory with the path `above`.
pub fn joined(above: &[u8], name: &[u8]) -> Vec<u8> {
    match above {
        [] => name.to_vec(),
        above => [above, b"/", name].concat(),
    }
}

/// `path` as it is seen from the directory `from`, both below one root.
fn relative(from: &[u8], path: &[u8]) -> Vec<u8> {
    let names = |path: &'_ [u8]| -> Vec<Vec<u8>> {
        let all = path.split(|&byte| byte == b'/');
        all.filter(|name| !name.is_empty())
            .map(<[u8]>::to_vec)
            .collect()
    };
    let (from, path) = (names(from), names(path));
    let common = from
        .iter()
        .zip(&path)
        .take_while(|(one, other)| one == other);
    let common = common.count();
    let up = from[common..].iter().map(|_| b"..".to_vec());
    let all: Vec<_> = up.chain(path[common..].iter().cloned()).collect();
    all.join(&b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_directories() {
        for (from, path, want) in [
            ("", "a/b", "a/b"),
            ("a", "a/b", "b"),
            ("a/b", "c", "../../c"),
            ("a/b", "a/c/d", "../c/d"),
        ] {
            let found = relative(from.as_bytes(), path.as_bytes());
            assert_eq!(found, want.as_bytes(), "{from} {path}");
        }
    }
}
