//! Taking a message apart.

use crate::{Plain, Protocol};
use core::fmt;

/// Why bytes are no message of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its parts.
    TooShort,
    /// The length in the header is not that of the bytes.
    Length,
    /// Bytes left after the last part.
    TooLong,
    /// A name without NUL, an empty one, `.`, `..`, or one with a slash.
    Name,
    /// A count that is not that of what follows.
    Count,
    /// An extension that does not fit its length.
    Extension,
    /// An error number outside 1 to 4095.
    Error,
    /// A notification that is not known.
    Notification,
    /// A name or an answer larger than a message can say.
    TooLarge,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooShort => "message shorter than its parts",
            Self::Length => "length in the header is not that of the message",
            Self::TooLong => "bytes after the end of the message",
            Self::Name => "name that cannot be one",
            Self::Count => "count that does not fit what follows",
            Self::Extension => "extension that does not fit its length",
            Self::Error => "error number out of range",
            Self::Notification => "unknown notification",
            Self::TooLarge => "too large for a message",
        })
    }
}

impl core::error::Error for Malformed {}

/// The rest of a message that is being decoded.
pub(crate) struct Input<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) protocol: Protocol,
}

impl<'a> Input<'a> {
    /// The next `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(Malformed::TooShort)?;
        self.rest = rest;
        Ok(head)
    }

    /// All that is left.
    pub(crate) fn remainder(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// The next structure, as long as the protocol says.
    pub(crate) fn plain<T: Plain>(&mut self) -> Result<T, Malformed> {
        let size = T::wire_size(&self.protocol);
        Ok(T::from_prefix(self.bytes(size)?))
    }

    /// Bytes up to a NUL, which is consumed.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self
            .rest
            .iter()
            .position(|&byte| byte == 0)
            .ok_or(Malformed::Name)?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }

    /// Nothing may be left.
    pub(crate) fn finish(&self) -> Result<(), Malformed> {
        match self.rest {
            [] => Ok(()),
            _ => Err(Malformed::TooLong),
        }
    }
}
