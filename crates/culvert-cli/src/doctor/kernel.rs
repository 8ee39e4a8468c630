//! Checks for `culvert mount`. None of them is needed by `culvert run`.

use super::{Check, Verdict};
use std::{env, fs, path::PathBuf};

/// All of them.
pub fn checks() -> Vec<Check> {
    let transports = culvert_server::WAYS.map(|way| match (way.available)() {
        Ok(()) => check(way.title, "", way.found),
        Err(reason) => check(way.title, way.missed, reason),
    });
    transports
        .into_iter()
        .chain([helper(), passthrough()])
        .collect()
}

fn check(name: &'static str, consequence: &str, found: impl Into<String>) -> Check {
    Check {
        name,
        verdict: match consequence {
            "" => Verdict::Good,
            _ => Verdict::Limited,
        },
        found: found.into(),
        consequence: consequence.into(),
    }
}

/// What users other than root mount by.
fn helper() -> Check {
    const NAME: &str = "fusermount3";
    let paths = env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = env::split_paths(&paths)
        .map(|path| path.join(NAME))
        .collect();
    let Some(found) = places.iter().find(|place| place.exists()) else {
        return check(
            NAME,
            "only root can mount (Debian: apt install fuse3)",
            "not installed",
        );
    };
    let settings = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    let others = match settings
        .lines()
        .any(|line| line.trim() == "user_allow_other")
    {
        true => "users may say --allow-other",
        false => "--allow-other for root alone (user_allow_other in /etc/fuse.conf)",
    };
    check(NAME, "", format!("{}; {others}", found.display()))
}

/// Whether the kernel reads and writes files of directories by itself.
fn passthrough() -> Check {
    const NAME: &str = "FUSE passthrough";
    /// capabilities(7).
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = line.and_then(|word| u64::from_str_radix(word.trim(), 16).ok());
    match capabilities.unwrap_or(0) & CAP_SYS_ADMIN {
        0 => check(
            NAME,
            "on kernel mounts every read and write that is not cached is a request",
            "not without CAP_SYS_ADMIN",
        ),
        _ => check(NAME, "", "allowed, where the kernel has it (Linux 6.9)"),
    }
}
