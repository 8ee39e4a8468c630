//! The maps of a mount's extension (culvert/extend.h): a program that answers requests inside the
//! kernel finds there what its driver puts, and puts what the driver finds.

use crate::Result;

/// The maps, by the names that the program's object has for them. What is made or changed is made
/// or changed as one; by any thread.
///
/// `ENXIO`: the object has no map of this name; `EINVAL`: its keys or values have another length;
/// `EPERM`: the driver may not read it (`CULVERT_INODE_MAP`).
pub trait Maps: Send + Sync {
    /// The lengths of a key and of a value, bytes.
    fn sizes(&self, map: &str) -> Result<[usize; 2]>;

    /// The value of `key`, into `value`.
    ///
    /// - `ENOENT`: there is none.
    fn get(&self, map: &str, key: &[u8], value: &mut [u8]) -> Result<()>;

    /// Makes it, or changes it.
    ///
    /// - `E2BIG`: the map is full, and does not forget by itself.
    fn put(&self, map: &str, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes it.
    ///
    /// - `ENOENT`: there is none.
    /// - `EINVAL`: an array has all its keys for ever.
    fn remove(&self, map: &str, key: &[u8]) -> Result<()>;

    /// The key behind `key`, or the first one, into `next`. Behind a key that is not there any more
    /// comes the first one again.
    ///
    /// - `ENOENT`: there are no more.
    fn next(&self, map: &str, key: Option<&[u8]>, next: &mut [u8]) -> Result<()>;
}
