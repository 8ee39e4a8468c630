//! What goes wrong in the command itself, and the exit status that tells it apart from the
//! program's own.

use std::{ffi::OsStr, fmt, os::unix::ffi::OsStrExt, path::Path};

/// `culvert` itself failed; the program was not started (env(1), docker run).
pub const FAILED: u8 = 125;
/// The program was found but cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub const NOT_FOUND: u8 = 127;

/// A failure for the user to read: what happened, to which path, why, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    message: String,
    advice: Option<String>,
    /// The message is what another process has said, whole.
    told: bool,
}

impl Failure {
    /// A failure that another process of ours has put into words.
    pub fn told(text: impl Into<String>) -> Self {
        Self {
            told: true,
            ..Self::new(text)
        }
    }

    /// A failure of culvert itself, in one line without a full stop.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            status: FAILED,
            message: message.into(),
            advice: None,
            told: false,
        }
    }

    /// The same failure, of `what`.
    #[must_use]
    pub fn within(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// What happened, without what to do.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same failure with another exit status.
    #[must_use]
    pub fn status(mut self, status: u8) -> Self {
        self.status = status;
        self
    }

    /// The same failure with a line that says what to do.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.told {
            true => write!(f, "{}", self.message)?,
            false => write!(f, "culvert: {}", self.message)?,
        }
        match &self.advice {
            Some(advice) => write!(f, "\n         {advice}"),
            None => Ok(()),
        }
    }
}

/// Text for a terminal: control characters and bytes that are no UTF-8 are escaped, so that no name
/// breaks a line or the screen.
pub fn shown(text: impl AsRef<OsStr>) -> String {
    let mut out = String::new();
    for chunk in text.as_ref().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                out.extend(character.escape_default());
            } else {
                out.push(character);
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// The words of strerror(3) for an error of the standard library, without its "(os error N)".
pub fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number @ 1..4096) => culvert_sys::Errno::new(number).text().into(),
        _ => error.to_string(),
    }
}

/// `path` from bytes.
pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
