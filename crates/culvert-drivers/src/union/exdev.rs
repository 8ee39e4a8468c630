//! What a link or a rename becomes that the policy keeps from its branch: a symbolic link (options
//! `link-exdev` and `rename-exdev`).

use super::choice::{instances, kind};
use super::filesystem::UnionFs;
use super::options::{Exdev, Function};
use super::rights::as_superuser;
use super::state::{At, Core, Look, Parts};
use alloc::vec::Vec;
use culvert::{Caller, Entry, Errno, FileKind, FileSystem, Node, RenameFlags, Result};

/// Where files lie that were renamed so, on each branch.
const KEPT: &[u8] = b".mergerfs_rename_exdev";

impl UnionFs {
    /// [`UnionFs::add_name`], or a symbolic link.
    pub(super) fn link_or_symlink(
        &self,
        caller: &Caller<'_>,
        node: Node,
        (dir, name): At<'_>,
    ) -> Result<Entry> {
        let how = self.core.settings().link_exdev;
        match self.add_name(caller, node, dir, name) {
            Err(error) if error.errno() == Errno::EXDEV && how != Exdev::Error => {}
            linked => return linked,
        }
        let old = self.core.seen_path(node);
        let target = match how {
            Exdev::AbsoluteBase => {
                let (index, _) = self.core.first(node)?;
                [&self.core.branches[index].source[..], b"/", &old].concat()
            }
            how => self.target_of(how, dir, &old),
        };
        let made = self.make(
            caller,
            (dir, name),
            Function::Symlink,
            &mut |branch, dir| branch.symlink(caller, dir, name, &target),
        )?;
        self.forget(made.attributes.node, 1);
        // As a link: who asked for it gets the file.
        let attributes = self.attributes(caller, node)?;
        self.core.nodes.with(node, |known| known.refer())?;
        Ok(Entry { attributes })
    }

    /// [`UnionFs::move_name`], or a move to a directory of the branch's own and a symbolic link to
    /// there.
    pub(super) fn move_or_symlink(
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
        let how = self.core.settings().rename_exdev;
        if how == Exdev::Error || flags.exchange() {
            return Err(refused);
        }
        let _changing = self.core.names.change();
        let old_parts = self.core.directory(caller, from.0)?;
        let new_parts = self.core.directory(caller, to.0)?;
        let news = self
            .core
            .all(caller, &new_parts, to.1, true, Look::Glance)?;
        if !news.is_empty() {
            // A link cannot take its place at one moment.
            return Err(refused);
        }
        let olds = self
            .core
            .all(caller, &old_parts, from.1, false, Look::Exact)?;
        let is_directory = kind(&olds)? == FileKind::Directory;
        let owner = olds.first().map_or(0, |one| one.1.entry.attributes.uid);
        let olds = instances(olds);
        let mut acting = self.core.acting(caller, Function::Rename, &olds)?;
        self.may_remove(caller, &old_parts, &acting, owner)?;
        acting.sort_unstable_by(|left, right| right.cmp(left));
        let above = self.core.seen_path(from.0);
        let old = joined(&above, from.1);
        let kept = joined(KEPT, &old);
        let target = self.target_of(how, to.0, &kept);
        // A file has both names until the link is there: whoever is killed meanwhile leaves the old
        // or the new name. Of a directory the link comes first.
        let mut places = Vec::new();
        for &index in &acting {
            let make = || self.core.kept(caller, index, &old_parts, &above);
            let kept = match self.core.elevates {
                true => as_superuser(make),
                false => make(),
            }?;
            places.push((index, kept));
        }
        let mut linked = Vec::new();
        if !is_directory {
            for &(index, kept) in &places {
                let branch = &self.core.branches[index].fs;
                let old = olds.iter().find(|one| one.index == index);
                let old = old.ok_or(Errno::ESTALE)?.node;
                // What lies there is of a rename that was not finished, or was removed by hand.
                let _ = branch.unlink(caller, kept, from.1);
                if let Ok(made) = branch.link(caller, old, kept, from.1) {
                    branch.forget(made.attributes.node, 1);
                    linked.push(index);
                }
            }
        }
        let undo = || {
            for &(index, kept) in places.iter().filter(|one| linked.contains(&one.0)) {
                let _ = self.core.branches[index].fs.unlink(caller, kept, from.1);
            }
        };
        let (index, part) = self
            .new_place(caller, to.0, &new_parts)
            .inspect_err(|_| undo())?;
        let made = self.core.branches[index]
            .fs
            .symlink(caller, part, to.1, &target)
            .inspect_err(|_| undo())?;
        self.core.branches[index].fs.forget(made.attributes.node, 1);
        for (at, &(index, kept)) in places.iter().enumerate() {
            let branch = &self.core.branches[index].fs;
            let old = old_parts[index].ok_or(Errno::ESTALE)?;
            let done = match linked.contains(&index) {
                true => branch.unlink(caller, old, from.1),
                false => {
                    let to = (kept, from.1);
                    branch.rename(caller, (old, from.1), to, RenameFlags::default())
                }
            };
            if let Err(error) = done {
                if at == 0 {
                    let (link, part) = (&self.core.branches[index], part);
                    let _ = link.fs.unlink(caller, part, to.1);
                    undo();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn new_place(&self, caller: &Caller<'_>, dir: Node, parts: &Parts) -> Result<(usize, Node)> {
        let places = self.core.places(caller, dir, parts, Function::Symlink)?;
        let index = *places.first().ok_or(Errno::ENOSPC)?;
        self.may_change(caller, parts, &[index])?;
        self.core
            .settle(caller, dir, parts, (index, Function::Symlink))
    }

    /// What a link in the directory `dir` says that leads to `path` below the root.
    fn target_of(&self, how: Exdev, dir: Node, path: &[u8]) -> Vec<u8> {
        match how {
            Exdev::Relative => relative(&self.core.seen_path(dir), path),
            _ => [&self.core.target[..], b"/", path].concat(),
        }
    }
}

impl Core {
    /// The directory of branch `index` where what was in `above` is kept, made as that is.
    fn kept(
        &self,
        caller: &Caller<'_>,
        index: usize,
        old_parts: &Parts,
        above: &[u8],
    ) -> Result<Node> {
        let fs = &*self.branches[index].fs;
        let mut here = match fs.lookup(caller, fs.root(), KEPT) {
            Ok(found) => found.attributes.node,
            Err(error) if error.errno() == Errno::ENOENT => {
                let made = fs.mkdir(caller, fs.root(), KEPT, 0o1777)?;
                // Whatever the umask.
                let mode = culvert::SetAttributes {
                    permissions: Some(0o1777),
                    ..Default::default()
                };
                let _ = fs.set_attributes(caller, made.attributes.node, &mode);
                made.attributes.node
            }
            Err(error) => return Err(error),
        };
        let mut model = fs.root();
        let names = above.split(|&byte| byte == b'/');
        for name in names.filter(|name| !name.is_empty()) {
            model = fs.lookup(caller, model, name)?.attributes.node;
            here = self.clone_directory(caller, (index, model), (index, here), name)?;
        }
        debug_assert!(old_parts.len() == self.branches.len());
        Ok(here)
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
