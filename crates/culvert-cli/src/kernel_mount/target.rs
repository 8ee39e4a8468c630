//! The directory that is mounted on.

use crate::failure::{Failure, reason, shown};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// `ENOTCONN`: a FUSE mount whose server is gone.
const NOT_CONNECTED: i32 = 107;

/// The directory `typed`, canonical, on which a mount can be made; warns where it hides something.
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
            _ => lost(&error).unwrap_or(failure),
        }
    })?;
    match fs::metadata(&target) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(wrong("not a directory")),
        Err(error) => return Err(lost(&error).unwrap_or_else(|| wrong(&reason(&error)))),
    }
    if let Some(kind) = kind_of_mount(&target)
        && kind == "fuse.culvert"
    {
        return Err(wrong("mounted already").advice("end that mount first: culvert umount TARGET"));
    }
    let entries = fs::read_dir(&target).map_err(|error| wrong(&reason(&error)))?;
    if entries.count() > 0 {
        eprintln!(
            "culvert: warning: target {} is not empty; what is in it is hidden while the mount is there",
            shown(typed)
        );
    }
    Ok(target)
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
        Some(kind) => Err(wrong(&format!("a mount of type {kind}, not of culvert's"))),
        None => Err(wrong("nothing is mounted there")),
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

/// The type of the mount whose root is `target`.
fn kind_of_mount(target: &Path) -> Option<String> {
    topmost(target).map(|line| String::from_utf8_lossy(&line.kind).into_owned())
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
