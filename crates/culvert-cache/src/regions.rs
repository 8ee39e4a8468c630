//! Which addresses show which bytes of which file.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// How it is known which pages of a region were stored into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// It is not.
    No,
    /// All were protected: each that is not any more was.
    Protected,
    /// None was there in the beginning: each that is there and not protected may have been.
    Absent,
}

/// A stretch of addresses that shows consecutive bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region<T> {
    /// Its first address.
    pub start: usize,
    /// The first address behind it.
    pub end: usize,
    /// Where in the file the byte at `start` lies.
    pub offset: u64,
    /// Stores were allowed at some time, and are recorded.
    pub written: bool,
    /// How it is known which pages were stored into.
    pub watch: Watch,
    /// The file.
    pub of: T,
}

impl<T: Clone> Region<T> {
    /// The part from `start` to `end`, none when that is empty.
    fn part(&self, start: usize, end: usize) -> Option<Self> {
        let (start, end) = (start.max(self.start), end.min(self.end));
        (start < end).then(|| Self {
            start,
            end,
            offset: self.offset + (start - self.start) as u64,
            ..self.clone()
        })
    }

    /// The part that shows bytes of `range`, none when there are no such. `range` in whole pages.
    pub fn showing(&self, range: (u64, u64)) -> Option<Self> {
        let bytes = self.bytes();
        let (first, last) = (range.0.max(bytes.0), range.1.min(bytes.1));
        let address = |byte: u64| self.start + (byte - self.offset) as usize;
        (first < last)
            .then(|| self.part(address(first), address(last)))
            .flatten()
    }

    /// The bytes of the file that it shows, as far as there are such.
    pub fn bytes(&self) -> (u64, u64) {
        let end = self.offset.saturating_add((self.end - self.start) as u64);
        (self.offset, end)
    }
}

/// All of them, none overlapping another, by their first address: a program may have 65,530
/// mappings (vm.max_map_count).
#[derive(Default)]
pub struct Regions<T>(BTreeMap<usize, Region<T>>);

impl<T: Clone> Regions<T> {
    /// None.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The parts of all that lie between `start` and `end`.
    pub fn between(&self, start: usize, end: usize) -> Vec<Region<T>> {
        if start >= end {
            return Vec::new();
        }
        // One may begin before.
        let before = self.0.range(..start).next_back();
        before
            .into_iter()
            .chain(self.0.range(start..end))
            .filter_map(|(_, region)| region.part(start, end))
            .collect()
    }

    /// Takes out what lies between `start` and `end`, and returns it.
    pub fn take(&mut self, start: usize, end: usize) -> Vec<Region<T>> {
        let taken = self.between(start, end);
        for part in &taken {
            // Only the first one can have begun before.
            let whole = self.0.range(..=part.start).next_back();
            let Some((&at, whole)) = whole else { continue };
            let rest = [whole.part(0, start), whole.part(end, usize::MAX)];
            self.0.remove(&at);
            for rest in rest.into_iter().flatten() {
                self.0.insert(rest.start, rest);
            }
        }
        taken
    }

    /// Adds a region; what was at its addresses is forgotten, as a new mapping there replaces it.
    pub fn insert(&mut self, region: Region<T>) {
        if region.start < region.end {
            self.take(region.start, region.end);
            self.0.insert(region.start, region);
        }
    }

    /// Changes what is known of all between `start` and `end`.
    pub fn change(&mut self, start: usize, end: usize, change: impl Fn(&mut Region<T>)) {
        for mut region in self.take(start, end) {
            change(&mut region);
            self.insert(region);
        }
    }

    /// All of them, in the order of their addresses.
    pub fn all(&self) -> impl Iterator<Item = &Region<T>> {
        self.0.values()
    }

    /// Those that begin at `address` or behind it.
    pub fn from(&self, address: usize) -> impl Iterator<Item = &Region<T>> {
        self.0.range(address..).map(|(_, region)| region)
    }
}

/// The same bytes, each once, in their order.
pub fn merged(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    ranges
}

/// The bytes that are in both.
pub fn common(one: (u64, u64), other: (u64, u64)) -> Option<(u64, u64)> {
    let both = (one.0.max(other.0), one.1.min(other.1));
    (both.0 < both.1).then_some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model: what each page shows.
    type Model = [Option<(u8, u64)>; 32];

    fn check(regions: &Regions<u8>, model: &Model) {
        for (page, want) in model.iter().enumerate() {
            let found = regions.between(page, page + 1);
            assert!(found.len() <= 1);
            assert_eq!(found.first().map(|found| (found.of, found.offset)), *want);
        }
    }

    /// Mapping over, unmapping parts: every page shows what was last mapped there.
    #[test]
    fn each_address_shows_what_was_mapped_there_last() {
        let (mut regions, mut model) = (Regions::new(), [None; 32]);
        let mut seed = 1u32;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
            (seed >> 16) as usize % below
        };
        for step in 0..2000 {
            let start = random(32);
            let end = start + random(33 - start);
            if random(3) == 0 {
                let taken: usize = regions
                    .take(start, end)
                    .iter()
                    .map(|taken| taken.end - taken.start)
                    .sum();
                let there = model[start..end].iter().flatten().count();
                assert_eq!(taken, there);
                model[start..end].fill(None);
            } else {
                let (of, offset) = ((step % 200) as u8, random(100) as u64);
                regions.insert(Region {
                    start,
                    end,
                    offset,
                    written: false,
                    watch: Watch::No,
                    of,
                });
                for (index, page) in model[start..end].iter_mut().enumerate() {
                    *page = Some((of, offset + index as u64));
                }
            }
            check(&regions, &model);
        }
    }

    #[test]
    fn a_part_shows_what_was_asked_for() {
        let region = Region {
            start: 10,
            end: 20,
            offset: 100,
            written: true,
            watch: Watch::No,
            of: 1,
        };
        let part = |range| {
            region
                .showing(range)
                .map(|it| (it.start, it.end, it.offset))
        };
        assert_eq!(part((0, u64::MAX)), Some((10, 20, 100)));
        assert_eq!(part((103, 105)), Some((13, 15, 103)));
        assert_eq!(part((90, 101)), Some((10, 11, 100)));
        assert_eq!((part((90, 100)), part((110, 120))), (None, None));
    }

    #[test]
    fn stores_are_allowed_in_a_part() {
        let mut regions = Regions::new();
        regions.insert(Region {
            start: 0,
            end: 10,
            offset: 100,
            written: false,
            watch: Watch::No,
            of: 1,
        });
        regions.change(3, 5, |region| region.written = true);
        let written = |page| regions.between(page, page + 1)[0].written;
        assert!(written(3) && written(4) && !written(2) && !written(5));
        assert_eq!(regions.between(4, 5)[0].bytes(), (104, 105));
    }

    #[test]
    fn bytes_are_named_once() {
        let ranges = alloc::vec![(8, 12), (0, 4), (2, 5), (5, 6), (9, 10)];
        assert_eq!(merged(ranges), [(0, 6), (8, 12)]);
        assert_eq!(merged(Vec::new()), []);
    }

    #[test]
    fn what_touches_has_nothing_in_common() {
        assert_eq!(common((0, 4), (4, 8)), None);
        assert_eq!(common((0, 5), (4, 8)), Some((4, 5)));
    }
}
