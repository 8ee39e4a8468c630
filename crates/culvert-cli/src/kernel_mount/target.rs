//! The directory that is mounted on.

use crate::failure::{Failure, reason, shown};
use culvert_server::mounting::table::{self, Line};
use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// `ENOTCONN`: a FUSE mount whose server is gone.
const NOT_CONNECTED: i32 = 107;

/// The directory `typed`, canonical, on which a mount can be made.
pub fn check(typed: &Path) -> Result<PathBuf, Failure> {
    let wrong = |why: &str| Failure::new(format!("target {}: {why}", shown(typed)));
    let lost = |error: &io::Error| {
        let advice = "the mount there has lost its server; end it: culvert umount TARGET";
        (error.raw_os_error() == Some(NOT_CONNECTED)).then(|| wrong(&reason(error)).advice(advice))
    };
    let target = fs::canonicalize(typed).map_err(|error| {
        let failure = wrong(&reason(&error));
        match error.kind() {
            io::ErrorKind::NotFound => failure.advice("make it: mkdir -p"),
            io::ErrorKind::PermissionDenied => {
                failure.advice("give a directory that you may enter")
            }
            _ => lost(&error).unwrap_or(failure),
        }
    })?;
    match fs::metadata(&target) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(wrong("not a directory").advice("a mount wants a directory: mkdir -p"));
        }
        Err(error) => return Err(lost(&error).unwrap_or_else(|| wrong(&reason(&error)))),
    }
    if topmost(&target).is_some_and(|line| line.is_ours()) {
        return Err(wrong("mounted already").advice("end that mount first: culvert umount TARGET"));
    }
    Ok(target)
}

/// Warns where a mount at `target` hides something.
pub fn warn_of_hidden(target: &Path) {
    if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
        eprintln!(
            "culvert: warning: target {} is not empty; what is in it is hidden while the mount is \
            there",
            shown(target)
        );
    }
}

/// Where a server looks while it serves.
const LOOKED_AT: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Refuses `target` where it hides from the server what that uses, its run directory in `base`
/// among it: it would ask itself, and wait for ever.
pub fn check_apart(target: &Path, base: &Path) -> Result<(), Failure> {
    let base = fs::canonicalize(base).unwrap_or_else(|_| base.into());
    let mut used = LOOKED_AT.iter().map(Path::new).chain([&*base]);
    match used.find(|used| used.starts_with(target)) {
        None => Ok(()),
        Some(used) => Err(Failure::new(format!(
            "target {}: the mount would hide {} from its own server, which would wait for itself \
            there",
            shown(target),
            shown(used)
        ))
        .advice("give another target; `culvert run` has no such limit")),
    }
}

/// Refuses `target` in a directory `source` that is served: the server would find its own
/// mount there, wait for itself, and keep it in use. The source itself may be the target: what is
/// under the mount is held.
pub fn check_outside(target: &Path, source: &Path) -> Result<(), Failure> {
    let source = fs::canonicalize(source).unwrap_or_else(|_| source.into());
    if target == source || !target.starts_with(&source) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "target {}: it lies in the source {}, whose server would wait for itself there",
        shown(target),
        shown(&source)
    ))
    .advice(
        "mount at a directory outside, or the source onto itself; `culvert run` has no such limit",
    ))
}

/// Refuses to hide a `source` that each server opens anew: the second one would ask the mount for
/// it, which is its own.
pub fn check_findable(target: &Path, source: &Path) -> Result<(), Failure> {
    if !source.starts_with(target) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "source {}: the mount hides it from servers that --restart would start",
        shown(source)
    ))
    .advice("mount at a directory that it does not lie in, or without --restart"))
}

/// The mount whose root is the directory `typed`, as it is found now; without looking into it, for
/// its server may be gone. It is known by its number from here on, not by its path. One that is
/// `wanted`.
fn at(typed: &Path, wanted: fn(&Line) -> bool) -> Result<Line, Failure> {
    let wrong = |why: &str| Failure::new(format!("{}: {why}", shown(typed)));
    let absolute = std::path::absolute(typed).map_err(|error| wrong(&reason(&error)))?;
    let canonical = match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = fs::canonicalize(parent).map_err(|error| wrong(&reason(&error)))?;
            let plain = parent.join(name);
            match fs::read_link(&plain) {
                Ok(_) => fs::canonicalize(&plain).map_err(|error| wrong(&reason(&error)))?,
                Err(_) => plain,
            }
        }
        // It ends in `..`, or is the root: there is no name to look up by itself.
        _ => fs::canonicalize(&absolute).map_err(|error| wrong(&reason(&error)))?,
    };
    let nothing = || wrong("nothing is mounted there").advice("see what is: culvert list");
    let line = topmost(&canonical).ok_or_else(nothing)?;
    match wanted(&line) {
        true => Ok(line),
        false => Err(wrong(&format!(
            "a mount of type {}, not of culvert's",
            shown(OsStr::from_bytes(&line.kind))
        ))
        .advice("umount(8) ends mounts of others")),
    }
}

/// The mount of ours at `typed`.
pub fn mounted(typed: &Path) -> Result<Line, Failure> {
    at(typed, Line::is_ours)
}

/// The mount of ours at `typed`, or of a FUSE server that has made it itself.
pub fn served(typed: &Path) -> Result<Line, Failure> {
    at(typed, |line| line.is_ours() || line.is_of_fuse())
}

/// The mount whose root is `target`, the topmost.
fn topmost(target: &Path) -> Option<Line> {
    let target = target.as_os_str().as_encoded_bytes();
    let mut lines = table::lines().into_iter().rev();
    lines.find(|line| line.target == target)
}

/// The mounts that lie in the one at `target`, whatever they are of; the last made first.
pub fn mounted_in(target: &Path) -> Vec<PathBuf> {
    let places = table::lines().into_iter().rev().map(|line| line.path());
    places
        .filter(|place| place != target && place.starts_with(target))
        .collect()
}
