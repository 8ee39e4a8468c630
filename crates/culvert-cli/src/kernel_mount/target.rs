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
    let target = fs::canonicalize(typed).map_err(|error| {
        let failure = wrong(&reason(&error));
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::NotFound, _) => failure.advice("make it: mkdir -p"),
            (_, Some(NOT_CONNECTED)) => {
                failure.advice("the mount there has lost its server; end it: culvert umount TARGET")
            }
            _ => failure,
        }
    })?;
    if !target.is_dir() {
        return Err(wrong("not a directory"));
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
        _ => absolute,
    };
    match kind_of_mount(&canonical) {
        Some(kind) if kind == "fuse.culvert" => Ok(canonical),
        Some(kind) => Err(wrong(&format!("a mount of type {kind}, not of culvert's"))),
        None => Err(wrong("nothing is mounted there")),
    }
}

/// The type of the mount whose root is `target`, the topmost (proc(5), mountinfo).
fn kind_of_mount(target: &Path) -> Option<String> {
    let table = fs::read("/proc/self/mountinfo").ok()?;
    let target = target.as_os_str().as_encoded_bytes();
    let lines = table.split(|&byte| byte == b'\n');
    lines.rev().find_map(|line| kind_in(line, target))
}

/// The type in a line of mountinfo, if its mount point is `target`.
fn kind_in(line: &[u8], target: &[u8]) -> Option<String> {
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = words.iter().position(|word| *word == b"-")?;
    let kind = words.get(separator + 1)?;
    let point = unescaped(words.get(4)?);
    (point == target).then(|| String::from_utf8_lossy(kind).into_owned())
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
        let line =
            br"36 35 0:41 / /a\040b\134c rw,nosuid shared:1 - fuse.culvert source rw,user_id=0";
        assert_eq!(kind_in(line, br"/a b\c").as_deref(), Some("fuse.culvert"));
        assert_eq!(kind_in(line, b"/a"), None);
        assert_eq!(kind_in(b"", b"/a"), None);
    }
}
