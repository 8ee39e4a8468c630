//! Where debuggers have breakpoints in ld.so before its first instruction.
//!
//! Each debugger that knows shared libraries stops where ld.so tells that it has mapped one: gdb at
//! the probes of the provider `rtld` (gdb, `solib-svr4.c`, `svr4_create_solib_event_breakpoints`),
//! or, as others do, at the function `_dl_debug_state`, to which `r_brk` leads (glibc,
//! `elf/link.h`). So these few places tell whether one is there.

use crate::elf::{Image, long, word};
use crate::functions::Sections;
use alloc::vec::Vec;

/// Two sums of code, by which a breakpoint in it is seen: of its words, and of their bits apart.
pub type Sums = [u64; 2];

/// The sums of `code`; bytes that are no whole word count with zeroes behind them.
fn sums(code: &[u8]) -> Sums {
    let (words, rest) = code.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let words = words.iter().chain([&last]);
    words.fold([0, 0], |[sum, bits], word| {
        let word = u64::from_le_bytes(*word);
        [sum.wrapping_add(word), bits ^ word]
    })
}

/// More than loaders have: some 25 functions and 20 probes.
const MOST: usize = 96;
const NONE: u32 = u32::MAX;
/// What stands at a place: more than the one byte of a breakpoint, and a short prologue, behind
/// which debuggers stop in functions.
const LENGTH: usize = 16;

/// Offsets in a loader's code, [`NONE`] behind the last; none at all where it is not known where it
/// tells of libraries.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Places([u32; MOST]);

impl Places {
    /// Those of the object `image`, which is the whole of `file`. Its code begins at `code`.
    pub fn of(file: &[u8], image: &Image<'_>, code: u64) -> Self {
        let mut places = Self([NONE; MOST]);
        let probes = probes(file).unwrap_or_default();
        let tells = |name: &[u8]| {
            let mut parts = image.pieces.iter().map(|piece| piece.bytes);
            parts.any(|bytes| bytes.windows(name.len()).any(|found| found == name))
        };
        if probes.is_empty() && !tells(b"\0_dl_debug_state\0") {
            return places;
        }
        let starts = image
            .dynamic_functions()
            .into_iter()
            .map(|(start, _)| start);
        let offset = |address: u64| u32::try_from(address.checked_sub(code)?).ok();
        let offsets: Vec<_> = starts.chain(probes).filter_map(offset).collect();
        if offsets.len() <= MOST {
            places
                .0
                .iter_mut()
                .zip(offsets)
                .for_each(|(to, from)| *to = from);
        }
        places
    }

    /// Whether there are any.
    pub fn are_known(&self) -> bool {
        self.0.first().is_some_and(|place| *place != NONE)
    }

    /// The sums of what stands at them in `code`; of all of it where none are known.
    pub fn sums(&self, code: &[u8]) -> Sums {
        let known = self.0.iter().take_while(|place| **place != NONE);
        if known.clone().next().is_none() {
            return sums(code);
        }
        known.fold([0, 0], |[words, bits], place| {
            let rest = code.get(*place as usize..).unwrap_or_default();
            let [part_words, part_bits] = sums(rest.get(..LENGTH).unwrap_or(rest));
            [words.wrapping_add(part_words), bits ^ part_bits]
        })
    }
}

/// The addresses of ld.so's own probes (systemtap, "UserSpaceProbeImplementation": notes of kind 3
/// in a section that is not mapped). None where a note is not as it should be.
fn probes(file: &[u8]) -> Option<Vec<u64>> {
    const PROBE: u32 = 3;
    let sections = Sections::of(file)?;
    let Some(notes) = sections.named(b".note.stapsdt") else {
        return Some(Vec::new());
    };
    let base = sections.named(b".stapsdt.base").map(|base| base.address);
    let mut notes = sections.contents(&notes)?;
    let mut probes = Vec::new();
    while !notes.is_empty() {
        let (name, size) = (word(notes, 0)? as usize, word(notes, 4)? as usize);
        let start = 12 + name.checked_next_multiple_of(4)?;
        let probe = notes.get(start..start.checked_add(size)?)?;
        if word(notes, 8)? == PROBE && probe.get(24..)?.starts_with(b"rtld\0") {
            // Programs that were linked before moved the code, not what the note says of it.
            let moved = base.map_or(0, |base| base.wrapping_sub(long(probe, 8).unwrap_or(base)));
            probes.push(long(probe, 0)?.wrapping_add(moved));
        }
        let end = (start + size).checked_next_multiple_of(4)?;
        notes = notes.get(end..).unwrap_or_default();
    }
    Some(probes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// ld.so of this machine, its code as it lies in the file, and where that begins in memory.
    fn with_loader(check: impl FnOnce(&[u8], &Image<'_>, &[u8], u64)) {
        let file = fs::read("/lib64/ld-linux-x86-64.so.2").unwrap();
        let image = Image::of_file(&file).unwrap();
        let code = image.pieces.iter().find(|piece| piece.executable).unwrap();
        check(&file, &image, code.bytes, code.address);
    }

    #[test]
    fn a_breakpoint_where_libraries_are_told_of_is_seen() {
        with_loader(|file, image, code, address| {
            let places = Places::of(file, image, address);
            let before = places.sums(code);
            assert_ne!(before, sums(code));
            let known = places.0.iter().take_while(|place| **place != NONE);
            assert!(known.clone().count() > 5);
            for place in known {
                let mut changed = code.to_vec();
                changed[*place as usize] ^= 0xcc;
                assert_ne!(places.sums(&changed), before, "{place:#x}");
            }
        });
    }

    #[test]
    fn all_code_counts_where_the_places_are_not_known() {
        with_loader(|file, image, code, address| {
            let mut nameless = file.to_vec();
            let name = b"_dl_debug_state\0";
            let mut found = nameless.windows(name.len());
            let at = found.position(|found| found == name).unwrap();
            nameless[at] = b'x';
            nameless[40..48].fill(0xff);
            let image = Image {
                pieces: Image::of_file(&nameless).unwrap().pieces,
                ..image.clone()
            };
            let places = Places::of(&nameless, &image, address);
            assert_eq!(places.sums(code), sums(code));
        });
    }

    #[test]
    fn probes_are_those_of_the_loader() {
        let note = |provider: &[u8], at: u64, base: u64| {
            let mut probe = Vec::new();
            for word in [at, base, 0] {
                probe.extend_from_slice(&word.to_le_bytes());
            }
            probe.extend_from_slice(provider);
            probe.extend_from_slice(b"\0map_start\0\0");
            let mut note = Vec::new();
            for word in [8, probe.len() as u32, 3] {
                note.extend_from_slice(&u32::to_le_bytes(word));
            }
            note.extend_from_slice(b"stapsdt\0");
            note.extend(probe);
            note.resize(note.len().next_multiple_of(4), 0);
            note
        };
        let notes = [
            note(b"libc", 1, 9),
            note(b"rtld", 2, 9),
            note(b"rtld", 3, 8),
        ]
        .concat();
        let names = b"\0.note.stapsdt\0.stapsdt.base\0.shstrtab\0";
        let (names_at, notes_at, sections_at) = (64, 128, 128 + notes.len());
        let mut file = std::vec![0; sections_at];
        file[names_at..names_at + names.len()].copy_from_slice(names);
        file[notes_at..].copy_from_slice(&notes);
        file[40..48].copy_from_slice(&(sections_at as u64).to_le_bytes());
        for (at, value) in [(58, 64_u16), (60, 3), (62, 2)] {
            file[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        for (name, address, offset, size) in [
            (1_u32, 0_u64, notes_at, notes.len()),
            (15, 10, 0, 0),
            (29, 0, names_at, names.len()),
        ] {
            file.extend_from_slice(&name.to_le_bytes());
            file.extend_from_slice(&7_u32.to_le_bytes());
            for word in [0, address, offset as u64, size as u64, 0, 0, 0] {
                file.extend_from_slice(&word.to_le_bytes());
            }
        }
        assert_eq!(probes(&file), Some([3, 5].into()));
        file[notes_at + 5] = 0xff;
        assert_eq!(probes(&file), None);
    }
}
