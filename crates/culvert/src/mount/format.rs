//! From a [`Mount`] back to the words that [`super::parse_mount`] reads.

use super::Mount;
use alloc::vec::Vec;

impl Mount {
    /// This mount as the argument of `--mount`: `type=T,source=S,target=D,option=value,...`,
    /// specials escaped by backslashes. [`super::parse_mount`] gives the same mount again.
    pub fn to_argument(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let named = [
            ("type", self.driver.as_bytes()),
            ("source", &self.source),
            ("target", &self.target),
        ];
        for (name, value) in named {
            put(&mut out, name, Some(value));
        }
        for (name, value) in &self.options {
            put(&mut out, name, (!value.is_empty()).then_some(value));
        }
        out
    }
}

fn put(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    if !out.is_empty() {
        out.push(b',');
    }
    out.extend_from_slice(name.as_bytes());
    let Some(value) = value else { return };
    out.push(b'=');
    for &byte in value {
        if matches!(byte, b',' | b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
}
