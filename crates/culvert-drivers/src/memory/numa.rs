//! Which nodes of the machine the memory comes from (set_mempolicy(2)'s words, mbind(2)).
//!
//! The policy of a range of a tmpfs file is the file's own (`shmem_set_policy`, mm/shmem.c): it
//! holds for whoever makes a page, and is set once, before there are any.

use super::{host, layout::BLOCK};
use crate::invalid_option;
use alloc::format;
use culvert::{Errno, Error, Result};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::memory;

/// Nodes that are told apart.
const NODES: usize = 1024;

/// Nodes, a bit each.
type Nodes = [u64; NODES / 64];

/// Option `numa`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each page from the next node; none: of all that there are.
    Interleave(Option<Nodes>),
    /// From these alone.
    Bind(Nodes),
    /// From this one as long as it has any.
    Prefer(Nodes),
    /// From that of whoever is the first to need it.
    Local,
}

impl Policy {
    /// What the option's value says.
    pub fn parse(value: &[u8]) -> Result<Self> {
        let text = core::str::from_utf8(value).unwrap_or("?");
        let (word, list) = match text.split_once(':') {
            Some((word, list)) => (word, Some(nodes(list))),
            None => (text, None),
        };
        match (word, list) {
            ("interleave", None) => Some(Self::Interleave(None)),
            ("interleave", Some(Some(list))) => Some(Self::Interleave(Some(list))),
            ("bind", Some(Some(list))) => Some(Self::Bind(list)),
            ("prefer", Some(Some(list))) if one(&list) => Some(Self::Prefer(list)),
            ("local", None) => Some(Self::Local),
            _ => None,
        }
        .ok_or_else(|| {
            let why =
                "not interleave[:NODES], bind:NODES, prefer:NODE or local (NODES as in 0-1,3)";
            invalid_option("numa", value, why)
        })
    }

    /// Says so of the first `blocks` of the file `fd`. `ENOSYS` where the kernel knows no nodes,
    /// `EINVAL` where it has not these.
    pub fn set(&self, fd: BorrowedFd<'_>, blocks: u64) -> Result<()> {
        let refused = |errno: Errno| {
            let why = match errno {
                Errno::EINVAL => "the kernel has no such nodes",
                Errno::ENOSYS => "the kernel was built without nodes",
                Errno::EPERM => "the kernel, or a filter of system calls, does not allow it",
                _ => return Error::from(errno).within("option numa"),
            };
            Error::because(errno, format!("option numa: {why}"))
        };
        let (mode, list) = match self {
            Self::Interleave(None) => (
                memory::Policy::Interleave,
                Some(memory::allowed_nodes::<{ NODES / 64 }>().map_err(refused)?),
            ),
            Self::Interleave(Some(list)) => (memory::Policy::Interleave, Some(*list)),
            Self::Bind(list) => (memory::Policy::Bind, Some(*list)),
            Self::Prefer(list) => (memory::Policy::Preferred, Some(*list)),
            Self::Local => (memory::Policy::Local, None),
        };
        let mapped = host::map(fd, 0, blocks * BLOCK)?;
        let list = list.as_ref().map_or(&[][..], |list| &list[..]);
        memory::bind(&mapped, mode, list).map_err(refused)
    }
}

/// Whether there is exactly one.
fn one(list: &Nodes) -> bool {
    list.iter().map(|word| word.count_ones()).sum::<u32>() == 1
}

/// The nodes of a list like `0-1,3`.
fn nodes(text: &str) -> Option<Nodes> {
    let mut list = [0; NODES / 64];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if first > last || last >= NODES {
            return None;
        }
        (first..=last).for_each(|node| list[node / 64] |= 1 << (node % 64));
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read() {
        let mut list = [0; NODES / 64];
        list[0] = 0b1011;
        let parsed = |text: &str| Policy::parse(text.as_bytes()).ok();
        assert_eq!(parsed("bind:0-1,3"), Some(Policy::Bind(list)));
        assert_eq!(
            parsed("interleave:0-1,3"),
            Some(Policy::Interleave(Some(list)))
        );
        assert_eq!(parsed("interleave"), Some(Policy::Interleave(None)));
        assert_eq!(parsed("local"), Some(Policy::Local));
        for bad in [
            "",
            "bind",
            "prefer:0-1",
            "bind:",
            "bind:3-1",
            "bind:1024",
            "local:1",
            "x:1",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
        list[0] = 1 << 2;
        assert_eq!(parsed("prefer:2"), Some(Policy::Prefer(list)));
    }
}
