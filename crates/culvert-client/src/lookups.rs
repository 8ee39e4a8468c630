//! Names, and what may be asked of them.

use crate::{
    connection::Who,
    core::{Core, opcode},
    nodes::Found,
};
use alloc::vec::Vec;
use culvert::{Access, Attributes, Caller, Errno, FileKind, Result};
use culvert_wire::{Name, Operation, ROOT_ID, structures::AccessIn};

impl Core {
    /// LOOKUP, or what may still be believed of an earlier one. One reference.
    pub fn find(&self, who: Who, dir: u64, name: &[u8]) -> Result<Attributes> {
        match self.nodes.find(self.words(), self.moment(), dir, name)? {
            Found::Absent => Err(Errno::ENOENT.into()),
            Found::Node(attributes) => Ok(attributes),
            Found::Unknown(candidate) => self.ask_for(who, dir, name, candidate),
        }
    }

    fn ask_for(
        &self,
        who: Who,
        dir: u64,
        name: &[u8],
        candidate: Option<u64>,
    ) -> Result<Attributes> {
        let before = self.before(dir, name, candidate);
        let wire = Name::new(name).ok_or(Errno::ENOENT)?;
        let operation = Operation::Lookup { name: wire };
        let entry = match self.connection.entry(who, dir, &operation) {
            Ok(entry) => entry,
            Err(error) => {
                if error.errno() == Errno::ENOENT {
                    self.nodes.absent(self.words(), (dir, name), &before, 0);
                }
                return Err(error);
            }
        };
        match entry.nodeid {
            0 => {
                let valid = crate::attributes::duration(entry.entry_valid, entry.entry_valid_nsec);
                self.nodes.absent(self.words(), (dir, name), &before, valid);
                Err(Errno::ENOENT.into())
            }
            ROOT_ID => Err(Errno::EIO.into()),
            _ => self.take_up(&before, (dir, name), &entry, true),
        }
    }

    /// Whether `caller` may do `access` to `node` (`fuse_permission`, fs/fuse/dir.c).
    pub fn judge(&self, caller: &Caller<'_>, node: u64, access: Access) -> Result<()> {
        let who = self.who(caller)?;
        let settings = &self.connection.settings;
        let kind = self.nodes.kind(node)?;
        let stored = matches!(
            kind,
            FileKind::Regular | FileKind::Directory | FileKind::Symlink
        );
        if access.write() && stored && settings.read_only {
            return Err(Errno::EROFS.into());
        }
        if settings.default_permissions {
            return caller.may(access, &self.attributes(who, node)?);
        }
        // A server hears of access(2) and chdir(2), not of each directory on the way.
        if kind == FileKind::Directory && access == Access::EXECUTE {
            return Ok(());
        }
        if !self.connection.lacks(opcode::ACCESS) {
            let asked = AccessIn {
                mask: access.0 & 7,
                padding: 0,
            };
            let operation = Operation::Access { access: asked };
            let answer = self.connection.done(who, node, &operation);
            self.connection.unless_lacking(opcode::ACCESS, answer)?;
        }
        if kind == FileKind::Regular && access.0 & Access::EXECUTE.0 != 0 {
            let executable = |found: Attributes| found.permissions & 0o111 != 0;
            // Attributes that are old may say no where new ones do not.
            if !executable(self.attributes(who, node)?)
                && !executable(self.ask_attributes(who, node, None)?)
            {
                return Err(Errno::EACCES.into());
            }
        }
        Ok(())
    }

    /// READLINK. A NUL ends a target (`fuse_readlink_folio`, fs/fuse/dir.c).
    pub fn target(&self, who: Who, node: u64) -> Result<Vec<u8>> {
        if self.nodes.kind(node)? != FileKind::Symlink {
            return Err(Errno::EINVAL.into());
        }
        let mut target = self
            .connection
            .data(who, node, &Operation::Readlink {}, 4095)?;
        // `atime` may have moved.
        self.words().node_changed(node);
        if let Some(end) = target.iter().position(|&byte| byte == 0) {
            target.truncate(end);
        }
        match target.is_empty() {
            true => Err(Errno::EIO.into()),
            false => Ok(target),
        }
    }
}
