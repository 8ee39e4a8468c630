//! Callers that the kernel does not name: where mounts may be idmapped (`FUSE_ALLOW_IDMAP`), only
//! requests that make something say whose it is to be, by ids as this file system has them; all
//! others come with `FUSE_INVALID_UIDGID` (`fuse_get_req`, fs/fuse/dev.c). The kernel has judged
//! them by then, with the ids that the mount gives the caller, as nobody else could.

use crate::{
    groups,
    identity::NOBODY,
    session::{Context, Session},
};
use culvert::{Caller, Node, Result, SetAttributes};
use culvert_wire::{InitFlags, structures::InHeader};

/// `FUSE_INVALID_UIDGID`.
const UNNAMED: u32 = u32::MAX;

/// User and group of the caller: root, who has been judged, where they are not told.
pub const fn ids(header: &InHeader) -> (u32, u32) {
    match header.uid {
        UNNAMED => (0, 0),
        uid => (uid, header.gid),
    }
}

impl Session {
    /// The thread acts for the caller from here on, where the driver acts by the kernel's calls.
    pub(super) fn act_for(&self, context: &mut Context<'_>) -> Result<()> {
        let identity = &mut context.identity;
        match context.header.uid {
            // A layer may do it by the kernel's calls all the same.
            _ if !self.acts => identity.itself(),
            UNNAMED => identity.server(),
            uid if self.protocol.flags.contains(InitFlags::ALLOW_IDMAP) => {
                identity.maker(uid, context.header.gid)
            }
            uid => {
                identity.caller(uid, context.header.gid, context.header.pid)?;
                // Where the kernel has not checked by all that the driver's files have.
                if !self.protocol.flags.contains(InitFlags::POSIX_ACL) {
                    groups::complete()?;
                }
                Ok(())
            }
        }
    }

    /// The thread changes bytes of `node`, a file that is open, for the caller: with nobody's right
    /// to leave set-user-ID and set-group-ID on it. So the kernel has asked for WRITE, where it
    /// looks whether the caller has that right (CAP_FSETID). Of FALLOCATE and COPY_FILE_RANGE it
    /// says nothing (`fuse_file_fallocate`, fs/fuse/file.c): these take both off for root, too.
    pub(super) fn act_for_writer(&self, context: &mut Context<'_>, node: Node) -> Result<()> {
        match context.header.uid {
            UNNAMED if self.acts => context.identity.user(NOBODY, NOBODY),
            uid if self.acts => {
                context.identity.user(uid, context.header.gid)?;
                context.identity.lose_set_id()
            }
            // The driver takes them off what others than root have opened.
            UNNAMED | 0 => {
                let changes = self.without_set_id(node, SetAttributes::default())?;
                if changes.permissions.is_some() {
                    self.filesystem
                        .set_attributes(&Caller::SYSTEM, node, &changes)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// `changes` of `node`, of which the kernel has said that they take set-user-ID off (`killed`),
    /// made so that they do: by who is root here they would not.
    pub(super) fn taking_set_id(
        &self,
        context: &mut Context<'_>,
        node: Node,
        changes: SetAttributes,
        killed: bool,
    ) -> Result<SetAttributes> {
        if !killed || changes.permissions.is_some() || ![UNNAMED, 0].contains(&context.header.uid) {
            return Ok(changes);
        }
        match (changes.size.is_some(), context.header.uid) {
            // A change of owner does so whoever makes it (`chown_common`, fs/open.c).
            (false, _) if self.acts => Ok(changes),
            (_, UNNAMED) if self.acts => {
                context.identity.server_in_no_group()?;
                context.identity.lose_set_id()?;
                Ok(changes)
            }
            _ if self.acts => {
                context.identity.lose_set_id()?;
                Ok(changes)
            }
            _ => self.without_set_id(node, changes),
        }
    }

    /// `changes` of `node`, with set-user-ID and set-group-ID taken off.
    fn without_set_id(&self, node: Node, changes: SetAttributes) -> Result<SetAttributes> {
        let now = self
            .filesystem
            .attributes(&Caller::SYSTEM, node)?
            .permissions;
        // `setattr_should_drop_suidgid`, fs/attr.c: without the right to execute, set-group-ID
        // means something else.
        let gone = match now & 0o010 {
            0 => 0o4000,
            _ => 0o6000,
        };
        Ok(SetAttributes {
            permissions: (now & gone != 0).then_some(now & !gone),
            ..changes
        })
    }

    /// Without `FUSE_HANDLE_KILLPRIV_V2` the kernel takes set-user-ID and set-group-ID off by a
    /// change of mode, in the name of whoever wrote: one that only their owner may make. It has
    /// seen to it that others do not ask for more.
    pub(super) fn act_for_taker(
        &self,
        context: &mut Context<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<()> {
        let taken_off_here = self.protocol.flags.contains(InitFlags::HANDLE_KILLPRIV_V2);
        let Some(wanted) = changes.permissions.filter(|_| self.acts && !taken_off_here) else {
            return Ok(());
        };
        let now = self
            .filesystem
            .attributes(&Caller::SYSTEM, node)?
            .permissions;
        match wanted != now
            && [0o4000, 0o2000, 0o6000].contains(&(now & !wanted))
            && wanted & !now == 0
        {
            true => context.identity.server(),
            false => Ok(()),
        }
    }
}
