//! Where functions start and end: the only places from which code may be decoded.

use crate::elf::{self, Image, half, long, word};
use crate::frames::{self, Frames};
use alloc::vec::Vec;

/// The functions of an object.
#[derive(Debug)]
pub struct Functions<'a> {
    /// Those with frame descriptions: compilers describe everything, and so do libc's authors.
    frames: Option<Frames<'a>>,
    /// Those that only symbols and other tables tell of: (start, end), sorted by start.
    listed: Vec<(u64, u64)>,
}

impl<'a> Functions<'a> {
    /// What a mapped object says itself: frame descriptions, dynamic symbols, entry points.
    pub fn of_image(image: &Image<'a>) -> Self {
        Self::new(image, image.dynamic_functions())
    }

    /// What a file says, its section headers and Go's own table included.
    pub fn of_file(image: &Image<'a>, file: &[u8]) -> Self {
        let mut listed = image.dynamic_functions();
        section_functions(image, file, &mut listed);
        Self::new(image, listed)
    }

    fn new(image: &Image<'a>, mut listed: Vec<(u64, u64)>) -> Self {
        listed.retain(|(start, size)| {
            image.code_at(*start).is_some() && start.checked_add(*size).is_some()
        });
        // With equal starts the known size comes last and stays.
        listed.sort_unstable_by_key(|(start, size)| (*start, core::cmp::Reverse(*size)));
        listed.dedup_by_key(|(start, _)| *start);
        for index in 0..listed.len() {
            let next = listed.get(index + 1).map(|(start, _)| *start);
            let (start, size) = listed[index];
            let end = image.code_at(start).map_or(start, |piece| piece.end());
            listed[index].1 = if size != 0 {
                (start + size).min(end)
            } else {
                next.unwrap_or(end).min(end)
            };
        }
        let frames = Frames::of(image);
        Self { frames, listed }
    }

    /// How many are known.
    pub fn count(&self) -> usize {
        self.frames
            .map_or(0, |frames| frames.count())
            .max(self.listed.len())
    }

    /// The function that holds `address`, as (start, end).
    pub fn containing(&self, image: &Image<'_>, address: u64) -> Option<(u64, u64)> {
        let described = self
            .frames
            .and_then(|frames| frames.preceding(image, address));
        if let Some((start, end, _)) = described.filter(|(_, end, _)| address < *end) {
            return Some((start, end));
        }
        let index = self
            .listed
            .partition_point(|(start, _)| *start <= address)
            .checked_sub(1)?;
        let (start, end) = *self.listed.get(index)?;
        // Between described functions, a listed one that begins there.
        let (gap, next) = described.map_or((0, u64::MAX), |(_, end, next)| (end, next));
        (gap <= start && address < end).then_some((start, end.min(next)))
    }

    /// Whether code between the known functions is decoded too. Where frame descriptions are
    /// missing (musl has a handful for its thousand functions), those without symbols are in
    /// between.
    pub fn has_hidden(&self) -> bool {
        2 * self.frames.map_or(0, |frames| frames.count()) < self.listed.len()
    }

    /// The function before `address`, which lies between two functions, as (start, end, end of the
    /// gap). glibc leaves the middle of clone and clone3 without description, so that no unwinder
    /// goes on into the parent's frames (`sysdeps/unix/sysv/linux/x86_64/clone3.S`).
    pub fn before_gap(&self, image: &Image<'_>, address: u64) -> Option<(u64, u64, u64)> {
        let described = self
            .frames
            .and_then(|frames| frames.preceding(image, address));
        let next = self.listed.partition_point(|(start, _)| *start <= address);
        let listed = next
            .checked_sub(1)
            .and_then(|index| self.listed.get(index))
            .map(|(start, end)| {
                let next = self.listed.get(next).map_or(u64::MAX, |(start, _)| *start);
                (*start, *end, next)
            });
        let next = described
            .into_iter()
            .chain(listed)
            .map(|(_, _, next)| next)
            .min()?;
        let mut before = described
            .into_iter()
            .chain(listed)
            .filter(|(_, end, _)| *end <= address);
        let first = before.next()?;
        let (start, end, _) = before
            .next()
            .filter(|second| second.0 > first.0)
            .unwrap_or(first);
        (address < next).then_some((start, end, next))
    }

    /// The starts, from `from` up to but not including `to`, that symbols tell of. Such a place may
    /// be jumped to from anywhere.
    pub fn listed_between(&self, from: u64, to: u64) -> impl Iterator<Item = u64> {
        let first = self.listed.partition_point(|(start, _)| *start < from);
        let rest = self.listed.get(first..).unwrap_or_default();
        rest.iter()
            .map(|(start, _)| *start)
            .take_while(move |start| *start < to)
    }
}

/// Whether a file's sections tell of functions that a mapped object does not: `.symtab` or Go's
/// table.
pub(crate) fn has_section_functions(file: &[u8]) -> bool {
    let Some(sections) = Sections::of(file) else {
        return false;
    };
    let mut all = (0..sections.count).filter_map(|index| sections.get(index));
    all.any(|section| section.kind == SYMBOL_TABLE || sections.name(&section) == b".gopclntab")
}

/// Functions that `.symtab`, `.eh_frame` and `.gopclntab` of a file tell of (gABI chapter 4,
/// "Sections").
fn section_functions(image: &Image<'_>, file: &[u8], functions: &mut Vec<(u64, u64)>) {
    let Some(sections) = Sections::of(file) else {
        return;
    };
    for section in (0..sections.count).filter_map(|index| sections.get(index)) {
        if section.kind == SYMBOL_TABLE
            && let Some(symbols) = sections.contents(&section)
        {
            elf::symbol_functions(symbols, usize::MAX, functions);
        }
        match sections.name(&section) {
            b".eh_frame" => {
                frames::frame_functions(image, section.address, section.size, functions)
            }
            b".gopclntab" => {
                let _ = sections
                    .contents(&section)
                    .and_then(|table| go_functions(image, table, functions));
            }
            _ => {}
        }
    }
}

/// SHT_SYMTAB.
const SYMBOL_TABLE: u32 = 2;

/// The section headers of a file.
pub(crate) struct Sections<'a> {
    file: &'a [u8],
    table: &'a [u8],
    size: usize,
    count: usize,
    names: usize,
}

/// A section header.
pub(crate) struct Section {
    name: usize,
    kind: u32,
    /// Where it lies in memory, before the load bias.
    pub address: u64,
    offset: u64,
    size: u64,
}

impl<'a> Sections<'a> {
    pub fn of(file: &'a [u8]) -> Option<Self> {
        let table = file.get(usize::try_from(long(file, 40)?).ok()?..)?;
        let size = usize::from(half(file, 58)?);
        let count = usize::from(half(file, 60)?);
        let names = usize::from(half(file, 62)?);
        (size >= 64).then_some(Self {
            file,
            table,
            size,
            count,
            names,
        })
    }

    fn get(&self, index: usize) -> Option<Section> {
        let header = self.table.get(index * self.size..)?.get(..64)?;
        Some(Section {
            name: word(header, 0)? as usize,
            kind: word(header, 4)?,
            address: long(header, 16)?,
            offset: long(header, 24)?,
            size: long(header, 32)?,
        })
    }

    /// The first of this name.
    pub fn named(&self, name: &[u8]) -> Option<Section> {
        let mut all = (0..self.count).filter_map(|index| self.get(index));
        all.find(|section| self.name(section) == name)
    }

    /// Its bytes in the file.
    pub fn contents(&self, section: &Section) -> Option<&'a [u8]> {
        let start = usize::try_from(section.offset).ok()?;
        self.file
            .get(start..)?
            .get(..usize::try_from(section.size).ok()?)
    }

    fn name(&self, section: &Section) -> &'a [u8] {
        let name = self
            .get(self.names)
            .and_then(|names| self.contents(&names)?.get(section.name..))
            .unwrap_or_default();
        name.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// Go's function table, which stripped Go programs keep (Go, `src/internal/abi/symtab.go` and
/// `runtime/symtab.go`: `pcHeader`, `functab`), from Go 1.18 on: pairs of 4-byte offsets, the first
/// from the start of the text.
fn go_functions(image: &Image<'_>, table: &[u8], functions: &mut Vec<(u64, u64)>) -> Option<()> {
    if !matches!(word(table, 0)?, 0xffff_fff0 | 0xffff_fff1) {
        return None;
    }
    let count = usize::try_from(long(table, 8)?).ok()?;
    let (entries, _) = table
        .get(usize::try_from(long(table, 64)?).ok()?..)?
        .as_chunks::<8>();
    let offsets = || {
        entries
            .iter()
            .take(count)
            .filter_map(|entry| word(entry, 0).map(u64::from))
    };
    let text = go_text(
        image,
        long(table, 24)?,
        &offsets().take(500).collect::<Vec<_>>(),
    )?;
    functions.extend(offsets().filter_map(|offset| Some((text.checked_add(offset)?, 0))));
    Some(())
}

/// Where Go's text starts. The table says so in older versions; in newer ones, and in
/// position-independent programs, it holds a 0. Go's linker fills the space between functions with
/// int3 (`cmd/link/internal/amd64`, `CodePad`), so the right start is the one with which most
/// functions follow one.
fn go_text(image: &Image<'_>, said: u64, offsets: &[u64]) -> Option<u64> {
    const STEP: usize = 16;
    const FURTHEST: u64 = 1 << 14; // C code that was linked before
    let code = image.pieces.iter().find(|piece| piece.executable)?;
    let byte = |address: Option<u64>| code.tail(address?)?.first();
    let begins = |address: &u64| {
        byte(address.checked_sub(1)) == Some(&0xcc)
            && byte(Some(*address)).is_some_and(|byte| *byte != 0xcc)
    };
    let score = |text: u64| {
        offsets
            .iter()
            .filter_map(|offset| text.checked_add(*offset))
            .filter(begins)
            .count()
    };
    let nearby = (0..FURTHEST)
        .step_by(STEP)
        .map(|distance| code.address + distance);
    let best = core::iter::once(said)
        .chain(nearby)
        .max_by_key(|text| score(*text))?;
    // One in a few fills its space.
    (2 * score(best) > offsets.len()).then_some(best)
}
