//! What is removed, and the whiteouts that it leaves where lower layers have the name.

use super::copy_up::{Bytes, temporary};
use super::looking::Found;
use super::marks::Mark;
use super::options::Whiteouts;
use super::state::{Core, Parts};
use alloc::{collections::BTreeMap, vec::Vec};
use culvert::{Caller, Errno, FileKind, FileSystem, Node, OpenFlags, RenameFlags, Result};

/// How deep what nobody sees any more is emptied.
const DEEPEST: usize = 64;

impl Core {
    /// Makes a whiteout in the work directory: its name, and whether it is a file with an
    /// attribute, which counts in directories with the mark for it.
    pub fn whiteout(&self) -> Result<(Vec<u8>, bool)> {
        let (upper, work) = (self.upper()?, self.work()?);
        let system = &Caller::SYSTEM;
        let temporary = temporary();
        let mode = FileKind::CharacterDevice as u32;
        if self.settings.whiteouts == Whiteouts::Best {
            match upper.mknod(system, work, &temporary, mode, 0) {
                Ok(made) => {
                    upper.forget(made.attributes.node, 1);
                    return Ok((temporary, false));
                }
                Err(error)
                    if matches!(
                        error.errno(),
                        Errno::EPERM | Errno::EACCES | Errno::ENOSYS | Errno::EOPNOTSUPP
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        let flags = OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE);
        let (made, opened) = upper.create(system, work, &temporary, flags, 0o600)?;
        drop(opened);
        let marked = self.set_mark(made.attributes.node, Mark::Whiteout, b"y");
        upper.forget(made.attributes.node, 1);
        match marked {
            Ok(()) => Ok((temporary, true)),
            Err(error) => {
                let _ = upper.unlink(system, work, &temporary);
                Err(error)
            }
        }
    }

    /// Says that in the directory `dir`, which is `over` in the upper layer, there are whiteouts
    /// that are files with an attribute.
    pub fn expect_attribute_whiteouts(&self, dir: Node, over: Node) -> Result<()> {
        let needless = self.nodes.with(dir, |known| {
            let upper = known.parts.upper;
            !known.parts.is_merged() || upper.is_some_and(|upper| upper.attribute_whiteouts)
        })?;
        // An opaque directory has none: nothing lies below it. It stays opaque.
        if needless {
            return Ok(());
        }
        self.set_mark(over, Mark::Opaque, b"x")?;
        self.nodes.with(dir, |known| {
            if let Some(upper) = &mut known.parts.upper {
                upper.attribute_whiteouts = true;
            }
        })
    }

    pub fn remove(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        directory: bool,
    ) -> Result<()> {
        self.writable()?;
        let _change = self.change();
        let parts = self.directory(dir)?;
        let found = self.find_in((dir, &parts), name)?.ok_or(Errno::ENOENT)?;
        let removed = self.remove_found(caller, (dir, &parts), name, (&found, directory));
        let number = self.number_of(&found);
        self.leave(found);
        if removed.is_ok() {
            self.nodes.unnamed(number, (dir, name));
            self.forget_directory(number);
        }
        removed
    }

    /// The node that has what was `found`, if any has.
    pub fn number_of(&self, found: &Found) -> Node {
        let top = found.seen.parts.top();
        let part = top.ok().and_then(|top| self.nodes.part_of(top));
        part.unwrap_or(found.seen.number)
    }

    fn remove_found(
        &self,
        caller: &Caller<'_>,
        (dir, parts): (Node, &Parts),
        name: &[u8],
        (found, directory): (&Found, bool),
    ) -> Result<()> {
        let is_directory = found.attributes.kind == FileKind::Directory;
        match (is_directory, directory) {
            (true, false) => return Err(Errno::EISDIR.into()),
            (false, true) => return Err(Errno::ENOTDIR.into()),
            _ => {}
        }
        self.may_remove(caller, dir, found.attributes.uid)?;
        let own = self.parts_of(found)?;
        if is_directory {
            self.empty(&own)?;
        }
        let is_below = self.is_below(parts, name)?;
        let over = self.copy_up(dir, Bytes::All)?;
        let upper = self.upper()?;
        match (is_below, own.upper, is_directory) {
            (false, None, _) => Err(Errno::ESTALE.into()),
            (false, Some(_), false) => upper.unlink(caller, over.node, name),
            (false, Some(_), true) => self.elevated(|| self.throw_away((over.node, name))),
            (true, ..) => self.elevated(|| {
                self.cover(dir, (over.node, name), own.upper.is_some() && is_directory)
            }),
        }
    }

    /// What was `found` is in the layers.
    pub fn parts_of(&self, found: &Found) -> Result<Parts> {
        match found.seen.parts.top() {
            Ok(_) => Ok(found.seen.parts.clone()),
            Err(_) => self.parts(found.seen.number),
        }
    }

    /// Puts a whiteout in the place of `name`, in what `dir` is in the upper layer, where there may
    /// be a directory.
    pub fn cover(
        &self,
        dir: Node,
        (over, name): (Node, &[u8]),
        over_directory: bool,
    ) -> Result<()> {
        let (upper, work) = (self.upper()?, self.work()?);
        let system = &Caller::SYSTEM;
        let (temporary, is_marked) = self.whiteout()?;
        let flags = match over_directory {
            true => RenameFlags(RenameFlags::EXCHANGE),
            false => RenameFlags::default(),
        };
        let put = || {
            if is_marked {
                self.expect_attribute_whiteouts(dir, over)?;
            }
            upper.rename(system, (work, &temporary), (over, name), flags)
        };
        match put() {
            Ok(()) if over_directory => {
                // It is seen no more.
                let _ = self.clean(work, &temporary, true);
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(error) => {
                let _ = upper.unlink(system, work, &temporary);
                Err(error)
            }
        }
    }

    /// Removes a directory of the upper layer that shows nothing, at one moment.
    pub fn throw_away(&self, (over, name): (Node, &[u8])) -> Result<()> {
        let (upper, work) = (self.upper()?, self.work()?);
        let system = &Caller::SYSTEM;
        match upper.rmdir(system, over, name) {
            Err(error) if error.errno() == Errno::ENOTEMPTY => {}
            done => return done,
        }
        // There are whiteouts in it.
        let temporary = temporary();
        let flags = RenameFlags(RenameFlags::NO_REPLACE);
        upper.rename(system, (over, name), (work, &temporary), flags)?;
        let _ = self.clean(work, &temporary, true);
        Ok(())
    }

    /// `ENOTEMPTY` unless the directory `parts` shows nothing.
    pub fn empty(&self, parts: &Parts) -> Result<()> {
        let mut names = BTreeMap::new();
        self.names_of(parts, &mut names)?;
        match names.values().any(|one| one.is_shown()) {
            true => Err(Errno::ENOTEMPTY.into()),
            false => Ok(()),
        }
    }

    /// Removes `name` in `dir`, with all that is in it: nobody sees it.
    pub fn clean(&self, dir: Node, name: &[u8], is_directory: bool) -> Result<()> {
        clean(self.upper()?, (dir, name), is_directory, DEEPEST)
    }

    /// What is left of whoever was killed.
    pub fn empty_work(fs: &dyn FileSystem, work: Node) {
        let mut names = Vec::new();
        let _ = fs.read_directory(&Caller::SYSTEM, work, 0, &mut |entry| {
            names.push((entry.name.to_vec(), entry.kind == FileKind::Directory));
            true
        });
        for (name, is_directory) in names {
            let _ = clean(fs, (work, &name), is_directory, DEEPEST);
        }
    }
}

fn clean(
    fs: &dyn FileSystem,
    (dir, name): (Node, &[u8]),
    is_directory: bool,
    depth: usize,
) -> Result<()> {
    let system = &Caller::SYSTEM;
    if !is_directory {
        return fs.unlink(system, dir, name);
    }
    match fs.rmdir(system, dir, name) {
        Err(error) if error.errno() == Errno::ENOTEMPTY && depth > 0 => {}
        done => return done,
    }
    let found = fs.lookup(system, dir, name)?.attributes.node;
    let mut names = Vec::new();
    let listed = fs.read_directory(system, found, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.kind == FileKind::Directory));
        true
    });
    let done = listed.and_then(|()| {
        names
            .iter()
            .try_for_each(|(name, is_directory)| clean(fs, (found, name), *is_directory, depth - 1))
    });
    fs.forget(found, 1);
    done?;
    fs.rmdir(system, dir, name)
}
