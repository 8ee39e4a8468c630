//! Names and attributes.

use super::Outcome;
use crate::{
    attributes, groups,
    session::{Context, Session},
};
use culvert::{Attributes, Errno, Node, RenameFlags, Result, Rights, SetAttributes};
use culvert_wire::{
    Answer, Name, Operation,
    structures::{EntryOut, MkdirIn, MknodIn, SetattrIn},
};

/// What a request to rename asks: from this name of this directory to that.
#[derive(Clone, Copy)]
pub(super) struct Renaming<'n> {
    pub from: (Node, &'n [u8]),
    pub to: (Node, &'n [u8]),
    pub flags: RenameFlags,
}

impl Session {
    pub(super) fn lookup(
        &self,
        context: &mut Context<'_>,
        dir: Node,
        name: &[u8],
    ) -> Outcome<'static> {
        let caller = self.caller(context, None)?;
        match self.filesystem.lookup(&caller, dir, name) {
            Ok(found) => self.entry(&found),
            // Node 0: the kernel may believe for a while that there is none.
            Err(error) if error.errno() == Errno::ENOENT && self.validity.absent > 0 => {
                let absent = self.validity_of(dir).absent;
                let (entry_valid, entry_valid_nsec) = attributes::validity(absent);
                Ok(Answer::Entry {
                    entry: EntryOut {
                        entry_valid,
                        entry_valid_nsec,
                        ..EntryOut::default()
                    },
                })
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn setattr(
        &self,
        context: &mut Context<'_>,
        node: Node,
        asked: &SetattrIn,
    ) -> Outcome<'static> {
        self.check_writable()?;
        if asked.valid & SetattrIn::SIZE != 0 && asked.size > i64::MAX as u64 {
            return Err(Errno::EFBIG.into());
        }
        let killed = asked.valid & SetattrIn::KILL_SUIDGID != 0;
        let changes = attributes::changes(asked);
        let changes = self.taking_set_id(context, node, changes, killed)?;
        self.act_for_taker(context, node, &changes)?;
        let found = match self.acts && self.writes_back() {
            true => self.change_written_back(context, node, asked, changes),
            false => self.change(context, node, asked, &changes),
        }?;
        Ok(self.attributes_answer(&found))
    }

    /// Makes `changes` of `node`, by the open file that the request names if it does.
    pub(super) fn change(
        &self,
        context: &mut Context<'_>,
        node: Node,
        asked: &SetattrIn,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let open = (asked.valid & SetattrIn::FH != 0).then(|| self.file_if_open(node, asked.fh));
        if let Some(open) = open.flatten() {
            let mode = changes.permissions.unwrap_or(0);
            let caller = self.caller(context, None)?;
            match groups::with_mode(mode, || open.file.set_attributes(&caller, changes)) {
                Err(error) if error.errno() == Errno::ENOSYS => {}
                answer => return answer,
            }
        }
        let gives = changes.uid.is_some() || changes.gid.is_some();
        let pid = context.header.pid;
        let mut caller = self.caller(context, None)?;
        let own;
        if gives && !self.acts && caller.uid != 0 && pid != 0 {
            // The owner gives a file to one of his groups: they decide whether set-group-ID stays.
            own = groups::read(pid);
            caller.groups = &own;
            caller.rights = Some(Rights::of_user(caller.uid));
        }
        match self.filesystem.set_attributes(&caller, node, changes) {
            // The kernel has allowed it, and may only have meant that a write takes set-user-ID
            // (`file_modified`).
            Err(error) if changes.is_empty() && error.errno() == Errno::EPERM => {
                self.attributes(&caller, node, None)
            }
            found => found,
        }
    }

    pub(super) fn mknod(
        &self,
        context: &mut Context<'_>,
        dir: Node,
        mknod: &MknodIn,
        name: &Name<'_>,
    ) -> Outcome<'static> {
        let mode = self.masked(mknod.mode, mknod.umask);
        let caller = self.caller(context, Some(mknod.umask))?;
        let device = u64::from(mknod.rdev);
        let made = self
            .filesystem
            .mknod(&caller, dir, name.bytes(), mode, device)?;
        self.entry(&made)
    }

    pub(super) fn mkdir(
        &self,
        context: &mut Context<'_>,
        dir: Node,
        mkdir: &MkdirIn,
        name: &Name<'_>,
    ) -> Outcome<'static> {
        // The kernel adds the type.
        let mode = self.masked(mkdir.mode & 0o7777, mkdir.umask);
        let caller = self.caller(context, Some(mkdir.umask))?;
        let made = self.filesystem.mkdir(&caller, dir, name.bytes(), mode)?;
        self.entry(&made)
    }

    /// What `operation` on `node` asks to rename, if it does.
    pub(super) fn renaming<'n>(
        &self,
        node: Node,
        operation: &Operation<'n>,
    ) -> Option<Renaming<'n>> {
        let (dir, name, new_name, flags) = match *operation {
            Operation::Rename {
                rename,
                name,
                new_name,
            } => (rename.newdir, name, new_name, 0),
            Operation::Rename2 {
                rename,
                name,
                new_name,
            } => (rename.newdir, name, new_name, rename.flags),
            _ => return None,
        };
        Some(Renaming {
            from: (node, name.bytes()),
            to: (self.numbers.node(dir), new_name.bytes()),
            flags: RenameFlags(flags),
        })
    }

    /// `EROFS` where nothing may change. The kernel refuses most itself, on a mount that is
    /// read-only.
    pub(super) fn check_writable(&self) -> Result<()> {
        match self.settings.read_only || self.filesystem.capabilities().read_only {
            true => Err(Errno::EROFS.into()),
            false => Ok(()),
        }
    }
}
