//! What a program that was killed has left at the server: handles, which nobody else would release.
//!
//! Lookups are not given back: how often the program has looked nodes up is not known outside of
//! it.

use crate::{Settings, connection::Connection};
use alloc::boxed::Box;
use culvert::Result;
use culvert_slots::{Channel, Heir, OpenFile, Payload};
use culvert_wire::{
    Answer, Expects, Operation,
    structures::{FlushIn, ReleaseIn},
};

/// Whoever releases it.
pub struct Estate {
    connection: Connection,
}

impl Estate {
    /// The heir of all programs that use the server at the other end of `channel`.
    ///
    /// # Errors
    /// `EPROTO`: there is no version of the protocol that both speak.
    pub fn new(channel: Box<dyn Channel>, owner: (u32, u32)) -> Result<Self> {
        let settings = Settings {
            owner,
            ..Settings::default()
        };
        Ok(Self {
            connection: Connection::new(channel, settings)?,
        })
    }
}

impl Heir for Estate {
    fn opened(&self, opcode: u32, node: u64, answer: &Payload<'_>) -> Option<OpenFile> {
        const OPEN: u32 = 14;
        const OPENDIR: u32 = 27;
        const CREATE: u32 = 35;
        const TMPFILE: u32 = 51;
        let expects = match opcode {
            OPEN | OPENDIR => Expects::Opened,
            CREATE | TMPFILE => Expects::Created,
            _ => return None,
        };
        let mut bytes = [0; 160];
        let length = answer.read(0, &mut bytes);
        let protocol = &self.connection.agreed.protocol;
        let (node, handle) = match Answer::decode(&bytes[..length], expects, protocol) {
            Ok(Answer::Opened { open }) => (node, open.fh),
            Ok(Answer::Created { entry, open }) => (entry.nodeid, open.fh),
            _ => return None,
        };
        Some(OpenFile {
            node,
            handle,
            flags: 0,
            is_directory: opcode == OPENDIR,
        })
    }

    /// As the end of a process closes a file (`fuse_flush`, `fuse_file_release`, fs/fuse/file.c).
    fn release(&self, file: &OpenFile) {
        let (connection, who) = (&self.connection, self.connection.owner());
        let release = ReleaseIn {
            fh: file.handle,
            flags: file.flags,
            ..ReleaseIn::default()
        };
        if file.is_directory {
            connection.close_and_wait(who, file.node, &Operation::Releasedir { release });
            return;
        }
        if !connection.lacks(crate::core::opcode::FLUSH) {
            let flush = FlushIn {
                fh: file.handle,
                ..FlushIn::default()
            };
            let _ = connection.done(who, file.node, &Operation::Flush { flush });
        }
        connection.close_and_wait(who, file.node, &Operation::Release { release });
    }
}

impl Connection {
    /// The server has answered `operation`, about `node`: what it has opened is noted, before
    /// anybody can end this process.
    pub(crate) fn note_opened(&self, operation: &Operation<'_>, node: u64, bytes: &[u8]) {
        let (flags, is_directory, expects) = match operation {
            Operation::Open { open } => (open.flags, false, Expects::Opened),
            Operation::Opendir { open } => (open.flags, true, Expects::Opened),
            Operation::Create { create, .. } | Operation::Tmpfile { create, .. } => {
                (create.flags, false, Expects::Created)
            }
            _ => return,
        };
        let (node, open) = match Answer::decode(bytes, expects, &self.agreed.protocol) {
            Ok(Answer::Opened { open }) => (node, open),
            Ok(Answer::Created { entry, open }) => (entry.nodeid, open),
            _ => return,
        };
        self.channel.opened(&OpenFile {
            node,
            handle: open.fh,
            flags,
            is_directory,
        });
    }
}
