//! The containers that are open in this process, and their handles.

use super::container::Container;
use super::{host, setup};
use crate::KeptFd;
use alloc::{collections::BTreeMap, sync::Arc};
use core::sync::atomic::Ordering::SeqCst;
use culvert::{Result, sync::Mutex};

/// By inode.
pub type Table = Mutex<BTreeMap<u64, Arc<Container>>>;

/// An open file.
pub enum Handle {
    /// A container.
    Container(Opened),
    /// A plain file of a back end.
    Plain(KeptFd),
}

/// One open of a container. All of a process share one [`Container`].
pub struct Opened {
    pub container: Arc<Container>,
    table: Arc<Table>,
}

impl Opened {
    /// One more open of the container `inode`, made by `make` where it is not open yet.
    pub fn new(
        table: &Arc<Table>,
        inode: u64,
        make: impl FnOnce() -> Result<Container>,
    ) -> Result<Self> {
        let mut all = table.lock();
        let container = match all.get(&inode) {
            Some(known) => Arc::clone(known),
            None => {
                let made = Arc::new(make()?);
                all.insert(inode, Arc::clone(&made));
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
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut all = self.table.lock();
        if self.container.opens.fetch_sub(1, SeqCst) != 1 {
            return;
        }
        all.remove(&self.container.inode);
        // Within the lock, so that who opens it meanwhile does not lose its record of being open.
        // There is nobody to tell of errors: what was written is in the index all the same.
        let _ = self.container.close();
        if self.container.is_removed() {
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

/// Whether some process has the container at `path` open.
pub fn is_used(setup: &setup::Setup, canonical: usize, path: &[u8]) -> bool {
    use culvert_sys::raw::general as linux;
    let Ok(dir) = host::place(setup.root(canonical), path) else {
        return false;
    };
    let flags = [linux::O_RDONLY, linux::O_WRONLY].map(|mode| mode | linux::O_NONBLOCK);
    let open = |flags| host::open(&dir, super::layout::ACCESS, flags, 0).ok();
    flags
        .into_iter()
        .find_map(open)
        .is_some_and(|file| host::lock(&file, true, false).is_err())
}
