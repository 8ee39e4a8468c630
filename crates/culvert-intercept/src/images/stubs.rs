//! The stubs of an object: the chunk of its image, behind it.

use super::calls::{MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_PRIVATE, PROT_EXEC, PROT_READ, map, unmap};
use super::layout::{Header, Key, Layout};
use super::store::Opened;
use super::{Images, is_refusal};
use crate::chunk::{Change, Chunk};
use crate::maps::{Mapping, Name};
use crate::registry::{self, StandsFor};
use crate::{arena, sites, user, write};
use core::ops::Range;
use culvert_sys::fd::AsFd;
use culvert_sys::{Errno, fs};

/// The chunk of an object, mapped behind it; unmapped again unless it is kept.
pub struct Stubs {
    start: u64,
    length: u64,
    chunk: Option<Chunk>,
    stands_for: StandsFor,
    is_copy: bool,
}

impl Stubs {
    /// Maps it at its distance from the object: into room that is `reserved`, or where nothing is
    /// mapped. Where the image must not be executed, the chunk is copied.
    pub fn map(
        images: &Images,
        key: &Key,
        layout: &Layout,
        bias: u64,
        image: &Opened,
        reserved: bool,
    ) -> Result<Self, Errno> {
        let place = match reserved {
            true => MAP_FIXED,
            false => MAP_FIXED_NOREPLACE,
        };
        let wanted = bias + layout.chunk_offset;
        let length = layout.chunk_length;
        let flags = MAP_PRIVATE | place;
        let file = Some((image.file.as_fd(), layout.chunk_offset));
        let mapped = match images.is_refused() {
            true => Err(Errno::EPERM),
            false => map(wanted, length, PROT_READ | PROT_EXEC, flags, file),
        };
        let (start, is_copy) = match mapped {
            Err(errno) if is_refusal(errno) => {
                images.refuse();
                if reserved {
                    let _ = unmap(wanted, length);
                }
                copy(image, layout, wanted)?;
                (wanted, true)
            }
            other => (other?, false),
        };
        let mut stubs = Self {
            start,
            length,
            chunk: None,
            stands_for: StandsFor::new(key, layout, image, 0),
            is_copy,
        };
        if start != wanted {
            // A kernel that knows no MAP_FIXED_NOREPLACE.
            return Err(Errno::EEXIST);
        }
        let (header, chunk) = chunk_at(key, layout, bias)?;
        if !is_built_as(&header, bias) {
            return Err(Errno::ESTALE);
        }
        // Last: whoever is of another store has other slots, and they can be mapped once.
        images.map_slots(layout.slots)?;
        stubs.chunk = Some(chunk);
        Ok(stubs)
    }

    /// Whether they are a copy: then the code cannot be the image's either, and is edited.
    #[inline]
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Whether nobody has a breakpoint in `code`, the object's own, whole pages.
    pub fn is_untouched(&self, code: &[u8]) -> bool {
        // SAFETY: found there when it was mapped; nobody writes it.
        let header = unsafe { &*(self.start as *const Header) };
        header.is_untouched(code)
    }

    /// Changes the object's own code, at `code`, so that it leads to them.
    pub fn write(mut self, code: Range<u64>) -> Result<(), Errno> {
        let chunk = self.chunk.take().ok_or(Errno::ENOEXEC)?;
        let stands_for = StandsFor {
            is_edited: true,
            ..self.stands_for
        };
        edit(&chunk, code.clone(), || {
            registry::add((code.start, code.end), chunk, Some(stands_for));
            core::mem::forget(self);
        })
    }

    /// Leaves them there for the code at `code`.
    pub fn keep(mut self, code: Range<u64>) {
        registry::replaced(code.start, code.end);
        if let Some(chunk) = self.chunk.take() {
            registry::add((code.start, code.end), chunk, Some(self.stands_for));
            core::mem::forget(self);
        }
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        let _ = unmap(self.start, self.length);
    }
}

/// The header and the chunk of the image of `key`, which are mapped for an object that is `bias`
/// above its link-time addresses.
pub fn chunk_at(key: &Key, layout: &Layout, bias: u64) -> Result<(Header, Chunk), Errno> {
    let at = (bias + layout.chunk_offset) as usize;
    let header: Header = user::read(at).map_err(|_| Errno::EIO)?;
    if !header.is_of(key, layout) {
        return Err(Errno::ESTALE);
    }
    let room = (layout.chunk_length as usize).saturating_sub(Header::SIZE);
    // SAFETY: mapped of a file that nobody writes; it stays, or the caller forgets the chunk.
    let chunk = unsafe { Chunk::at(at + Header::SIZE, room, bias) };
    Ok((header, chunk.ok_or(Errno::ENOEXEC)?))
}

/// Header and chunk of `image` in memory of this process's own, at `address`, where nothing is.
fn copy(image: &Opened, layout: &Layout, address: u64) -> Result<(), Errno> {
    let mut read = Err(Errno::ENOMEM);
    let length = layout.chunk_length;
    arena::fill(address, length, |_, memory| {
        read = fs::pread(&image.file, memory, layout.chunk_offset);
        memory.len()
    })?;
    if read == Ok(length as usize) {
        return Ok(());
    }
    let _ = unmap(address, length);
    Err(read.err().unwrap_or(Errno::ESTALE))
}

/// Changes an object's own code, at `code`, so that it leads to the stubs of `chunk`, if it is as
/// the image has found it; calls `is_edited` before. ESTALE: it is another code.
pub fn edit(chunk: &Chunk, code: Range<u64>, is_edited: impl FnOnce()) -> Result<(), Errno> {
    let mapping = Mapping {
        start: code.start,
        end: code.end,
        readable: true,
        writable: false,
        executable: true,
        shared: false,
        offset: 0,
        file: (0, 0),
        name: Name::Other,
    };
    let is_as_recorded = |change: &Change| {
        let mut found = [0; sites::REGION];
        let found = found.get_mut(..change.old().len()).unwrap_or_default();
        let address = change.start(chunk.bias) as usize;
        user::copy_in(found, address).is_ok() && found == change.old()
    };
    if !chunk.changes().iter().all(is_as_recorded) {
        return Err(Errno::ESTALE);
    }
    // First, as the handler of SIGILL looks among what is registered.
    is_edited();
    // SAFETY: compared above; the mapping is the object's own, which nobody runs meanwhile.
    let written = unsafe { write::apply(&mapping, chunk.bias, chunk.changes()) };
    written.map_err(|_| Errno::EPERM)
}

/// Whether the object that is mapped `bias` above its link-time addresses has the build-id of the
/// image's.
fn is_built_as(header: &Header, bias: u64) -> bool {
    let (at, wanted) = header.build_id();
    let mut found = [0; 64];
    let Some(found) = found.get_mut(..wanted.len()) else {
        return false;
    };
    user::copy_in(found, (bias + at) as usize).is_ok() && found == wanted
}
