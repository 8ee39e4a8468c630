//! What the next program inherits: descriptors that it can use.

use super::Loader;
use crate::description::{Description, Object, given_to_strangers};
use crate::looked_at;
use crate::process::{self, Process};
use crate::run::ShadowName;
use crate::shadow;
use alloc::{sync::Arc, vec::Vec};
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
    fill_inherited(process)
}

/// Fills the shadows of all files that are open here and survive exec: whoever gets them next reads them without us.
pub fn fill_inherited(process: &Process) -> Result<(), Errno> {
    // What this process has inherited and never used is not in the table yet.
    for fd in open_descriptors() {
        process.table.get(fd);
    }
    let mut inherited: Vec<Arc<Description>> = Vec::new();
    process.table.each(|fd, description| {
        if matches!(description.object, Object::File(_))
            && !crate::descriptors::close_on_exec(fd).unwrap_or(true)
        {
            inherited.push(description.clone());
        }
    });
    if let Some(child) = process::vfork_child() {
        inherited.extend(
            child
                .installed()
                .into_iter()
                .filter_map(|(_, description)| description)
                .filter(|d| matches!(d.object, Object::File(_))),
        );
    }
    for description in inherited {
        if description.is_direct() {
            continue;
        }
        let changes = !description.file_system()?.capabilities().immutable;
        if changes && let Object::File(_) = &description.object {
            given_to_strangers();
            let given = match description.writable() {
                Ok(_) => looked_at::give_to_stranger(&description),
                Err(_) => looked_at::keep_equal(&description, false).map(drop),
            };
            given.map_err(|error| crate::calls::io::report(&description, "exec", &error))?;
        } else if let Object::File(file) = &description.object {
            let name = ShadowName {
                mount: description.mount.0,
                node: description.node,
            };
            shadow::fill(name, &**file)
                .map_err(|error| crate::calls::io::report(&description, "exec", &error))?;
        }
    }
    Ok(())
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
