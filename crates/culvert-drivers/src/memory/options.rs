//! The options of a memory mount.

use super::{layout, numa::Policy};
use crate::option_table::option_table;
use crate::{AccessTimes, Declared, OptionTable, OtherUser, Source, check_names, invalid_option};
use alloc::vec::Vec;
use culvert::{Errno, Error, Result, mount::Mount};

/// What the driver declares.
pub const DECLARED: Declared = Declared {
    source: Source::Name,
    recognises: |source| source == b"memory" || source.starts_with(b"memory:"),
    // Whoever has the file has all that is in it, whatever its modes say.
    other_user: OtherUser::Refused("files in memory are kept by the user of the run"),
    access_times: AccessTimes::Own,
    may_be_bound: None,
    below_layers: None,
    branch_nodes: None,
};

/// What `culvert drivers memory` shows.
pub const OPTIONS: OptionTable = option_table![
    (
        "size",
        "BYTES",
        "largest size, with k, m, g or t for powers of 1024 (default: half of what the \
            place it lies in has free)"
    ),
    (
        "spill",
        "DIR",
        "what does not fit into its size lies in a file in this directory"
    ),
    (
        "spill-size",
        "BYTES",
        "how much that may be (default: all that the directory has free)"
    ),
    (
        "numa",
        "POLICY",
        "which nodes its memory comes from: interleave, bind:NODES, prefer:NODE or local \
            (default: the kernel's choice); NODES as in 0-1,3, also behind interleave:"
    ),
    (
        "inodes",
        "N",
        "most files and directories (default: one for each 4096 bytes of size)"
    ),
    (
        "mode",
        "OCTAL",
        "permission bits of the root directory (default: 755)"
    ),
    ("uid", "N", "owner of the root directory (default: you)"),
    ("gid", "N", "group of the root directory (default: yours)"),
    ("ro", "", "read-only"),
    ("rw", "", "writable (default)"),
];

/// The options of one mount, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `size`, in blocks.
    pub blocks: Option<u64>,
    /// `spill`.
    pub spill: Option<Vec<u8>>,
    /// `spill-size`, in blocks.
    pub spill_blocks: Option<u64>,
    /// `numa`.
    pub numa: Option<Policy>,
    /// `inodes`.
    pub inodes: Option<u64>,
    /// `mode`.
    pub mode: Option<u32>,
    /// `uid`.
    pub uid: Option<u32>,
    /// `gid`.
    pub gid: Option<u32>,
}

impl Options {
    /// The options of `mount`; `EINVAL` with what is wrong and what there is.
    pub fn parse(mount: &Mount) -> Result<Self> {
        check_names(OPTIONS, mount)?;
        let mut options = Self::default();
        for (name, value) in &mount.options {
            match name.as_str() {
                "size" => options.blocks = Some(size("size", value, layout::FEWEST_BLOCKS)?),
                "spill" if value.is_empty() => {
                    return Err(invalid_option(name, value, "a directory is needed"));
                }
                "spill" => options.spill = Some(value.clone()),
                "spill-size" => options.spill_blocks = Some(size(name, value, 1)?),
                "numa" => options.numa = Some(Policy::parse(value)?),
                "inodes" => options.inodes = Some(inodes(value)?),
                "mode" => options.mode = Some(mode(value)?),
                "uid" => options.uid = Some(number("uid", value)?),
                "gid" => options.gid = Some(number("gid", value)?),
                _ => {}
            }
        }
        if options.spill_blocks.is_some() && options.spill.is_none() {
            let why = "option spill-size goes with spill=DIR";
            return Err(Error::because(Errno::EINVAL, why));
        }
        Ok(options)
    }
}

fn text(value: &[u8]) -> &str {
    core::str::from_utf8(value).unwrap_or("?")
}

fn number(name: &str, value: &[u8]) -> Result<u32> {
    match text(value).parse() {
        Ok(u32::MAX) | Err(_) => Err(invalid_option(
            name,
            value,
            "not a number of a user or group",
        )),
        Ok(number) => Ok(number),
    }
}

fn size(name: &str, value: &[u8], least: u64) -> Result<u64> {
    let (digits, unit) = match value {
        [digits @ .., b'k' | b'K'] => (digits, 10),
        [digits @ .., b'm' | b'M'] => (digits, 20),
        [digits @ .., b'g' | b'G'] => (digits, 30),
        [digits @ .., b't' | b'T'] => (digits, 40),
        digits => (digits, 0),
    };
    let bytes = text(digits).parse::<u64>().ok();
    let bytes = bytes.and_then(|count| count.checked_mul(1 << unit));
    let why = "not a size (a number of bytes, or one with k, m, g or t behind it)";
    let bytes = bytes.ok_or_else(|| invalid_option(name, value, why))?;
    let blocks = bytes.div_ceil(layout::BLOCK);
    if blocks < least {
        let least = match least {
            1 => "the least is 1",
            _ => "the least is 256k",
        };
        return Err(invalid_option(name, value, least));
    }
    if blocks > layout::MOST_BLOCKS {
        return Err(invalid_option(name, value, "the most is 1t"));
    }
    Ok(blocks)
}

fn inodes(value: &[u8]) -> Result<u64> {
    let count = text(value).parse::<u64>().ok();
    count
        .filter(|count| (1..=layout::MOST_INODES).contains(count))
        .ok_or_else(|| invalid_option("inodes", value, "not a number from 1 to 16777215"))
}

fn mode(value: &[u8]) -> Result<u32> {
    u32::from_str_radix(text(value), 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| invalid_option("mode", value, "not permission bits in octal (as 1777)"))
}

/// The name that source `source` gives: none for a file system of the run alone.
pub fn name_of(source: &[u8]) -> Result<Option<&[u8]>> {
    let invalid = |why: &'static str| Err(Error::because(Errno::EINVAL, why));
    match source {
        b"memory" => Ok(None),
        [b'm', b'e', b'm', b'o', b'r', b'y', b':', name @ ..] => match name {
            b"" => invalid("memory: has no name behind the colon"),
            b"." | b".." => invalid("a memory file system cannot be called . or .."),
            name if name.len() > 249 => invalid("the name is longer than 249 bytes"),
            name if name.ends_with(super::kernel_files::SUFFIX) => {
                invalid("the name of a memory file system does not end in .files")
            }
            name if name.ends_with(super::spill::SUFFIX) => {
                invalid("the name of a memory file system does not end in .spill")
            }
            name if name.contains(&b'/') || name.contains(&0) => {
                invalid("the name of a memory file system has no slash and no NUL")
            }
            name => Ok(Some(name)),
        },
        _ => invalid("the source of type memory is memory or memory:NAME, or left out"),
    }
}
