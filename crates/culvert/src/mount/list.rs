//! Lists: the branches of a mount that makes one file system of several.
//!
//! ```text
//! LIST    BRANCH[=HOW][:BRANCH[=HOW]]...
//! BRANCH  SOURCE
//!         (FIELD[,FIELD]...)    of parse_mount, without target
//! ```

use super::escapes::{escaped, split};
use super::{LISTS, invalid, shown};
use crate::Result;
use alloc::{format, vec::Vec};

/// The elements of a list, escapes in them. `memory:` has a colon of its own, after which what is
/// no path could be its name, or another branch.
pub(super) fn elements(text: &[u8]) -> Result<Vec<&[u8]>> {
    let mut found = Vec::<&[u8]>::new();
    let mut after_memory = false;
    let mut rest = text;
    loop {
        let end = element_end(rest)?;
        let element = &rest[..end];
        let is_empty_name = after_memory && element.is_empty();
        if after_memory && !is_empty_name && element[0] != b'(' && !element.contains(&b'/') {
            let name = shown(element);
            return Err(invalid(format!(
                "after memory: {name} may be its name or a branch (write memory\\:NAME or ./NAME)"
            )));
        }
        if element.is_empty() && !is_empty_name {
            return Err(invalid("an empty branch (a colon too many)"));
        }
        after_memory = element == b"memory";
        if !is_empty_name {
            found.push(element);
        }
        match rest.get(end) {
            None => return Ok(found),
            Some(_) => rest = &rest[end + 1..],
        }
    }
}

/// Where the element with which `text` begins ends: at a colon, or with the text.
fn element_end(text: &[u8]) -> Result<usize> {
    let begin = match text.first() {
        Some(b'(') => mount_end(text)?,
        _ => 0,
    };
    Ok(begin + split(&text[begin..], b':')?[0].len())
}

/// Where the mount in parentheses with which `text` begins ends: behind its last parenthesis.
pub(super) fn mount_end(text: &[u8]) -> Result<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => {
                escaped(&text[at..])?;
                at += 1;
            }
            b'(' => depth += 1,
            b')' if depth == 1 => return Ok(at + 1),
            b')' => depth -= 1,
            b'"' => {
                return Err(invalid("a quote inside parentheses (write \\\")"));
            }
            _ => {}
        }
        at += 1;
    }
    Err(invalid(format!(
        "a parenthesis of {} is not closed (one that belongs to a name is written \\( or \\))",
        shown(text)
    )))
}

/// The options in `text`, separated by commas outside of mounts in parentheses, which the values of
/// [`LISTS`] may have; escapes stay in. `EINVAL` for a bad escape, and for a parenthesis that is
/// not closed.
pub fn fields(text: &[u8]) -> Result<Vec<&[u8]>> {
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        let end = field_end(rest)?;
        found.push(&rest[..end]);
        match rest.get(end) {
            None => return Ok(found),
            Some(_) => rest = &rest[end + 1..],
        }
    }
}

/// Where the field with which `text` begins ends: at a comma, or with the text.
pub(super) fn field_end(text: &[u8]) -> Result<usize> {
    // Whether the value is a list, and a branch begins here.
    let (mut is_list, mut begins) = (false, false);
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let began = core::mem::take(&mut begins);
        match byte {
            b',' => break,
            b'\\' => {
                escaped(&text[at..])?;
                at += 1;
            }
            b'(' if began => at += mount_end(&text[at..])? - 1,
            b'=' if !is_list && takes_list(&text[..at]) => (is_list, begins) = (true, true),
            b':' => begins = is_list,
            _ => {}
        }
        at += 1;
    }
    Ok(at)
}

/// Whether the value of field `name` is a list.
fn takes_list(name: &[u8]) -> bool {
    matches!(name, b"source" | b"src") || LISTS.iter().any(|list| list.as_bytes() == name)
}
