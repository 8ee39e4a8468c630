//! Finding a node by its number alone.
//!
//! A process that was started by another one of the run knows of its working directory, and of an
//! open file that a layer drives, only which node they are. The kernel opens nothing by inode
//! number for ordinary users, so the tree is searched. That happens once for each, and never for
//! trees that the front end serves by their own descriptors.

use super::changes::GONE;
use super::filesystem::PassthroughFs;
use super::kernel::identity;
use super::kernel::{self, Name};
use super::listing::entries;
use super::object::Object;
use crate::descriptor::OwnedFd;
use alloc::{sync::Arc, vec::Vec};
use culvert::{Errno, Error, Node, Result};

/// How many names are looked at before the search is given up.
const MOST: usize = 1 << 20;

/// A directory on the way down: itself, and the directories in it that remain.
struct Level {
    directory: OwnedFd,
    below: Vec<Name>,
}

impl PassthroughFs {
    /// What `node` is: as the front end knows it, or by a search. `ESTALE` when it is nowhere.
    pub(super) fn object(&self, node: Node) -> Result<Arc<Object>> {
        match self.nodes.get(node) {
            // Where nodes are closed the kernel looks up anew what is stale.
            Err(error)
                if error.errno() == Errno::ESTALE
                    && node != GONE
                    && !self.nodes.closes()
                    && !self.nodes.knows(node) =>
            {
                match self.nodes.by_parents_file(node) {
                    Some(found) => Ok(found),
                    None => self.search(node),
                }
            }
            found => found,
        }
    }

    #[cold]
    fn search(&self, node: Node) -> Result<Arc<Object>> {
        let mut looked_at = 0;
        let root = kernel::reopen(self.nodes.root().1.fd(), kernel::O_PATH)?;
        let mut levels = Vec::new();
        let mut next = Some(root);
        loop {
            if let Some(directory) = next.take() {
                let below = match self.look(&directory, node, &mut looked_at) {
                    Ok(Found::Here(found)) => return self.keep(found),
                    Ok(Found::Below(below)) => below,
                    Err(error) if error.errno() == Errno::E2BIG => return Err(given_up()),
                    // One that may not be read, or is gone by now.
                    Err(_) => Vec::new(),
                };
                levels.push(Level { directory, below });
            }
            let Some(level) = levels.last_mut() else {
                return Err(Errno::ESTALE.into());
            };
            let Some(name) = level.below.pop() else {
                levels.pop();
                continue;
            };
            let Ok(found) = kernel::open_place(&level.directory, &name) else {
                continue;
            };
            let status = kernel::status(&found, None)?;
            // The root of another file system, whose number only it knows.
            if self.nodes.number(identity(&status)) == node {
                return self.keep(found);
            }
            next = Some(found);
        }
    }

    fn keep(&self, found: OwnedFd) -> Result<Arc<Object>> {
        let status = kernel::status(&found, None)?;
        self.nodes.keep(found, &status)
    }

    /// Looks for `node` among the names in `directory`.
    fn look(&self, directory: &OwnedFd, node: Node, looked_at: &mut usize) -> Result<Found> {
        let (device, _) = identity(&kernel::status(directory, None)?);
        let mut below = Vec::new();
        let mut found = None;
        entries(directory, 0, &mut |record, name| {
            *looked_at += 1;
            let Ok(name) = Name::new(name) else {
                return true;
            };
            if self.nodes.number((device, record.inode)) == node {
                found = Some(name);
                return false;
            }
            if matches!(record.kind, DT_UNKNOWN | DT_DIR) {
                below.push(name);
            }
            *looked_at < MOST
        })?;
        if let Some(name) = found {
            let found = kernel::open_place(directory, &name)?;
            let status = kernel::status(&found, None)?;
            // Not what lies below a mount point.
            if self.nodes.number(identity(&status)) == node {
                return Ok(Found::Here(found));
            }
        }
        match *looked_at < MOST {
            true => Ok(Found::Below(below)),
            false => Err(Errno::E2BIG.into()),
        }
    }
}

/// `d_type` of a directory, and of what the file system does not tell.
const DT_DIR: u8 = 4;
const DT_UNKNOWN: u8 = 0;

enum Found {
    /// The node itself.
    Here(OwnedFd),
    /// Not here; perhaps in these.
    Below(Vec<Name>),
}

fn given_up() -> Error {
    Error::because(
        Errno::ESTALE,
        "a file that another process names by its node was not found among the first million \
        names of the source",
    )
}
