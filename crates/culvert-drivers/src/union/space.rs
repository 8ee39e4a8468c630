//! What is said of all branches at once: their space, and that what was written lies on them.

use super::branch::Mode;
use super::choice::Instance;
use super::options::Untold;
use super::state::Core;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culvert::{Caller, Node, Result, StatFs};

/// `FUSE_SUPER_MAGIC`, which is mergerfs's.
const MAGIC: u64 = 0x6573_5546;

impl Core {
    /// statfs(2) of all branches, or of those that have what is asked for.
    pub fn sum(&self, there: Option<&[Instance<'_>]>) -> Result<StatFs> {
        let there = there.filter(|all| !all.is_empty());
        let mut sum = StatFs {
            magic: MAGIC,
            block_size: u32::MAX,
            name_max: u32::MAX,
            read_only: self.capabilities.read_only,
            ..StatFs::default()
        };
        let (mut seen, mut bytes) = (Vec::new(), [0u64; 3]);
        let is_asked = |at: usize| there.is_none_or(|all| all.iter().any(|one| one.index == at));
        let each = self.branches.iter().enumerate();
        for (_, branch) in each.filter(|one| is_asked(one.0)) {
            if branch.gone.load(Relaxed) {
                continue;
            }
            let found = branch.fs.statfs()?;
            let unit = u64::from(found.block_size.max(1));
            sum.block_size = sum.block_size.min(found.block_size.max(1));
            sum.name_max = sum.name_max.min(found.name_max);
            // Of one device the space is there once.
            if branch.device.is_some_and(|device| seen.contains(&device)) {
                continue;
            }
            seen.extend(branch.device);
            let mode = branch.how.mode;
            let is_full = match self.settings().untold {
                Untold::Nothing => found.read_only && mode != Mode::ReadWrite,
                Untold::NothingCreated => !branch.creates(),
                Untold::NoCreate => mode == Mode::NoCreate,
            };
            let free = if is_full { 0 } else { found.blocks_available };
            bytes[0] = bytes[0].saturating_add(found.blocks.saturating_mul(unit));
            bytes[1] = bytes[1].saturating_add(found.blocks_free.saturating_mul(unit));
            bytes[2] = bytes[2].saturating_add(free.saturating_mul(unit));
            sum.files = sum.files.saturating_add(found.files);
            sum.files_free = sum.files_free.saturating_add(found.files_free);
        }
        [sum.blocks, sum.blocks_free, sum.blocks_available] =
            bytes.map(|bytes| bytes / u64::from(sum.block_size));
        Ok(sum)
    }

    /// fsync(2) of `dir` on all branches.
    pub fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        for (index, part) in self
            .directory(&Caller::SYSTEM, dir)?
            .into_iter()
            .enumerate()
        {
            if let Some(part) = part {
                self.branches[index].fs.sync_directory(part, data_only)?;
            }
        }
        Ok(())
    }
}
