//! Compressed streams with random access.
