//! How long the kernel believes what it is told of a node or name (`entry_valid`, `attr_valid`).
//!
//! The kernel knows what is done through the mount itself: names, sizes, times and link counts that
//! it changes, it asks for again. So a time here is how long a change by *others* may stay unseen.
//! What the kernel does not see though it goes through the mount is never believed, see
//! [`Session::believed`].

use crate::{
    attributes,
    session::{Context, Session},
    settings::Settings,
};
use culvert::{Attributes, Entry, FileKind, FileSystem, Node, Observed, Validity};
use culvert_wire::{
    Notification,
    structures::{AttrOut, EntryOut, NotifyInvalInodeOut},
};
use std::{sync::atomic::Ordering::Relaxed, time::Duration};

/// How long the answers of `filesystem` are believed.
pub fn chosen(filesystem: &dyn FileSystem, settings: &Settings) -> Validity {
    let (can, own) = (filesystem.capabilities(), filesystem.validity());
    if own == Validity::NONE {
        return own;
    }
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let valid = settings.valid.map(nanoseconds);
    let mut chosen = Validity {
        entry: valid.unwrap_or(own.entry),
        attributes: valid.unwrap_or(own.attributes),
        absent: settings.absent.map_or(own.absent, nanoseconds),
    };
    // The kernel knows a name in one case only, and would not see that another was made or removed.
    if can.case_insensitive && !can.immutable {
        (chosen.entry, chosen.absent) = (0, 0);
    }
    chosen
}

impl Session {
    /// How long the attributes `found` of `node` are believed. Not at all
    ///
    /// - of a file that the kernel may store into by a mapping of its backing file, of which FUSE's
    ///   own attributes know nothing,
    /// - of a file with set-user-ID or set-group-ID: the next write takes them off, in the backing
    ///   file system or in the driver (`FUSE_HANDLE_KILLPRIV_V2`), and execve(2) would act by the
    ///   mode that the kernel remembers.
    fn believed(&self, node: Node, found: &Attributes) -> u64 {
        const SET_ID: u32 = 0o6000;
        let valid = self.validity_of(node).attributes;
        if valid == 0 || found.kind != FileKind::Regular {
            return valid;
        }
        match found.permissions & SET_ID != 0 || self.backings.may_be_stored_into(node) {
            true => 0,
            false => valid,
        }
    }

    /// How long answers about `node`, and about names in it, are believed: a second at most where
    /// the driver tells of changes, but would not of this.
    pub(crate) fn validity_of(&self, node: Node) -> Validity {
        let told = match self.observed {
            Observed::Never => return self.validity,
            _ => self.tells.load(Relaxed) && !self.filesystem.is_unobserved(node),
        };
        let (valid, second) = (self.validity, Validity::SECOND);
        match told {
            true => valid,
            false => Validity {
                entry: valid.entry.min(second.entry),
                attributes: valid.attributes.min(second.attributes),
                absent: valid.absent.min(second.absent),
            },
        }
    }

    /// What LOOKUP answers for `entry`.
    pub(crate) fn entry_out(&self, entry: &Entry) -> EntryOut {
        let valid = Validity {
            attributes: self.believed(entry.attributes.node, &entry.attributes),
            ..self.validity_of(entry.attributes.node)
        };
        attributes::entry(entry, self.numbers, valid)
    }

    /// What GETATTR answers for `found`.
    pub(crate) fn attr_out(&self, found: &Attributes) -> AttrOut {
        let (attr_valid, attr_valid_nsec) = attributes::validity(self.believed(found.node, found));
        AttrOut {
            attr_valid,
            attr_valid_nsec,
            dummy: 0,
            attr: attributes::attr(found),
        }
    }

    /// The kernel forgets the attributes of `node`, not its pages. May be called while a request on
    /// the node is answered: it only marks them (`fuse_reverse_inval_inode`, fs/fuse/inode.c, with
    /// an offset below 0), where dropping pages or names would wait for locks that the request's
    /// caller holds.
    pub(crate) fn outdated(&self, context: &Context<'_>, node: Node) {
        if self.validity.attributes == 0 {
            return;
        }
        let notice = Notification::InvalInode {
            inode: NotifyInvalInodeOut {
                ino: self.numbers.number(node),
                off: -1,
                len: 0,
            },
        };
        if let Ok(message) = notice.encode(&self.protocol) {
            // ENOENT: the kernel does not have the node in hand; then it believes nothing of it.
            let _ = context.channel.send(&message);
        }
    }
}
