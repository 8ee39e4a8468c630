//! What the next program inherits: descriptors that it can use.

use super::Loader;
use crate::process::Process;
use crate::strangers;
use culvert::Errno;

/// Makes every descriptor that survives exec one that the next program can use.
pub fn hand_down(process: &Process, loader: &Loader) -> Result<(), Errno> {
    process.table.promote_all(true)?;
    crate::orphan_handover::hand_down(process);
    if culvert_run::task::vfork_child().is_none() {
        process.table.keep_locks_over_exec();
    }
    crate::descriptors::companions_before_exec();
    if !matches!(loader, Loader::None(_)) {
        return Ok(());
    }
    strangers::are_there();
    strangers::give_all(process, true)
}
