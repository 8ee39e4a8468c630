//! Checks for `culvert mount`. None of them is needed by `culvert run`.

use super::{Check, Verdict};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// All of them.
pub fn checks() -> Vec<Check> {
    vec![device(), ring(), helper(), passthrough()]
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

/// Whether requests may come by /dev/fuse.
fn device() -> Check {
    const NAME: &str = "kernel mounts";
    let device = Path::new(culvert_server::DeviceFuse::PATH);
    let opened = fs::File::options().read(true).write(true).open(device);
    match opened {
        Ok(_) => check(NAME, "", "/dev/fuse, with a descriptor for each thread"),
        Err(error) => check(
            NAME,
            "culvert mount does not work; culvert run needs none (containers: --device /dev/fuse)",
            format!("/dev/fuse: {}", crate::failure::reason(&error)),
        ),
    }
}

/// Whether requests may come by io_uring. Nothing is missed where they may not but time.
fn ring() -> Check {
    const NAME: &str = "FUSE over io_uring";
    let found = match culvert_server::ring::available() {
        Ok(()) => "offered: mounts use it where they can (transport=auto)".to_owned(),
        Err(reason) => reason,
    };
    check(NAME, "", found)
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
