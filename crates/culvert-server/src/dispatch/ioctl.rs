//! ioctl(2): what a driver has for its files, and the kernel for directories that are passed
//! through.
//!
//! FUSE sends "restricted" ones only: the argument is all in the size that the request names. Those
//! that hold pointers or descriptors (FICLONE, FS_IOC_FIEMAP) do not come here.

use super::Outcome;
use crate::{
    opened::file_in,
    session::{Context, Session},
};
use culvert::{Caller, Errno, Node, OpenFlags, Opened, OpenedDirectory, Result};
use culvert_wire::{
    Answer, Data,
    structures::{IoctlIn, IoctlOut},
};

impl Session {
    pub(super) fn ioctl<'o>(
        &self,
        context: &mut Context<'_>,
        node: Node,
        ioctl: &IoctlIn,
        data: &[u8],
        out: &'o mut [u8],
    ) -> Outcome<'o> {
        // The structures of 32-bit programs look otherwise.
        if ioctl.flags & IoctlIn::COMPAT != 0 {
            return Err(Errno::ENOTTY.into());
        }
        let (take, give) = (data.len(), ioctl.out_size as usize);
        // What the request names (`_IOC_SIZE`) may be more than the kernel moves: for flags of
        // inodes four bytes of a `long` (`fuse_fileattr_get`, fs/fuse/ioctl.c).
        let named = (ioctl.cmd >> 16 & 0x3fff) as usize;
        let argument = out
            .get_mut(..take.max(give).max(named))
            .ok_or(Errno::EINVAL)?;
        argument.fill(0);
        argument[..take].copy_from_slice(data);
        let result = match ioctl.flags & IoctlIn::DIRECTORY != 0 {
            true => self.ioctl_of_directory(context, node, ioctl.cmd, argument),
            false => {
                let open = self.file_of(node, ioctl.fh)?;
                open.file.ioctl(ioctl.cmd, argument)
            }
        }?;
        // FS_IOC_SETFLAGS changes times; what others do nobody knows.
        self.outdated(context, node);
        Ok(Answer::Ioctl {
            ioctl: IoctlOut {
                result: result as i32,
                ..IoctlOut::default()
            },
            data: Data(&argument[..give]),
        })
    }

    /// On a directory of the kernel's, opened for this call: the caller has it open already,
    /// whatever its mode is by now. The call itself is the caller's.
    fn ioctl_of_directory(
        &self,
        context: &mut Context<'_>,
        node: Node,
        request: u32,
        argument: &mut [u8],
    ) -> Result<usize> {
        if self.acts {
            context.identity.server()?;
        }
        let opened = self
            .filesystem
            .open_directory(&Caller::SYSTEM, node, OpenFlags(0))?;
        self.act_for(context)?;
        match opened {
            OpenedDirectory::Backed(fd) => {
                file_in(Opened::Backed(fd), node).ioctl(request, argument)
            }
            OpenedDirectory::Stateless | OpenedDirectory::Driven(_) => Err(Errno::ENOTTY.into()),
        }
    }
}
