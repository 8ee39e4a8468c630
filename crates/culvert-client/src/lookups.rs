//! Names, and what may be asked of them.

use crate::{
    connection::Who,
    core::{Core, opcode},
    nodes::Found,
    words::{ASKED, FOUND},
};
use alloc::vec::Vec;
use culvert::{Access, Attributes, Caller, Errno, FileKind, Result};
use culvert_wire::{InitFlags, Name, Operation, ROOT_ID, structures::AccessIn};

impl Core {
    /// LOOKUP, or what may still be believed of an earlier one. One reference.
    pub fn find(&self, who: Who, dir: u64, name: &[u8]) -> Result<Attributes> {
        match self.nodes.find(self.words(), self.moment(), dir, name)? {
            Found::Absent => Err(Errno::ENOENT.into()),
            Found::Node(attributes) => Ok(attributes),
            Found::Unknown(candidate) => match self.find_remembered(dir, name) {
                Some(found) => found,
                None => self.ask_for(who, dir, name, candidate),
            },
        }
    }

    /// What another process has looked up, if that may be believed. One reference.
    fn find_remembered(&self, dir: u64, name: &[u8]) -> Option<Result<Attributes>> {
        self.connection.settle_place();
        let words = self.words();
        let found = self.nodes.take_over(words, self.moment(), dir, name);
        let (found, back) = found?;
        self.give_back(back);
        words.count(FOUND, 1);
        match found {
            Found::Absent => Some(Err(Errno::ENOENT.into())),
            Found::Node(attributes) => Some(Ok(attributes)),
            Found::Unknown(_) => None,
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
        self.words().count(ASKED, 1);
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
            let found = match self.rights(node) {
                Some(found) => found,
                None => self.attributes(who, node)?,
            };
            return caller.may(access, &found);
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
        // As its page cache (`fuse_get_link`, fs/fuse/dir.c): where the server says that links
        // stay.
        let cached = self.connection.agreed.has(InitFlags::CACHE_SYMLINKS);
        let (words, (_, told)) = (self.words(), self.moment());
        if cached && let Some(target) = words.remembered_target(told, node) {
            words.count(FOUND, 1);
            return Ok(target);
        }
        let stamp = words.content(node).now();
        words.count(ASKED, 1);
        let mut target = self
            .connection
            .data(who, node, &Operation::Readlink {}, 4095)?;
        words.node_read(node);
        if let Some(end) = target.iter().position(|&byte| byte == 0) {
            target.truncate(end);
        }
        if target.is_empty() {
            return Err(Errno::EIO.into());
        }
        if cached
            && words.content(node).now() == stamp
            && let Some(account) = self.nodes.account(node)
        {
            words.remember_target((stamp, told), (node, account), &target);
        }
        Ok(target)
    }
}
