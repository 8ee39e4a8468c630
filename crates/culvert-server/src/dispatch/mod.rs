//! What each request means: from the protocol to the driver and back.

mod data;
mod directories;
mod files;
mod idmapped;
mod ioctl;
mod locks;
mod names;
mod poll;
mod replay;
mod writeback;
mod xattrs;

use crate::{
    attributes, caller,
    session::{Context, Session},
};
use culvert::{Access, Caller, Entry, Errno, Error, Node, OpenFlags, Result};
use culvert_wire::{
    Answer, Extension, Operation, Request,
    structures::{StatfsOut, StatxOut},
};
use names::Renaming;

/// An answer, or the errno and why.
type Outcome<'o> = Result<Answer<'o>>;

const DONE: Outcome<'static> = Ok(Answer::Done {});

impl Session {
    /// Carries out `request`; data of the answer lie in `out`.
    pub(crate) fn dispatch<'o>(
        &self,
        context: &mut Context<'_>,
        request: &Request<'_>,
        out: &'o mut [u8],
    ) -> Outcome<'o> {
        let node = self.numbers.node(request.header.nodeid);
        for extension in request.extensions.iter() {
            if let Extension::Groups(groups) = extension {
                context.groups.extend(groups.iter());
            }
        }
        caller::set(&request.header);
        check_names(&request.operation)?;
        if needs_all_rights(&request.operation) {
            context.identity.take_back_rights()?;
        }
        let fs = &*self.filesystem;
        match &request.operation {
            Operation::Forget { forget } => {
                self.forget(node, forget.nlookup);
                return DONE;
            }
            Operation::BatchForget { forgets, .. } => {
                for one in forgets.iter() {
                    self.forget(self.numbers.node(one.nodeid), one.nlookup);
                }
                return DONE;
            }
            // These act on what is open already, by the server's own right; writes see to theirs.
            Operation::Read { read } => return self.read(context, node, read, out),
            Operation::Write { write, data } => {
                let done = self.appended(context, node, write, data.0)?;
                return self.write(context, node, write, data.0, done);
            }
            Operation::Flush { flush } => {
                self.closed(node, flush);
                return self.flush(node, flush);
            }
            Operation::Release { release } => {
                self.ended(node, release);
                return self.release(context, node, release);
            }
            Operation::Getlk { lock } => return self.get_lock(context, node, lock),
            Operation::Setlk { lock } => return self.set_lock(context, node, lock, false),
            Operation::Setlkw { lock } => return self.set_lock(context, node, lock, true),
            Operation::Fsync { fsync } => return self.fsync(node, fsync),
            Operation::Lseek { .. } if self.writes_back() => return Err(Errno::ENOSYS.into()),
            Operation::Lseek { lseek } => return self.lseek(node, lseek),
            Operation::Readdir { read } => return self.readdir(context, node, read, out),
            Operation::Releasedir { release } => {
                self.settings.handover.directories.clear(release.fh);
                self.directories.remove(release.fh);
                return DONE;
            }
            Operation::Poll { poll } => return self.poll(node, poll),
            Operation::Fsyncdir { fsync } => return self.fsyncdir(context, node, fsync),
            Operation::Destroy {} => return DONE,
            // It brings nothing: see `Entry::call_those_that_wait`.
            Operation::NotifyReply { .. } => return DONE,
            _ => {}
        }
        self.act_for(context)?;
        if let Some(slot) = context.slot
            && let Some(answer) = self.settled(context, slot, request)?
        {
            return Ok(answer);
        }
        if let Some(Renaming { from, to, flags }) = self.renaming(node, &request.operation) {
            let caller = self.caller(context, None)?;
            fs.rename(&caller, from, to, flags)?;
            return DONE;
        }
        match &request.operation {
            Operation::Lookup { name } => self.lookup(context, node, name.bytes()),
            Operation::Getattr { getattr } => {
                let file = (getattr.getattr_flags & 1 != 0).then_some(getattr.fh);
                self.getattr(context, node, file)
            }
            Operation::Statx { statx } => {
                let file = (statx.getattr_flags & 1 != 0).then_some(statx.fh);
                let found = self.attributes(&self.caller(context, None)?, node, file)?;
                let basic = self.attr_out(&found);
                Ok(Answer::Statx {
                    statx: StatxOut {
                        attr_valid: basic.attr_valid,
                        attr_valid_nsec: basic.attr_valid_nsec,
                        stat: attributes::statx(&found),
                        ..StatxOut::default()
                    },
                })
            }
            Operation::Setattr { setattr } => self.setattr(context, node, setattr),
            Operation::Readlink {} => {
                let target = fs.readlink(&self.caller(context, None)?, node)?;
                put(&target, out)
            }
            Operation::Symlink { name, target } => {
                let caller = self.caller(context, None)?;
                let made = fs.symlink(&caller, node, name.bytes(), target.bytes())?;
                self.entry(&made)
            }
            Operation::Mknod { mknod, name } => self.mknod(context, node, mknod, name),
            Operation::Mkdir { mkdir, name } => self.mkdir(context, node, mkdir, name),
            Operation::Unlink { name } => {
                let caller = self.caller(context, None)?;
                fs.unlink(&caller, node, name.bytes())?;
                DONE
            }
            Operation::Rmdir { name } => {
                let caller = self.caller(context, None)?;
                fs.rmdir(&caller, node, name.bytes())?;
                DONE
            }
            Operation::Link { link, name } => {
                let caller = self.caller(context, None)?;
                let old = self.numbers.node(link.oldnodeid);
                let made = fs.link(&caller, old, node, name.bytes())?;
                self.entry(&made)
            }
            Operation::Open { open } => self.open(context, node, open),
            Operation::Create { create, name } => {
                self.create(context, node, create, Some(name.bytes()))
            }
            Operation::Tmpfile { create, .. } => self.create(context, node, create, None),
            Operation::Statfs {} => Ok(Answer::Statfs {
                statfs: StatfsOut {
                    st: attributes::statfs(&fs.statfs_of(node)?),
                },
            }),
            Operation::Setxattr {
                setxattr,
                name,
                value,
            } => self.setxattr(context, node, setxattr, name.bytes(), value.0),
            Operation::Getxattr { getxattr, name } => {
                self.getxattr(context, node, (name.bytes(), getxattr.size), out)
            }
            Operation::Listxattr { listxattr } => {
                self.listxattr(context, node, listxattr.size, out)
            }
            Operation::Removexattr { name } => self.removexattr(context, node, name.bytes()),
            Operation::Opendir { open } => self.opendir(context, node, open),
            Operation::Readdirplus { read } => self.readdirplus(context, node, read, out),
            Operation::Access { access } => {
                let caller = self.caller(context, None)?;
                fs.access(&caller, node, Access(access.mask & 7))?;
                DONE
            }
            Operation::Ioctl { ioctl, data } => self.ioctl(context, node, ioctl, data.0, out),
            Operation::Fallocate { fallocate } => self.fallocate(context, node, fallocate),
            Operation::CopyFileRange { copy } => self.copy_range(context, node, copy, false),
            Operation::CopyFileRange64 { copy } => self.copy_range(context, node, copy, true),
            Operation::Syncfs { .. } => {
                fs.sync()?;
                DONE
            }
            // What no version of the kernel sends to a server that did not ask for it.
            _ => Err(Errno::ENOSYS.into()),
        }
    }

    fn forget(&self, node: Node, count: u64) {
        self.cache_retention.forget(node);
        self.zero_open.forget(node);
        let number = self.numbers.number(node);
        let known = self
            .extension
            .as_ref()
            .map_or(count, |extension| extension.forgotten(number, count));
        if known > 0 {
            self.filesystem.forget(node, known);
        }
    }

    /// On whose behalf. Drivers that act by the kernel's calls are judged by the thread's identity,
    /// which is the caller's by now; its umask becomes the thread's here, where there is one: where
    /// something with a mode is made.
    fn caller<'c>(&self, context: &'c mut Context<'_>, umask: Option<u32>) -> Result<Caller<'c>> {
        match umask {
            Some(umask) if self.acts => context.identity.set_umask(umask & 0o777)?,
            // Applied already: a layer may make it by the kernel's calls all the same. Without a
            // umask of the thread's own the process's takes what it takes.
            Some(_) => drop(context.identity.set_umask(0)),
            None => {}
        }
        let (uid, gid) = idmapped::ids(&context.header);
        Ok(Caller {
            uid,
            gid,
            groups: &context.groups,
            pid: context.header.pid,
            umask: umask.unwrap_or(0),
            rights: None,
        })
    }

    /// `mode` as drivers get it: with the umask applied, unless they act by calls that apply it.
    const fn masked(&self, mode: u32, umask: u32) -> u32 {
        match self.acts {
            true => mode,
            false => mode & !(umask & 0o777),
        }
    }

    /// The answer that gives the kernel an entry, and with it the driver's reference.
    fn entry(&self, entry: &Entry) -> Outcome<'static> {
        Ok(Answer::Entry {
            entry: self.entry_out(entry),
        })
    }

    /// Attributes of an open file, or of the node.
    fn attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        file: Option<u64>,
    ) -> Result<culvert::Attributes> {
        match file.and_then(|file| self.file_if_open(node, file)) {
            Some(open) => open.file.attributes(caller),
            None => self.filesystem.attributes(caller, node),
        }
    }

    fn getattr(
        &self,
        context: &mut Context<'_>,
        node: Node,
        file: Option<u64>,
    ) -> Outcome<'static> {
        let found = self.attributes(&self.caller(context, None)?, node, file)?;
        Ok(self.attributes_answer(&found))
    }

    fn attributes_answer(&self, found: &culvert::Attributes) -> Answer<'static> {
        Answer::Attributes {
            attributes: self.attr_out(found),
        }
    }
}

/// Whether root's CAP_FSETID and CAP_SYS_RESOURCE may matter in this operation: it changes
/// attributes, makes something, or takes space.
const fn needs_all_rights(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Open { open } => OpenFlags(open.flags).truncate(),
        Operation::Lookup { .. }
        | Operation::Forget { .. }
        | Operation::BatchForget { .. }
        | Operation::Getattr { .. }
        | Operation::Statx { .. }
        | Operation::Readlink {}
        | Operation::Unlink { .. }
        | Operation::Rmdir { .. }
        | Operation::Statfs {}
        | Operation::Read { .. }
        | Operation::Flush { .. }
        | Operation::Release { .. }
        | Operation::Getxattr { .. }
        | Operation::Listxattr { .. }
        | Operation::Opendir { .. }
        | Operation::Readdir { .. }
        | Operation::Readdirplus { .. }
        | Operation::Releasedir { .. }
        | Operation::NotifyReply { .. }
        | Operation::Access { .. } => false,
        _ => true,
    }
}

/// `ENAMETOOLONG`: drivers get names of up to 255 bytes (`NAME_MAX`); the kernel sends up to 1024
/// (`FUSE_NAME_MAX`, fs/fuse/fuse_i.h).
fn check_names(operation: &Operation<'_>) -> Result<()> {
    const NAME_MAX: usize = 255;
    let names = match operation {
        Operation::Lookup { name }
        | Operation::Symlink { name, .. }
        | Operation::Mknod { name, .. }
        | Operation::Mkdir { name, .. }
        | Operation::Unlink { name }
        | Operation::Rmdir { name }
        | Operation::Link { name, .. }
        | Operation::Create { name, .. } => [*name; 2],
        Operation::Rename { name, new_name, .. } | Operation::Rename2 { name, new_name, .. } => {
            [*name, *new_name]
        }
        _ => return Ok(()),
    };
    match names.iter().any(|name| name.bytes().len() > NAME_MAX) {
        true => Err(Errno::ENAMETOOLONG.into()),
        false => Ok(()),
    }
}

/// `bytes` as the answer, copied to `out`.
fn put<'o>(bytes: &[u8], out: &'o mut [u8]) -> Outcome<'o> {
    let place = out
        .get_mut(..bytes.len())
        .ok_or_else(|| Error::because(Errno::EIO, "answer larger than a message"))?;
    place.copy_from_slice(bytes);
    Ok(Answer::Data {
        data: culvert_wire::Data(place),
    })
}
