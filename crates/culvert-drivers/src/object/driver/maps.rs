//! The maps of the mount's extension, as a library is given them.

use alloc::sync::Arc;
use core::ffi::{CStr, c_char, c_int};
use core::{ptr, slice};
use culvert::library::abi;
use culvert::{Errno, Maps, Result};

/// The maps, behind functions.
#[repr(C)]
pub(super) struct LentMaps {
    head: abi::Maps,
    maps: Arc<dyn Maps>,
}

/// # Safety
/// Of one of `LentMaps`, and a string that lives as long.
unsafe fn of<'a>(maps: *const abi::Maps, map: *const c_char) -> Result<(&'a dyn Maps, &'a str)> {
    if map.is_null() {
        return Err(Errno::ENXIO.into());
    }
    // SAFETY: the caller's promise; the head is its first member.
    let (maps, map) = unsafe { (&*maps.cast::<LentMaps>(), CStr::from_ptr(map)) };
    let map = map.to_str().map_err(|_| Errno::ENXIO)?;
    Ok((&*maps.maps, map))
}

fn answer(result: Result<()>) -> c_int {
    result.map_or_else(|error| error.errno().raw(), |()| 0)
}

/// # Safety
/// Bytes that can be read, or none.
unsafe fn bytes<'a>(at: *const u8, length: usize) -> &'a [u8] {
    match at.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { slice::from_raw_parts(at, length) },
    }
}

/// # Safety
/// Bytes that can be written and nobody else uses, or none.
unsafe fn room<'a>(at: *mut u8, length: usize) -> &'a mut [u8] {
    match at.is_null() {
        true => &mut [],
        // SAFETY: the caller's promise.
        false => unsafe { slice::from_raw_parts_mut(at, length) },
    }
}

/// # Safety
/// As the header has it, as of the following.
unsafe extern "C" fn sizes(
    maps: *const abi::Maps,
    map: *const c_char,
    key_size: *mut usize,
    value_size: *mut usize,
) -> c_int {
    // SAFETY: the caller's promise; null: it is not wanted.
    answer(unsafe { of(maps, map) }.and_then(|(maps, map)| {
        for (place, size) in [key_size, value_size].into_iter().zip(maps.sizes(map)?) {
            if !place.is_null() {
                // SAFETY: as above.
                unsafe { place.write(size) };
            }
        }
        Ok(())
    }))
}

/// # Safety
/// As above.
unsafe extern "C" fn get(
    maps: *const abi::Maps,
    map: *const c_char,
    key: *const u8,
    key_size: usize,
    value: *mut u8,
    value_size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (key, value) = unsafe { (bytes(key, key_size), room(value, value_size)) };
    // SAFETY: as above.
    answer(unsafe { of(maps, map) }.and_then(|(maps, map)| maps.get(map, key, value)))
}

/// # Safety
/// As above.
unsafe extern "C" fn put(
    maps: *const abi::Maps,
    map: *const c_char,
    key: *const u8,
    key_size: usize,
    value: *const u8,
    value_size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let (key, value) = unsafe { (bytes(key, key_size), bytes(value, value_size)) };
    // SAFETY: as above.
    answer(unsafe { of(maps, map) }.and_then(|(maps, map)| maps.put(map, key, value)))
}

/// # Safety
/// As above.
unsafe extern "C" fn remove(
    maps: *const abi::Maps,
    map: *const c_char,
    key: *const u8,
    key_size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let key = unsafe { bytes(key, key_size) };
    // SAFETY: as above.
    answer(unsafe { of(maps, map) }.and_then(|(maps, map)| maps.remove(map, key)))
}

/// # Safety
/// As above.
unsafe extern "C" fn next(
    maps: *const abi::Maps,
    map: *const c_char,
    key: *const u8,
    into: *mut u8,
    key_size: usize,
) -> c_int {
    // The place may be that of the key itself.
    // SAFETY: the caller's promise.
    let before = (!key.is_null()).then(|| unsafe { bytes(key, key_size) }.to_vec());
    // SAFETY: as above.
    let into = unsafe { room(into, key_size) };
    // SAFETY: as above.
    let asked = unsafe { of(maps, map) };
    answer(asked.and_then(|(maps, map)| maps.next(map, before.as_deref(), into)))
}

impl LentMaps {
    /// `maps` as a library is given them, as long as this is there.
    pub(super) fn new(maps: Arc<dyn Maps>) -> Arc<Self> {
        let head = abi::Maps {
            sizes,
            get,
            put,
            remove,
            next,
        };
        Arc::new(Self { head, maps })
    }

    /// Where they are.
    pub(super) fn head(&self) -> *const abi::Maps {
        ptr::from_ref(self).cast()
    }
}
