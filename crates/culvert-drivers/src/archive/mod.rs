//! Archives as directories: tar, compressed tar and zip, read in place through an index that is built once.

pub mod bytes;
pub mod codec;
pub mod host;
