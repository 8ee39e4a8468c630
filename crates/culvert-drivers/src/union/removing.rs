//! What is removed. Where several branches have a name, the last ones are changed first, so that
//! what the first one shows changes once, at the end.

use super::choice::{instances, kind};
use super::found::All;
use super::options::Function;
use super::state::{Core, Look, Parts};
use culvert::{Caller, Errno, FileKind, FileSystem, Node, Result};

impl Core {
    pub fn remove_file(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.writable()?;
        let changing = self.names.change_of([Some(name), None]);
        let look = self.look_before((dir, name), &changing);
        let parts = self.directory_after(caller, dir, look.as_ref())?;
        let mut all = self.all_after(caller, &parts, name, look.as_ref())?;
        let is_directory = kind(&all)? == FileKind::Directory;
        all.retain(|one| (one.1.entry.attributes.kind == FileKind::Directory) == is_directory);
        let owner = all.first().map_or(0, |one| one.1.entry.attributes.uid);
        let acting = self.acting(caller, Function::Unlink, &instances(all));
        if is_directory {
            self.may_take(caller, (&parts, name), &acting.unwrap_or_default(), owner)?;
            return Err(Errno::EISDIR.into());
        }
        let acting = acting?;
        self.may_remove(caller, (&parts, name), &acting, owner)?;
        self.remove_from(&parts, &acting, |branch, part| {
            branch.unlink(caller, part, name)
        })
    }

    pub fn remove_directory(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.writable()?;
        let _changing = self.names.change();
        let parts = self.directory(caller, dir)?;
        let mut all = self.all(caller, &parts, name, false, Look::Glance)?;
        let is_directory = kind(&all)? == FileKind::Directory;
        all.retain(|one| (one.1.entry.attributes.kind == FileKind::Directory) == is_directory);
        let owner = all.first().map_or(0, |one| one.1.entry.attributes.uid);
        let empty = match is_directory {
            true => self.empty(caller, &all),
            false => Err(Errno::ENOTDIR.into()),
        };
        let acting = self.acting(caller, Function::Rmdir, &instances(all));
        if let Err(wrong) = empty {
            self.may_take(caller, (&parts, name), &acting.unwrap_or_default(), owner)?;
            return Err(wrong);
        }
        let acting = acting?;
        self.may_remove(caller, (&parts, name), &acting, owner)?;
        self.remove_from(&parts, &acting, |branch, part| {
            branch.rmdir(caller, part, name)
        })
    }

    /// Removes a name from the directory `parts` on the branches in `acting`, by `work`: the last
    /// one first.
    pub fn remove_from(
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
            if let Err(error) = work(&*self.branches[index].fs, part) {
                refused = Some(error);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// `ENOTEMPTY` unless there is nothing in the directories `all`.
    pub fn empty(&self, caller: &Caller<'_>, all: &All<'_>) -> Result<()> {
        for (index, found) in all {
            let mut any = false;
            let branch = &self.branches[*index].fs;
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
}
