//! Hashes for look-up tables and for telling contents apart. Not for secrets: nothing rests on them
//! but speed and the notice of accidents.

use twox_hash::{XxHash3_64, XxHash64};

/// Hash of a short string; `seed` keeps those who choose the strings from choosing collisions.
pub fn of_name(seed: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// Checksum of many bytes.
pub fn of_content(bytes: &[u8]) -> u64 {
    XxHash64::oneshot(0, bytes)
}
