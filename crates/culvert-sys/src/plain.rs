//! Values that are nothing but their bytes.

use core::slice::{from_raw_parts, from_raw_parts_mut};
use linux_raw_sys::general as linux;

/// Plain data: integers, and arrays and structures of them.
///
/// # Safety
/// Any bytes make a value of the type.
pub unsafe trait Plain: Copy {
    /// All zeroes.
    #[inline]
    fn zeroed() -> Self {
        // SAFETY: any bytes make a value.
        unsafe { core::mem::zeroed() }
    }
}

/// Plain data whose bytes may be read one by one.
///
/// # Safety
/// Nothing between its fields or behind them is padding.
pub unsafe trait Packed: Plain {
    /// Its bytes.
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: all of them have a value.
        unsafe { from_raw_parts(core::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// Its bytes, of which any may be changed.
    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: all of them have a value, and any others make one.
        unsafe { from_raw_parts_mut(core::ptr::from_mut(self).cast(), size_of::<Self>()) }
    }
}

macro_rules! plain {
    ($trait:ident: $($type:ty),* $(,)?) => {
        // SAFETY: integers, and arrays of integers.
        $(unsafe impl $trait for $type {})*
    };
}
plain!(Plain: u8, i8, u16, i16, u32, i32, u64, i64, usize, isize);
plain!(Packed: u8, i8, u16, i16, u32, i32, u64, i64, usize, isize);
plain!(Plain: linux::stat, linux::statx, linux::statfs, linux::statfs64, linux::timespec);
plain!(Plain: linux::flock, linux::cachestat, linux::pollfd);

// SAFETY: elements follow each other.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
// SAFETY: elements follow each other without padding.
unsafe impl<T: Packed, const N: usize> Packed for [T; N] {}

/// What `fill` has written, if it says so.
#[inline]
pub(crate) fn filled<T: Plain, E>(fill: impl FnOnce(&mut T) -> Result<(), E>) -> Result<T, E> {
    let mut value = T::zeroed();
    fill(&mut value).map(|()| value)
}
