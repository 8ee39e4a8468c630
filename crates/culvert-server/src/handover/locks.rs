//! Who holds locks, by the descriptions that have them. The state of a record is the kind of locks.

use super::records::Records;
use std::io;

/// A holder of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Which kind of locks; not 0.
    pub kind: u32,
    /// Who, as the kernel calls him (`lk_owner`).
    pub owner: u64,
    /// On what.
    pub node: u64,
    /// By which open file last.
    pub fh: u64,
    /// By which process last.
    pub pid: u32,
    /// The description's descriptor.
    pub fd: i32,
    /// Which file of the kernel's it is on: `st_dev` and `st_ino`.
    pub identity: [u64; 2],
}

/// All of them.
#[derive(Debug)]
pub struct Holdings(Records<7>);

impl Holdings {
    pub(super) const NONE: Self = Self(Records::NONE);

    pub(super) fn new(count: usize) -> io::Result<Self> {
        Records::new(count).map(Self)
    }

    /// Writes `holding` down; where. None: there is no room, and it is lost with this server.
    pub fn add(&self, holding: &Holding) -> Option<usize> {
        let place = self.0.take()?;
        self.set(place, holding);
        Some(place)
    }

    /// The one at `place` is `holding` by now.
    pub fn set(&self, place: usize, holding: &Holding) {
        let Some(record) = self.0.at(place) else {
            return;
        };
        let [device, inode] = holding.identity;
        let words = [
            holding.owner,
            holding.node,
            holding.fh,
            holding.pid.into(),
            holding.fd as u64,
            device,
            inode,
        ];
        record.write(holding.kind.into(), words);
    }

    /// The one at `place` holds nothing any more.
    pub fn clear(&self, place: usize) {
        if let Some(record) = self.0.at(place) {
            record.commit(0);
        }
    }

    /// Those that there are, with their places.
    pub fn each(&self) -> impl Iterator<Item = (usize, Holding)> {
        self.0.each().map(|(place, kind, record)| {
            let [owner, node, fh, pid, fd, device, inode] = record.words();
            let holding = Holding {
                kind: kind as u32,
                owner,
                node,
                fh,
                pid: pid as u32,
                fd: fd as i32,
                identity: [device, inode],
            };
            (place, holding)
        })
    }

    /// The descriptors that they are.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = i32> {
        self.each().map(|(_, holding)| holding.fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let holdings = Holdings::new(2).unwrap();
        let one = |owner| Holding {
            kind: 1,
            owner,
            node: 2,
            fh: 3,
            pid: 4,
            fd: 5,
            identity: [6, 7],
        };
        assert_eq!(holdings.add(&one(1)), Some(0));
        assert_eq!(holdings.add(&one(2)), Some(1));
        assert_eq!(holdings.add(&one(3)), None);
        holdings.clear(0);
        assert_eq!(holdings.add(&one(4)), Some(0));
        let changed = Holding {
            fh: 6,
            pid: 7,
            fd: -8,
            ..one(4)
        };
        holdings.set(0, &changed);
        let found: Vec<_> = holdings.each().map(|(_, holding)| holding).collect();
        assert_eq!(found, [changed, one(2)]);
    }
}
