//! The directory that is mounted on.

use crate::failure::{Failure, reason, shown};
use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
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
    if let Some(kind) = kind_of_mount(&target)
        && kind == "fuse.culvert"
    {
        return Err(wrong("mounted already").advice("end that mount first: culvert umount TARGET"));
    }
    Ok(target)
}

/// Warns where a mount at `target` hides something.
pub fn warn_of_hidden(target: &Path) {
    if fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_some()) {
        eprintln!(
            "culvert: warning: target {} is not empty; what is in it is hidden while the mount is there",
            shown(target)
        );
    }
}

/// Where a server looks while it serves.
const LOOKED_AT: [&str; 3] = ["/dev", "/proc", "/sys"];

/// Refuses `target` where it hides from the server what that uses, its run directory in `base` among it: it would ask itself, and wait for ever.
pub fn check_apart(target: &Path, base: &Path) -> Result<(), Failure> {
    let base = fs::canonicalize(base).unwrap_or_else(|_| base.into());
    let mut used = LOOKED_AT.iter().map(Path::new).chain([&*base]);
    match used.find(|used| used.starts_with(target)) {
        None => Ok(()),
        Some(used) => Err(Failure::new(format!(
            "target {}: the mount would hide {} from its own server, which would wait for itself there",
            shown(target),
            shown(used)
        ))
        .advice("give another target; `culvert run` has no such limit")),
    }
}

/// Refuses `target` in a directory `source` that is passed through: the server would find its own mount there, wait for itself, and keep it in use.
/// The source itself may be the target: what is under the mount is held.
pub fn check_outside(target: &Path, source: &Path, driver: &str) -> Result<(), Failure> {
    let source = fs::canonicalize(source).unwrap_or_else(|_| source.into());
    if driver != "passthrough" || target == source || !target.starts_with(&source) {
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

/// Refuses to hide a `source` that each server opens anew: the second one would ask the mount for it, which is its own.
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

/// The directory `typed`, canonical, that is a mount's root; without looking into it, for its server may be gone.
pub fn mounted(typed: &Path) -> Result<PathBuf, Failure> {
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
    match kind_of_mount(&canonical) {
        Some(kind) if kind == "fuse.culvert" => Ok(canonical),
        Some(kind) => Err(wrong(&format!("a mount of type {kind}, not of culvert's"))
            .advice("umount(8) ends mounts of others")),
        None => Err(wrong("nothing is mounted there").advice("see what is: culvert list")),
    }
}

/// A line of a mount table (proc(5), mountinfo).
pub struct Line {
    /// The mount point.
    pub target: Vec<u8>,
    /// The type, "fuse.culvert" for ours.
    kind: Vec<u8>,
    /// The source.
    pub source: Vec<u8>,
    /// Major and minor number of the device.
    pub device: String,
    /// Whose mount it is, of FUSE's.
    pub uid: u32,
    /// Options of the mount itself, and of the file system, for all its mounts.
    options: [Vec<u8>; 2],
}

fn line(line: &[u8]) -> Option<Line> {
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = words.iter().position(|word| *word == b"-")?;
    let options = words.get(separator + 3).copied().unwrap_or_default();
    let uid = options
        .split(|&byte| byte == b',')
        .find_map(|option| option.strip_prefix(b"user_id="));
    let uid = uid.and_then(|uid| std::str::from_utf8(uid).ok()?.parse().ok());
    Some(Line {
        target: unescaped(words.get(4)?),
        kind: words.get(separator + 1)?.to_vec(),
        source: unescaped(words.get(separator + 2)?),
        device: String::from_utf8_lossy(words.get(2)?).into_owned(),
        uid: uid.unwrap_or(0),
        options: [words.get(5)?.to_vec(), options.to_vec()],
    })
}

/// What `text` says, a line of mountinfo, if the mount is one of ours.
pub fn ours_in(text: &[u8]) -> Option<Line> {
    line(text).filter(|line| line.kind == b"fuse.culvert")
}

/// The mount whose root is `target`, the topmost.
fn topmost(target: &Path) -> Option<Line> {
    let table = fs::read("/proc/self/mountinfo").ok()?;
    let target = target.as_os_str().as_encoded_bytes();
    let mut lines = table.split(|&byte| byte == b'\n').rev();
    lines.find_map(|text| line(text).filter(|line| line.target == target))
}

/// The mounts that lie in the one at `target`, whatever they are of; the last made first.
pub fn mounted_in(target: &Path) -> Vec<PathBuf> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = table.split(|&byte| byte == b'\n').rev().filter_map(line);
    let places = lines.map(|line| PathBuf::from(OsString::from_vec(line.target)));
    places
        .filter(|place| place != target && place.starts_with(target))
        .collect()
}

/// The type of the mount whose root is `target`.
fn kind_of_mount(target: &Path) -> Option<String> {
    topmost(target).map(|line| String::from_utf8_lossy(&line.kind).into_owned())
}

/// The options of the mount whose root is `target`: its own, and those of its file system.
pub fn options(target: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    topmost(target).map(|line| line.options.into())
}

/// Major and minor number of the device of the mount whose root is `target`.
pub fn device(target: &Path) -> Option<String> {
    topmost(target).map(|line| line.device)
}

/// Blanks, line ends and backslashes are written as three octal digits.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match value {
            Some(value) => {
                out.push(value);
                rest = &after[3..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_tables_are_read() {
        let text =
            br"36 35 0:41 / /a\040b\134c rw,nosuid shared:1 - fuse.culvert a\040b rw,user_id=7";
        let found = ours_in(text).unwrap();
        assert_eq!(
            (&*found.target, &*found.source),
            (&br"/a b\c"[..], &b"a b"[..])
        );
        assert_eq!((&*found.device, found.uid), ("0:41", 7));
        assert!(ours_in(b"1 2 0:3 / / rw - ext4 /dev/vda rw").is_none());
        assert!(ours_in(b"").is_none());
    }
}
