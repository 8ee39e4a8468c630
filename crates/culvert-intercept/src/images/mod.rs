//! Images: the rewritten code of libraries, kept in files that all processes of a user map in place
//! of the original.
//!
//! A process that maps an image copies no page of code, reads no table of sites and no list of
//! mappings; and a fork has no page tables of it to copy. Whatever an image cannot be mapped for,
//! the code is patched in place ([`crate::patch`]).

mod index;
mod layout;
mod mend;
mod started;
mod store;

use crate::chunk::{Change, Chunk};
use crate::maps::{Mapping, Name, View};
use crate::registry::{self, StandsFor};
use crate::{Call, sites, thread, user, write};
use alloc::ffi::CString;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use culvert_sys::fd::AsFd;
use culvert_sys::flags::Protection;
use culvert_sys::plain::Packed;
use culvert_sys::sync::{AtomicRef, Mutex, OnceCell};
use culvert_sys::{BorrowedFd, Errno, PAGE, PAGE64, fs, memory, nr, syscall};
use index::{Index, Known};
use layout::Header;

pub use index::{Excerpt, Kind, is_full};
pub use layout::{Key, Layout, first_page};
pub(crate) use mend::{may_mend, mend};
pub use started::Started;
use store::Opened;
pub use store::{Store, rehearse};

/// What stubs are told of this process, in the order of [`crate::stub::Slots`].
pub type SlotWords = [usize; 3];

/// The images of this process.
pub struct Images {
    /// Where they are made.
    pub store: Store,
    /// What slots hold.
    pub slots: SlotWords,
    /// Where they are mapped.
    slots_at: OnceCell<u64>,
    /// What is known before the index is looked at; empty once that was wrong.
    excerpt: AtomicRef<Excerpt<'static>>,
    index: OnceCell<Index>,
    /// There was none before a fork, and none is looked for before the next ones.
    is_missed: AtomicBool,
    /// Room behind an object that ld.so is mapping.
    reserved: Mutex<Reserved>,
}

/// What lies behind an object whose code is mapped next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reserved {
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

static IMAGES: OnceCell<Images> = OnceCell::new();

/// Begins to use the images of `store`, of which `excerpt` is known.
pub fn begin(
    store: Store,
    slots: SlotWords,
    excerpt: Option<&'static Excerpt<'static>>,
) -> &'static Images {
    let made = IMAGES.get_or_try_init(|| {
        Ok::<_, core::convert::Infallible>(Images {
            store,
            slots,
            slots_at: OnceCell::new(),
            excerpt: AtomicRef::new(),
            index: OnceCell::new(),
            is_missed: AtomicBool::new(false),
            reserved: Mutex::new(Reserved::Nothing),
        })
    });
    let images = match made {
        Ok(images) => images,
        Err(never) => match never {},
    };
    images.excerpt.set(excerpt);
    images
}

/// The images, if this process uses any.
pub fn get() -> Option<&'static Images> {
    IMAGES.get()
}

/// Memory is about to be copied for a child: it need not look for the index itself when it executes
/// a program, nor does the next one.
pub fn before_fork() {
    // Under filters of the program's each call of ours may be its end.
    let is_allowed = |_: &&Images| !thread::current().filters.is_some();
    if let Some(images) = get().filter(is_allowed)
        && !images.is_missed.load(Relaxed)
        && images.index().is_none()
    {
        images.is_missed.store(true, Relaxed);
    }
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

const MAP_TYPE: usize = 0xf;
const MAP_PRIVATE: usize = 2;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_DENYWRITE: usize = 0x800;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const PROT_EXEC: usize = 4;

/// A new mapping with these flags.
fn map(
    address: u64,
    length: u64,
    rights: usize,
    flags: usize,
    file: Option<(BorrowedFd<'_>, u64)>,
) -> Result<u64, Errno> {
    let (fd, offset) = match file {
        Some((file, offset)) => (file.raw() as usize, offset),
        None => (usize::MAX, 0),
    };
    let arguments = [
        address as usize,
        length as usize,
        rights,
        flags,
        fd,
        offset as usize,
    ];
    // SAFETY: callers replace nothing but what they have mapped, or what the program replaces.
    unsafe { syscall::call(nr::MMAP, arguments) }.map(|start| start as u64)
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
            true => self.code(&key, &known, address as u64, rights, reserved),
            false => Err(Errno::EINVAL),
        };
        if let Err(errno) = made {
            self.forget_excerpt();
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

    /// What is known of a file.
    fn find(&self, key: &Key) -> Option<Known> {
        let known = self.excerpt.get().and_then(|excerpt| excerpt.find(key));
        known.or_else(|| self.index()?.find(key))
    }

    fn index(&self) -> Option<&Index> {
        let open = || Index::open(self.store.directory).ok_or(());
        self.index.get_or_try_init(open).ok()
    }

    /// What was known turned out to be wrong: another store may be there by now.
    fn forget_excerpt(&self) {
        self.excerpt.set(None);
    }

    /// Sees to it that the stubs of images find this process's slots at `wanted`.
    fn map_slots(&self, wanted: u64) -> Result<(), Errno> {
        let map_there = || {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
            let page = map(wanted, PAGE64, PROT_READ | PROT_WRITE, flags, None)?;
            if page != wanted {
                // A kernel that knows no MAP_FIXED_NOREPLACE.
                let _ = unmap(page, PAGE64);
                return Err(Errno::EEXIST);
            }
            let copied = user::copy_out(page as usize, self.slots.bytes());
            copied.map_err(|_| Errno::EFAULT)?;
            // All calls go through them: no store of the program's is to lead one elsewhere.
            // SAFETY: a page that was mapped here.
            unsafe { memory::protect(page as usize, PAGE, Protection::READ) }?;
            Ok(page)
        };
        match self.slots_at.get_or_try_init(map_there)? {
            found if *found == wanted => Ok(()),
            // The store is another one by now.
            _ => Err(Errno::ESTALE),
        }
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
        self.map_slots(layout.slots)?;
        // From the image at once: then it takes no mapping more than natively.
        let image = (layout.is_linear() && rights == PROT_READ)
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
        let start = map(address as u64, length, rights, flags, Some(from))?;
        let reserved = match image {
            None => Reserved::Room(start + layout.chunk_offset..start + length),
            Some(image) => match self.is_of_file(key, layout, start, file) {
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
    /// that is open in `file`.
    fn is_of_file(
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
            true => Ok(chunk),
            false => Err(Errno::ESTALE),
        }
    }

    /// Maps the code of an object from its image to `address`, where the program wants it;
    /// `reserved` lies behind the object.
    fn code(
        &self,
        key: &Key,
        known: &Known,
        address: u64,
        rights: usize,
        reserved: Reserved,
    ) -> Result<(), Errno> {
        let layout = &known.layout;
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
            let mapped = || self.map_code(&self.open(known, &stands_for)?, layout, address, rights);
            match stands_for.whole {
                0 => mapped()?,
                _ => {
                    // ld.so has taken all rights away where the object has holes; and memory
                    // that could not be executed may not become code (MemoryDenyWriteExecute).
                    protect(address, layout.code_length, rights).or_else(|_| mapped())?;
                    protect(bias, layout.code_address, PROT_READ)?;
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
        self.map_code(&image, layout, address, rights)?;
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

    fn map_code(
        &self,
        image: &Opened,
        layout: &Layout,
        address: u64,
        rights: usize,
    ) -> Result<(), Errno> {
        let file = Some((image.file.as_fd(), layout.code_offset));
        let flags = MAP_PRIVATE | MAP_FIXED;
        map(address, layout.code_length, rights, flags, file).map(drop)
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

    /// Puts the image of the object `key`, which is mapped already, `bias` above its link-time
    /// addresses, in place of its code. ENOENT when it has none yet.
    ///
    /// # Safety
    /// The object is ld.so, as the kernel has mapped it for this program, and nobody runs its code
    /// but the caller, on his way back.
    pub unsafe fn replace(&self, key: &Key, bias: u64) -> Result<Kind, Errno> {
        let known = self.find(key).ok_or(Errno::ENOENT)?;
        if known.kind != Kind::Image {
            return Ok(known.kind);
        }
        // SAFETY: the caller's promise.
        unsafe { self.replace_by(key, &known, bias) }.inspect_err(|_| self.forget_excerpt())
    }

    /// # Safety
    /// As [`Self::replace`].
    unsafe fn replace_by(&self, key: &Key, known: &Known, bias: u64) -> Result<Kind, Errno> {
        let layout = &known.layout;
        let image = self.store.open(known)?;
        let stubs = Stubs::map(self, key, layout, bias, &image, false)?;
        let code = bias + layout.code_address;
        let code_length = layout.code_length as usize;
        // SAFETY: mapped by the kernel as code, which can be read, and the caller runs alone.
        let now = unsafe { core::slice::from_raw_parts(code as *const u8, code_length) };
        if layout::sums(now) != stubs.sums {
            // A debugger's breakpoints stay: only the sites change.
            stubs.write(code..code + layout.code_length)?;
            return Ok(Kind::Image);
        }
        let rights = (Protection::READ | Protection::EXEC).bits() as usize;
        let file = Some((image.file.as_fd(), layout.code_offset));
        let length = layout.code_length;
        map(code, length, rights, MAP_PRIVATE | MAP_FIXED, file)?;
        stubs.keep(code..code + length);
        Ok(Kind::Image)
    }

    /// The interpreter of the program whose file is `key`, if the engine was started in it before,
    /// and it is not marked ([`Store::mark`]).
    pub fn started_before(&self, key: &Key) -> Option<CString> {
        let known = self.find(key).filter(|known| known.first != 0)?;
        // Such a program may have other rights than its caller's.
        let name = Some(known.name()).filter(|name| !name.is_empty())?;
        let is_marked = self.index().is_none_or(|index| index.is_marked(key));
        (!is_marked).then(|| CString::new(name).ok())?
    }

    /// What is known of a program's file, if it has this first page.
    pub fn kind_of(&self, key: &Key, first: u64) -> Option<Kind> {
        let known = self.find(key)?;
        (known.first == first).then_some(known.kind)
    }
}

impl StandsFor {
    /// An image of the file `key`, of which so many bytes are mapped, from the object's beginning
    /// on.
    fn new(key: &Key, layout: &Layout, image: &Opened, whole: u64) -> Self {
        Self {
            image: image.inode,
            key: *key,
            layout: *layout,
            whole,
        }
    }
}

/// The header and the chunk of the image of `key`, which are mapped for an object that is `bias`
/// above its link-time addresses.
fn chunk_at(key: &Key, layout: &Layout, bias: u64) -> Result<(Header, Chunk), Errno> {
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

/// The chunk of an object, mapped behind it; unmapped again unless it is kept.
struct Stubs {
    start: u64,
    length: u64,
    /// Of the object's own code.
    sums: layout::Sums,
    chunk: Option<Chunk>,
    stands_for: StandsFor,
}

impl Stubs {
    /// Maps it at its distance from the object: into room that is `reserved`, or where nothing is
    /// mapped.
    fn map(
        images: &Images,
        key: &Key,
        layout: &Layout,
        bias: u64,
        image: &Opened,
        reserved: bool,
    ) -> Result<Self, Errno> {
        images.map_slots(layout.slots)?;
        let place = match reserved {
            true => MAP_FIXED,
            false => MAP_FIXED_NOREPLACE,
        };
        let wanted = bias + layout.chunk_offset;
        let flags = MAP_PRIVATE | place;
        let file = Some((image.file.as_fd(), layout.chunk_offset));
        let start = map(
            wanted,
            layout.chunk_length,
            PROT_READ | PROT_EXEC,
            flags,
            file,
        )?;
        let mut stubs = Self {
            start,
            length: layout.chunk_length,
            sums: Default::default(),
            chunk: None,
            stands_for: StandsFor::new(key, layout, image, 0),
        };
        if start != wanted {
            // A kernel that knows no MAP_FIXED_NOREPLACE.
            return Err(Errno::EEXIST);
        }
        let (header, chunk) = chunk_at(key, layout, bias)?;
        if !is_built_as(&header, bias) {
            return Err(Errno::ESTALE);
        }
        stubs.sums = header.sums();
        stubs.chunk = Some(chunk);
        Ok(stubs)
    }

    /// Changes the object's own code, at `code`, so that it leads to them.
    fn write(self, code: Range<u64>) -> Result<(), Errno> {
        let chunk = self.chunk.ok_or(Errno::ENOEXEC)?;
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
        // First, as the handler of SIGILL looks there.
        registry::add((code.start, code.end), chunk, None);
        core::mem::forget(self);
        // SAFETY: compared above; the mapping is the object's own, which nobody runs meanwhile.
        let written = unsafe { write::apply(&mapping, chunk.bias, chunk.changes()) };
        written.map_err(|_| Errno::EPERM)
    }

    /// Leaves them there for the code at `code`.
    fn keep(mut self, code: Range<u64>) {
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

/// mprotect(2) of what was mapped here for the program, as it wants it.
fn protect(start: u64, length: u64, rights: usize) -> Result<(), Errno> {
    let arguments = [start as usize, length as usize, rights];
    // SAFETY: the object's own mapping, which nobody runs yet.
    unsafe { syscall::call(nr::MPROTECT, arguments) }.map(drop)
}

fn unmap(start: u64, length: u64) -> Result<usize, Errno> {
    // SAFETY: what was mapped here and is not used yet.
    unsafe { syscall::call(nr::MUNMAP, [start as usize, length as usize]) }
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
