//! What a worker of the pager knows: who is connected, what of whose memory is which file's, and
//! the open files.

use super::{file::File, table::RangeOf};
use culvert::Errno;
use culvert_run::ShadowName;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

/// The table once more, as it is searched, with open files.
#[derive(Default)]
pub(super) struct Model {
    pub(super) connections: HashMap<usize, Connection>,
    pub(super) files: HashMap<(u16, u64), Weak<File>>,
    /// The guardian is gone: nothing new is filled on demand, for nobody would follow this worker.
    pub(super) last: bool,
}

pub(super) struct Connection {
    pub(super) socket: i32,
    pub(super) userfault: Option<i32>,
    pub(super) slot: u32,
    pub(super) ranges: BTreeMap<u64, Known>,
    /// The file that it has asked for last, and is about to map.
    pub(super) prepared: Option<Arc<File>>,
}

pub(super) struct Known {
    pub(super) about: RangeOf,
    /// Where it is in the table. None: there was no room for it.
    pub(super) index: Option<usize>,
    /// None: it cannot be opened any more (this worker has followed another).
    pub(super) file: Option<Arc<File>>,
}

impl Model {
    /// The open file `name`.
    pub(super) fn file(&mut self, name: ShadowName) -> Result<Arc<File>, Errno> {
        let key = (name.mount.0, name.node.0);
        if let Some(file) = self.files.get(&key).and_then(Weak::upgrade) {
            return Ok(file);
        }
        let file = Arc::new(File::open(name).map_err(|error| {
            culvert_sys::log!("the pager cannot open {name}: {error}");
            error.errno()
        })?);
        self.files.insert(key, Arc::downgrade(&file));
        Ok(file)
    }

    pub(super) fn forget_files(&mut self) {
        self.files.retain(|_, file| file.strong_count() != 0);
    }
}
