//! What has been patched: a list that grows only, so that signal handlers may walk it.

use crate::SiteRecord;
use crate::chunk::{Change, Chunk};
use crate::object::{Key, Layout};
use crate::sites::REGION;
use crate::user;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, Ordering::*};
use culvert_sys::sync::AtomicRef;

/// A patched mapping.
struct Entry {
    /// The code.
    code: (u64, u64),
    /// Its stubs.
    chunk: Chunk,
    /// What the code stands for, where it is mapped from an image.
    image: Option<StandsFor>,
    /// Set when something else was mapped there.
    gone: AtomicBool,
    next: AtomicRef<Entry>,
}

static FIRST: AtomicRef<Entry> = AtomicRef::new();

fn entries() -> impl Iterator<Item = &'static Entry> {
    core::iter::successors(FIRST.get(), |entry| entry.next.get())
}

fn present() -> impl Iterator<Item = &'static Entry> {
    entries().filter(|entry| !entry.gone.load(Acquire))
}

/// The file whose code an image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandsFor {
    /// The inode of the image.
    pub image: u64,
    /// The file.
    pub key: Key,
    /// How its image lies.
    pub layout: Layout,
    /// How many bytes of the object from its beginning on were mapped from the image; 0 where the
    /// code alone was.
    pub whole: u64,
    /// Nothing of the object was: its own code was edited, as the image says.
    pub is_edited: bool,
}

/// Records that the changes of `chunk` are made in `code`, from its first address to the first one
/// behind it, which is mapped from `image`, or edited as that says, or has none.
pub(crate) fn add(code: (u64, u64), chunk: Chunk, image: Option<StandsFor>) {
    push(code, chunk, image, false);
}

fn push(code: (u64, u64), chunk: Chunk, image: Option<StandsFor>, gone: bool) {
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        code,
        chunk,
        image,
        gone: AtomicBool::new(gone),
        next: AtomicRef::new(),
    }));
    FIRST.push(entry, &entry.next);
}

/// What is mapped from an image in place of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfImage {
    /// The first address.
    pub start: u64,
    /// The first address behind it; some of it may be mapped from the file itself.
    pub end: u64,
    /// The place in the file of `start`.
    pub offset: u64,
    /// The object's link-time address 0.
    pub bias: u64,
    /// What it stands for.
    pub file: StandsFor,
}

impl Entry {
    fn of_image(&self) -> Option<OfImage> {
        let (file, bias) = (self.image.filter(|one| !one.is_edited)?, self.chunk.bias);
        let (start, end, offset) = match file.whole {
            0 => (self.code.0, self.code.1, file.layout.code_offset),
            whole => (bias, bias + whole, 0),
        };
        Some(OfImage {
            start,
            end,
            offset,
            bias,
            file,
        })
    }
}

/// All that is mapped from images.
pub fn of_images() -> impl Iterator<Item = OfImage> {
    present().filter_map(Entry::of_image)
}

/// The image, of this inode if one is given, that is mapped at `address`, or whose chunk is; of one
/// that is gone the chunk alone has stayed. Safe in signal handlers.
pub(crate) fn image_at(address: u64, inode: Option<u64>) -> Option<OfImage> {
    let holds = |entry: &Entry| {
        let one = entry.of_image()?;
        let layout = &one.file.layout;
        let chunk = one.bias + layout.chunk_offset..one.bias + layout.extent();
        let is_code = || (one.start..one.end).contains(&address) && !entry.gone.load(Acquire);
        let is_it = inode.is_none_or(|inode| one.file.image == inode);
        (is_it && (chunk.contains(&address) || is_code())).then_some(one)
    };
    present()
        .find_map(holds)
        .or_else(|| entries().find_map(holds))
}

/// What `found` was mapped from is mapped from the file `inode` now.
pub(crate) fn mapped_anew(found: &OfImage, inode: u64) {
    let same = |entry: &&Entry| entry.image == Some(found.file) && entry.chunk.bias == found.bias;
    let Some(entry) = present().find(same).or_else(|| entries().find(same)) else {
        return;
    };
    let image = StandsFor {
        image: inode,
        ..found.file
    };
    // First the new one: at each moment the traps are somebody's.
    push(
        entry.code,
        entry.chunk,
        Some(image),
        entry.gone.load(Acquire),
    );
    entry.gone.store(true, Release);
}

/// The chunks of images, also of objects that are not mapped any more.
pub(crate) fn chunks_of_images() -> impl Iterator<Item = (Chunk, StandsFor)> {
    entries().filter_map(|entry| Some((entry.chunk, entry.image?)))
}

/// The object of `chunk`, which stands for `file`, is mapped again where it was.
pub(crate) fn revive(chunk: Chunk, file: StandsFor) {
    let mut left = entries().filter(|entry| entry.image == Some(file));
    match left.find(|entry| entry.chunk == chunk) {
        Some(entry) => entry.gone.store(false, Release),
        // Of it the code alone was mapped from the image, or now is.
        None => {
            let code = entries().find(|entry| entry.chunk == chunk);
            if let Some(code) = code.map(|entry| entry.code) {
                add(code, chunk, Some(file));
            }
        }
    }
}

/// Other code was mapped at `start..end`: what was patched there is gone.
pub(crate) fn replaced(start: u64, end: u64) {
    for entry in present().filter(|entry| entry.code.0 < end && start < entry.code.1) {
        entry.gone.store(true, Release);
    }
}

/// Whether the code mapped at `start..end`, of the file `inode`, is an image's, with our changes.
/// An entry that some other code has replaced is forgotten.
pub(crate) fn is_of_image(start: u64, end: u64, inode: u64) -> bool {
    let overlaps = |entry: &&Entry| entry.code.0 < end && start < entry.code.1;
    let has = |change: &Change, bias: u64| {
        let mut found = [0; REGION];
        let found = found
            .get_mut(..change.new_bytes().len())
            .unwrap_or_default();
        let copied = user::copy_in(found, change.start(bias) as usize);
        copied.is_ok() && found == change.new_bytes()
    };
    let mut found = false;
    for entry in present()
        .filter(|entry| entry.image.is_some())
        .filter(overlaps)
    {
        let bias = entry.chunk.bias;
        let inside = |change: &&Change| change.start(bias) >= start && change.end(bias) <= end;
        match entry.chunk.changes().iter().find(inside) {
            Some(sample) if !has(sample, bias) => entry.gone.store(true, Release),
            Some(_) => found = true,
            // A part without sites.
            None => found |= entry.image.is_some_and(|one| one.image == inode),
        }
    }
    found
}

/// Whether the code mapped at `start..end` carries our changes already (a second mprotect, say).
/// Entries that some other code has replaced are forgotten. `has` says whether a change, at an
/// address, is what is mapped there now.
pub(crate) fn is_patched(start: u64, end: u64, has: impl Fn(u64, &[u8]) -> bool) -> bool {
    let mut patched = false;
    for entry in present().filter(|entry| entry.code.0 < end && start < entry.code.1) {
        let bias = entry.chunk.bias;
        let inside = |change: &&Change| change.start(bias) >= start && change.end(bias) <= end;
        let Some(sample) = entry.chunk.changes().iter().find(inside) else {
            continue;
        };
        if has(sample.start(bias), sample.new_bytes()) {
            patched = true;
        } else {
            entry.gone.store(true, Release);
        }
    }
    patched
}

/// The record of the `ud2` site at `address`, for the handler of SIGILL. Safe in signal handlers.
pub fn trap_site(address: usize) -> Option<&'static SiteRecord> {
    present().find_map(|entry| entry.chunk.trap(address))
}

/// Whether `address` is in a stub. Safe in signal handlers.
pub fn in_stub(address: usize) -> bool {
    entries().any(|entry| entry.chunk.holds(address))
}

/// The record of a site whose system-call instruction was moved into its stub: the kernel says that
/// it came from where the program's code goes on there, `resume`. Safe in signal handlers.
pub(crate) fn moved_to(resume: usize) -> Option<&'static SiteRecord> {
    let holds = |entry: &&Entry| entry.chunk.holds(resume);
    let mut records = entries()
        .filter(holds)
        .flat_map(|entry| entry.chunk.records());
    records.find(|record| record.resume() == resume && record.is_moved())
}

/// The same by where that instruction was, or by what is behind it. Safe in signal handlers.
pub(crate) fn moved_from(address: usize) -> Option<&'static SiteRecord> {
    let holds = |entry: &&Entry| (entry.code.0..=entry.code.1).contains(&(address as u64));
    let mut records = present()
        .filter(holds)
        .flat_map(|entry| entry.chunk.records());
    records.find(|record| {
        record.is_moved() && (record.instruction() == address || record.behind() == address)
    })
}
