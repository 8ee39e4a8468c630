//! What a mount owes whose kernel writes pages back when it likes (`FUSE_WRITEBACK_CACHE`, `--with
//! writeback-cache`).
//!
//! - *Size and times of modification are the kernel's*: it believes no answer about them
//!   (`fuse_get_cache_mask`, fs/fuse/inode.c), and sends times by SETATTR. So where a write goes is
//!   said by the kernel alone, also with `O_APPEND`, and where there are holes only it could know:
//!   LSEEK is not answered.
//! - *A page that is written in part is read first*, by the open file that writes: so what is
//!   opened for writing is opened for both. Where the driver refuses that, or the file may only be
//!   appended to, the open is not cached (`FOPEN_DIRECT_IO`).
//! - Pages come by any open file that may write, with nobody's rights: by the server's.

use super::files::APPEND;
use crate::{
    opened::file_in,
    session::{Context, Session},
};
use culvert::{Attributes, Caller, Errno, Node, OpenFlags, Opened, Result, SetAttributes};
use culvert_wire::{
    InitFlags,
    structures::{SetattrIn, WriteIn},
};

impl Session {
    /// Whether the kernel keeps what is written for a while.
    pub(super) const fn writes_back(&self) -> bool {
        self.protocol.flags.contains(InitFlags::WRITEBACK_CACHE)
    }

    /// `flags` for an open whose pages the kernel writes back.
    pub(super) const fn cached(&self, flags: OpenFlags) -> OpenFlags {
        match self.writes_back() {
            true if flags.write() && !flags.read() => {
                OpenFlags(flags.0 & !0o3 & !APPEND | OpenFlags::READ_WRITE.0)
            }
            true => flags.without(OpenFlags::APPEND),
            false => flags,
        }
    }

    /// Whether what is opened with `flags`, of [`Session::open_as`], is written without the cache.
    pub(super) const fn writes_through(&self, flags: OpenFlags) -> bool {
        self.writes_back() && flags.write() && (!flags.read() || flags.append())
    }

    /// Opens `node` with `flags`, or those that the kernel's caching needs; which. `killed`: with a
    /// truncation that takes set-user-ID off.
    pub(super) fn open_as(
        &self,
        context: &mut Context<'_>,
        node: Node,
        flags: OpenFlags,
        killed: bool,
    ) -> Result<(Opened, OpenFlags)> {
        if self.writes_back() && flags.write() {
            let cached = self.cached(flags);
            let caller = self.caller(context, None)?;
            if let Ok(opened) = self.filesystem.open(&caller, node, cached) {
                return Ok((opened, cached));
            }
            if !flags.read() {
                // A file that its user may only write, or nothing at all: that is asked first.
                let own =
                    self.filesystem
                        .open(&caller, node, flags.without(OpenFlags::TRUNCATE))?;
                drop(file_in(own, node));
                if self.acts {
                    context.identity.server()?;
                }
                if killed && self.acts {
                    context.identity.lose_set_id()?;
                }
                if let Ok(opened) = self.filesystem.open(&Caller::SYSTEM, node, cached) {
                    return Ok((opened, cached));
                }
                self.act_for(context)?;
            }
            // Or one that may only be appended to (ioctl_iflags(2), FS_APPEND_FL), or what may not
            // be opened so.
        }
        let caller = self.caller(context, None)?;
        let opened = self.filesystem.open(&caller, node, flags)?;
        Ok((opened, flags))
    }

    /// Makes the changes that SETATTR asks for, where the driver acts by the kernel's calls, which
    /// judge. Modification times come with a truncation and with `utimes(path, NULL)` as well, and
    /// are no present moment then: who may write a file may do both, and may not say what times it
    /// has. So these are changed as the caller would, and the kernel's times are told by the
    /// server's own right; it has seen to it that nobody says others (`setattr_prepare`,
    /// fs/attr.c).
    pub(super) fn change_written_back(
        &self,
        context: &mut Context<'_>,
        node: Node,
        asked: &SetattrIn,
        changes: SetAttributes,
    ) -> Result<Attributes> {
        if self.tells_times(asked) {
            context.identity.server()?;
            return match self.change(context, node, asked, &changes) {
                // Nobody sets the times of what may only be appended to: it has those of its
                // writes.
                Err(error) if error.errno() == Errno::EPERM => {
                    self.attributes(&self.caller(context, None)?, node, None)
                }
                answer => answer,
            };
        }
        let touches = asked.valid & SetattrIn::ATIME_NOW != 0 && changes.mtime.is_some();
        if changes.size.is_none() && !touches {
            return self.change(context, node, asked, &changes);
        }
        let told = SetAttributes {
            mtime: changes.mtime,
            ctime: changes.ctime,
            ..SetAttributes::default()
        };
        let own = SetAttributes {
            mtime: changes.atime.filter(|_| touches),
            touch: touches,
            ..changes
        };
        let found = self.change(context, node, asked, &own)?;
        if told.mtime.is_none() {
            return Ok(found);
        }
        context.identity.server()?;
        // The change itself is made, with a time of its own.
        Ok(self.change(context, node, asked, &told).unwrap_or(found))
    }

    /// Whether the kernel says when it wrote last. It does so for whoever closes the file, be it
    /// the owner or not: by the server's own right.
    const fn tells_times(&self, asked: &SetattrIn) -> bool {
        const TIMES: u32 = SetattrIn::MTIME | SetattrIn::CTIME | SetattrIn::FH;
        asked.valid & SetattrIn::CTIME != 0 && asked.valid & !TIMES == 0
    }

    /// Whether a write goes to the end as the driver knows it: the kernel's size may be old, where
    /// others write too. (So RWF_NOAPPEND, which the request does not show, is not honoured.) Pages
    /// that the kernel writes back have their place, whatever the open's flags.
    pub(super) const fn appends(&self, write: &WriteIn) -> bool {
        write.flags & APPEND != 0 && write.write_flags & WriteIn::CACHE == 0 && !self.writes_back()
    }
}
