//! What an operation on a node is done to, and how that was found.

use super::path::existing;
use crate::description::{Held, described, report};
use crate::watch::{self, Event};
use culvert::{Attributes, Errno, FileSystem, Node, Timespec};
use culvert_mounts::{MountId, resolver::Inside};
use culvert_run::ShadowName;

/// What an operation is done to.
#[derive(Clone, Copy)]
pub enum On<'a> {
    /// What a path led to.
    Found(&'a Inside<'a>),
    /// What a descriptor is open on.
    Held(&'a Held),
    /// The working directory.
    Node(MountId, Node),
}

impl On<'_> {
    /// Which node that is: ENOENT where the path leads to nothing.
    pub fn name(self) -> Result<ShadowName, Errno> {
        let node = match self {
            Self::Found(found) => existing(found)?.node,
            Self::Held(held) => held.node,
            Self::Node(_, node) => node,
        };
        Ok(ShadowName {
            mount: self.mount(),
            node,
        })
    }

    /// Its attributes.
    pub fn attributes(self) -> Result<Attributes, Errno> {
        match self {
            Self::Found(found) => {
                let (known, file_system) = (existing(found)?, self.file_system()?);
                match file_system.capabilities().access_time_lags {
                    true => file_system
                        .attributes(&culvert_run::task::caller(), known.node)
                        .map_err(|error| error.errno()),
                    false => Ok(*known),
                }
            }
            Self::Held(held) => described(held),
            Self::Node(mount, node) => culvert_cache::file_system(mount)?
                .attributes(&culvert_run::task::caller(), node)
                .map_err(|error| error.errno()),
        }
    }

    /// What is known of it without a question, to judge who may change it
    /// ([`FileSystem::known_rights`]); none: its attributes are asked for.
    pub fn known_rights(self) -> Option<Attributes> {
        if matches!(self, Self::Held(held) if held.orphan().is_some()) {
            return None;
        }
        let node = self.name().ok()?.node;
        let caller = culvert_run::task::caller();
        self.file_system().ok()?.known_rights(&caller, node)
    }

    /// When it was made, where its attributes do not say so; none: nobody knows.
    pub fn birth_time(self) -> Option<Timespec> {
        let name = self.name().ok()?;
        let caller = culvert_run::task::caller();
        let asked = self.file_system().ok()?.birth_time(&caller, name.node);
        asked.ok().flatten()
    }

    /// The mount that it is in.
    pub fn mount(self) -> MountId {
        match self {
            Self::Found(found) => found.mount,
            Self::Held(held) => held.mount,
            Self::Node(mount, _) => mount,
        }
    }

    /// The file system that serves it.
    pub fn file_system(self) -> Result<&'static dyn FileSystem, Errno> {
        culvert_cache::file_system(self.mount())
    }

    /// The same for a change, which the mount must allow before anything else is looked at
    /// (`mnt_want_write`, fs/namespace.c): EROFS.
    pub fn to_be_changed(self) -> Result<&'static dyn FileSystem, Errno> {
        let file_system = self.file_system()?;
        match file_system.capabilities().read_only {
            true => Err(Errno::EROFS),
            false => Ok(file_system),
        }
    }

    /// What the program is told of an error; that of an open file goes to the log.
    pub fn report(self, what: &str, error: &culvert::Error) -> Errno {
        match self {
            Self::Held(held) => report(held, what, error),
            _ => error.errno(),
        }
    }

    /// Tells who watches it of `event`.
    pub fn tell(self, event: Event) {
        match self {
            Self::Held(held) => held.tell(event),
            Self::Node(mount, node) => watch::tell(mount, node, None, event),
            Self::Found(found) => {
                if let Ok(attributes) = existing(found) {
                    watch::tell(found.mount, attributes.node, found.at(), event);
                }
            }
        }
    }
}
