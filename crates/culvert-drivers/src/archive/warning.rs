//! What was wrong with an archive without making it useless.

use super::bytes::{put_string, take_string};
use alloc::{borrow::Cow, vec::Vec};
use core::fmt;

/// One thing to tell the user: an entry that was left out, or something odd about the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Name of the member as the archive has it; empty when it is about the archive as a whole.
    pub member: Vec<u8>,
    /// What is wrong with it, and what became of it.
    pub text: Cow<'static, str>,
}

/// Shows names that are not UTF-8 or hold control characters without spoiling the terminal.
pub fn printable(name: &[u8]) -> impl fmt::Display + '_ {
    struct Printable<'a>(&'a [u8]);
    impl fmt::Display for Printable<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            const LONGEST: usize = 200;
            let shown = &self.0[..self.0.len().min(LONGEST)];
            for chunk in shown.utf8_chunks() {
                for character in chunk.valid().chars() {
                    if character.is_control() || character == '\\' {
                        write!(f, "{}", character.escape_default())?;
                    } else {
                        write!(f, "{character}")?;
                    }
                }
                for byte in chunk.invalid() {
                    write!(f, "\\x{byte:02x}")?;
                }
            }
            if shown.len() < self.0.len() {
                write!(f, "... ({} bytes)", self.0.len())?;
            }
            Ok(())
        }
    }
    Printable(name)
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.member.is_empty() {
            write!(f, "member \"{}\": ", printable(&self.member))?;
        }
        f.write_str(&self.text)
    }
}

/// The warnings of one archive: the first ones in full, the rest counted, so that a hostile archive
/// cannot fill memory or screen.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    /// The first ones, at most [`Warnings::KEPT`].
    pub first: Vec<Warning>,
    /// How many there were in all.
    pub total: u64,
}

impl Warnings {
    /// How many are kept in full.
    pub const KEPT: usize = 100;

    /// Adds a warning about `member`, or about the whole archive when that is empty.
    pub fn add(&mut self, member: &[u8], text: impl Into<Cow<'static, str>>) {
        self.total += 1;
        if self.first.len() < Self::KEPT {
            self.first.push(Warning {
                member: member.to_vec(),
                text: text.into(),
            });
        }
    }

    /// Adds those of another archive.
    pub fn append(&mut self, other: Self) {
        self.total += other.total;
        let rest = Self::KEPT - self.first.len();
        self.first.extend(other.first.into_iter().take(rest));
    }

    /// The form that lies in an index: total, then name and text of each, lengths first.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.total.to_le_bytes());
        for warning in &self.first {
            put_string(&mut bytes, &warning.member);
            put_string(&mut bytes, warning.text.as_bytes());
        }
        bytes
    }

    /// Reads what [`Warnings::encode`] wrote; stops at what makes no sense.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut warnings = Self::default();
        let Some((total, mut rest)) = bytes.split_first_chunk::<8>() else {
            return warnings;
        };
        while warnings.first.len() < Self::KEPT {
            let (Some(member), Some(text)) = (take_string(&mut rest), take_string(&mut rest))
            else {
                break;
            };
            warnings.first.push(Warning {
                member: member.to_vec(),
                text: Cow::Owned(alloc::string::String::from_utf8_lossy(text).into_owned()),
            });
        }
        warnings.total = u64::from_le_bytes(*total);
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn survive_the_index() {
        let mut warnings = Warnings::default();
        for number in 0..Warnings::KEPT + 5 {
            warnings.add(b"a\xff\n", std::format!("bad {number}"));
        }
        let back = Warnings::decode(&warnings.encode());
        assert_eq!(back.first, warnings.first);
        assert_eq!(back.total, Warnings::KEPT as u64 + 5);
        assert_eq!(back.first[1].to_string(), "member \"a\\xff\\n\": bad 1");
    }

    #[test]
    fn cut_anywhere_still_decode() {
        let mut warnings = Warnings::default();
        warnings.add(b"name", "text");
        let bytes = warnings.encode();
        for end in 0..bytes.len() {
            assert!(Warnings::decode(&bytes[..end]).first.is_empty());
        }
    }
}
