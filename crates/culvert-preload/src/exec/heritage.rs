//! What the next program inherits: descriptors that it can use.

use super::Loader;
use crate::process::{self, Process};
use crate::{shadow, strangers};
use alloc::vec::Vec;
use culvert::Errno;

/// Makes every descriptor that survives exec one that the next program can use.
pub fn hand_down(process: &Process, loader: &Loader) -> Result<(), Errno> {
    process.table.promote_all(true)?;
    crate::gone::hand_down(process);
    if process::vfork_child().is_none() {
        process.table.keep_locks_over_exec();
    }
    crate::watch::companions::before_exec();
    if !matches!(loader, Loader::None(_)) {
        return Ok(());
    }
    strangers::are_there();
    strangers::give_all(process, true)
}

/// All open descriptors of this process, from `/proc/self/fd`.
pub fn open_descriptors() -> Vec<i32> {
    let Ok(directory) = shadow::open(
        alloc::format!("{}\0", culvert_sys::own_descriptors::directory()).as_bytes(),
        0o200000,
        0,
    ) else {
        return Vec::new();
    };
    crate::run::list(&directory)
        .iter()
        .filter_map(|name| core::str::from_utf8(name).ok()?.parse::<i32>().ok())
        .filter(|&fd| fd != directory.0)
        .collect()
}
