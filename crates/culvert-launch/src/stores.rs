//! The user's stores of rewritten code, which live in a base (docs/design/images.md).

use crate::directory::entries;
use culvert_sys::flags::OFlags;
use culvert_sys::{AsFd, fs};

/// The directory of the stores, in a base.
pub const NAME: &str = "images";
/// How many stores there may be: engines of several builds, each with two kinds of runs.
pub const MOST: usize = 6;

/// Whether a name is a store's: an engine's number, in hexadecimal.
pub fn is_store(name: &[u8]) -> bool {
    name.len() == 16 && name.iter().all(u8::is_ascii_hexdigit)
}

/// Whether there is nothing to be removed of the stores in the directory at `path`, below the one
/// that is open: there are few, and none is spent. What an earlier boot has left is not looked for:
/// the file system is in memory.
pub fn are_tidy(base: &impl AsFd, path: &[u8]) -> bool {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let listed =
        fs::openat(base, c"images", flags, 0).and_then(|directory| entries(directory.borrow()));
    listed.is_ok_and(|listed| {
        let stores = listed.iter().map(|entry| entry.name.to_bytes());
        let stores = stores.filter(|name| is_store(name));
        let is_spent =
            |name| culvert_intercept::images::is_spent(&[path, b"/images/", name].concat());
        stores.clone().count() <= MOST && !stores.clone().any(is_spent)
    })
}
