//! The run that this process is part of, if it is.

use crate::{
    base::{read_short, trusted},
    failure::{Failure, path, reason, shown},
    run_directory,
};
use culvert::mount::Mount;
use culvert_sys::flags::OFlags;
use culvert_sys::{
    Errno,
    trust::{self, Why},
};
use std::{
    fs::File,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The run that this process is part of.
#[derive(Default)]
pub struct Inherited {
    /// Its mounts.
    pub mounts: Vec<Mount>,
    /// Whether this process is intercepted, so that it sees them.
    pub intercepted: bool,
}

/// The run that this process is part of, if it is. One that CULVERT_RUN names and that is not
/// trusted, or is over, is none: the variable survives su(1) and `sudo -E`, and would let another
/// user say what this one's programs see. That is said in one line.
pub fn inherited() -> Result<Option<Inherited>, Failure> {
    let Some((directory, intercepted)) = inherited_path() else {
        return Ok(None);
    };
    let damaged = |why: String| {
        Failure::new(format!(
            "the run {} that this command is part of cannot be read: {why}",
            shown(&directory)
        ))
        .advice("start from a shell outside that run, or unset CULVERT_RUN")
    };
    let bytes = match mounts(&directory) {
        Ok(bytes) => bytes.map_err(|error| damaged(reason(&error)))?,
        Err(Why::Failed(errno)) if intercepted || !is_over(errno) => {
            return Err(damaged(errno.to_string()));
        }
        Err(why) => {
            let not = match why {
                Why::Failed(_) => "there",
                _ => "trusted",
            };
            eprintln!(
                "culvert: warning: CULVERT_RUN names {}, which is not {not}: {why}; it is ignored, \
                 and mounts of that run are not seen",
                shown(&directory)
            );
            return Ok(None);
        }
    };
    let mounts = culvert::mount::decode(&bytes).map_err(|error| damaged(error.to_string()))?;
    Ok(Some(Inherited {
        mounts,
        intercepted,
    }))
}

/// Whether a run directory that cannot be opened with `errno` is one that was removed: its run is
/// over, and whoever still has the variable (su(1), `sudo -E`, a shell's history) is in no run.
const fn is_over(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR)
}

/// The content of the `mounts` of the run directory `directory`, if it is trusted.
fn mounts(directory: &Path) -> Result<std::io::Result<Vec<u8>>, Why> {
    let opened = trusted(directory, trust::user())?;
    let file = trust::file(&opened, c"mounts", OFlags::empty())?;
    let mut file = File::from(run_directory::owned(file));
    let mut bytes = Vec::new();
    Ok(file.read_to_end(&mut bytes).map(|_| bytes))
}

/// The directory of that run, and whether libculvert.so is at work here: it hides its variables
/// from programs, but what exec was given stays readable (proc_pid_environ(5)).
fn inherited_path() -> Option<(PathBuf, bool)> {
    let directory =
        |value: &[u8]| path(value.split(|&byte| byte == b':').next().unwrap_or(value)).to_owned();
    if let Some(given) = std::env::var_os("CULVERT_RUN") {
        return (!given.is_empty()).then(|| (directory(given.as_bytes()), false));
    }
    let environment = read_short("/proc/self/environ").ok()?;
    let entry = environment
        .split(|&byte| byte == 0)
        .find_map(|entry| entry.strip_prefix(b"CULVERT_RUN="))?;
    (!entry.is_empty()).then(|| (directory(entry), true))
}
