//! A process that becomes another user for good: from there on code in it must not reach the area of
//! the user before, in which it could write requests of his.

use crate::area::{Header, Session};
use crate::held::Held;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::SeqCst;
use culvert_sys::flags::OFlags;
use culvert_sys::memory;
use culvert_sys::raw::general::O_CLOEXEC;
use culvert_sys::sync::Mutex;
use culvert_sys::{fd, fs};

/// What this process has of an area.
struct Way {
    /// The owner of the area.
    uid: u32,
    start: usize,
    length: usize,
    bell: Arc<dyn Held>,
}

static WAYS: Mutex<Vec<Way>> = Mutex::new(Vec::new());

/// The area of user `uid` is mapped from `start` on, and `bell` rings for it.
pub(crate) fn note(uid: u32, start: usize, length: usize, bell: Arc<dyn Held>) {
    WAYS.lock().push(Way {
        uid,
        start,
        length,
        bell,
    });
}

/// It is not any more.
pub(crate) fn forget(start: usize) {
    WAYS.lock().retain(|way| way.start != start);
}

/// Whether this process has the area of a user of whom `is` is true.
pub fn has_area_of(is: impl Fn(u32) -> bool) -> bool {
    WAYS.lock().iter().any(|way| is(way.uid))
}

/// This process has become others than the users of whom `is` is true, and cannot become them again:
/// it has nothing of their areas any more. What waits for replies there fails.
pub fn cut(is: impl Fn(u32) -> bool) {
    let mut ways = WAYS.lock();
    for way in ways.iter().filter(|way| is(way.uid)) {
        // SAFETY: the mapping of an area that lives; atomic words and bytes that are copied alone, for
        // which zeroes are as good.
        match unsafe { memory::empty(way.start, way.length) } {
            Ok(()) => {
                // SAFETY: the mapping begins with the header, which is atomic words.
                let header = unsafe { &*(way.start as *const Header) };
                // Nobody answers here: whoever asks is told so.
                header.session.store(Session::Ended as u32, SeqCst);
            }
            Err(errno) => {
                culvert_sys::log!("a mount's memory stays with another user: {errno}");
            }
        }
        // The number stays taken.
        let nothing = fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, 0)
            .or_else(|_| fd::memfd_create(c"nothing", 0));
        let number = way.bell.number();
        let closed = nothing.and_then(|nothing| fd::replace(&nothing, number, O_CLOEXEC));
        if let Err(errno) = closed {
            culvert_sys::log!("a mount's bell stays with another user: {errno}");
        }
    }
    ways.retain(|way| !is(way.uid));
}
