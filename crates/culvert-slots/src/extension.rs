//! What requests that make files say besides, at their end (`get_create_ext`, fs/fuse/dir.c): a
//! client names it in the slot, and the server's side puts it, in its own memory.

use crate::area::Slot;
use crate::channel::Extension;
use core::sync::atomic::Ordering::Relaxed;
use culvert_sys::process;

/// Bits of a slot's `extension`: it has a group, it has labels.
const GROUP: u32 = 1;
const LABELS: u32 = 2;

/// `FUSE_EXT_GROUPS`.
const GROUPS: u32 = 32;

/// More groups than this are asked for in vain (`NGROUPS_MAX` is 65536; users have few).
const MOST: usize = 256;

/// Says `extension` in `slot`.
pub(crate) fn put(slot: &Slot, extension: Extension) {
    let group = extension.group.map_or(0, |_| GROUP);
    let labels = if extension.labels { LABELS } else { 0 };
    slot.extension.store(group | labels, Relaxed);
    if let Some(group) = extension.group {
        slot.group.store(group, Relaxed);
    }
}

/// The bytes of an extension.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bytes {
    bytes: [u8; 24],
    length: usize,
}

impl Bytes {
    /// What `slot` says, of requests of the group `own`.
    pub fn of(slot: &Slot, own: u32) -> Self {
        let (says, mut bytes) = (slot.extension.load(Relaxed), Self::default());
        if says & LABELS != 0 {
            // `struct fuse_secctx_header`: its size, and how many there are.
            bytes.add(&[8, 0]);
        }
        let group = slot.group.load(Relaxed);
        if says & GROUP != 0 && group != own && is_in(group) {
            // `struct fuse_ext_header`, `struct fuse_supp_groups`, and the group.
            bytes.add(&[16, GROUPS, 1, group]);
        }
        bytes
    }

    fn add(&mut self, words: &[u32]) {
        for word in words {
            let place = self.bytes.get_mut(self.length..self.length + 4);
            if let Some(place) = place {
                place.copy_from_slice(&word.to_ne_bytes());
                self.length += 4;
            }
        }
    }

    /// The bytes.
    pub fn get(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Whether this process is in `group`: no program gives its server another.
fn is_in(group: u32) -> bool {
    let mut groups = [0; MOST];
    let count = process::getgroups(&mut groups).unwrap_or(0);
    groups.get(..count).is_some_and(|all| all.contains(&group))
}
