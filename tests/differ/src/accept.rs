//! What may differ, and why: nothing else may.

use crate::mount::Mount;
use std::sync::OnceLock;

/// A difference that is none.
pub struct Accepted {
    /// The beginning of the words that are not compared.
    pub word: &'static str,
    /// For which driver.
    pub driver: &'static str,
    /// Why that is right.
    pub why: &'static str,
}

/// The whole list. Numbers of devices and inodes, block counts and file-system types are not shown by the executor at
/// all: identity is shown by classes, in which the same file has the same class, and times by relations.
pub const ACCEPTED: [Accepted; 1] = [Accepted {
    word: "dsize=",
    driver: "type=memory",
    why: "POSIX gives the size of a directory no meaning; tmpfs counts 20 bytes a name",
}];

/// A line without the words whose difference is accepted for `mount`.
pub fn without_accepted(line: &str, mount: &Mount) -> String {
    let Mount::Culvert { specification, .. } = mount else {
        return line.to_owned();
    };
    line.split(' ')
        .filter(|word| {
            !ACCEPTED.iter().any(|accepted| {
                specification.starts_with(accepted.driver) && word.starts_with(accepted.word)
            })
        })
        .filter(|word| !by_hand().iter().any(|ignored| word.starts_with(ignored)))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Beginnings of words that whoever runs the fuzzer by hand looks past, to see what else there is behind a known defect:
/// `DIFFER_IGNORE=fd=,id=`. The tests never set it.
fn by_hand() -> &'static [String] {
    static WORDS: OnceLock<Vec<String>> = OnceLock::new();
    WORDS.get_or_init(|| {
        std::env::var("DIFFER_IGNORE")
            .unwrap_or_default()
            .split(',')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    })
}
