//! Images: the rewritten code of libraries, kept in files that all processes of a user map in place
//! of the original.
//!
//! A process that maps an image copies no page of code, reads no table of sites and no list of
//! mappings; and a fork has no page tables of it to copy. Where the store's files must not be
//! executed, the image's chunk is copied and the object's own code edited, as the image says.
//! Whatever has no image is patched in place ([`crate::patch`]).

mod breakpoints;
mod calls;
mod index;
mod layout;
mod mend;
mod mmap;
mod started;
mod store;
mod stubs;
mod worn;

use crate::registry::StandsFor;
use crate::{thread, user};
use alloc::ffi::CString;
use calls::{
    MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_PRIVATE, PROT_EXEC, PROT_READ, PROT_WRITE,
    map, protect, unmap,
};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use culvert_sys::fd::AsFd;
use culvert_sys::plain::Packed;
use culvert_sys::sync::{AtomicRef, Mutex, OnceCell};
use culvert_sys::{Errno, PAGE64};
use index::{Index, Known};
use mmap::Reserved;
use store::Opened;
use stubs::Stubs;

pub use index::{Excerpt, Kind, is_spent, publish, unnamed};
pub use layout::{Key, Layout, first_page};
pub(crate) use mend::{may_mend, mend};
pub use mmap::Mapped;
pub use started::Started;
pub use store::{Store, into_large_page, rehearse};

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
    /// The store's files must not be executed: it is noexec, or somebody refuses it (SELinux).
    is_refused: AtomicBool,
    /// Room behind an object that ld.so is mapping.
    reserved: Mutex<Reserved>,
}

/// What is known of a program before it is executed.
pub struct StartedBefore {
    /// Its interpreter's path.
    pub interpreter: CString,
    /// A number that says so, if nothing is wanted of it, to the process that it becomes.
    pub nothing: Option<u64>,
}

/// What who has executed a program says of it, so that the process need not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// [`StartedBefore::nothing`].
    pub nothing: u64,
    /// Which file its interpreter is ([`Key::hash`]).
    pub interpreter: u64,
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
            is_refused: AtomicBool::new(false),
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

/// Whether that is what a mapping for execution fails with where it is forbidden.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::EPERM | Errno::EACCES)
}

impl Images {
    /// Whether images must not be executed: what is prepared in them is read.
    fn is_refused(&self) -> bool {
        self.is_refused.load(Relaxed)
    }

    fn refuse(&self) {
        self.is_refused.store(true, Relaxed);
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
            protect(page, PAGE64, PROT_READ)?;
            Ok(page)
        };
        match self.slots_at.get_or_try_init(map_there)? {
            found if *found == wanted => Ok(()),
            // The store is another one by now.
            _ => Err(Errno::ESTALE),
        }
    }

    /// Puts the image of the object `key`, which is mapped already, `bias` above its link-time
    /// addresses, in place of its code. ENOENT when it has none yet.
    ///
    /// # Safety
    /// The object is ld.so, as the kernel has mapped it for this program, and nobody runs its code
    /// but the caller, on his way back.
    pub unsafe fn replace(&self, key: &Key, bias: u64) -> Result<Kind, Errno> {
        let attempt = || {
            let known = self.find(key).ok_or(Errno::ENOENT)?;
            match known.kind {
                // SAFETY: the caller's promise.
                Kind::Image => unsafe { self.replace_by(key, &known, bias) },
                other => Ok(other),
            }
        };
        attempt().or_else(|errno| match (errno, self.excerpt.get()) {
            // It is not as the excerpt says. The index would say nothing else after other errors.
            (Errno::ENOENT | Errno::ESTALE | Errno::EACCES, Some(_)) => {
                self.forget_excerpt();
                attempt()
            }
            _ => Err(errno),
        })
    }

    /// # Safety
    /// As [`Self::replace`].
    unsafe fn replace_by(&self, key: &Key, known: &Known, bias: u64) -> Result<Kind, Errno> {
        let layout = &known.layout;
        let image = self.store.open(known)?;
        let stubs = Stubs::map(self, key, layout, bias, &image, false)?;
        let (code, length) = (bias + layout.code_address, layout.code_length);
        // SAFETY: mapped by the kernel as code, which can be read, and the caller runs alone.
        let now = || unsafe { core::slice::from_raw_parts(code as *const u8, length as usize) };
        if stubs.is_copy() || !stubs.is_untouched(now()) {
            // A debugger's breakpoints stay: only the sites change.
            stubs.write(code..code + length)?;
            return Ok(Kind::Image);
        }
        let file = Some((image.file.as_fd(), layout.code_offset));
        let rights = PROT_READ | PROT_EXEC;
        map(code, length, rights, MAP_PRIVATE | MAP_FIXED, file)?;
        stubs.keep(code..code + length);
        Ok(Kind::Image)
    }

    /// What is known of the program whose file is `key`, if the engine was started in it before,
    /// and it is not marked ([`Store::mark`]).
    pub fn started_before(&self, key: &Key) -> Option<StartedBefore> {
        let known = self.find(key).filter(|known| known.first != 0)?;
        // Such a program may have other rights than its caller's.
        let name = Some(known.name()).filter(|name| !name.is_empty())?;
        let is_marked = self.index().is_none_or(|index| index.is_marked(key));
        let interpreter = CString::new(name).ok().filter(|_| !is_marked)?;
        let is_left = known.kind == Kind::Nothing;
        let nothing = is_left.then(|| self.nothing_of(known.first));
        Some(StartedBefore {
            interpreter,
            nothing,
        })
    }

    /// A number that says: nothing is wanted of the program that has this first page, by this
    /// engine.
    fn nothing_of(&self, first: u64) -> u64 {
        self.store.directory.iter().fold(first, |sum: u64, byte| {
            (sum.rotate_left(23) ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    /// What was said of the program that has this first page, if it was of that, by this engine.
    pub fn said_of(&self, first: u64, said: Option<Said>) -> Option<Said> {
        said.filter(|said| first != 0 && said.nothing == self.nothing_of(first))
    }

    /// The key of that hash, if the run's state tells.
    pub fn key(&self, hash: u64) -> Option<Key> {
        self.excerpt.get()?.key(hash)
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
            is_edited: false,
        }
    }
}
