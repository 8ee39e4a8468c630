//! Shadows that stay open because this process changes its user, who cannot enter the run
//! directory.

use crate::shadow::{self, OwnedFd};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use culvert::Errno;
use culvert_run::task;
use culvert_run::{self as run, ShadowName};
use culvert_sys::raw::general::O_RDWR;
use culvert_sys::sync::Mutex;

/// Such a shadow.
pub struct Pinned {
    /// It may be written.
    writable: bool,
    name: ShadowName,
    place: &'static AtomicI32,
    /// The descriptor is another process's, too.
    lent: AtomicBool,
}

impl Pinned {
    /// Its descriptor.
    pub fn number(&self) -> i32 {
        self.place.load(Acquire)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.lent.load(Relaxed) {
            return;
        }
        let fd = self.place.swap(-1, AcqRel);
        if fd >= 0 {
            let locks = &run::get().posix_locks;
            locks.close(self.name, OwnedFd::from_raw(fd));
        }
    }
}

static PINNED: Mutex<BTreeMap<ShadowName, Arc<Pinned>>> = Mutex::new(BTreeMap::new());
static ANY: AtomicBool = AtomicBool::new(false);

/// The shadow of `name`, if it is pinned.
pub fn pinned(name: ShadowName) -> Option<Arc<Pinned>> {
    PINNED.lock().get(&name).cloned()
}

/// Keeps the shadows of `wanted` open, for writing where that is said, and no others: somebody may
/// map their files when this process is another user, and what is in the mapping, or written to the
/// file, is to be seen by both.
///
/// The last error; EMFILE also where a quarter of the descriptors that this process may have is
/// pinned.
pub fn pin(wanted: &BTreeMap<ShadowName, bool>) -> Result<(), Errno> {
    let gone: Vec<Arc<Pinned>> = {
        let mut all = PINNED.lock();
        let gone = all.extract_if(.., |name, _| !wanted.contains_key(name));
        gone.map(|(_, gone)| gone).collect()
    };
    // Outside the lock: they are closed.
    drop(gone);
    let mut result = Ok(());
    let most = descriptors() / 4;
    for (&name, &writable) in wanted {
        if pinned(name).is_some_and(|pinned| pinned.writable || !writable) {
            continue;
        }
        if PINNED.lock().len() >= most {
            return Err(Errno::EMFILE);
        }
        let opened = shadow::open_shadow(name, if writable { O_RDWR } else { 0 });
        match opened.map(|own| run::get().keep_shadow(name, own)) {
            Ok(Some(place)) => {
                let new = Pinned {
                    writable,
                    name,
                    place,
                    lent: AtomicBool::new(false),
                };
                ANY.store(true, Relaxed);
                let old = PINNED.lock().insert(name, Arc::new(new));
                drop(old);
            }
            Ok(None) => result = Err(Errno::EMFILE),
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Whether the shadow of `name` is pinned, and may be closed.
pub fn may_unpin(name: ShadowName) -> bool {
    ANY.load(Relaxed) && task::vfork_child().is_none() && pinned(name).is_some()
}

/// The program has no descriptor of the file of `name` any more.
pub fn unpin(name: ShadowName) {
    let gone = PINNED.lock().remove(&name);
    // Outside the lock.
    drop(gone);
}

/// A child is about to be made that has this process's table of descriptors and a copy of its
/// memory: neither closes what both use.
pub fn lend() {
    for pinned in PINNED.lock().values() {
        pinned.lent.store(true, Relaxed);
    }
}

/// `RLIMIT_NOFILE` of this process.
fn descriptors() -> usize {
    let limits = culvert_sys::process::prlimit(culvert_sys::raw::general::RLIMIT_NOFILE, None);
    limits.map_or(0, |[soft, _]| soft as usize)
}
