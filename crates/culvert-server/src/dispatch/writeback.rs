//! What a mount owes whose kernel writes pages back when it likes (`FUSE_WRITEBACK_CACHE`, `--with writeback-cache`).
//!
//! - *Size and times of modification are the kernel's*: it believes no answer about them (`fuse_get_cache_mask`, fs/fuse/inode.c), and sends times by SETATTR. So where a
//!   write goes is said by the kernel alone, also with `O_APPEND`, and where there are holes only it could know: LSEEK is not answered.
//! - *A page that is written in part is read first*, by the open file that writes: so what is opened for writing is opened for both. Where the driver refuses that, the open is
//!   not cached (`FOPEN_DIRECT_IO`).
//! - Pages come by any open file that may write, with nobody's rights: by the server's.

use super::files::APPEND;
use crate::{
    identity::SERVER,
    session::{Context, Session},
};
use culvert::{Node, OpenFlags, Opened, Result};
use culvert_wire::{
    InitFlags,
    structures::{InHeader, SetattrIn, WriteIn},
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

    /// Opens `node` with `flags`, or those that the kernel's caching needs; which.
    pub(super) fn open_as(
        &self,
        context: &mut Context<'_>,
        header: &InHeader,
        node: Node,
        flags: OpenFlags,
    ) -> Result<(Opened, OpenFlags)> {
        let cached = self.cached(flags);
        if flags.write() && !flags.read() && self.writes_back() {
            let caller = self.caller(context, header, None)?;
            if let Ok(opened) = self.filesystem.open(&caller, node, cached) {
                return Ok((opened, cached));
            }
            // A file that its user may only write, or nothing at all: that is asked first.
            let own = self
                .filesystem
                .open(&caller, node, flags.without(OpenFlags::TRUNCATE))?;
            drop(super::files::file_in(own, node));
            if self.acts {
                context.identity.server()?;
            }
            if let Ok(opened) = self.filesystem.open(&SERVER, node, cached) {
                return Ok((opened, cached));
            }
            self.act_for(context, header)?;
        }
        let flags = flags.without(OpenFlags(cached.0 & APPEND ^ flags.0 & APPEND));
        let caller = self.caller(context, header, None)?;
        let opened = self.filesystem.open(&caller, node, flags)?;
        Ok((opened, flags))
    }

    /// Whether the kernel says when it wrote last. It does so for whoever closes the file, be it the owner or not: by the server's own right.
    pub(super) const fn tells_times(&self, asked: &SetattrIn) -> bool {
        const TIMES: u32 = SetattrIn::MTIME | SetattrIn::CTIME | SetattrIn::FH;
        self.writes_back() && asked.valid & SetattrIn::CTIME != 0 && asked.valid & !TIMES == 0
    }

    /// Whether a write goes to the end as the driver knows it: the kernel's size may be old, where others write too. (So RWF_NOAPPEND, which the request does
    /// not show, is not honoured.) Pages that the kernel writes back have their place, whatever the open's flags.
    pub(super) const fn appends(&self, write: &WriteIn) -> bool {
        write.flags & APPEND != 0 && write.write_flags & WriteIn::CACHE == 0 && !self.writes_back()
    }
}
