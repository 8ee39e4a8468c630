//! Checks for `culvert mount`. None of them is needed by `culvert run`.

use super::{Check, good, limited};
use culvert_sys::process::capget;
use std::{env, fs, path::PathBuf};

/// All of them.
pub fn checks() -> Vec<Check> {
    let transports = culvert_server::WAYS.map(|way| match (way.available)() {
        Err(reason) if !way.missed.is_empty() => limited(way.title, reason, way.missed),
        Err(reason) => good(way.title, reason),
        Ok(()) => good(way.title, way.found),
    });
    transports
        .into_iter()
        .chain([helper(), passthrough()])
        .collect()
}

/// What users other than root mount by.
fn helper() -> Check {
    const NAME: &str = "fusermount3";
    let paths = env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = env::split_paths(&paths)
        .map(|path| path.join(NAME))
        .collect();
    let Some(found) = places.iter().find(|place| place.exists()) else {
        let advice = "only root can mount (Debian: apt install fuse3)";
        return limited(NAME, "not installed", advice);
    };
    let settings = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    let others = match settings
        .lines()
        .any(|line| line.trim() == "user_allow_other")
    {
        true => "users may say --allow-other",
        false => "--allow-other for root alone (user_allow_other in /etc/fuse.conf)",
    };
    good(NAME, format!("{}; {others}", found.display()))
}

/// Whether the kernel reads and writes files of directories by itself.
fn passthrough() -> Check {
    const NAME: &str = "FUSE passthrough";
    /// capabilities(7).
    const CAP_SYS_ADMIN: u32 = 1 << 21;
    let effective = capget().map_or(0, |sets| sets[0][0]);
    match effective & CAP_SYS_ADMIN {
        0 => limited(
            NAME,
            "not without CAP_SYS_ADMIN",
            "on kernel mounts every read and write that is not cached is a request",
        ),
        _ => good(NAME, "allowed, where the kernel has it (Linux 6.9)"),
    }
}
