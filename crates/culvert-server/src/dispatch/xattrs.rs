//! Extended attributes.

use super::{DONE, Outcome, put};
use crate::{
    capabilities::XATTRS,
    session::{Context, Session},
};
use culvert::{Errno, Node, Result};
use culvert_wire::{
    Answer,
    structures::{GetxattrOut, SetxattrIn},
};

impl Session {
    /// `ENOSYS` where there are none at all: the kernel then does not ask again.
    fn check_xattrs(&self) -> Result<()> {
        match self.filesystem.capabilities().xattrs && !self.settings.without(XATTRS) {
            true => Ok(()),
            false => Err(Errno::ENOSYS.into()),
        }
    }

    pub(super) fn setxattr(
        &self,
        context: &mut Context<'_>,
        node: Node,
        asked: &SetxattrIn,
        name: &[u8],
        value: &[u8],
    ) -> Outcome<'static> {
        self.check_xattrs()?;
        self.check_writable()?;
        let caller = self.caller(context, None)?;
        self.filesystem
            .set_xattr(&caller, node, name, value, asked.flags)?;
        DONE
    }

    pub(super) fn removexattr(
        &self,
        context: &mut Context<'_>,
        node: Node,
        name: &[u8],
    ) -> Outcome<'static> {
        self.check_xattrs()?;
        self.check_writable()?;
        let caller = self.caller(context, None)?;
        self.filesystem.remove_xattr(&caller, node, name)?;
        DONE
    }

    pub(super) fn getxattr<'o>(
        &self,
        context: &mut Context<'_>,
        node: Node,
        (name, size): (&[u8], u32),
        out: &'o mut [u8],
    ) -> Outcome<'o> {
        self.check_xattrs()?;
        let caller = self.caller(context, None)?;
        sized(&self.filesystem.get_xattr(&caller, node, name)?, size, out)
    }

    pub(super) fn listxattr<'o>(
        &self,
        context: &mut Context<'_>,
        node: Node,
        size: u32,
        out: &'o mut [u8],
    ) -> Outcome<'o> {
        self.check_xattrs()?;
        let caller = self.caller(context, None)?;
        let mut names = self.filesystem.list_xattr(&caller, node)?;
        // The server may see them (CAP_SYS_ADMIN stays with it), the caller may not
        // (`simple_xattr_list`, fs/xattr.c).
        if context.header.uid != 0 {
            let shown = |name: &&[u8]| !name.starts_with(b"trusted.");
            names = names
                .split_inclusive(|&byte| byte == 0)
                .filter(shown)
                .flatten()
                .copied()
                .collect();
        }
        sized(&names, size, out)
    }
}

/// The bytes, or how many there are (getxattr(2)).
fn sized<'o>(bytes: &[u8], size: u32, out: &'o mut [u8]) -> Outcome<'o> {
    match size as usize {
        0 => Ok(Answer::XattrSize {
            size: GetxattrOut {
                size: u32::try_from(bytes.len()).map_err(|_| Errno::E2BIG)?,
                padding: 0,
            },
        }),
        size if size < bytes.len() => Err(Errno::ERANGE.into()),
        _ => put(bytes, out),
    }
}
