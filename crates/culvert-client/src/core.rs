//! A server's file system, as this process has it: the connection, and what is known of nodes.

use crate::{
    attributes::{BASIC, BTIME, attributes, duration, extended},
    connection::{Connection, Who},
    nodes::{Back, Before, Entered, Nodes},
    pages::{PAGE, Page, Pages},
    words::{ASKED, Changing, FOUND, Shared},
};
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use culvert::{Attributes, Caller, Errno, Result, Timespec, sync::Mutex};
use culvert_wire::{
    Forgets, InitFlags, Operation, Plain, ROOT_ID,
    structures::{BatchForgetIn, EntryOut, ForgetIn, ForgetOne, GetattrIn, StatxIn},
};

/// Numbers of requests that a server may not have (`enum fuse_opcode`).
pub mod opcode {
    #![allow(missing_docs)]
    pub const OPEN: u32 = 14;
    pub const LINK: u32 = 13;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const OPENDIR: u32 = 27;
    pub const FSYNCDIR: u32 = 30;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const POLL: u32 = 40;
    pub const FALLOCATE: u32 = 43;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

/// A server's file system.
pub struct Core {
    pub connection: Connection,
    pub nodes: Nodes,
    /// How often this process has become the child of a fork.
    pub epoch: AtomicU32,
    /// Held from the question where a file ends to the write there.
    pub append: Mutex<()>,
    /// Room for a page, of whoever has taken it.
    pub room: Mutex<Option<Box<Page>>>,
}

/// The first version with BATCH_FORGET (`fuse_dev_do_read`, fs/fuse/dev.c).
const BATCH_SINCE: u32 = 16;

/// The most nodes in one BATCH_FORGET, which has to fit into a page.
const BATCH: usize = 200;

impl Core {
    /// The server behind `connection`.
    pub fn new(connection: Connection) -> Self {
        let times_tell = connection.agreed.has(InitFlags::AUTO_INVAL_DATA);
        Self {
            connection,
            nodes: Nodes::new(times_tell),
            epoch: AtomicU32::new(0),
            append: Mutex::new(()),
            room: Mutex::new(None),
        }
    }

    /// Room for a page, with anything in it.
    pub fn room(&self) -> Box<Page> {
        let room = self.room.lock().take();
        room.unwrap_or_else(|| Box::new([0; PAGE / 8]))
    }

    /// What all clients share.
    pub fn words(&self) -> Shared<'_> {
        self.connection.words()
    }

    /// See [`Connection::who`].
    pub fn who(&self, caller: &Caller<'_>) -> Result<Who> {
        self.connection.who(caller)
    }

    /// `EROFS` where nothing may be changed.
    pub fn writable(&self) -> Result<()> {
        match self.connection.settings.read_only {
            true => Err(Errno::EROFS.into()),
            false => Ok(()),
        }
    }

    /// The pages that all clients cache; none where others' changes are not heard of.
    pub fn pages(&self) -> Pages<'_> {
        let connection = &self.connection;
        Pages::of(&*connection.channel, self.words(), connection.now())
    }

    /// The time, and how many notifications there were.
    pub fn moment(&self) -> (u64, u64) {
        (
            self.connection.now(),
            self.connection.channel.notifications(),
        )
    }

    /// How things stand before `name` in `dir` is asked for; it led to `candidate` last.
    pub fn before(&self, dir: u64, name: &[u8], candidate: Option<u64>) -> Before {
        let words = self.words();
        let (now, told) = self.moment();
        Before {
            now,
            told,
            name: words.name(dir, name).now(),
            all: words.of_all(),
            candidate: self.nodes.candidate(words, candidate),
        }
    }

    /// Gives lookups back to the server, if it is there.
    pub fn give_back(&self, back: Back) {
        let owner = self.connection.owner();
        if self.connection.agreed.protocol.minor < BATCH_SINCE || back.len() == 1 {
            for one in &back {
                let forget = ForgetIn {
                    nlookup: one.nlookup,
                };
                let operation = Operation::Forget { forget };
                let _ = self.connection.send(owner, one.nodeid, &operation);
            }
            return;
        }
        for some in back.chunks(BATCH) {
            let bytes: Vec<u8> = some
                .iter()
                .flat_map(|one| one.bytes().iter().copied())
                .collect();
            if let Some(forgets) = Forgets::new(&bytes) {
                let batch = BatchForgetIn::default();
                let operation = Operation::BatchForget { batch, forgets };
                let _ = self.connection.send(owner, 0, &operation);
            }
        }
    }

    /// Takes up an entry that the server has answered with: it has counted a lookup. `EIO` where it
    /// cannot be (`fuse_lookup_name`, `create_new_entry`, fs/fuse/dir.c).
    pub fn take_up(
        &self,
        before: &Before,
        at: (u64, &[u8]),
        entry: &EntryOut,
        reference: bool,
    ) -> Result<Attributes> {
        let node = entry.nodeid;
        let found = match node {
            0 | ROOT_ID => return Err(Errno::EIO.into()),
            node => attributes(node, &entry.attr),
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                self.give_back(alloc::vec![ForgetOne {
                    nodeid: node,
                    nlookup: 1,
                }]);
                return Err(error);
            }
        };
        let until =
            |seconds, nanoseconds| before.now.saturating_add(duration(seconds, nanoseconds));
        let entered = Entered {
            at,
            node,
            generation: entry.generation,
            attributes: found,
            attributes_expire: until(entry.attr_valid, entry.attr_valid_nsec),
            name_expires: until(entry.entry_valid, entry.entry_valid_nsec),
        };
        self.connection.settle_place();
        let (back, entered) = self.nodes.enter(self.words(), before, &entered, reference);
        self.give_back(back);
        entered.map(|()| found)
    }

    /// The attributes of `node` from the server; by the open file `fh` where there is one.
    pub fn ask_attributes(&self, who: Who, node: u64, fh: Option<u64>) -> Result<Attributes> {
        let (words, moment) = (self.words(), self.moment());
        words.count(ASKED, 1);
        let stamp = words.of_node(node);
        let (flags, handle) = match fh {
            Some(fh) => (GetattrIn::FH, fh),
            None => (0, 0),
        };
        let getattr = GetattrIn {
            getattr_flags: flags,
            dummy: 0,
            fh: handle,
        };
        let operation = Operation::Getattr { getattr };
        let out = self.connection.attributes(who, node, &operation)?;
        let valid = duration(out.attr_valid, out.attr_valid_nsec);
        let found = attributes(node, &out.attr)?;
        let expires = moment.0.saturating_add(valid);
        self.nodes
            .learn(words, node, &found, expires, (stamp, moment.1))?;
        Ok(found)
    }

    /// When `node` was made; none: the server does not say so. Asked for once by this process,
    /// together with the attributes.
    pub fn birth_time(&self, who: Who, node: u64) -> Result<Option<Timespec>> {
        /// The first version with STATX.
        const SINCE: u32 = 39;
        let connection = &self.connection;
        let known = self.nodes.birth_time(node);
        let has_it = connection.agreed.protocol.minor >= SINCE;
        if known.is_some() || !has_it || connection.lacks(opcode::STATX) {
            return Ok(known.flatten());
        }
        let (words, moment) = (self.words(), self.moment());
        words.count(ASKED, 1);
        let stamp = words.of_node(node);
        let statx = StatxIn {
            sx_mask: BASIC | BTIME,
            ..StatxIn::default()
        };
        let answer = connection.statx(who, node, &Operation::Statx { statx });
        let Some(out) = connection.unless_lacking(opcode::STATX, answer)? else {
            return Ok(None);
        };
        let (found, born) = extended(node, &out.stat)?;
        if let Some(found) = found {
            let valid = duration(out.attr_valid, out.attr_valid_nsec);
            let expires = moment.0.saturating_add(valid);
            self.nodes
                .learn(words, node, &found, expires, (stamp, moment.1))?;
        }
        self.nodes.made_at(node, born);
        Ok(born)
    }

    /// The attributes of `node`.
    pub fn attributes(&self, who: Who, node: u64) -> Result<Attributes> {
        if let Some(found) = self.known_attributes(node) {
            return Ok(found);
        }
        self.nodes.kind(node)?;
        self.ask_attributes(who, node, None)
    }

    /// Attributes of `node` that say who may do what, where that may be believed: its size and
    /// times may be older ones.
    pub fn rights(&self, node: u64) -> Option<Attributes> {
        let known = self.nodes.rights(self.words(), self.moment(), node);
        known.or_else(|| self.known_attributes(node))
    }

    /// The attributes of `node`, where they may be believed.
    pub fn known_attributes(&self, node: u64) -> Option<Attributes> {
        let (words, moment) = (self.words(), self.moment());
        let believed = self.nodes.believed(words, moment, node);
        believed.or_else(|| {
            let found = self.nodes.take_attributes(words, moment, node, false)?;
            words.count(FOUND, 1);
            Some(found)
        })
    }

    /// This process is about to change something ([`Shared::changing`]).
    pub fn changing(&self) -> Changing<'_> {
        self.connection.settle_place();
        self.words().changing()
    }

    /// The bytes of `node` have changed, and so its attributes.
    pub fn content_changed(&self, node: u64) {
        let words = self.words();
        words.content(node).changed();
        words.node_modified(node);
    }

    /// Ends a use of `node`.
    pub fn release(&self, node: u64) {
        self.give_back(self.nodes.release(self.words(), node));
    }

    /// How often this process has become the child of a fork.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Relaxed)
    }
}
