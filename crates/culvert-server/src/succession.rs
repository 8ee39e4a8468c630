//! What a server takes over from the one before it.

use crate::{
    dispatch::{OpenDirectory, OpenFile, file_in},
    estate::{Kind, Open},
    identity::SERVER,
    report::report,
    session::Session,
};
use culvert::{File, Node, OpenFlags, Opened, OpenedDirectory, Result};
use std::os::fd::{FromRawFd, OwnedFd};

impl Session {
    /// Opens what the kernel has open. What cannot be opened is reported, and EBADF from here on.
    pub(crate) fn take_over(&self) {
        let Some(estate) = self.settings.estate else {
            return;
        };
        // The driver of before would have woken who waits: they ask this one, also of files that are lost below.
        if let Some(notices) = &self.notices {
            estate
                .files()
                .waiting()
                .for_each(|number| notices.ready(number));
        }
        for (number, open) in estate.files().each() {
            match self.reopened(&open) {
                Ok(file) => {
                    let node = Node(open.node);
                    let flags = OpenFlags(open.flags);
                    let stores = flags.read() && flags.write();
                    let counted = (open.backing >= 0).then_some(stores);
                    if counted.is_some() {
                        let backing = (open.backing > 0).then_some(open.backing);
                        self.backings.restore(node, backing, stores);
                    }
                    let file = OpenFile {
                        file,
                        node,
                        counted,
                    };
                    self.files.insert_as(number, file);
                }
                Err(error) => {
                    report(format_args!("an open file is lost: {error}"));
                    estate.files().clear(number);
                }
            }
        }
        for (number, open) in estate.directories().each() {
            let flags = OpenFlags(open.flags);
            let opened = self
                .filesystem
                .open_directory(&SERVER, Node(open.node), flags);
            let driven = match opened {
                Ok(OpenedDirectory::Driven(directory)) => Some(directory),
                Ok(OpenedDirectory::Backed(fd)) => {
                    // SAFETY: the driver gives the descriptor away.
                    drop(unsafe { OwnedFd::from_raw_fd(fd) });
                    None
                }
                // It is asked by node, and says itself what is wrong.
                Ok(OpenedDirectory::Stateless) | Err(_) => None,
            };
            self.directories.insert_as(number, OpenDirectory { driven });
        }
    }

    fn reopened(&self, open: &Open) -> Result<Box<dyn File>> {
        let node = Node(open.node);
        if open.kind == Kind::Backed {
            return Ok(file_in(Opened::Backed(open.fd), node));
        }
        // What it was opened for besides is done.
        let flags = OpenFlags(open.flags)
            .without(OpenFlags::TRUNCATE)
            .without(OpenFlags::EXCLUSIVE);
        let opened = self.filesystem.restore(&SERVER, node, flags, b"")?;
        Ok(file_in(opened, node))
    }
}
