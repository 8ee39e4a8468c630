//! Which ready parts a mount has.

use crate::{object::Object, tables::USERS};
use culvert_sys::PAGE;
use std::{fmt, path::PathBuf};

/// The program of all of them. Built by extensions/build.
pub(crate) const OBJECT: &[u8] = include_bytes!("../../../extensions/ready/ready.o");

/// What is answered inside the kernel, and what is logged there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Names, those that do not exist, and attributes.
    pub metadata: bool,
    /// Extended attributes: values, absence, lists.
    pub xattr: bool,
    /// The file that each request is told to.
    pub log: Option<PathBuf>,
    /// The users whose requests are, at most [`Parts::USERS`]; none: all.
    pub users: Vec<u32>,
    /// An object of an author's (`culvert/extend.h`) instead of all these.
    pub object: Option<PathBuf>,
    /// Records of a table, a power of two; 0: 64 Ki, as the paper has it.
    pub entries: usize,
    /// Entries of the object's maps, by name; of a ring bytes.
    pub sizes: Vec<(String, u32)>,
}

/// Bytes of the ring that records of the log wait in: some 3,000.
const RING: usize = 1 << 20;
/// The bits of extensions/ready/tables.h.
const METADATA: u64 = 1;
const XATTR: u64 = 2;
const LOG: u64 = 4;

impl Parts {
    /// So many users can be named.
    pub const USERS: usize = USERS;
    /// A table has so many records at least, and at most.
    pub const ENTRIES: [usize; 2] = [1 << 10, 1 << 20];

    /// A map of an author's has so many entries at most.
    pub const MAP_ENTRIES: u32 = 1 << 24;

    /// Entries of the object's maps.
    pub fn maps(&self) -> Vec<(&str, u32)> {
        let sizes = self.sizes.iter();
        sizes.map(|(name, size)| (&**name, *size)).collect()
    }

    /// Whether the object has the maps whose sizes are said; where it cannot be read, the server
    /// says so.
    ///
    /// # Errors
    /// With the first that it has not, for people.
    pub fn check_maps(&self) -> Result<(), String> {
        let object = self
            .object
            .as_ref()
            .and_then(|path| std::fs::read(path).ok());
        match object.as_deref().and_then(Object::read) {
            Some(object) => object.entries(&self.maps()).map(drop),
            None => Ok(()),
        }
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        !self.metadata && !self.xattr && self.log.is_none() && self.object.is_none()
    }

    pub(crate) fn bits(&self) -> u64 {
        let bits = [
            (self.metadata, METADATA),
            (self.xattr, XATTR),
            (self.log.is_some(), LOG),
        ];
        let on = bits.into_iter().filter(|(on, _)| *on);
        on.map(|(_, bit)| bit).sum()
    }

    /// Records of the tables of names, nodes and extended attributes.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let entries = match self.entries {
            0 => 1 << 16,
            entries => entries.next_power_of_two(),
        };
        let of = |on: bool| if on { entries } else { 1 };
        [
            of(self.metadata),
            of(self.metadata || self.xattr),
            of(self.xattr),
        ]
    }

    /// Bytes of the log's ring.
    pub(crate) const fn ring(&self) -> usize {
        match self.log {
            Some(_) => RING,
            None => PAGE,
        }
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(object) = &self.object {
            return object.display().fmt(out);
        }
        let names = [
            (self.metadata, "metadata"),
            (self.xattr, "xattr"),
            (self.log.is_some(), "log"),
        ];
        let on: Vec<_> = names
            .into_iter()
            .filter_map(|(on, name)| on.then_some(name))
            .collect();
        out.write_str(&on.join("+"))
    }
}
