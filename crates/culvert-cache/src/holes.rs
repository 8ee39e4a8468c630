//! Holes that this process makes in what it maps (madvise(2), MADV_REMOVE): the file gets them too.

use super::State;
use super::dirty::Dirty;
use super::follow;
use super::nodes::Node;
use crate::shadow;
use culvert_run::stat_descriptor;
use culvert_sys::PAGE64;

impl Node {
    /// The shadow has a hole in `range`, which the file is to have too.
    pub fn punch(&self, range: (u64, u64)) {
        // So that the pager does not take zeroes that the file has not got yet for what it can read
        // again.
        let _ = self.record_locked(range);
        const PUNCH_HOLE_KEEP_SIZE: u32 = 3;
        let punched = self.open.file().is_ok_and(|file| {
            let _lock = self.open.lock();
            let length = range.1.saturating_sub(range.0);
            file.allocate(PUNCH_HOLE_KEEP_SIZE, range.0, length).is_ok()
        });
        // A driver without holes gets the zeroes.
        if !punched {
            self.store_zeroes(range);
            let zeroes = Dirty {
                ranges: alloc::vec![range],
                exact: false,
            };
            if let Err(error) = self.write_back(zeroes) {
                culvert_sys::log!("a hole in {} is not in its file: {error}", self.name);
            }
        }
    }

    /// A hole of a shadow that is not filled yet means bytes that are missing: zeroes are pages
    /// there.
    fn store_zeroes(&self, range: (u64, u64)) {
        let Ok(Some(shadow)) = follow::followed(self.name) else {
            return;
        };
        let fd = shadow.number();
        let partly = stat_descriptor(fd).is_ok_and(|found| State::of(&found).is_partly());
        if partly {
            let zeroes = [0u8; PAGE64 as usize];
            let mut at = range.0;
            while at < range.1 {
                let length = (range.1 - at).min(PAGE64) as usize;
                if shadow::write_all(fd, at, &zeroes[..length]).is_err() {
                    return;
                }
                at += length as u64;
            }
        }
    }
}
