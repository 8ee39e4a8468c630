//! The run file: the mounts of a run in the one form that every process of it reads.
//!
//! ```text
//! magic     8 bytes  "culvert\0"
//! version   u32      2
//! count     u32      number of mounts, then for each:
//!   driver, source, target   each u32 length and that many bytes
//!   count   u32      number of options, then for each: name, value, likewise
//!   count   u32      number of branches, then each as a mount
//! ```
//!
//! Numbers are little-endian. Nothing follows the last mount. A file has one reading and a mount
//! list one form.

use super::{DEEPEST, Mount};
use crate::{Errno, Error, Result};
use alloc::{format, string::String, vec::Vec};

const MAGIC: [u8; 8] = *b"culvert\0";

/// The version of the run file that this build writes, and the only one that it reads.
pub const VERSION: u32 = 2;

/// The run file of `mounts`. Of two mounts with one target the later one covers the earlier.
///
/// # Panics
/// When a string is longer than 4 GiB.
pub fn encode(mounts: &[Mount]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    number(&mut out, VERSION as usize);
    put(&mut out, mounts);
    out
}

fn put(out: &mut Vec<u8>, mounts: &[Mount]) {
    number(out, mounts.len());
    for mount in mounts {
        string(out, mount.driver.as_bytes());
        string(out, &mount.source);
        string(out, &mount.target);
        number(out, mount.options.len());
        for (name, value) in &mount.options {
            string(out, name.as_bytes());
            string(out, value);
        }
        put(out, &mount.branches);
    }
}

fn number(out: &mut Vec<u8>, value: usize) {
    let value = u32::try_from(value).expect("a mount's strings are far below 4 GiB");
    out.extend_from_slice(&value.to_le_bytes());
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Reads a run file. Strict: what [`encode`] would not have written of mounts that pass
/// [`Mount::check`] is refused.
///
/// `EBADMSG` with the place and the reason; for a file of another version the reason names both
/// versions. Time and memory are bounded by the length of `bytes`, whatever they claim.
pub fn decode(bytes: &[u8]) -> Result<Vec<Mount>> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.take(MAGIC.len()).ok() != Some(&MAGIC[..]) {
        return Err(reader.bad("not a run file"));
    }
    let version = reader.number()?;
    if version != VERSION {
        return Err(reader.bad(format!(
            "written by another culvert (version {version}, this one reads {VERSION})"
        )));
    }
    let count = reader.number()?;
    let mut mounts = room_for(count);
    for _ in 0..count {
        let mount = reader.mount(DEEPEST)?;
        if let Err(error) = mount.check() {
            return Err(reader.bad(format!("mount {}: {error}", mounts.len())));
        }
        mounts.push(mount);
    }
    if reader.at != bytes.len() {
        return Err(reader.bad("more bytes after the last mount"));
    }
    Ok(mounts)
}

/// A list for `count` entries, if that many can be meant: each process of a run keeps it.
fn room_for<T>(count: u32) -> Vec<T> {
    const MOST: u32 = 64;
    Vec::with_capacity(count.min(MOST) as usize)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bad(&self, reason: impl core::fmt::Display) -> Error {
        Error::because(
            Errno::EBADMSG,
            format!("run file, byte {}: {reason}", self.at),
        )
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..count) else {
            return Err(self.bad(format!(
                "truncated: {count} bytes wanted, {} left",
                rest.len()
            )));
        };
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn string(&mut self) -> Result<&'a [u8]> {
        let length = self.number()?;
        self.take(length as usize)
    }

    fn name(&mut self) -> Result<String> {
        let bytes = self.string()?;
        match core::str::from_utf8(bytes) {
            Ok(name) => Ok(name.into()),
            Err(_) => Err(self.bad("a name is not UTF-8")),
        }
    }

    /// A mount, with at most `depth` mounts within each other.
    fn mount(&mut self, depth: usize) -> Result<Mount> {
        let below = depth.checked_sub(1);
        let below = below.ok_or_else(|| self.bad("too many branches of branches"))?;
        let driver = self.name()?;
        let (source, target) = (self.string()?.to_vec(), self.string()?.to_vec());
        let count = self.number()?;
        let mut options = room_for(count);
        for _ in 0..count {
            options.push((self.name()?, self.string()?.to_vec()));
        }
        let mut branches = Vec::new();
        for _ in 0..self.number()? {
            branches.push(self.mount(below)?);
        }
        Ok(Mount {
            driver,
            source,
            target,
            options,
            branches,
        })
    }
}
