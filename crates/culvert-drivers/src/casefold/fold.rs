//! What a name is whatever its case: as ext4 folds it (`utf8_casefold`, fs/unicode/utf8-core.c).
//!
//! That is NFDICF of Unicode 12.1: each character folded and decomposed, marks in their canonical
//! order, ignorable characters left out. Characters that Unicode got later are neither folded nor
//! decomposed, on ext4 or here: a file's name means the same for ever.

use super::assigned::is_assigned;
use alloc::{string::String, vec::Vec};
use unicode_normalization::char::{canonical_combining_class, decompose_canonical};

/// Which names are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folding {
    /// Those that ext4 folds alike.
    Unicode,
    /// Those that strcasecmp(3) finds equal in the locale "C".
    Ascii,
}

impl Folding {
    /// What all names that are the same as `name` have in common. None: it is the same as itself
    /// only.
    pub fn key(self, name: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Ascii => Some(name.to_ascii_lowercase()),
            Self::Unicode if name.is_ascii() => Some(name.to_ascii_lowercase()),
            Self::Unicode => {
                let text = core::str::from_utf8(name).ok()?;
                Some(folded(text).into_bytes())
            }
        }
    }
}

/// Whether a strict file system has such names: UTF-8.
pub fn is_valid(name: &[u8]) -> bool {
    core::str::from_utf8(name).is_ok()
}

fn folded(text: &str) -> String {
    // With canonical combining classes; an ignorable character is none, which marks do not pass.
    let mut characters: Vec<(u8, Option<char>)> = Vec::new();
    for character in text.chars() {
        if is_ignorable(character) || !is_assigned(character) {
            let kept = Some(character).filter(|one| !is_ignorable(*one));
            characters.push((0, kept));
            continue;
        }
        // Decomposed first: a mark that folds to a letter may be a part of it (U+0345).
        decompose_canonical(character, |part| {
            fold(part, &mut |part| {
                decompose_canonical(part, |part| {
                    characters.push((canonical_combining_class(part), Some(part)));
                });
            });
        });
    }
    // Marks between two characters that are none, stably.
    for marks in characters.chunk_by_mut(|_, (class, _)| *class != 0) {
        marks.sort_by_key(|(class, _)| *class);
    }
    characters.into_iter().filter_map(|(_, one)| one).collect()
}

/// Full case folding (CaseFolding.txt, C and F). The small letter of the capital of the small
/// letter, but for a few.
fn fold(character: char, push: &mut impl FnMut(char)) {
    match character {
        // Has no capital of its own.
        'ı' => push(character),
        // Cherokee, whose capitals were there first.
        '\u{13a0}'..='\u{13f5}' => push(character),
        '\u{13f8}'..='\u{13fd}' => character.to_uppercase().for_each(push),
        '\u{ab70}'..='\u{abbf}' => character.to_uppercase().for_each(push),
        _ => {
            let small = character.to_lowercase();
            let capital = small.flat_map(char::to_uppercase);
            capital.flat_map(char::to_lowercase).for_each(push);
        }
    }
}

/// `Default_Ignorable_Code_Point` of Unicode 12.1 (DerivedCoreProperties.txt).
const fn is_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
