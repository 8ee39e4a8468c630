//! Structures that are their bytes.

use crate::Protocol;
use core::{mem::MaybeUninit, ptr, slice};

/// A structure of the protocol: integers only, in the kernel's order, without gaps.
///
/// # Safety
///
/// Every pattern of bytes is a value, and no byte is padding.
pub unsafe trait Plain: Copy + 'static {
    /// The kernel's name of it, in `include/uapi/linux/fuse.h`.
    const KERNEL_NAME: &'static str;

    /// The minor version that brought it, 31 for what is older than this crate.
    const SINCE: u32;

    /// Its fields: the kernel's name, the offset, the size, bytes.
    const FIELDS: &'static [(&'static str, usize, usize)];

    /// How many of its bytes are sent under `protocol`; the rest is zero.
    fn wire_size(protocol: &Protocol) -> usize {
        let _ = protocol;
        size_of::<Self>()
    }

    /// Its bytes.
    fn bytes(&self) -> &[u8] {
        // SAFETY: of the trait: no byte is padding, so all are initialised; the length is the
        // value's own.
        unsafe { slice::from_raw_parts(ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The value whose first bytes are `bytes`, the missing ones zero. What is too long is cut.
    fn from_prefix(bytes: &[u8]) -> Self {
        let mut value = MaybeUninit::<Self>::zeroed();
        let count = bytes.len().min(size_of::<Self>());
        // SAFETY: `count` bytes are readable in `bytes` and writable in `value`; they do not
        // overlap. All bytes of `value` were zeroed before, and of the trait every pattern is a
        // value.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast::<u8>(), count);
            value.assume_init()
        }
    }
}

/// Declares structures of the protocol with their kernel names. Fields are public and named as the
/// kernel names them.
macro_rules! structures {
    ($(
        $(#[$meta:meta])*
        $name:ident = $kernel:literal since $since:literal $([$size:expr])? {
            $( $(#[$field_meta:meta])* $field:ident : $type:ty ),* $(,)?
        }
    )*) => {
        /// The layouts of this module's structures.
        #[cfg(test)]
        pub(crate) const LAYOUTS: &[$crate::tests::Layout] = &[$((
            <$name as $crate::Plain>::KERNEL_NAME,
            <$name as $crate::Plain>::SINCE,
            size_of::<$name>(),
            <$name as $crate::Plain>::FIELDS,
        )),*];
        $(
        $(#[$meta])*
        #[doc = ""]
        #[doc = concat!("`struct ", $kernel, "` of `include/uapi/linux/fuse.h`.")]
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[doc = ""]
                #[doc = concat!("The kernel's `", stringify!($field), "`.")]
                pub $field: $type,
            )*
        }
        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*, "padding");
        // SAFETY: the fields are integers, arrays of them or such structures; the line above proves
        // that nothing lies between them.
        unsafe impl $crate::Plain for $name {
            const KERNEL_NAME: &'static str = $kernel;
            const SINCE: u32 = $since;
            const FIELDS: &'static [(&'static str, usize, usize)] =
                &[$((stringify!($field), core::mem::offset_of!($name, $field), size_of::<$type>())),*];
            $(fn wire_size(protocol: &$crate::Protocol) -> usize {
                let size: fn(&$crate::Protocol) -> usize = $size;
                size(protocol)
            })?
        }
        )*
    };
}
pub(crate) use structures;
