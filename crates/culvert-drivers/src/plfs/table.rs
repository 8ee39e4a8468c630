//! The containers that are open in this process, and their handles.

use super::container::Container;
use super::layout::ACCESS;
use super::{host, setup};
use crate::{KeptFd, OwnedFd};
use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::ops::Deref;
use core::sync::atomic::Ordering::SeqCst;
use culvert::{Errno, Result, sync::Mutex};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

/// By inode, and by the table of descriptors in which they are open: a child of vfork(2) has its
/// parent's memory, and its own descriptors.
pub type Table = Mutex<BTreeMap<(u64, usize), Arc<Container>>>;

/// An open file.
pub enum Handle {
    /// A container.
    Container(Opened),
    /// A plain file of a back end.
    Plain(KeptFd),
    /// A directory that is held: on each back end, `O_PATH`, the one that is shown first, in that
    /// table of descriptors.
    Directory { held: Vec<KeptFd>, table: usize },
}

/// One open of a container. All of a process share one [`Container`].
pub struct Opened {
    container: Arc<Container>,
    table: Arc<Table>,
}

/// A container as the calling thread may use it: the descriptors in it are its own.
pub enum Usable<'a> {
    /// As it was opened.
    Same(&'a Container),
    /// Opened for one call.
    Once(Box<Container>),
}

impl Deref for Usable<'_> {
    type Target = Container;

    fn deref(&self) -> &Container {
        match self {
            Self::Same(container) => container,
            Self::Once(container) => container,
        }
    }
}

impl Drop for Usable<'_> {
    fn drop(&mut self) {
        // A child of vfork(2) may become another program after any call.
        let stays = matches!(self, Self::Same(container) if container.is_home());
        if !stays {
            self.close();
        }
    }
}

impl Opened {
    /// One more open of the container `key`, made by `make` where it is not open yet.
    pub fn new(
        table: &Arc<Table>,
        key: (u64, usize),
        make: impl FnOnce() -> Result<Container>,
    ) -> Result<Self> {
        let mut all = table.lock();
        let container = match all.get(&key) {
            Some(known) => Arc::clone(known),
            None => {
                let made = Arc::new(make()?);
                all.insert(key, Arc::clone(&made));
                made
            }
        };
        container.opens.fetch_add(1, SeqCst);
        drop(all);
        Ok(Self {
            container,
            table: Arc::clone(table),
        })
    }

    /// The container, for a call of the thread that has opened it.
    pub fn container(&self) -> &Arc<Container> {
        &self.container
    }

    /// The same for any thread. One with another table of descriptors, as a child of vfork(2) has,
    /// opens it for this call alone: what it opened would be known in memory that it shares, by
    /// numbers that mean something else there.
    pub fn usable(&self) -> Result<Usable<'_>> {
        match self.container.is_here() {
            true => Ok(Usable::Same(&self.container)),
            false => self.container.once().map(|own| Usable::Once(Box::new(own))),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut all = self.table.lock();
        if self.container.opens.fetch_sub(1, SeqCst) != 1 {
            return;
        }
        all.remove(&self.container.key());
        if !self.container.is_here() {
            // A child of vfork(2) has left it behind; each of its calls has left nothing to close.
            return;
        }
        // Within the lock, so that who opens it meanwhile does not lose its record of being open.
        if self.container.close() {
            let path = self.container.path().unwrap_or_default();
            let setup = Arc::clone(&self.container.setup);
            let canonical = self.container.canonical();
            self.container.unlock();
            drop(all);
            collect(&setup, canonical, &path);
        }
    }
}

/// Removes the container at `path` where removed ones lie, and its shadows, if nobody uses it.
pub fn collect(setup: &setup::Setup, canonical: usize, path: &[u8]) {
    let own = path
        .strip_prefix(setup::REMOVED)
        .is_some_and(|rest| rest.starts_with(b"/"));
    if !own || is_used(setup, canonical, path) {
        return;
    }
    for at in 0..setup.backends.len() {
        if let Ok((dir, name)) = host::above(setup.root(at), path) {
            // What cannot be removed now is tried again by the next run.
            let _ = host::remove_tree(dir, name.bytes(), 2);
        }
    }
}

/// Whether some process has the container at `path` open. It has, as far as anybody knows, where its
/// access file may not be opened.
pub fn is_used(setup: &setup::Setup, canonical: usize, path: &[u8]) -> bool {
    let Ok(dir) = host::place(setup.root(canonical), path) else {
        return false;
    };
    match proof(dir.borrow()) {
        Ok(file) => host::lock(&file, true, false).is_err(),
        Err(error) => error.errno() != Errno::ENOENT,
    }
}

/// The access file of container `dir`, to be locked. It has the file's mode, by which its owner may
/// be kept out: he gives himself the right for a moment.
fn proof(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    let flags = [linux::O_RDONLY, linux::O_WRONLY].map(|mode| mode | linux::O_NONBLOCK);
    let open = |flags| host::open(dir, ACCESS, flags, 0);
    let refused = match flags.map(open) {
        [Ok(file), _] | [_, Ok(file)] => return Ok(file),
        [Err(error), _] => error,
    };
    if refused.errno() != Errno::EACCES {
        return Err(refused);
    }
    let mode = u32::from(host::status(dir, ACCESS)?.stx_mode) & 0o7777;
    let name = host::terminated(ACCESS)?;
    fs::fchmodat(dir, &name, mode | 0o400)?;
    let opened = open(flags[0]);
    fs::fchmodat(dir, &name, mode)?;
    opened
}
