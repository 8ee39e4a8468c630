//! Files whose content lies in a file of their own, beside the image: what is mapped (mmap(2)) must
//! be a file of the kernel's.
//!
//! A regular file moves there, once and for good, when it is mapped for the first time
//! ([`moving`]). From then on the driver reads and writes that file under the lock of the content,
//! as it does blocks of the image; the inode keeps the size, which nobody else changes, and all
//! that is not content. Its name is the inode's number and generation, so that no other file ever
//! has it.

mod content;
mod moving;

use super::{
    core::{Core, Inode},
    image::damaged,
    kernel_files::{self as host, Directory, open_at},
    layout::{flag, header, inode},
    transaction::Transaction,
};
use crate::OwnedFd;
use alloc::{format, string::String, vec::Vec};
use culvert::{Attributes, Errno, Result};
use culvert_sys::flags::OFlags;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

impl Directory {
    /// An empty file for `of`, in place of what a killed process may have left.
    fn create(&self, of: &Inode<'_>) -> Result<OwnedFd> {
        let name = name_of(of);
        host::remove_at(self.fd(), name.as_bytes())?;
        let flags = OFlags::RDWR | OFlags::CREAT | OFlags::EXCL;
        let made = open_at(self.fd(), name.as_bytes(), flags)?;
        fs::fchmod(&made, self.mode())?;
        Ok(made)
    }
}

/// The name of the file of `of`.
pub(super) fn name_of(of: &Inode<'_>) -> String {
    let generation = of.get(inode::STATE) >> 32;
    format!("{:x}.{generation:x}", of.number)
}

/// Which inode, in which generation, has its content in the file `name`.
fn parse(name: &[u8]) -> Option<(u32, u32)> {
    let (number, generation) = core::str::from_utf8(name).ok()?.split_once('.')?;
    let number = u32::from_str_radix(number, 16).ok()?;
    Some((number, u32::from_str_radix(generation, 16).ok()?))
}

impl Inode<'_> {
    /// Whether the content lies in a file of its own. Stays so until the inode is given back.
    #[inline]
    pub fn is_external(&self) -> bool {
        self.has(flag::EXTERNAL)
    }
}

impl Core {
    pub(super) fn directory_of_files(&self) -> Result<&Directory> {
        let missing = || damaged("the directory of the mapped files is missing");
        self.files.as_ref().ok_or_else(missing)
    }

    /// Opens the file of `of`, with the access mode `flags`; `EIO` where it is missing.
    pub fn open_external(&self, of: &Inode<'_>, flags: u32) -> Result<OwnedFd> {
        let directory = self.directory_of_files()?.fd();
        let flags = OFlags::from_bits(flags);
        open_at(directory, name_of(of).as_bytes(), flags).map_err(|errno| match errno {
            Errno::ENOENT => damaged("a mapped file's own file is missing"),
            errno => errno.into(),
        })
    }

    /// Completes what stat says of `of`: the kernel knows of stores through mappings.
    #[cold]
    pub fn see_external(&self, of: &Inode<'_>, attributes: &mut Attributes) {
        attributes.blocks = of.get(inode::INTENT).saturating_mul(8);
        let Some(directory) = &self.files else { return };
        // Without it the inode says what is known; who reads gets EIO.
        let Ok(found) = host::status_at(directory.fd(), name_of(of).as_bytes()) else {
            return;
        };
        attributes.blocks = found.blocks.saturating_mul(8);
        let stored = (found.mtime.seconds, found.mtime.nanoseconds);
        let known = |time: culvert::Timespec| (time.seconds, time.nanoseconds);
        // The kernel's clock for files goes in ticks: what the driver wrote itself is later. A time
        // in the future was set, here and there.
        let later = stored > known(attributes.mtime);
        let future =
            stored != known(attributes.mtime) && attributes.mtime.seconds > self.clock.coarse();
        if later || future {
            attributes.mtime = found.mtime;
            if known(attributes.ctime) < stored {
                attributes.ctime = found.mtime;
            }
        }
    }

    /// The time of modification was set.
    pub fn set_external_mtime(&self, of: &Inode<'_>, time: culvert::Timespec) -> Result<()> {
        let directory = self.directory_of_files()?.fd();
        Ok(host::set_mtime_at(directory, name_of(of).as_bytes(), time)?)
    }

    /// Whether a process has the file of `of` mapped (or open, which those are listed for).
    pub fn is_mapped(&self, of: &Inode<'_>) -> bool {
        // Another process may be looking, too: then somebody has it.
        match self.open_external(of, linux::O_RDONLY | linux::O_NONBLOCK) {
            Ok(file) => host::is_held(file),
            Err(error) => error.errno() != Errno::EIO,
        }
    }

    /// Removes what the content of `of` was being moved to by a process that died. The caller alone
    /// has the content.
    pub fn forget_move(&self, of: &Inode<'_>) {
        if let Some(directory) = &self.files {
            // What stays is found by the next move or recovery.
            let _ = host::remove_at(directory.fd(), name_of(of).as_bytes());
        }
    }

    /// Removes files whose inodes are gone, or were not moved after all: those who did that were
    /// killed.
    pub fn remove_dangling(&self) -> Result<()> {
        let Some(directory) = &self.files else {
            return Ok(());
        };
        for name in host::list(directory.fd())? {
            let Some((number, generation)) = parse(&name) else {
                continue;
            };
            let found = {
                // What a transaction says that is not final may be undone: the inode would be back,
                // without its bytes.
                let _lock = self.lock()?;
                let found = self.inode(number).ok();
                let found = found.filter(|of| (of.get(inode::STATE) >> 32) as u32 == generation);
                found.filter(|of| !of.has(flag::FREE))
            };
            let Some(of) = found else {
                host::remove_at(directory.fd(), &name)?;
                continue;
            };
            // Who moves it has the content locked.
            if !of.is_external()
                && let Some(_held) = self.try_lock_exclusive(&of)?
                && !of.is_external()
                && (of.get(inode::STATE) >> 32) as u32 == generation
            {
                host::remove_at(directory.fd(), &name)?;
            }
        }
        Ok(())
    }

    /// Blocks that files of their own may still take.
    pub fn room_outside(&self) -> Result<u64> {
        let used = self.used_blocks()?;
        Ok(self.header(header::LIMIT)?.saturating_sub(used))
    }
}

impl Transaction<'_> {
    /// Says how many blocks the file of `of` takes.
    fn charge(&mut self, of: &Inode<'_>, blocks: u64) -> Result<()> {
        let before = match of.is_external() {
            true => of.get(inode::INTENT),
            false => 0,
        };
        self.set_word(of, inode::INTENT, blocks)?;
        let total = self.header(header::EXTERNAL)?;
        self.set_header(
            header::EXTERNAL,
            total.saturating_sub(before).saturating_add(blocks),
        )
    }

    /// The inode is being given back, and so is its file, once that is final.
    pub fn release_external(&mut self, gone: &Inode<'_>) -> Result<()> {
        self.charge(gone, 0)?;
        self.set_state(gone, 0, flag::EXTERNAL)?;
        self.removed.push(name_of(gone));
        Ok(())
    }
}

impl Core {
    /// Removes the files of inodes that were given back.
    #[cold]
    pub fn remove_external(&self, names: Vec<String>) {
        for name in names {
            if let Some(directory) = &self.files {
                // What stays is found by the next recovery.
                let _ = host::remove_at(directory.fd(), name.as_bytes());
            }
        }
    }
}
