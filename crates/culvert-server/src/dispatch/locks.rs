//! Locks that are not the kernel's alone.

use super::{DONE, Outcome};
use crate::{
    interrupts::RELEASING,
    locks::{Asked, Holder, LockFamily, waiting},
    opened::OpenFile,
    report::report,
    session::{Context, Session},
};
use culvert::{Errno, Error, Lock, LockKind, LockOwner, Node, Result, Wait};
use culvert_sys::{
    BorrowedFd, OwnedFd,
    raw::general::{F_RDLCK, F_UNLCK, F_WRLCK},
};
use culvert_wire::{
    Answer, InitFlags,
    structures::{FileLock, FlushIn, LkIn, LkOut, ReleaseIn},
};
use std::sync::Arc;

impl Session {
    /// The lock that `asked` is about, and the file by which it is asked for. Its own rights are
    /// the server's from here on: the kernel has checked that the open allows it.
    fn asked(
        &self,
        context: &mut Context<'_>,
        node: Node,
        asked: &LkIn,
    ) -> Result<(Asked, Arc<OpenFile>)> {
        let kind = match asked.lk.r#type {
            F_RDLCK => LockKind::Shared,
            F_WRLCK => LockKind::Exclusive,
            F_UNLCK => LockKind::Unlock,
            _ => return Err(Errno::EINVAL.into()),
        };
        let file = self.file(node, asked.fh)?;
        if self.acts {
            context.identity.server()?;
        }
        let is_flock = asked.lk_flags & LkIn::FLOCK != 0;
        let asked = Asked {
            holder: Holder {
                node,
                owner: asked.owner,
                kind: if is_flock {
                    LockFamily::Flock
                } else {
                    LockFamily::Record
                },
            },
            fh: asked.fh,
            lock: Lock {
                kind,
                start: asked.lk.start,
                end: asked.lk.end,
                pid: asked.lk.pid,
            },
        };
        Ok((asked, file))
    }

    pub(super) fn get_lock(
        &self,
        context: &mut Context<'_>,
        node: Node,
        lk: &LkIn,
    ) -> Outcome<'static> {
        let (asked, file) = self.asked(context, node, lk)?;
        let stands = stands_for(&file)?;
        let conflict = || match &stands {
            Some(stands) => self.locks.conflict(&asked, stands.fd()),
            None => file
                .file
                .get_lock(LockOwner(asked.holder.owner), &asked.lock),
        };
        let mut found = conflict()?;
        if found.is_some() && self.settle(context) {
            found = conflict()?;
        }
        let lk = match found {
            Some(lock) => FileLock {
                start: lock.start,
                end: lock.end,
                r#type: if lock.kind == LockKind::Shared {
                    F_RDLCK
                } else {
                    F_WRLCK
                },
                pid: lock.pid,
            },
            None => FileLock {
                r#type: F_UNLCK,
                ..lk.lk
            },
        };
        Ok(Answer::Lock { lock: LkOut { lk } })
    }

    pub(super) fn set_lock(
        &self,
        context: &mut Context<'_>,
        node: Node,
        lk: &LkIn,
        waits: bool,
    ) -> Outcome<'static> {
        let (asked, file) = self.asked(context, node, lk)?;
        let stands = stands_for(&file)?;
        let own = matches!(stands, Some(Stands::Own(_)));
        if own
            && asked.lock.kind != LockKind::Exclusive
            && let Err(error) = file.file.before_unlock()
        {
            report(format_args!("before a lock is released: {error}"));
        }
        let set = || match &stands {
            Some(stands) => {
                let set = self.locks.set(&asked, stands.fd())?;
                if own && set {
                    file.file.locked();
                }
                Ok(set)
            }
            None => match set_by_driver(&file, &asked, Wait::Never) {
                Err(error) if error.errno() == Errno::EAGAIN => Ok(false),
                done => done.map(|()| true),
            },
        };
        if set()? || (!waits && self.settle(context) && set()?) {
            return DONE;
        }
        if !waits {
            return Err(Errno::EAGAIN.into());
        }
        let request = waiting::Request {
            interrupts: self.interrupts.clone(),
            channel: context.channel.owned().map_err(|error| {
                Error::because(Errno::ENOLCK, format!("waiting for a lock: {error}"))
            })?,
            protocol: self.protocol,
            unique: context.header.unique,
        };
        // What is borrowed stays open as long as the file.
        let own = match stands {
            Some(Stands::Own(own)) => Some(own),
            _ => None,
        };
        let locks = self.locks.clone();
        request.leave_to(context.hand, move |interrupted| match descriptor(&file) {
            Some(fd) => locks.wait(&asked, fd, interrupted),
            None if let Some(own) = &own => {
                locks.wait(&asked, own.borrow(), interrupted)?;
                file.file.locked();
                Ok(())
            }
            None => set_by_driver(&file, &asked, Wait::UntilInterrupted(interrupted)),
        })?;
        context.left = true;
        DONE
    }

    /// close(2) has returned before the kernel told of it, and who was told may have the request
    /// still in hand: what is closed holds nothing.
    fn settle(&self, context: &Context<'_>) -> bool {
        self.interrupts.settle(context.hand, RELEASING);
        true
    }

    /// A process has closed a descriptor.
    pub(super) fn closed(&self, node: Node, flush: &FlushIn) {
        if !self.protocol.flags.contains(InitFlags::POSIX_LOCKS) {
            return;
        }
        self.locks.closed(node, flush.lock_owner);
        self.unlock_by_driver(node, flush.fh, flush.lock_owner, LockFamily::Record);
    }

    /// The last descriptor of an open file was closed.
    pub(super) fn ended(&self, node: Node, release: &ReleaseIn) {
        self.locks.released(release.fh);
        if release.release_flags & ReleaseIn::FLOCK_UNLOCK != 0 {
            self.unlock_by_driver(node, release.fh, release.lock_owner, LockFamily::Flock);
        }
    }

    /// Drivers that keep locks themselves are told what goes.
    fn unlock_by_driver(&self, node: Node, fh: u64, owner: u64, kind: LockFamily) {
        let Some(file) = self.file_if_open(node, fh) else {
            return;
        };
        if descriptor(&file).is_some() {
            return;
        }
        let holder = Holder { node, owner, kind };
        let lock = Lock {
            kind: LockKind::Unlock,
            start: 0,
            end: i64::MAX as u64,
            pid: 0,
        };
        // ENOSYS: it keeps none of this kind. Nobody hears of other errors: close(2) does not fail
        // for locks.
        let _ = set_by_driver(&file, &Asked { holder, fh, lock }, Wait::Never);
    }
}

/// The file of the kernel's that has the locks of an open file.
enum Stands<'a> {
    /// It has the bytes too.
    Bytes(BorrowedFd<'a>),
    /// Opened for this.
    Own(OwnedFd),
}

impl Stands<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Bytes(fd) => *fd,
            Self::Own(fd) => fd.borrow(),
        }
    }
}

/// None: the driver keeps locks itself.
fn stands_for(file: &OpenFile) -> Result<Option<Stands<'_>>> {
    Ok(match descriptor(file) {
        Some(fd) => Some(Stands::Bytes(fd)),
        None => file.file.lock_file(true)?.map(Stands::Own),
    })
}

/// What the file's bytes and locks are the kernel's by.
fn descriptor(file: &OpenFile) -> Option<BorrowedFd<'_>> {
    file.file.descriptor().map(BorrowedFd::number)
}

fn set_by_driver(file: &OpenFile, asked: &Asked, wait: Wait<'_>) -> Result<()> {
    let owner = LockOwner(asked.holder.owner);
    match asked.holder.kind {
        LockFamily::Record => file.file.set_lock(owner, &asked.lock, wait),
        LockFamily::Flock => file.file.flock(owner, asked.lock.kind, wait),
    }
}
