//! Open files and directories by their numbers. The state of a record is how it is opened again.

use super::records::{Record, Records};
use crate::handles::place;
use std::io;

/// The number, in a record's words.
const NUMBER: usize = 0;
/// By which number the kernel waits for it to become ready; 0: it does not.
const WAITS: usize = 8;

/// How an open thing is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reopen {
    /// Its descriptor is it.
    Backed = 1,
    /// The driver opens it by its node.
    Driven = 2,
    /// It could not be; its number is the kernel's still.
    Lost = 3,
}

/// Something open.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// How it is opened again.
    pub kind: Reopen,
    /// The node it is of.
    pub node: u64,
    /// The flags of open(2).
    pub flags: u32,
    /// The descriptor of a [`Reopen::Backed`] one.
    pub fd: i32,
    /// Which file of the kernel's that must be: `st_dev` and `st_ino`.
    pub identity: [u64; 2],
    /// By which number the kernel reads and writes it; 0: none, -1: not counted at all.
    pub backing: i32,
    /// The request that opened it.
    pub request: u64,
}

/// All of them.
#[derive(Debug)]
pub struct Opens(Records<9>);

impl Opens {
    pub(super) const NONE: Self = Self(Records::NONE);

    pub(super) fn new(count: usize) -> io::Result<Self> {
        Records::new(count).map(Self)
    }

    /// The record of `number`, if its place is not another's by now.
    fn own(&self, number: u64) -> Option<&Record<9>> {
        let record = self.0.at(index(number)?)?;
        (record.word(NUMBER) == number).then_some(record)
    }

    /// `number` is `open`.
    pub fn set(&self, number: u64, open: &Open) {
        // As many are open as there are descriptors, or one more is: it will be lost with the
        // server.
        if let Some(record) = index(number).and_then(|place| self.0.use_at(place)) {
            let [device, inode] = open.identity;
            let words = [
                number,
                open.node,
                open.flags.into(),
                open.request,
                open.fd as u64,
                open.backing as u64,
                device,
                inode,
                0,
            ];
            record.write(open.kind as u64, words);
        }
    }

    /// `number` is closed.
    pub fn clear(&self, number: u64) {
        if let Some(record) = self.own(number) {
            record.commit(0);
        }
    }

    /// `number` is open to the kernel alone.
    pub fn lose(&self, number: u64) {
        if let Some(record) = self.own(number) {
            record.commit(Reopen::Lost as u64);
        }
    }

    /// Who waits for file `number` to become ready is known to the kernel by `waits`.
    pub fn waits(&self, number: u64, waits: u64) {
        if let Some(record) = self.own(number) {
            record.set_word(WAITS, waits);
        }
    }

    /// By which numbers the kernel waits for files that are open.
    pub fn waiting(&self) -> impl Iterator<Item = u64> {
        let waits = self.0.each().map(|(_, _, record)| record.word(WAITS));
        waits.filter(|&waits| waits != 0)
    }

    /// All that are open.
    pub fn each(&self) -> impl Iterator<Item = (u64, Open)> {
        self.0.each().filter_map(|(_, kind, record)| {
            let kind = match kind {
                1 => Reopen::Backed,
                2 => Reopen::Driven,
                3 => Reopen::Lost,
                _ => return None,
            };
            let [number, node, flags, request, fd, backing, device, inode, _] = record.words();
            let open = Open {
                kind,
                node,
                flags: flags as u32,
                fd: fd as i32,
                identity: [device, inode],
                backing: backing as i32,
                request,
            };
            Some((number, open))
        })
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = i32> {
        let backed = self.each().filter(|(_, open)| open.kind == Reopen::Backed);
        backed.map(|(_, open)| open.fd)
    }
}

/// The place of `number`, from 0.
fn index(number: u64) -> Option<usize> {
    usize::try_from(place(number).checked_sub(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Open = Open {
        kind: Reopen::Backed,
        node: 5,
        flags: 2,
        fd: 17,
        identity: [3, 4],
        backing: -1,
        request: 8,
    };

    #[test]
    fn what_is_open_stands_there_until_it_is_closed() {
        let opens = Opens::new(100).unwrap();
        opens.set(1, &OPEN);
        opens.set(3, &OPEN);
        opens.set(1000, &OPEN);
        opens.waits(1, 50);
        opens.waits(3, 51);
        assert_eq!(opens.waiting().collect::<Vec<_>>(), [50, 51]);
        opens.clear(1);
        opens.clear(0);
        assert_eq!(opens.waiting().collect::<Vec<_>>(), [51]);
        opens.set(3, &OPEN);
        assert_eq!(opens.waiting().count(), 0);
        let found: Vec<_> = opens
            .each()
            .map(|(number, open)| (number, open.fd, open.backing, open.identity))
            .collect();
        assert_eq!(found, [(3, 17, -1, [3, 4])]);
        assert_eq!(opens.descriptors().collect::<Vec<_>>(), [17]);
    }

    /// A RELEASE that comes again closes nothing that is open in its place.
    #[test]
    fn a_place_is_one_numbers() {
        let opens = Opens::new(10).unwrap();
        let (old, new) = (1 << 32 | 3, 2 << 32 | 3);
        opens.set(old, &OPEN);
        opens.clear(old);
        opens.set(new, &OPEN);
        opens.clear(old);
        opens.lose(old);
        let kinds = || {
            let each = opens.each();
            each.map(|(number, open)| (number, open.kind))
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds(), [(new, Reopen::Backed)]);
        // What is lost is still open to the kernel, but by no descriptor.
        opens.lose(new);
        assert_eq!(kinds(), [(new, Reopen::Lost)]);
        assert_eq!(opens.descriptors().count(), 0);
    }
}
