//! What an error about a word says: the value that was wrong, and the word that was meant.

use crate::archive::warning::printable;
use alloc::{format, string::String, vec::Vec};
use culvert::{Errno, Error};

/// The error for a bad value of an option.
pub(crate) fn invalid_option(name: &str, value: &[u8], why: &str) -> Error {
    Error::because(
        Errno::EINVAL,
        format!("option {name}={}: {why}", printable(value)),
    )
}

/// "; did you mean X?" or the list of `names`.
pub(crate) fn alternatives<'a>(
    wanted: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let nearest = names
        .clone()
        .map(|name| (distance(wanted.as_bytes(), name.as_bytes()), name))
        .min();
    let list = names.collect::<Vec<_>>().join(", ");
    match nearest {
        Some((edits, name)) if edits * 3 <= wanted.len() => {
            format!("; did you mean {name}? There are: {list}")
        }
        _ => format!("; there are: {list}"),
    }
}

/// Edits that turn one word into the other: bytes left out, added, exchanged for others, or for
/// their neighbours (optimal string alignment).
fn distance(left: &[u8], right: &[u8]) -> usize {
    let first: Vec<usize> = (0..=right.len()).collect();
    let (mut before, mut above) = (first.clone(), first);
    for at in 0..left.len() {
        let mut row = alloc::vec![at + 1];
        for column in 0..right.len() {
            let mut least = (above[column] + usize::from(left[at] != right[column]))
                .min(above[column + 1] + 1)
                .min(row[column] + 1);
            let swapped = at > 0
                && column > 0
                && left[at] == right[column - 1]
                && left[at - 1] == right[column];
            if swapped {
                least = least.min(before[column - 1] + 1);
            }
            row.push(least);
        }
        before = core::mem::replace(&mut above, row);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn edits_are_counted() {
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(distance(b"fualt", b"fault"), 1);
        assert_eq!(distance(b"", b"abc"), 3);
    }
}
