//! The kernel's table of mounts (proc(5), /proc/self/mountinfo).

use super::MountIdentity;
use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt, path::PathBuf};

/// A line of a mount table.
#[derive(Clone, Debug)]
pub struct Line {
    /// The mount point.
    pub target: Vec<u8>,
    /// The type, "fuse.culvert" for ours.
    pub kind: Vec<u8>,
    /// The source.
    pub source: Vec<u8>,
    /// Which mount it is.
    pub which: MountIdentity,
    /// Whose mount it is, of FUSE's.
    pub uid: u32,
    /// Options of the mount itself, and of the file system, for all its mounts.
    pub options: [Vec<u8>; 2],
}

impl Line {
    /// Whether the mount is one of ours.
    pub fn is_ours(&self) -> bool {
        self.kind == b"fuse.culvert"
    }

    /// Whether a FUSE server serves it.
    pub fn is_of_fuse(&self) -> bool {
        self.kind == b"fuse" || self.kind.starts_with(b"fuse.") || self.kind == b"fuseblk"
    }

    /// The mount point.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.target.clone()))
    }
}

/// All mounts that this process can reach, in the order in which they were made.
pub fn lines() -> Vec<Line> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    table
        .split(|&byte| byte == b'\n')
        .filter_map(line)
        .collect()
}

fn line(line: &[u8]) -> Option<Line> {
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = words.iter().position(|word| *word == b"-")?;
    let options = words.get(separator + 3).copied().unwrap_or_default();
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    let uid = options
        .split(|&byte| byte == b',')
        .find_map(|option| option.strip_prefix(b"user_id="));
    let device = words.get(2)?;
    let colon = device.iter().position(|&byte| byte == b':')?;
    Some(Line {
        target: unescaped(words.get(4)?),
        kind: words.get(separator + 1)?.to_vec(),
        source: unescaped(words.get(separator + 2)?),
        which: MountIdentity {
            device: (
                u32::try_from(number(&device[..colon])?).ok()?,
                u32::try_from(number(&device[colon + 1..])?).ok()?,
            ),
            mount: Some(number(words.first()?)?),
        },
        uid: uid
            .and_then(number)
            .and_then(|uid| u32::try_from(uid).ok())
            .unwrap_or(0),
        options: [words.get(5)?.to_vec(), options.to_vec()],
    })
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
        let found = line(text).unwrap();
        assert!(found.is_ours());
        assert_eq!(
            (&*found.target, &*found.source),
            (&br"/a b\c"[..], &b"a b"[..])
        );
        let which = MountIdentity {
            device: (0, 41),
            mount: Some(36),
        };
        assert_eq!((found.which, found.uid), (which, 7));
        assert!(
            !line(b"1 2 0:3 / / rw - ext4 /dev/vda rw")
                .unwrap()
                .is_ours()
        );
        assert!(line(b"").is_none());
    }
}
