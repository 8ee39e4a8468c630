//! A process that becomes another user for good: from there on code in it must not reach the area
//! of the user before, in which it could write requests of his, nor what else is his alone.

use crate::area::{Header, Session};
use crate::held::Held;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use culvert_sys::flags::OFlags;
use culvert_sys::memory;
use culvert_sys::raw::general::O_CLOEXEC;
use culvert_sys::sync::Mutex;
use culvert_sys::{fd, fs};

/// What this process has of a user's.
struct Way {
    number: u64,
    uid: u32,
    what: What,
}

enum What {
    /// An area: where it is mapped, how long, and what rings for it.
    Area(usize, usize, Arc<dyn Held>),
    /// Other memory.
    Memory(usize, usize),
    /// A connection.
    Connection(Arc<dyn Held>),
}

static WAYS: Mutex<Vec<Way>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// What this process has of a user's, as long as this lives.
#[derive(Debug)]
pub struct Noted(u64);

impl Noted {
    fn new(uid: u32, what: What) -> Self {
        let number = NEXT.fetch_add(1, SeqCst);
        WAYS.lock().push(Way { number, uid, what });
        Self(number)
    }

    /// The area of user `uid` is mapped from `start` on, and `bell` rings for it.
    pub(crate) fn area(uid: u32, start: usize, length: usize, bell: Arc<dyn Held>) -> Self {
        Self::new(uid, What::Area(start, length, bell))
    }

    /// Other memory of user `uid` is mapped from `start` on.
    ///
    /// # Safety
    /// It is mapped there for as long as this lives, and of atomic words, for which zeroes are as
    /// good.
    pub unsafe fn memory(uid: u32, start: usize, length: usize) -> Self {
        Self::new(uid, What::Memory(start, length))
    }

    /// `socket` leads to a process of user `uid`.
    pub fn connection(uid: u32, socket: Arc<dyn Held>) -> Self {
        Self::new(uid, What::Connection(socket))
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        WAYS.lock().retain(|way| way.number != self.0);
    }
}

/// Whether this process has an area, or else something, of a user of whom `is` is true.
pub fn has_area_of(is: impl Fn(u32) -> bool) -> bool {
    WAYS.lock().iter().any(|way| is(way.uid))
}

/// This process has become others than the users of whom `is` is true, and cannot become them
/// again: it has nothing of theirs any more. What waits for replies in their areas fails.
pub fn cut(is: impl Fn(u32) -> bool) {
    let mut ways = WAYS.lock();
    for way in ways.iter().filter(|way| is(way.uid)) {
        match &way.what {
            What::Area(start, length, bell) => {
                if empty(*start, *length) {
                    // SAFETY: the mapping begins with the header, which is atomic words.
                    let header = unsafe { &*(*start as *const Header) };
                    // Nobody answers here: whoever asks is told so.
                    header.session.store(Session::Ended as u32, SeqCst);
                }
                close(&**bell);
            }
            What::Memory(start, length) => {
                empty(*start, *length);
            }
            What::Connection(socket) => close(&**socket),
        }
    }
    ways.retain(|way| !is(way.uid));
}

/// Whether zeroes are from `start` on now.
fn empty(start: usize, length: usize) -> bool {
    // SAFETY: a mapping that lives, as it is noted; atomic words and bytes that are copied alone,
    // for which zeroes are as good.
    let emptied = unsafe { memory::empty(start, length) };
    if let Err(errno) = emptied {
        culvert_sys::log!("a mount's memory stays with another user: {errno}");
    }
    emptied.is_ok()
}

/// It leads nowhere from now on. The number stays taken.
fn close(held: &dyn Held) {
    let nothing = fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, 0)
        .or_else(|_| fd::memfd_create(c"nothing", 0));
    let closed = nothing.and_then(|nothing| fd::replace(&nothing, held.number(), O_CLOEXEC));
    if let Err(errno) = closed {
        culvert_sys::log!("a mount's connection stays with another user: {errno}");
    }
}
