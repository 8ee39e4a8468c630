//! What a backslash takes the meaning from.

use super::{invalid, shown};
use crate::{Error, Result};
use alloc::{format, string::ToString, vec::Vec};

/// Splits at every separator that is not escaped; escapes stay in.
pub(super) fn split(text: &[u8], separator: u8) -> Result<Vec<&[u8]>> {
    let (mut fields, mut start, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        if text[at] == b'\\' {
            escaped(&text[at..])?;
            at += 1;
        } else if text[at] == separator {
            fields.push(&text[start..at]);
            start = at + 1;
        }
        at += 1;
    }
    fields.push(&text[start..]);
    Ok(fields)
}

/// The byte that the backslash at the start of `text` protects.
pub(super) fn escaped(text: &[u8]) -> Result<u8> {
    match text.get(1) {
        Some(&byte @ (b':' | b',' | b'=' | b'"' | b'(' | b')' | b'\\')) => Ok(byte),
        Some(_) => Err(bad_escape(&text[..2])),
        None => Err(bad_escape(text)),
    }
}

fn bad_escape(text: &[u8]) -> Error {
    let follows = match text.get(1) {
        Some(byte) => format!("before {}", shown(&[*byte])),
        None => "at the end".to_string(),
    };
    invalid(format!(
        "a backslash {follows} (it escapes : , = \" ( ) and \\; write \\\\ for a backslash)"
    ))
}

pub(super) fn unescape(text: &[u8]) -> Result<Vec<u8>> {
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        if text[at] == b'\\' {
            out.push(escaped(&text[at..])?);
            at += 2;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    Ok(out)
}

/// `bytes` with a backslash before each that has a meaning.
pub fn escape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        if matches!(byte, b':' | b',' | b'=' | b'"' | b'(' | b')' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}
