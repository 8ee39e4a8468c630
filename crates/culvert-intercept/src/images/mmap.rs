//! The program's mmap of an object: its image takes the place of all of it, or of its code.

use super::calls::{
    MAP_ANONYMOUS, MAP_DENYWRITE, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_PRIVATE, MAP_TYPE, PROT_EXEC,
    PROT_READ, PROT_WRITE, map, protect, unmap,
};
use super::index::{Kind, Known};
use super::layout::{Header, Key, Layout};
use super::store::Opened;
use super::stubs::{Stubs, chunk_at, edit};
use super::{Images, is_refusal};
use crate::chunk::Chunk;
use crate::maps::{Mapping, View};
use crate::registry::{self, StandsFor};
use crate::{Call, user};
use core::ops::Range;
use culvert_sys::fd::AsFd;
use culvert_sys::{BorrowedFd, Errno, PAGE64, fs};

/// What lies behind an object whose code is mapped next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    /// Nothing that is known.
    Nothing,
    /// Room that was mapped with the object, for its chunk.
    Room(Range<u64>),
    /// Its chunk. The code lies there, too, where all of the object was mapped from the image; and
    /// the object itself may have left the chunk there when it was unmapped.
    Chunk {
        chunk: Chunk,
        stands_for: StandsFor,
        was_left: bool,
    },
}

/// What became of an mmap.
pub enum Mapped {
    /// It is made, here, and nothing is left to do.
    Done(usize),
    /// The caller makes it; the object has no image yet and may get one.
    Unknown,
    /// The caller makes it.
    Known,
}

impl Images {
    /// The program's mmap of a file, as ld.so makes it: first all of an object, then its code.
    pub fn mmap(&self, call: &Call) -> Mapped {
        let [address, length, rights, flags, fd, offset] = call.args;
        let is_fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
        let is_code = rights & PROT_EXEC != 0;
        let is_whole = !is_fixed && offset == 0 && flags & MAP_DENYWRITE != 0;
        let ours = flags & MAP_TYPE == MAP_PRIVATE && flags & MAP_ANONYMOUS == 0;
        if !ours || rights & PROT_WRITE != 0 || !(is_code || is_whole) {
            return Mapped::Known;
        }
        let fd = BorrowedFd::number(fd as i32);
        let Ok(found) = fs::fstat(fd) else {
            return Mapped::Known;
        };
        let key = Key::of(&found);
        let Some(known) = self.find(&key) else {
            if !is_code {
                return Mapped::Known;
            }
            // Its file may have changed since its beginning was mapped.
            if let Reserved::Chunk {
                chunk, stands_for, ..
            } = self.take_reserved()
                && stands_for.key.is_file_of(&key)
            {
                let _ = give_back(chunk.address() - Header::SIZE, call);
            }
            return Mapped::Unknown;
        };
        match known.kind {
            Kind::InPlace => return Mapped::Known,
            // Nothing of it is wanted: it is mapped as it is.
            Kind::Nothing if !is_code => return Mapped::Known,
            Kind::Nothing => {
                let result = map(
                    address as u64,
                    length as u64,
                    rights,
                    flags,
                    Some((fd, offset as u64)),
                );
                return match result {
                    Ok(start) => {
                        registry::replaced(start, start + length as u64);
                        Mapped::Done(start as usize)
                    }
                    // The same error again.
                    Err(_) => Mapped::Known,
                };
            }
            Kind::Image => {}
        }
        let layout = &known.layout;
        let Some(pages) = (length as u64).checked_next_multiple_of(PAGE64) else {
            return Mapped::Known;
        };
        if is_whole && pages == layout.span && layout.code_offset != 0 {
            return match self.reserve(&key, &known, call, fd) {
                Ok(start) => Mapped::Done(start as usize),
                Err(_) => {
                    self.forget_excerpt();
                    Mapped::Known
                }
            };
        }
        let is_its_code = is_code
            && flags & !MAP_DENYWRITE == MAP_PRIVATE | MAP_FIXED
            && (offset as u64, pages) == (layout.code_offset, layout.code_length);
        let reserved = match is_code {
            true => self.take_reserved(),
            false => Reserved::Nothing,
        };
        let bias = address.wrapping_sub(offset);
        let header_at = match &reserved {
            Reserved::Chunk { chunk, .. } if chunk.bias == bias as u64 => {
                chunk.address() - Header::SIZE
            }
            _ => bias.wrapping_add(layout.chunk_offset as usize),
        };
        let made = match is_its_code {
            true => self.code(&key, &known, call, reserved),
            false => Err(Errno::EINVAL),
        };
        if let Err(errno) = made {
            // Else it was mapped in another way than ld.so's.
            if errno != Errno::EINVAL {
                self.forget_excerpt();
            }
            if is_code {
                let _ = give_back(header_at, call);
            }
            return match errno {
                // Somebody has removed it: it is made again.
                Errno::ENOENT => Mapped::Unknown,
                _ => Mapped::Known,
            };
        }
        Mapped::Done(address)
    }

    /// What lies behind the object whose code is mapped now.
    fn take_reserved(&self) -> Reserved {
        core::mem::replace(&mut *self.reserved.lock(), Reserved::Nothing)
    }

    /// Maps all of an object, with its chunk behind it or room for that, as `call` does of the file
    /// that is open in `file`. Its beginning.
    fn reserve(
        &self,
        key: &Key,
        known: &Known,
        call: &Call,
        file: BorrowedFd<'_>,
    ) -> Result<u64, Errno> {
        let layout = &known.layout;
        let [address, _, rights, flags, ..] = call.args;
        // The code of an object that was given up is never mapped.
        self.take_reserved();
        // From the image at once: then it takes no mapping more than natively.
        let image = (layout.is_linear() && rights == PROT_READ && !self.is_refused())
            .then(|| self.store.open(known))
            .transpose()?;
        let (rights, from) = match &image {
            Some(image) => (PROT_READ | PROT_EXEC, (image.file.as_fd(), 0)),
            None => (rights, (file, 0)),
        };
        for (chunk, stands_for) in self.left(key, layout) {
            let is_its = |image: &Opened| image.inode == stands_for.image;
            if !image.as_ref().is_none_or(is_its) {
                continue;
            }
            let flags = flags | MAP_FIXED_NOREPLACE;
            if map(chunk.bias, layout.span, rights, flags, Some(from)) == Ok(chunk.bias) {
                let whole = image.as_ref().map_or(0, |_| layout.span);
                *self.reserved.lock() = Reserved::Chunk {
                    chunk,
                    stands_for: StandsFor {
                        whole,
                        ..stands_for
                    },
                    was_left: true,
                };
                return Ok(chunk.bias);
            }
        }
        let length = layout.extent();
        let mapped = map(address as u64, length, rights, flags, Some(from));
        if image.is_some() && mapped.is_err_and(is_refusal) {
            self.refuse();
            return self.reserve(key, known, call, file);
        }
        let start = mapped?;
        let reserved = match image {
            None => Reserved::Room(start + layout.chunk_offset..start + length),
            Some(image) => match self.usable(key, layout, start, file) {
                Ok(chunk) => Reserved::Chunk {
                    chunk,
                    stands_for: StandsFor::new(key, layout, &image, layout.span),
                    was_left: false,
                },
                Err(errno) => {
                    let _ = unmap(start, length);
                    return Err(errno);
                }
            },
        };
        *self.reserved.lock() = reserved;
        if layout.chunk_offset > layout.span {
            // What the file has behind the object, symbols for debuggers say.
            let _ = unmap(start + layout.span, layout.chunk_offset - layout.span);
        }
        Ok(start)
    }

    /// The chunk of the image that is mapped at `start` as a whole, if it is that of the object
    /// that is open in `file`, and finds its slots.
    fn usable(
        &self,
        key: &Key,
        layout: &Layout,
        start: u64,
        file: BorrowedFd<'_>,
    ) -> Result<Chunk, Errno> {
        let (header, chunk) = chunk_at(key, layout, start)?;
        let (at, wanted) = header.build_id();
        let mut found = [0; 64];
        let found = found.get_mut(..wanted.len()).ok_or(Errno::ESTALE)?;
        match fs::pread(file, found, at) == Ok(wanted.len()) && found == wanted {
            true => self.map_slots(layout.slots).map(|()| chunk),
            false => Err(Errno::ESTALE),
        }
    }

    /// Maps the code of an object from its image where `call` wants it, or edits the object's own;
    /// `reserved` lies behind the object.
    fn code(&self, key: &Key, known: &Known, call: &Call, reserved: Reserved) -> Result<(), Errno> {
        let layout = &known.layout;
        let (address, rights) = (call.args[0] as u64, call.args[2]);
        let bias = address.wrapping_sub(layout.code_address);
        let code = address..address + layout.code_length;
        let room = bias + layout.chunk_offset..bias + layout.extent();
        if let Reserved::Chunk {
            chunk,
            stands_for,
            was_left,
        } = reserved
            && chunk.bias == bias
        {
            if stands_for.key != *key {
                return Err(Errno::ESTALE);
            }
            if stands_for.whole == 0 && self.is_refused() {
                let stands_for = StandsFor {
                    is_edited: true,
                    ..stands_for
                };
                own_code(call, layout)?;
                return edit(&chunk, code, || registry::revive(chunk, stands_for));
            }
            let mapped = || map_code(&self.open(known, &stands_for)?, layout, address, rights);
            match stands_for.whole {
                0 => mapped()?,
                _ => {
                    // ld.so has taken all rights away where the object has holes; and memory
                    // that could not be executed may not become code (MemoryDenyWriteExecute).
                    // What lies before the code may be executed, too, as where the linker puts both
                    // in one segment: to part them takes longer than all else here.
                    protect(address, layout.code_length, rights).or_else(|_| mapped())?;
                }
            }
            registry::replaced(code.start, code.end);
            match was_left {
                true => registry::revive(chunk, stands_for),
                false => registry::add((code.start, code.end), chunk, Some(stands_for)),
            }
            return Ok(());
        }
        let is_reserved = reserved == Reserved::Room(room.clone());
        let image = self.store.open(known).inspect_err(|_| {
            if is_reserved {
                // Mapped here, and nobody knows of it.
                let _ = unmap(room.start, room.end - room.start);
            }
        })?;
        let stubs = Stubs::map(self, key, layout, bias, &image, is_reserved)?;
        if stubs.is_copy() {
            own_code(call, layout)?;
            return stubs.write(code);
        }
        map_code(&image, layout, address, rights)?;
        stubs.keep(code);
        Ok(())
    }

    /// Opens the image to which what an object has left belongs.
    fn open(&self, known: &Known, left: &StandsFor) -> Result<Opened, Errno> {
        let image = self.store.open(known)?;
        match image.inode == left.image {
            true => Ok(image),
            // What was left belongs to an image that is gone.
            false => Err(Errno::ESTALE),
        }
    }

    /// Chunks that objects with the image of `key` have left in memory. Their places behind an
    /// object are taken, so it is mapped there again.
    fn left(&self, key: &Key, layout: &Layout) -> impl Iterator<Item = (Chunk, StandsFor)> + '_ {
        /// A failed attempt costs a system call.
        const TRIED: usize = 3;
        let (key, layout) = (*key, *layout);
        let is_whole = move |(chunk, _): &(Chunk, StandsFor)| {
            let header: Result<Header, _> = user::read(chunk.address() - Header::SIZE);
            header.is_ok_and(|found| found.is_of(&key, &layout))
        };
        let is_of_file = move |(_, one): &(Chunk, StandsFor)| one.key == key;
        let left = registry::chunks_of_images().filter(is_of_file);
        left.filter(is_whole).take(TRIED)
    }
}

/// Maps the file itself wherever an image, whose header is at `header_at`, lies in its place but
/// for the code, which `call` maps: what is patched in place is found by the file's own first page
/// ([`crate::mapped::image`]).
fn give_back(header_at: usize, call: &Call) -> Result<(), Errno> {
    let [address, _, _, flags, file, offset] = call.args;
    if flags & MAP_FIXED == 0 {
        return Ok(());
    }
    // The image may be that of the file as it was before a change.
    let header: Header = user::read(header_at).map_err(|_| Errno::EIO)?;
    let (key, layout) = header.of();
    if !layout.is_linear() {
        return Ok(());
    }
    let file = BorrowedFd::number(file as i32);
    let bias = address.checked_sub(offset).ok_or(Errno::EINVAL)? as u64;
    bias.checked_add(layout.extent()).ok_or(Errno::EINVAL)?;
    let (_, chunk) = chunk_at(key, layout, bias)?;
    let view = View::all()?;
    let chunk_start = bias + layout.chunk_offset;
    let image = view.file_at(chunk_start).ok_or(Errno::ENOENT)?;
    // First, as it makes mappings fewer.
    if !registry::chunks_of_images().any(|(known, _)| known == chunk) {
        let _ = unmap(chunk_start, layout.chunk_length);
    }
    // Somebody may run the code, where the object was loaded before.
    let code = bias + layout.code_address;
    let (code_end, end) = (code + layout.code_length, bias + layout.span);
    let is_of_image = |one: &&Mapping| {
        one.file == image && !one.shared && one.start.checked_sub(bias) == Some(one.offset)
    };
    for one in view.mappings.iter().filter(is_of_image) {
        let rights = [0, PROT_READ][usize::from(one.readable)];
        let before = one.start..one.end.min(code);
        let behind = one.start.max(code_end)..one.end.min(end);
        for part in [before, behind].into_iter().filter(|part| !part.is_empty()) {
            let from = Some((file, part.start - bias));
            let length = part.end - part.start;
            map(part.start, length, rights, MAP_PRIVATE | MAP_FIXED, from)?;
        }
    }
    Ok(())
}

/// Maps the code of an object from its image.
fn map_code(image: &Opened, layout: &Layout, address: u64, rights: usize) -> Result<(), Errno> {
    let file = Some((image.file.as_fd(), layout.code_offset));
    let flags = MAP_PRIVATE | MAP_FIXED;
    map(address, layout.code_length, rights, flags, file).map(drop)
}

/// Maps the code of an object, which can be read, from its own file, as `call` does.
fn own_code(call: &Call, layout: &Layout) -> Result<(), Errno> {
    let [address, _, rights, flags, fd, _] = call.args;
    if rights != PROT_READ | PROT_EXEC {
        return Err(Errno::EINVAL);
    }
    let file = Some((BorrowedFd::number(fd as i32), layout.code_offset));
    let (start, length) = (address as u64, layout.code_length);
    map(start, length, rights, flags, file)?;
    registry::replaced(start, start + length);
    Ok(())
}
