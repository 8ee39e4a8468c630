//! The copy of libculvert.so that lies at an address of its own (docs/design/library-copy.md), as
//! programs are told of it.
//!
//! ld.so is given two variables. `LD_AUDIT` names the copy and then the library, which is loaded
//! where the copy cannot be; [`LIBRARY`] is what `LD_AUDIT` says without a copy, and says it from
//! the moment when the library begins.

use alloc::{vec, vec::Vec};

/// The variable that becomes `LD_AUDIT` when the library begins: as long as that name, which is
/// written over it.
pub const LIBRARY: &[u8] = b"CV_AUDIT";

/// What the entry of the copy is called from then on: nobody looks for that.
pub const USED: &[u8] = b"CV_COPY_";

/// The entries of the environment by which glibc's ld.so loads the library at `library`, or its
/// `copy`, and behind it the program's `own` list of auditors. The first is what `LD_AUDIT` says in
/// the end.
pub fn entries(library: &[u8], copy: Option<&[u8]>, own: &[u8]) -> Vec<Vec<u8>> {
    let separator: &[u8] = if own.is_empty() { b"" } else { b":" };
    let list = [library, separator, own].concat();
    match copy {
        Some(copy) => vec![
            [LIBRARY, b"=", &list].concat(),
            [b"LD_AUDIT=", copy, b":", &list].concat(),
        ],
        None => vec![[b"LD_AUDIT=", &list[..]].concat()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stands_before_the_programs_own_auditors() {
        let library: &[u8] = b"/a/libculvert.so";
        assert_eq!(entries(library, None, b""), [b"LD_AUDIT=/a/libculvert.so"]);
        let both = entries(library, Some(b"/c/libculvert.so"), b"/b.so");
        assert_eq!(both[0], b"CV_AUDIT=/a/libculvert.so:/b.so");
        assert_eq!(both[1], b"LD_AUDIT=/c/libculvert.so:/a/libculvert.so:/b.so");
    }
}
