//! What may differ, and why: nothing else may.

use crate::mount::Mount;

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
        .collect::<Vec<_>>()
        .join(" ")
}
