//! Rewriting the sites of mapped objects.

use crate::chunk::{self, Chunk};
use crate::elf::Image;
use crate::frames::Frames;
use crate::maps::{Mapping, Name, View};
use crate::search;
use crate::sites::{JUMP, Kind, SYSCALL, Site};
use crate::stub::Slots;
use crate::{
    Interest, arena, cache,
    functions::{self, Functions},
    mapped, maps, registry, sites, write,
};
use alloc::vec::Vec;
use culvert_sys::{nr, plain::Packed, sync::Mutex};

/// The slots of a chunk, and room that keeps what follows aligned.
const HEADER: usize = Slots::SIZE.next_multiple_of(32);

/// What patching has to know of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where stubs go on when a call may be interesting: the entry's address.
    pub entry: usize,
    /// Which numbers are interesting; a pure function.
    pub interest: fn(usize) -> Interest,
    /// The same as 512 bytes, for stubs: their address.
    pub numbers: usize,
    /// A byte for each descriptor: the address of 65,536 bytes.
    pub descriptors: usize,
    /// An address in the object that must not be patched: the engine's own.
    pub own: usize,
    /// Where site tables are cached, in the order of preference; absolute paths.
    pub cache_directories: &'static [&'static [u8]],
}

/// What became of one or more objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patched {
    /// Executable mappings of objects that were looked at.
    pub objects: usize,
    /// How many of them had their sites in the cache.
    pub cached: usize,
    /// Their system-call sites.
    pub sites: usize,
    /// Those that were rewritten, by kind in the order of [`Kind::ALL`].
    pub patched: [usize; 6],
    /// Those that were left alone because nobody is interested in their numbers.
    pub skipped: usize,
    /// Those that should have been rewritten, but were not.
    pub hard: usize,
    /// Byte pairs 0f 05 in no known function; 0 where the cache was used.
    pub unknown: usize,
    /// Why something was not rewritten, or why an object was not looked at.
    pub failed: Option<&'static str>,
}

impl Patched {
    /// Adds what became of another object.
    pub fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.cached += other.cached;
        self.sites += other.sites;
        self.skipped += other.skipped;
        self.hard += other.hard;
        self.unknown += other.unknown;
        for (sum, count) in self.patched.iter_mut().zip(other.patched) {
            *sum += count;
        }
        self.failed = self.failed.or(other.failed);
    }
}

/// Patches the executable mappings of files that `start..start + length` touches, but the engine's
/// own, as after an mmap or mprotect. What is patched already stays as it is. All there are for the
/// largest length, as at the start of a program.
///
/// # Safety
/// No other thread runs code that is patched, and the memory is mapped as `/proc/self/maps` says
/// until this returns.
pub unsafe fn range(settings: &Settings, start: usize, length: usize) -> Patched {
    // Two threads may map the same code, and nothing is to be patched twice.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let (start, end) = (start as u64, start.saturating_add(length) as u64);
    let view = match length {
        usize::MAX => View::all(),
        _ => View::around(start, end),
    };
    let mut sum = Patched::default();
    let Ok(mut view) = view else {
        sum.failed = Some("/proc/self/maps cannot be read");
        return sum;
    };
    let wanted = |mapping: &&Mapping| {
        let touched = mapping.start < end && mapping.end > start;
        touched && mapping.executable && mapping.has_file() && mapping.name != Name::Kernel
    };
    let mut codes: Vec<Mapping> = view.mappings.iter().filter(wanted).copied().collect();
    if !codes.is_empty() {
        let own = view.file_at(settings.own as u64);
        codes.retain(|code| Some(code.file) != own);
    }
    for code in codes {
        let mut result = Patched {
            objects: 1,
            ..Patched::default()
        };
        // SAFETY: the caller's promise.
        result.failed = unsafe { object(settings, &mut view, &code, &mut result) }.err();
        sum.add(result);
    }
    sum
}

/// Patches one executable mapping of a file.
///
/// # Safety
/// As [`range`].
unsafe fn object(
    settings: &Settings,
    view: &mut View,
    code: &Mapping,
    result: &mut Patched,
) -> Result<(), &'static str> {
    if code.shared {
        return Err("mapped shared: changes would reach the file");
    }
    if !code.readable {
        return Err("mapped for execution only");
    }
    if registry::is_of_image(code.start, code.end, code.file.1) {
        return Ok(());
    }
    // SAFETY: the caller's promise; what is written is only read as code before it is written.
    let look = |view: &View| unsafe { mapped::image(&view.mappings, code) };
    let image = match look(view) {
        Err(mapped::NO_BEGINNING) if !view.complete => {
            view.complete().map_err(|_| mapped::NO_BEGINNING)?;
            look(view)?
        }
        other => other?,
    };
    if !image.pieces.iter().any(|piece| piece.executable) {
        return Err("the file ends before its code does");
    }
    let has = |address: u64, bytes: &[u8]| {
        image.at(address.wrapping_sub(image.bias), bytes.len()) == Some(bytes)
    };
    if registry::is_patched(code.start, code.end, has) {
        return Ok(());
    }
    let (table, wanted) = sites_of(settings, &image, code, result);
    result.sites = table;
    if wanted.is_empty() {
        return Ok(());
    }

    let bias = image.bias;
    // What instructions can refer to with 4-byte displacements is the object itself.
    let loads = image
        .headers
        .iter()
        .filter(|header| header.kind == crate::elf::LOAD);
    let reach = loads.fold((code.start, code.end), |(low, high), load| {
        let start = load.address.wrapping_add(bias);
        (
            low.min(start),
            high.max(start.saturating_add(load.memory_size)),
        )
    });
    result.hard = wanted.len(); // until they are done
    let size = HEADER + chunk::most(wanted.len());
    view.complete()
        .map_err(|_| "/proc/self/maps cannot be read")?;
    let mut written = None;
    let made = arena::executable(&mut view.mappings, reach, size as u64, |base, memory| {
        let chunk = chunk::write(&wanted, bias, &Slots::near(base), base + HEADER as u64);
        let used = HEADER + chunk.bytes.len();
        let words = [settings.entry, settings.descriptors, settings.numbers];
        if let Some((slots, room)) = memory
            .get_mut(..used)
            .and_then(|m| m.split_at_mut_checked(HEADER))
        {
            slots[..Slots::SIZE].copy_from_slice(words.bytes());
            room.copy_from_slice(&chunk.bytes);
        }
        written = Some(chunk);
        used
    });
    let base = made.map_err(|_| "no executable memory within reach")? as usize + HEADER;
    let written = written.ok_or("no stubs")?;

    // From here on nothing refers to the image: its bytes are about to change.
    drop(image);
    // SAFETY: written above, and never unmapped nor changed again.
    let chunk = unsafe { Chunk::at(base, written.bytes.len(), bias) }.ok_or("no stubs")?;
    // First, as the handler of SIGILL looks there; an entry whose changes are not made is forgotten
    // later.
    registry::add((code.start, code.end), chunk, None);
    // SAFETY: the regions were compared above and lie in `code`, which is private; the stubs they
    // lead to are complete.
    unsafe { write::apply(code, bias, chunk.changes())? };
    result.hard = written.out_of_reach;
    for kind in written.kinds {
        let index = Kind::ALL.iter().position(|one| *one == kind);
        if let Some(count) = index.and_then(|index| result.patched.get_mut(index)) {
            *count += 1;
        }
    }
    if written.out_of_reach > 0 {
        return Err("something it refers to is out of the stubs' reach");
    }
    Ok(())
}

/// When calls of a site with this number are offered, -1 where its instructions do not tell;
/// `None`: the site is left alone.
pub(crate) fn wanted_number(interest: fn(usize) -> Interest, number: i32) -> Option<Interest> {
    let interest = match usize::try_from(number) {
        // Unwinders and gdb recognise the bytes of the code that returns from signal handlers; and
        // its stack is the kernel's.
        Ok(nr::RT_SIGRETURN) => Interest::Never,
        Ok(number) => interest(number),
        Err(_) => Interest::Always,
    };
    (interest != Interest::Never).then_some(interest)
}

/// How many sites lie in `code`, and those of them that are to be rewritten, from the cache or by
/// decoding.
fn sites_of(
    settings: &Settings,
    image: &Image<'_>,
    code: &Mapping,
    result: &mut Patched,
) -> (usize, Vec<(Site, Interest)>) {
    let wanted_number = |number: i32| wanted_number(settings.interest, number);
    let select = |site: &Site| wanted_number(site.number).map(|interest| (*site, interest));
    let holds = |address: u64, start: u64| {
        let start = start.wrapping_add(image.bias);
        let end = address
            .wrapping_add(image.bias)
            .saturating_add(sites::REGION as u64);
        (code.start..code.end).contains(&start) && start < end
    };
    let inside = |site: &Site| holds(site.address, site.start());
    let key = cache::Key::of(image);
    let mut count = 0;
    let cached = key.as_ref().and_then(|key| {
        cache::load(settings.cache_directories, key, |address, start, number| {
            let here = holds(address, start);
            count += usize::from(here);
            wanted_number(number).filter(|_| here)
        })
    });
    if let Some(wanted) =
        cached.filter(|wanted| wanted.iter().all(|(site, _)| is_as_recorded(image, site)))
    {
        result.cached = 1;
        result.skipped = count - wanted.len();
        return (count, wanted);
    }
    let functions = Functions::of_image(image);
    let mut found = search::find(image, &functions);
    if found.unknown > 0
        && let Some(better) =
            from_file(code, image, key.as_ref()).filter(|file| file.unknown < found.unknown)
        && better
            .sites
            .iter()
            .all(|site| !inside(site) || is_as_recorded(image, site))
    {
        found = better;
        found.sites.retain(inside);
    }
    result.unknown = found.unknown;
    let wanted: Vec<_> = found.sites.iter().filter_map(select).collect();
    result.skipped = found.sites.len() - wanted.len();
    // Only what was found with all there is to see is worth keeping.
    let whole = image.code_at(
        image
            .pieces
            .iter()
            .find(|piece| piece.executable)
            .map_or(0, |piece| piece.address),
    );
    let loads = image
        .headers
        .iter()
        .filter(|header| header.kind == crate::elf::LOAD && header.flags & 1 != 0);
    let complete = loads.clone().count() == 1
        && loads.zip(whole).all(|(load, piece)| {
            load.address == piece.address && load.file_size == piece.bytes.len() as u64
        })
        && (image.frame_header().is_none() || Frames::of(image).is_some());
    if let Some(key) = key.filter(|_| complete) {
        cache::store(settings.cache_directories, &key, &found.sites);
    }
    (found.sites.len(), wanted)
}

/// The sites of the file behind `code`, which is a part of `image`, when it has tables of functions
/// that are not mapped or not pointed to (symbols, Go's). Only where the file is certainly the
/// object that is mapped, not a newer one of the same name: by `key`, or, for objects without
/// build-id, as the very inode that is mapped.
fn from_file(code: &Mapping, image: &Image<'_>, key: Option<&cache::Key>) -> Option<search::Found> {
    let path = maps::path(code.start)?;
    mapped::with_file(&path, |bytes, inode| {
        let file = Image::of_file(bytes).ok()?;
        let is_same = match key {
            Some(_) => cache::Key::of(&file).as_ref() == key,
            None => inode == code.file && file.headers == image.headers,
        };
        if !is_same || !functions::has_section_functions(bytes) {
            return None;
        }
        Some(search::find(&file, &Functions::of_file(&file, bytes)))
    })?
}

/// Whether memory holds what the table says.
pub(crate) fn is_as_recorded(image: &Image<'_>, site: &Site) -> bool {
    let holds = |address: u64, bytes: &[u8]| {
        image.code_at(address).is_some() && image.at(address, bytes.len()) == Some(bytes)
    };
    let island = site
        .bytes
        .get(SYSCALL.len()..SYSCALL.len() + JUMP)
        .unwrap_or_default();
    holds(site.start(), site.region())
        && holds(site.address, &SYSCALL)
        && (site.kind != Kind::Island
            || holds(site.address.wrapping_add_signed(site.island.into()), island))
}
