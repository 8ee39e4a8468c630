//! The ranges of a process whose missing pages the pager fills.

use super::message::{Kind, Message};
use super::userfault;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_run::ShadowName;

/// A part of the program's memory, whose missing pages the pager fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First address.
    pub start: usize,
    /// Bytes.
    pub length: usize,
    /// The file.
    pub name: ShadowName,
    /// Its byte at `start`.
    pub offset: u64,
    /// It must not become writable (mprotect(2), EACCES): the program's descriptor does not allow
    /// to write through it. The kernel's does, without which it takes no registration
    /// (`VM_MAYWRITE`, UFFDIO_REGISTER).
    pub read_only: bool,
}

impl Part {
    /// What of it lies between `start` and `end`, if anything does.
    fn within(&self, start: usize, end: usize) -> Option<Self> {
        let (from, to) = (
            self.start.max(start),
            self.start.saturating_add(self.length).min(end),
        );
        (from < to).then(|| Self {
            start: from,
            length: to - from,
            offset: self.offset + (from - self.start) as u64,
            ..*self
        })
    }

    /// Its missing pages are asked for by the userfaultfd `fd` from here on.
    pub(crate) fn register(&self, fd: i32) -> Result<(), Errno> {
        userfault::register(fd, self.start as u64, self.length as u64)
    }

    /// And no longer.
    pub(crate) fn unregister(&self, fd: i32) {
        let _ = userfault::unregister(fd, self.start as u64, self.length as u64);
    }

    /// Who waits for a page of it asks again.
    pub(crate) fn wake(&self, fd: i32) {
        let _ = userfault::wake(fd, self.start as u64, self.length as u64);
    }

    /// What the pager is told of it.
    pub(crate) fn message(&self) -> Message {
        Message {
            start: self.start as u64,
            length: self.length as u64,
            offset: self.offset,
            node: self.name.node.0,
            mount: self.name.mount.0.into(),
            ..Message::new(Kind::Attach)
        }
    }
}

/// What of `parts` lies in `length` bytes at `start`.
pub(crate) fn between(parts: &[Part], start: usize, length: usize) -> Vec<Part> {
    let end = start.saturating_add(length);
    let found = parts.iter().filter_map(|part| part.within(start, end));
    found.collect()
}

/// Takes `length` bytes at `start` out of `parts`; whether anything of them was there.
pub(crate) fn cut(parts: &mut Vec<Part>, start: usize, length: usize) -> bool {
    let end = start.saturating_add(length);
    if !parts.iter().any(|part| part.within(start, end).is_some()) {
        return false;
    }
    let mut left = Vec::with_capacity(parts.len() + 1);
    for part in parts.drain(..) {
        left.extend(part.within(0, start));
        left.extend(part.within(end, usize::MAX));
    }
    *parts = left;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn part(start: usize, length: usize, offset: u64) -> Part {
        Part {
            start,
            length,
            name: ShadowName {
                mount: culvert_mounts::MountId(0),
                node: culvert::Node(1),
            },
            offset,
            read_only: false,
        }
    }

    #[test]
    fn what_is_cut_out_leaves_what_lies_before_and_behind() {
        let all = [part(0x1000, 0x4000, 0), part(0x8000, 0x1000, 0x7000)];
        for (start, length, left) in [
            (0, 0x1000, None),
            (0x5000, 0x3000, None),
            (0x2000, 0, None),
            (0, usize::MAX, Some(vec![])),
            (0x1000, 0x4000, Some(vec![all[1]])),
            (
                0x2000,
                0x1000,
                Some(vec![
                    part(0x1000, 0x1000, 0),
                    part(0x3000, 0x2000, 0x2000),
                    all[1],
                ]),
            ),
            (
                0x4000,
                0x4800,
                Some(vec![part(0x1000, 0x3000, 0), part(0x8800, 0x800, 0x7800)]),
            ),
        ] {
            let mut parts = all.to_vec();
            assert_eq!(cut(&mut parts, start, length), left.is_some());
            assert_eq!(
                parts,
                left.unwrap_or(all.to_vec()),
                "{start:#x} {length:#x}"
            );
        }
        let found = between(&all, 0x4000, 0x4800);
        assert_eq!(
            found,
            [part(0x4000, 0x1000, 0x3000), part(0x8000, 0x800, 0x7000)]
        );
    }
}
