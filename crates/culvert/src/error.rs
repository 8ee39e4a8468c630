//! The one error type: an errno for the program, a cause for the log.

use alloc::{borrow::Cow, boxed::Box};
use core::fmt;
pub use culvert_sys::Errno;

/// What every fallible operation of a driver returns.
pub type Result<T> = core::result::Result<T, Error>;

/// An errno that the program sees, and, where the number alone does not say enough, the cause that
/// the log gets.
///
/// Ordinary refusals (`ENOENT`, `EISDIR`, `EROFS`) carry no cause and cost nothing; damage and
/// failures of the back end carry one.
pub struct Error {
    errno: Errno,
    cause: Option<Box<Cow<'static, str>>>,
}

impl Error {
    /// An error that the errno explains fully.
    pub const fn new(errno: Errno) -> Self {
        Self { errno, cause: None }
    }

    /// An error with a cause: one line, no full stop, naming the object ("member 17: checksum
    /// differs").
    pub fn because(errno: Errno, cause: impl Into<Cow<'static, str>>) -> Self {
        Self {
            errno,
            cause: Some(Box::new(cause.into())),
        }
    }

    /// What the program gets.
    pub const fn errno(&self) -> Errno {
        self.errno
    }

    /// What the log gets, if anything.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref().map(|c| &**c)
    }

    /// The same error, its cause led in by `context` ("archive.zip: ").
    #[must_use]
    pub fn within(self, context: &str) -> Self {
        let cause = match self.cause() {
            Some(cause) => alloc::format!("{context}: {cause}"),
            None => alloc::format!("{context}: {}", self.errno),
        };
        Self {
            errno: self.errno,
            cause: Some(Box::new(Cow::Owned(cause))),
        }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::new(errno)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause() {
            Some(cause) => write!(f, "{:?}: {cause}", self.errno),
            None => write!(f, "{:?}", self.errno),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cause().unwrap_or(self.errno.text()))
    }
}

impl core::error::Error for Error {}
