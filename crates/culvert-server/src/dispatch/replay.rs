//! Requests that come again: a server died between carrying one out and answering.
//!
//! Most may be carried out twice: a read, a write at an offset, a change of attributes, an open.
//! For those that may not, the server writes down what is so before it changes anything
//! ([`Evidence`]). The next one compares: what was not there and is, was made by the dead one, and
//! so on. The kernel lets nobody change the directory through the mount meanwhile (it holds its
//! lock until the request is answered); who changes the source in the same moment by another way
//! than the mount can be taken for it.

use super::{Outcome, names::Renaming};
use crate::{
    handover::{Evidence, RequestSlot},
    opened::file_in,
    session::{Context, Session},
};
use culvert::{
    Caller, Entry, Errno, Error, FileKind, Node, OpenFlags, Opened, Result, SetAttributes,
};
use culvert_wire::{Answer, Operation, Request, structures::WriteIn};

/// The name that is to be made does not exist.
const ABSENT: u64 = 1;
/// The name that is to be removed is that of node `what[0]`.
const PRESENT: u64 = 2;
/// The first name is that of node `what[0]`, the second that of `what[1]` (0: of none).
const NAMES: u64 = 3;
/// The file that is to be appended to has `what[0]` bytes; as the one whose bytes are to be moved.
const SIZE: u64 = 4;
/// The extended attribute is there (`what[0]` 1) or not.
const ATTRIBUTE: u64 = 5;

/// `FALLOC_FL_COLLAPSE_RANGE` and `FALLOC_FL_INSERT_RANGE`: they move what lies behind.
const COLLAPSE: u32 = 0x08;
const INSERT: u32 = 0x20;
/// `XATTR_CREATE`.
const CREATE: u32 = 1;

impl Session {
    /// What `name` in `dir` is, if anything; its reference is given back.
    fn seen(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Option<Node> {
        let found = self.filesystem.lookup(caller, dir, name).ok()?;
        self.filesystem.forget(found.attributes.node, 1);
        Some(found.attributes.node)
    }

    /// The answer to `request` if a server that is dead has carried it out. Else, before it is,
    /// what is so is written down in `slot`.
    pub(super) fn settled<'o>(
        &self,
        context: &mut Context<'_>,
        slot: RequestSlot,
        request: &Request<'_>,
    ) -> Result<Option<Answer<'o>>> {
        let node = self.numbers.node(request.header.nodeid);
        let evidence = context.evidence.take();
        let note = |kind, what| slot.note(Evidence { kind, what });
        // Done, if what was so `before` and what is so now say it; else what is so now is written
        // down, where nothing is yet.
        let settle = |kind, now, is_done: &dyn Fn(u64) -> bool| {
            match evidence {
                None => note(kind, [now, 0]),
                Some(it) if it.kind == kind && is_done(it.what[0]) => {
                    return Ok(Some(Answer::Done {}));
                }
                Some(_) => {}
            }
            Ok(None)
        };
        if let Some(renaming) = self.renaming(node, &request.operation) {
            let caller = self.caller(context, None)?;
            return Ok(self.renamed(&caller, evidence, slot, renaming));
        }
        match &request.operation {
            Operation::Mknod { name, .. }
            | Operation::Mkdir { name, .. }
            | Operation::Symlink { name, .. }
            | Operation::Link { name, .. }
            | Operation::Create { name, .. } => {
                self.making_settled(context, evidence, slot, request, (node, name.bytes()))
            }
            Operation::Unlink { name } | Operation::Rmdir { name } => {
                self.removal_settled(context, evidence, slot, (node, name.bytes()))
            }
            Operation::Fallocate { fallocate } if fallocate.mode & (COLLAPSE | INSERT) != 0 => {
                let Some(open) = self.file_if_open(node, fallocate.fh) else {
                    return Ok(None);
                };
                let size = open.file.attributes(&Caller::SYSTEM)?.size;
                settle(SIZE, size, &|before| before != size)
            }
            Operation::Setxattr {
                setxattr,
                name,
                value,
            } if setxattr.flags & CREATE != 0 => {
                let found = self
                    .filesystem
                    .get_xattr(&Caller::SYSTEM, node, name.bytes())
                    .ok();
                let is_it = found.as_deref() == Some(value.0);
                settle(ATTRIBUTE, u64::from(found.is_some()), &|before| {
                    before == 0 && is_it
                })
            }
            Operation::Removexattr { name } => {
                let found = self
                    .filesystem
                    .get_xattr(&Caller::SYSTEM, node, name.bytes());
                let is_gone = matches!(&found, Err(error) if error.errno() == Errno::ENODATA);
                settle(ATTRIBUTE, u64::from(found.is_ok()), &|before| {
                    before == 1 && is_gone
                })
            }
            _ => Ok(None),
        }
    }

    /// [`Self::settled`], of a request that makes a name: it was made if it was not there
    /// before.
    fn making_settled<'o>(
        &self,
        context: &mut Context<'_>,
        evidence: Option<Evidence>,
        slot: RequestSlot,
        request: &Request<'_>,
        (dir, name): (Node, &[u8]),
    ) -> Result<Option<Answer<'o>>> {
        let caller = self.caller(context, None)?;
        match evidence {
            None => {
                if self.seen(&caller, dir, name).is_none() {
                    let (kind, what) = (ABSENT, [0; 2]);
                    slot.note(Evidence { kind, what });
                }
                Ok(None)
            }
            Some(Evidence { kind: ABSENT, .. }) => {
                let Ok(found) = self.filesystem.lookup(&caller, dir, name) else {
                    return Ok(None);
                };
                self.made(context, request, &found).map(Some)
            }
            Some(_) => Ok(None),
        }
    }

    /// [`Self::settled`], of a request that removes a name: it is gone if it leads to another
    /// node than before, or to none.
    fn removal_settled<'o>(
        &self,
        context: &mut Context<'_>,
        evidence: Option<Evidence>,
        slot: RequestSlot,
        (dir, name): (Node, &[u8]),
    ) -> Result<Option<Answer<'o>>> {
        let caller = self.caller(context, None)?;
        let found = self.seen(&caller, dir, name);
        match (evidence, found) {
            (None, Some(found)) => {
                let (kind, what) = (PRESENT, [found.0, 0]);
                slot.note(Evidence { kind, what });
                Ok(None)
            }
            (Some(before), found)
                if before.kind == PRESENT
                    && found.is_none_or(|found| found.0 != before.what[0]) =>
            {
                Ok(Some(Answer::Done {}))
            }
            _ => Ok(None),
        }
    }

    /// The answer to a request that made `found`, of which it holds a reference; `EEXIST` where it
    /// is something else than it would have made.
    fn made<'o>(
        &self,
        context: &mut Context<'_>,
        request: &Request<'_>,
        found: &Entry,
    ) -> Outcome<'o> {
        let node = found.attributes.node;
        let kind = found.attributes.kind;
        let regular = kind == FileKind::Regular;
        let ours = match &request.operation {
            Operation::Mkdir { .. } => kind == FileKind::Directory,
            Operation::Symlink { target, .. } => {
                kind == FileKind::Symlink
                    && self
                        .filesystem
                        .readlink(&Caller::SYSTEM, node)
                        .ok()
                        .as_deref()
                        == Some(target.bytes())
            }
            Operation::Mknod { mknod, .. } => {
                FileKind::of_mode(mknod.mode).unwrap_or(FileKind::Regular) == kind
            }
            Operation::Link { link, .. } => self.numbers.node(link.oldnodeid) == node,
            _ => regular,
        };
        if !ours {
            self.filesystem.forget(node, 1);
            return Err(Errno::EEXIST.into());
        }
        let Operation::Create { create, .. } = &request.operation else {
            return self.entry(found);
        };
        // By the server's own right: the file's mode may forbid what the open that made it allowed.
        if self.acts {
            context.identity.server()?;
        }
        let flags = OpenFlags(create.flags & super::files::MEANT);
        let caller = self.caller(context, None)?;
        let opened: Opened = match self.open_made(&caller, found, flags) {
            Ok(opened) => opened,
            Err(error) => {
                self.filesystem.forget(node, 1);
                return Err(error);
            }
        };
        Ok(Answer::Created {
            entry: self.entry_out(found),
            open: self.opened(context, node, opened, flags, true),
        })
    }

    /// Opens the file of which `found` holds a reference, and which `caller` has made, whatever its
    /// mode allows. A server without privilege has to give its owner, which is itself, the right
    /// for a moment.
    fn open_made(&self, caller: &Caller<'_>, found: &Entry, flags: OpenFlags) -> Result<Opened> {
        const OWNERS: u32 = 0o600;
        let (node, mode) = (found.attributes.node, found.attributes.permissions);
        match self.filesystem.open(caller, node, flags) {
            Err(error) if error.errno() == Errno::EACCES && mode & OWNERS != OWNERS => {}
            opened => return opened,
        }
        let change = |permissions| {
            let changes = SetAttributes {
                permissions: Some(permissions),
                ..SetAttributes::default()
            };
            self.filesystem.set_attributes(caller, node, &changes)
        };
        change(mode | OWNERS)?;
        let opened = self.filesystem.open(caller, node, flags);
        change(mode)?;
        opened
    }

    /// The answer to a renaming that a dead server has carried out; else what stands under both
    /// names is written down.
    fn renamed<'o>(
        &self,
        caller: &Caller<'_>,
        evidence: Option<Evidence>,
        slot: RequestSlot,
        renaming: Renaming<'_>,
    ) -> Option<Answer<'o>> {
        let number = |(dir, name)| self.seen(caller, dir, name).map_or(0, |node| node.0);
        let now = [number(renaming.from), number(renaming.to)];
        let Some(before) = evidence.filter(|before| before.kind == NAMES) else {
            if now[0] != 0 {
                slot.note(Evidence {
                    kind: NAMES,
                    what: now,
                });
            }
            return None;
        };
        let [old, new] = before.what;
        let done = match renaming.flags.exchange() {
            true => old != new && now == [new, old],
            // Two names of one file both stay.
            false => old != new && now[0] != old && now[1] == old,
        };
        done.then_some(Answer::Done {})
    }

    /// How many bytes of `data` a server that is dead has appended already.
    pub(super) fn appended(
        &self,
        context: &mut Context<'_>,
        node: Node,
        write: &WriteIn,
        data: &[u8],
    ) -> Result<usize> {
        let (Some(slot), true) = (context.slot, self.appends(write)) else {
            return Ok(0);
        };
        let Some(open) = self.file_if_open(node, write.fh) else {
            return Ok(0);
        };
        let size = open.file.attributes(&Caller::SYSTEM)?.size;
        let evidence = context.evidence.take();
        let Some(before) = evidence.filter(|before| before.kind == SIZE) else {
            slot.note(Evidence {
                kind: SIZE,
                what: [size, 0],
            });
            return Ok(0);
        };
        let start = before.what[0];
        let count = size.saturating_sub(start).min(data.len() as u64) as usize;
        if count == 0 {
            return Ok(0);
        }
        // What stands there may be somebody else's.
        let mut there = vec![0; count];
        let unknown = |error: Error| {
            error.within("it cannot be told whether a server that died has appended these bytes")
        };
        let read = self.read_by_node(context, open.node, start, &mut there);
        let read = read.map_err(unknown)?;
        match there[..read] == data[..count] {
            true => Ok(count),
            false => Ok(0),
        }
    }

    fn read_by_node(
        &self,
        context: &mut Context<'_>,
        node: Node,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize> {
        if self.acts {
            context.identity.server()?;
        }
        let opened = self
            .filesystem
            .open(&Caller::SYSTEM, node, OpenFlags::READ)?;
        let file = file_in(opened, node);
        let mut done = 0;
        while done < into.len() {
            let mut rest = &mut into[done..];
            match file.read_at(offset + done as u64, &mut rest)? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }
}
