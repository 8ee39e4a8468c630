//! What the records of a directory's droppings say, merged: its names, and where the bytes of each
//! file are.

use super::format::{Entry, Event, Named};
use alloc::{collections::BTreeMap, vec::Vec};

/// The files of a directory.
#[derive(Default)]
pub struct Files {
    pub names: BTreeMap<Vec<u8>, u64>,
    /// By number: the inode.
    all: BTreeMap<u64, File>,
    /// By the number of a dropping, and the file's number in it.
    by_place: BTreeMap<(u32, u64), u64>,
    /// The last time of a record; those that follow are later, whatever the clock says.
    pub latest: u64,
}

/// A file.
#[derive(Default)]
pub struct File {
    /// Its name; none when it was removed.
    pub name: Option<Vec<u8>>,
    /// How often it is open in this process.
    pub opens: u32,
    /// When it was written, and when anything was done to it.
    written: u64,
    pub changed: u64,
    /// What utimensat(2) has set, until it is opened for writing again.
    pub set: Option<u64>,
    places: Vec<(u32, u64)>,
    /// In the order of their times, each with its dropping.
    entries: Vec<(Entry, u32)>,
    extents: BTreeMap<u64, Extent>,
    pub size: u64,
}

/// Bytes that stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub length: u64,
    pub dropping: u32,
    pub physical: u64,
}

/// What is at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    End,
    /// So many zeros.
    Hole(u64),
    Data(Extent),
}

/// The inode of the file whose first record is at `offset` of the name dropping `inode`.
fn number(inode: u64, offset: u64) -> u64 {
    let mixed =
        inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ offset.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed ^ mixed >> 29) | 1
}

impl Files {
    /// The record at `offset` of the name dropping `from`, which has this `inode`.
    pub fn named(&mut self, (from, inode, offset): (u32, u64, u64), record: &Named<'_>) {
        let time = record.time;
        if !matches!(record.event, Event::Times(_)) {
            self.latest = self.latest.max(time);
        }
        match record.event {
            // Made twice it is still one.
            Event::Create(name) if !self.names.contains_key(name) => {
                let number = number(inode, offset);
                let made = File {
                    name: Some(name.to_vec()),
                    written: time,
                    changed: time,
                    ..File::default()
                };
                self.names.insert(name.to_vec(), number);
                self.all.insert(number, made);
            }
            Event::Create(_) => {}
            Event::Delete(name) => self.unname(name),
            Event::Rename(from, to) => {
                if from != to
                    && let Some(number) = self.names.remove(from)
                {
                    self.unname(to);
                    self.names.insert(to.to_vec(), number);
                    if let Some(file) = self.all.get_mut(&number) {
                        file.name = Some(to.to_vec());
                        file.changed = file.changed.max(time);
                    }
                }
            }
            Event::Open(name) => {
                if let Some(&number) = self.names.get(name)
                    && let Some(file) = self.all.get_mut(&number)
                {
                    (file.set, file.written) = (None, file.written.max(time));
                    file.changed = file.changed.max(time);
                    self.place(number, (from, offset));
                }
            }
            Event::Times(name) => {
                let number = self.names.get(name);
                if let Some(file) = number.and_then(|number| self.all.get_mut(number)) {
                    file.set = Some(time);
                }
            }
        }
    }

    /// Entries for `place` are of file `number`.
    pub fn place(&mut self, number: u64, place: (u32, u64)) {
        if let Some(file) = self.all.get_mut(&number) {
            file.places.push(place);
            self.by_place.insert(place, number);
        }
    }

    fn unname(&mut self, name: &[u8]) {
        if let Some(number) = self.names.remove(name) {
            if let Some(file) = self.all.get_mut(&number) {
                file.name = None;
            }
            self.collect(number);
        }
    }

    /// Forgets the file if nobody can reach it any more.
    fn collect(&mut self, number: u64) {
        let gone = |file: &File| file.opens == 0 && file.name.is_none();
        if self.all.get(&number).is_some_and(gone)
            && let Some(file) = self.all.remove(&number)
        {
            for place in file.places {
                self.by_place.remove(&place);
            }
        }
    }

    pub fn opened(&mut self, number: u64) {
        if let Some(file) = self.all.get_mut(&number) {
            file.opens += 1;
        }
    }

    pub fn closed(&mut self, number: u64) {
        if let Some(file) = self.all.get_mut(&number) {
            file.opens -= 1;
        }
        self.collect(number);
    }

    pub fn get(&self, number: u64) -> Option<&File> {
        self.all.get(&number)
    }

    /// An entry of the index dropping `from`. What belongs to no file is of a removed one.
    pub fn entry(&mut self, from: u32, entry: Entry) {
        self.latest = self.latest.max(entry.time);
        let number = self.by_place.get(&(from, entry.file));
        if let Some(file) = number.and_then(|number| self.all.get_mut(number)) {
            file.add(entry, from);
        }
    }
}

impl File {
    /// When it was written, as the time of a record.
    pub fn time(&self) -> u64 {
        self.set.unwrap_or(self.written)
    }

    /// Its number in the dropping `from`, where it has one that can be used.
    pub fn place_in(&self, from: u32) -> Option<u64> {
        let own = |place: &&(u32, u64)| place.0 == from;
        let last = self.places.iter().rev().find(own).map(|(_, file)| *file);
        // PLFS takes the time of the last record about the name for the file's.
        last.filter(|_| self.set.is_none())
    }

    fn add(&mut self, entry: Entry, from: u32) {
        self.written = self.written.max(entry.time);
        self.changed = self.changed.max(entry.time);
        let at = self
            .entries
            .partition_point(|(one, _)| one.time <= entry.time);
        self.entries.insert(at, (entry, from));
        if at + 1 == self.entries.len() {
            return self.apply(at);
        }
        self.extents.clear();
        self.size = 0;
        for at in 0..self.entries.len() {
            self.apply(at);
        }
    }

    fn apply(&mut self, at: usize) {
        let (entry, dropping) = self.entries[at];
        let (start, end) = (entry.offset, entry.offset + entry.length);
        match entry.physical {
            None => {
                self.clear(start, u64::MAX);
                self.size = start;
            }
            Some(_) if entry.length == 0 => {}
            Some(physical) => {
                self.clear(start, end);
                let length = entry.length;
                self.extents.insert(
                    start,
                    Extent {
                        length,
                        dropping,
                        physical,
                    },
                );
                self.size = self.size.max(end);
            }
        }
    }

    /// Nothing is between `start` and `end` any more.
    fn clear(&mut self, start: u64, end: u64) {
        let first = self.extents.range(..start).next_back();
        let first = first.filter(|(at, one)| *at + one.length > start);
        let from = first.map_or(start, |(at, _)| *at);
        let hit: Vec<_> = self
            .extents
            .range(from..end)
            .map(|(at, one)| (*at, *one))
            .collect();
        for (at, one) in hit {
            self.extents.remove(&at);
            if at < start {
                self.extents.insert(
                    at,
                    Extent {
                        length: start - at,
                        ..one
                    },
                );
            }
            let over = (at + one.length).saturating_sub(end);
            if over > 0 {
                let physical = one.physical + (one.length - over);
                self.extents.insert(
                    end,
                    Extent {
                        length: over,
                        physical,
                        ..one
                    },
                );
            }
        }
    }

    /// What is from `offset` on.
    pub fn find(&self, offset: u64) -> Found {
        let before = self.extents.range(..=offset).next_back();
        if let Some((at, one)) = before
            && at + one.length > offset
        {
            let skipped = offset - at;
            return Found::Data(Extent {
                length: one.length - skipped,
                physical: one.physical + skipped,
                ..*one
            });
        }
        let next = self.extents.range(offset..).next();
        let next = next.map_or(self.size, |(at, _)| *at);
        match next > offset {
            true => Found::Hole(next - offset),
            false => Found::End,
        }
    }

    /// Bytes that it has.
    pub fn bytes(&self) -> u64 {
        self.extents.values().map(|one| one.length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time: u64, offset: u64, length: u64, physical: Option<u64>) -> Entry {
        Entry {
            file: 0,
            offset,
            length,
            time,
            physical,
        }
    }

    /// The file that `entries` make, as its bytes: of data the physical offset, 255 of holes.
    fn bytes(entries: &[Entry]) -> Vec<u8> {
        let mut file = File::default();
        for entry in entries {
            file.add(*entry, 0);
        }
        let mut all = Vec::new();
        loop {
            match file.find(all.len() as u64) {
                Found::End => return all,
                Found::Hole(count) => all.resize(all.len() + count as usize, 255),
                Found::Data(one) => all.extend((0..one.length).map(|at| (one.physical + at) as u8)),
            }
        }
    }

    #[test]
    fn later_entries_win_in_any_order() {
        let all = [
            entry(1, 0, 6, Some(0)),
            entry(2, 2, 2, Some(50)),
            entry(3, 8, 2, Some(60)),
            entry(4, 9, 0, None),
            entry(5, 11, 0, None),
            entry(6, 5, 1, Some(70)),
        ];
        let want = [0, 1, 50, 51, 4, 70, 255, 255, 60, 255, 255];
        assert_eq!(bytes(&all), want);
        let mut other = all;
        other.reverse();
        assert_eq!(bytes(&other), want);
        other.swap(0, 3);
        assert_eq!(bytes(&other), want);
    }

    #[test]
    fn names_follow_the_records() {
        let mut files = Files::default();
        let mut at = 0;
        let mut is = |event| {
            at += 20;
            files.named((0, 7, at), &Named { time: at, event });
            files.names.keys().cloned().collect::<Vec<_>>().join(&b' ')
        };
        assert_eq!(is(Event::Create(b"a")), b"a");
        assert_eq!(is(Event::Create(b"a")), b"a");
        assert_eq!(is(Event::Create(b"b")), b"a b");
        assert_eq!(is(Event::Rename(b"a", b"a")), b"a b");
        assert_eq!(is(Event::Rename(b"none", b"b")), b"a b");
        assert_eq!(is(Event::Rename(b"a", b"b")), b"b");
        assert_eq!(is(Event::Delete(b"a")), b"b");
        assert_eq!(is(Event::Delete(b"b")), b"");
        assert!(files.all.is_empty() && files.by_place.is_empty());
    }
}
