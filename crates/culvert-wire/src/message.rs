//! A message that is being put together.

use crate::{Malformed, Plain, Protocol};

/// The most pieces that follow the head of a message.
pub const MAXIMUM_PIECES: usize = 6;

/// The largest head: a header and `fuse_statx_out`.
const HEAD: usize = 304;

/// An encoded message: a head of its own, then borrowed pieces. Written in this order by one
/// writev(2), it is what the other side reads.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    head: [u8; HEAD],
    head_length: usize,
    pieces: [&'a [u8]; MAXIMUM_PIECES],
    count: usize,
    overflow: bool,
}

impl<'a> Message<'a> {
    /// An empty message.
    pub(crate) const fn new() -> Self {
        Self {
            head: [0; HEAD],
            head_length: 0,
            pieces: [&[]; MAXIMUM_PIECES],
            count: 0,
            overflow: false,
        }
    }

    /// Header and structures.
    pub fn head(&self) -> &[u8] {
        self.head.get(..self.head_length).unwrap_or(&[])
    }

    /// Names and data, none of them empty.
    pub fn pieces(&self) -> &[&'a [u8]] {
        self.pieces.get(..self.count).unwrap_or(&[])
    }

    /// Bytes of the whole message.
    pub fn length(&self) -> usize {
        self.pieces().iter().fold(self.head_length, |sum, piece| {
            sum.saturating_add(piece.len())
        })
    }

    /// Copies the message to the start of `out` and returns its length; none when it does not fit.
    pub fn copy_to(&self, out: &mut [u8]) -> Option<usize> {
        let length = self.length();
        let mut rest = out.get_mut(..length)?;
        for piece in core::iter::once(self.head()).chain(self.pieces().iter().copied()) {
            let (place, after) = rest.split_at_mut_checked(piece.len())?;
            place.copy_from_slice(piece);
            rest = after;
        }
        Some(length)
    }

    /// Adds a structure, as long as the protocol says. All structures come before all pieces.
    pub(crate) fn plain<T: Plain>(&mut self, value: &T, protocol: &Protocol) {
        let bytes = value.bytes();
        let bytes = bytes.get(..T::wire_size(protocol)).unwrap_or(bytes);
        let end = self.head_length.saturating_add(bytes.len());
        match self.head.get_mut(self.head_length..end) {
            Some(place) if self.count == 0 => {
                place.copy_from_slice(bytes);
                self.head_length = end;
            }
            _ => self.overflow = true,
        }
    }

    /// Adds borrowed bytes.
    pub(crate) fn piece(&mut self, bytes: &'a [u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.pieces.get_mut(self.count) {
            Some(place) => {
                *place = bytes;
                self.count += 1;
            }
            None => self.overflow = true,
        }
    }

    /// The message as it is, for who makes the header.
    pub(crate) fn unheaded(self) -> Result<Self, Malformed> {
        match self.overflow {
            true => Err(Malformed::TooLarge),
            false => Ok(self),
        }
    }

    /// Writes `header` over the first bytes, and the length of all into its first word, as both
    /// headers have it.
    pub(crate) fn finish<T: Plain>(mut self, header: &T) -> Result<Self, Malformed> {
        let length = u32::try_from(self.length()).map_err(|_| Malformed::TooLarge)?;
        let place = self
            .head
            .get_mut(..size_of::<T>())
            .ok_or(Malformed::TooLarge)?;
        place.copy_from_slice(header.bytes());
        place
            .first_chunk_mut::<4>()
            .ok_or(Malformed::TooLarge)?
            .copy_from_slice(&length.to_ne_bytes());
        match self.overflow {
            true => Err(Malformed::TooLarge),
            false => Ok(self),
        }
    }
}
