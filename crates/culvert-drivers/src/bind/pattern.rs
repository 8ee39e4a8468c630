//! Patterns of paths, for what is excluded and for options of some paths only.

use crate::glob::matches;
use alloc::vec::Vec;

/// A pattern: with a slash of paths from the root on, without one of names anywhere. What lies
/// below something that it matches it matches, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Vec<u8>,
    is_path: bool,
}

impl Pattern {
    /// The pattern `text`; none where it is empty.
    pub fn new(text: &[u8]) -> Option<Self> {
        let is_path = text.contains(&b'/');
        let text = text.strip_prefix(b"/").unwrap_or(text);
        let text = text.strip_suffix(b"/").unwrap_or(text);
        (!text.is_empty()).then(|| Self {
            text: text.to_vec(),
            is_path,
        })
    }

    /// Whether it needs to know more of a file than its name.
    pub const fn is_path(&self) -> bool {
        self.is_path
    }

    /// Whether it matches `name` in a directory that it does not match, of path `dir`, which is
    /// asked for only where it is needed.
    pub fn matches_name(&self, dir: &[u8], name: &[u8]) -> bool {
        match self.is_path {
            true => matches(&self.text, &join(dir, name)),
            false => matches(&self.text, name),
        }
    }

    /// Whether it matches `path`, or a directory on its way.
    pub fn matches_path(&self, path: &[u8]) -> bool {
        if !self.is_path {
            return path
                .split(|&byte| byte == b'/')
                .any(|name| matches(&self.text, name));
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut ends = ends.map(|(at, _)| at).chain([path.len()]);
        ends.any(|end| matches(&self.text, &path[..end]))
    }

    /// Whether it could match something below the directory `path` that it does not match itself:
    /// what is there would mean something else by another path.
    pub fn may_match_below(&self, path: &[u8]) -> bool {
        let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[');
        let end = self.text.iter().position(special);
        let literal = &self.text[..end.unwrap_or(self.text.len())];
        let below = join(path, b"");
        self.is_path
            && !self.matches_path(path)
            && (literal.starts_with(&below) || end.is_some() && below.starts_with(literal))
    }
}

/// The path of `name` in the directory with the path `dir`.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        [] => name.to_vec(),
        _ => [dir, b"/", name].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn names_match_anywhere_and_paths_from_the_root_on() {
        for (text, path, want) in [
            ("*.key", "a.key", true),
            ("*.key", "x/y/a.key", true),
            ("*.key", "x.key/y", true),
            ("*.key", "x/a.keys", false),
            ("/a", "a", true),
            ("/a", "a/b/c", true),
            ("/a", "x/a", false),
            ("x/*", "x/a", true),
            ("x/*", "x", false),
            ("/x/**/z", "x/1/2/z/q", true),
            ("up/", "up/one", true),
            ("up/", "x/up", false),
        ] {
            assert_eq!(
                pattern(text).matches_path(path.as_bytes()),
                want,
                "{text} {path}"
            );
        }
        assert_eq!(Pattern::new(b""), None);
        assert_eq!(Pattern::new(b"/"), None);
    }

    #[test]
    fn what_lies_below_is_known_where_a_path_might_match_there() {
        for (text, path, want) in [
            ("/a/b", "a", true),
            ("/a/b", "a/b", false),
            ("/a/b", "x", false),
            ("/a/b", "ab", false),
            ("/*/b", "x", true),
            ("/**/b", "x/y", true),
            ("*.key", "x", false),
        ] {
            assert_eq!(
                pattern(text).may_match_below(path.as_bytes()),
                want,
                "{text} {path}"
            );
        }
    }
}
