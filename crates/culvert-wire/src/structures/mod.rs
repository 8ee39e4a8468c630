//! The structures of `include/uapi/linux/fuse.h`, field by field under the kernel's names.
//! `src/tests/layout.rs` compares them with the installed header and with the type information of
//! the running kernel.

mod files;
mod headers;
mod nodes;
mod notices;

pub use files::*;
pub use headers::*;
pub use nodes::*;
pub use notices::*;

/// The layouts of all structures.
#[cfg(test)]
pub(crate) const LAYOUTS: [&[crate::tests::Layout]; 4] = [
    headers::LAYOUTS,
    nodes::LAYOUTS,
    files::LAYOUTS,
    notices::LAYOUTS,
];
