//! Files that are read without having been opened: where OPEN was answered with ENOSYS, the kernel
//! sends no more of them, and READ names the node alone.

use crate::opened::OpenFile;
use culvert::{Node, Result};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many are kept open. What the kernel reads stays in its page cache, so only files that are
/// being read just now are asked for.
const MOST: usize = 32;

/// The files read last.
#[derive(Default)]
pub struct ZeroOpen(Mutex<Recent>);

#[derive(Default)]
struct Recent {
    files: HashMap<Node, (Arc<OpenFile>, u64)>,
    uses: u64,
}

impl ZeroOpen {
    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of `node`, which `open` opens when it is not among those read last.
    pub fn get(
        &self,
        node: Node,
        open: impl FnOnce() -> Result<OpenFile>,
    ) -> Result<Arc<OpenFile>> {
        let known = |recent: &mut Recent| {
            recent.uses += 1;
            let now = recent.uses;
            let (file, used) = recent.files.get_mut(&node)?;
            *used = now;
            Some(file.clone())
        };
        if let Some(file) = known(&mut self.recent()) {
            return Ok(file);
        }
        // Without the lock: an open may take long. Two that come at once leave one of theirs.
        let file = Arc::new(open()?);
        let mut recent = self.recent();
        let now = recent.uses;
        recent.files.insert(node, (file.clone(), now));
        if recent.files.len() > MOST {
            let oldest = recent.files.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(node) = oldest.map(|(&node, _)| node) {
                recent.files.remove(&node);
            }
        }
        Ok(file)
    }

    /// The kernel forgets `node`.
    pub fn forget(&self, node: Node) {
        self.recent().files.remove(&node);
    }
}
