//! What all decoders have in common.

use crate::archive::bytes::Bytes;
use culvert::Result;

/// Decodes forward from where it was opened.
pub trait Decoder: Send {
    /// Plain offset of the next byte.
    fn position(&self) -> u64;

    /// Decodes on: at least one byte and, unless the format only has larger steps, at most
    /// `wanted`; none at the end. After an error the decoder is of no further use.
    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]>;

    /// Whether it can go on only anew, from another point.
    fn ended(&self) -> bool {
        false
    }

    /// Heap held, bytes.
    fn memory(&self) -> usize;
}
