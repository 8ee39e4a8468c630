//! What is opened: on its branch, with the union's numbers.

use super::branch::Tree;
use super::file::UnionFile;
use super::state::Core;
use alloc::sync::Arc;
use culvert::{Access, Caller, Errno, FileSystem, Node, OpenFlags, Opened, Result};

impl Core {
    /// `opened` with `flags` on the branch `tree`, where it is `part`, as `node` of the union.
    pub fn opened(
        &self,
        node: Node,
        (tree, part): (&Arc<Tree>, Node),
        flags: OpenFlags,
        opened: Opened,
    ) -> Result<Opened> {
        let inner = self.driven((&*tree.fs, part), opened)?;
        let file = UnionFile::wrap(self, node, (tree, part), flags, inner)?;
        Ok(Opened::Driven(file))
    }

    /// Gives what is opened for writing with `flags`, and has several names, an inode of its own,
    /// and has the front end look for it again: `ESTALE`.
    pub fn break_own_link(
        &self,
        caller: &Caller<'_>,
        node: Node,
        (index, part): (usize, Node),
        flags: OpenFlags,
    ) -> Result<()> {
        if !self.settings().copies_links || !(flags.write() || flags.truncate()) {
            return Ok(());
        }
        let branch = &self.branches[index];
        let found = branch.fs.attributes(caller, part)?;
        let place = self.nodes.with(node, |known| known.place.clone())?;
        match place.filter(|_| found.links > 1 && branch.changes()) {
            None => Ok(()),
            Some((dir, name)) => {
                // Only who may write it.
                branch.fs.access(caller, part, Access::WRITE)?;
                self.judge_change(caller, &self.known_parts(dir)?, &[index])?;
                let at = (index, part);
                self.break_link(caller, (dir, &name), at)?;
                Err(Errno::ESTALE.into())
            }
        }
    }

    /// Whether `caller` may do what only the union can check: on a branch that does not where the
    /// others do.
    pub fn guard(
        &self,
        caller: &Caller<'_>,
        (branch, part): (&dyn FileSystem, Node),
        access: Access,
    ) -> Result<()> {
        match self.capabilities.checks_permissions && !branch.capabilities().checks_permissions {
            true => branch.access(caller, part, access),
            false => Ok(()),
        }
    }

    /// Whether what is opened with `flags` on `branch` can be written there.
    pub fn may_open(
        &self,
        caller: &Caller<'_>,
        (branch, part): (&dyn FileSystem, Node),
        flags: OpenFlags,
    ) -> Result<()> {
        let writes = flags.write() || flags.truncate();
        if writes {
            self.writable()?;
        }
        if writes && branch.capabilities().read_only {
            return Err(Errno::EROFS.into());
        }
        let read = if flags.read() { Access::READ.0 } else { 0 };
        let write = if writes { Access::WRITE.0 } else { 0 };
        self.guard(caller, (branch, part), Access(read | write))
    }
}
