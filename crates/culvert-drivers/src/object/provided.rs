//! What a library without a libc gets in its place: memory, and what compilers call by themselves.

use crate::{Keeper, KeptFd};
use alloc::alloc::{alloc, alloc_zeroed, dealloc};
use alloc::boxed::Box;
use core::alloc::Layout;
use core::ffi::{c_char, c_int, c_void};
use culvert::sync::Mutex;
use culvert_sys::OwnedFd;

unsafe extern "C" {
    fn memcpy(to: *mut c_void, from: *const c_void, count: usize) -> *mut c_void;
    fn memmove(to: *mut c_void, from: *const c_void, count: usize) -> *mut c_void;
    fn memset(to: *mut c_void, byte: c_int, count: usize) -> *mut c_void;
    fn memcmp(one: *const c_void, other: *const c_void, count: usize) -> c_int;
    fn bcmp(one: *const c_void, other: *const c_void, count: usize) -> c_int;
    fn strlen(text: *const c_char) -> usize;
}

/// The address of what is provided as `name`.
pub fn address(name: &[u8]) -> Option<usize> {
    let function = match name {
        b"memcpy" => memcpy as *const (),
        b"memmove" => memmove as *const (),
        b"memset" => memset as *const (),
        b"memcmp" => memcmp as *const (),
        b"bcmp" => bcmp as *const (),
        b"strlen" => strlen as *const (),
        b"strcmp" => strcmp as *const (),
        b"strncmp" => strncmp as *const (),
        b"strchr" => strchr as *const (),
        b"strrchr" => strrchr as *const (),
        b"memchr" => memchr as *const (),
        b"strcpy" => strcpy as *const (),
        b"malloc" => malloc as *const (),
        b"calloc" => calloc as *const (),
        b"realloc" => realloc as *const (),
        b"aligned_alloc" => aligned_alloc as *const (),
        b"free" => free as *const (),
        b"abort" => abort as *const (),
        b"__stack_chk_fail" => abort as *const (),
        b"culvert_keep_descriptor" => keep as *const (),
        b"culvert_kept_number" => number as *const (),
        b"culvert_drop_descriptor" => give_up as *const (),
        _ => return None,
    };
    Some(function as usize)
}

/// What stands before each piece of memory: how large it and what lies before it are, and its
/// alignment, which is how much that is.
type Head = [usize; 2];

const LEAST: usize = 16;

fn with_head(size: usize, align: usize) -> Option<Layout> {
    let align = align.max(LEAST);
    Layout::from_size_align(size.checked_add(align)?, align).ok()
}

/// # Safety
/// `base` is memory of `layout`, which `with_head` has made.
unsafe fn begin(base: *mut u8, layout: Layout) -> *mut c_void {
    if base.is_null() {
        return base.cast();
    }
    let memory = base.wrapping_add(layout.align());
    // SAFETY: the head lies in the alignment before it.
    unsafe {
        memory
            .cast::<Head>()
            .sub(1)
            .write([layout.size(), layout.align()])
    };
    memory.cast()
}

extern "C" fn malloc(size: usize) -> *mut c_void {
    aligned_alloc(LEAST, size)
}

extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    let Some(layout) = with_head(size, align) else {
        return core::ptr::null_mut();
    };
    // SAFETY: never of no size.
    unsafe { begin(alloc(layout), layout) }
}

extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let layout = count
        .checked_mul(size)
        .and_then(|size| with_head(size, LEAST));
    let Some(layout) = layout else {
        return core::ptr::null_mut();
    };
    // SAFETY: never of no size.
    unsafe { begin(alloc_zeroed(layout), layout) }
}

/// # Safety
/// `memory` came from here.
unsafe fn layout_of(memory: *mut c_void) -> Layout {
    // SAFETY: `begin` has put it there, of a layout.
    unsafe {
        let [size, align] = memory.cast::<Head>().sub(1).read();
        Layout::from_size_align_unchecked(size, align)
    }
}

extern "C" fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    let new = malloc(size);
    if !memory.is_null() && !new.is_null() {
        // SAFETY: free(3)'s promise; what is copied is in both.
        unsafe {
            let old = layout_of(memory);
            memcpy(new, memory, size.min(old.size() - old.align()));
            free(memory);
        }
    }
    new
}

/// free(3).
///
/// # Safety
/// Null, or of these.
unsafe extern "C" fn free(memory: *mut c_void) {
    if !memory.is_null() {
        // SAFETY: the caller's promise.
        unsafe {
            let layout = layout_of(memory);
            dealloc(memory.cast::<u8>().sub(layout.align()), layout);
        }
    }
}

extern "C" fn abort() -> ! {
    culvert_sys::log!("a driver in a library has ended its process");
    culvert_sys::abort()
}

/// Defines functions over strings.
macro_rules! strings {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => { $(
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the caller's promise: strings, or as many bytes as it says.
            unsafe { $body }
        }
    )* };
}

strings! {
    strcmp(one: *const u8, other: *const u8) -> c_int {
        strncmp(one, other, usize::MAX)
    }

    strncmp(one: *const u8, other: *const u8, count: usize) -> c_int {
        let mut at = 0;
        while at < count {
            let (a, b) = (*one.wrapping_add(at), *other.wrapping_add(at));
            if a != b || a == 0 {
                return c_int::from(a) - c_int::from(b);
            }
            at += 1;
        }
        0
    }

    strchr(text: *const u8, wanted: c_int) -> *const u8 {
        let mut at = text;
        loop {
            if *at == wanted as u8 {
                return at;
            }
            if *at == 0 {
                return core::ptr::null();
            }
            at = at.wrapping_add(1);
        }
    }

    strrchr(text: *const u8, wanted: c_int) -> *const u8 {
        let (mut at, mut found) = (text, core::ptr::null());
        loop {
            if *at == wanted as u8 {
                found = at;
            }
            if *at == 0 {
                return found;
            }
            at = at.wrapping_add(1);
        }
    }

    memchr(bytes: *const u8, wanted: c_int, count: usize) -> *const u8 {
        let mut at = 0;
        while at < count {
            if *bytes.wrapping_add(at) == wanted as u8 {
                return bytes.wrapping_add(at);
            }
            at += 1;
        }
        core::ptr::null()
    }

    strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
        memcpy(to.cast(), from.cast(), strlen(from) + 1);
        to
    }
}

/// How this process keeps descriptors out of the program's way.
static KEEPER: Mutex<Keeper> = Mutex::new(Keeper {
    adopt: None,
    table: None,
    lends: None,
});

/// Descriptors of libraries are kept by `keeper` from here on.
pub fn keep_by(keeper: Keeper) {
    *KEEPER.lock() = keeper;
}

extern "C" fn keep(fd: c_int) -> *mut KeptFd {
    let keeper = *KEEPER.lock();
    Box::into_raw(Box::new(keeper.keep(OwnedFd::from_raw(fd))))
}

/// # Safety
/// `kept` is what `keep` has given.
unsafe extern "C" fn number(kept: *const KeptFd) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { &*kept }.raw()
}

/// # Safety
/// `kept` is what `keep` has given, and nobody uses it any more.
unsafe extern "C" fn give_up(kept: *mut KeptFd) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(kept) });
}
