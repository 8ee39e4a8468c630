//! What is known by a descriptor of a branch: which node of the union it is.

use super::ROOT;
use super::found::Found;
use super::state::Core;
use alloc::vec::Vec;
use culvert::{Caller, Entry, Errno, FileKind, FileSystem, Result};

impl Core {
    /// What `entry` of branch `index` is, whose reference it has.
    pub fn identified(&self, caller: &Caller<'_>, index: usize, entry: Entry) -> Result<Entry> {
        let found = Found::new(&self.branches[index], entry);
        if found.node() == self.branches[index].fs.root() {
            return Ok(Entry {
                attributes: self.attributes(caller, ROOT)?,
            });
        }
        if found.entry.attributes.kind == FileKind::Directory
            && let Ok(path) = self.branches[index].fs.path_of(found.node())
            && let Ok(node) = self.walk(caller, &path)
        {
            let parts = self.directory(caller, node);
            if parts.is_ok_and(|parts| parts[index] == Some(found.node())) {
                let attributes = self.attributes(caller, node)?;
                return Ok(Entry { attributes });
            }
            self.nodes.forget(node, 1).give_back();
        }
        self.enter(None, Vec::from([(index, found)]))
    }

    /// What the first branch that `fd` belongs to says of it by `ask`.
    pub fn by_descriptor<T>(
        &self,
        mut ask: impl FnMut(&dyn FileSystem) -> Result<T>,
    ) -> Result<(usize, T)> {
        for (index, branch) in self.branches.iter().enumerate() {
            match ask(&*branch.fs) {
                Err(error) if matches!(error.errno(), Errno::EXDEV | Errno::ENOSYS) => {}
                answer => return Ok((index, answer?)),
            }
        }
        Err(Errno::EXDEV.into())
    }
}
