//! Reading path text: components, and the prefix tests.

/// One component of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Component {
    /// Where it begins.
    pub start: usize,
    /// Where it ends, exclusive.
    pub end: usize,
    /// Nothing but slashes comes after it.
    pub is_last: bool,
    /// At least one slash comes after it.
    pub slash: bool,
}

/// The first component of `text` at or after byte `at`.
pub(super) fn component(text: &[u8], at: usize) -> Option<Component> {
    let start = at + text[at..].iter().position(|&b| b != b'/')?;
    Some(component_at(text, start))
}

/// The component that begins at byte `start`.
#[inline]
pub(super) fn component_at(text: &[u8], start: usize) -> Component {
    let end = end_of_name(text, start);
    Component {
        start,
        end,
        is_last: text[end..].iter().all(|&b| b == b'/'),
        slash: end < text.len(),
    }
}

/// Where the last slash of `path` is.
#[inline]
pub fn last_slash(path: &[u8]) -> Option<usize> {
    let mut end = path.len();
    while let Some(chunk) = path[..end].last_chunk::<8>() {
        let found = equals(u64::from_le_bytes(*chunk), b'/');
        if found != 0 {
            return Some(end - 1 - found.leading_zeros() as usize / 8);
        }
        end -= 8;
    }
    path[..end].iter().rposition(|&byte| byte == b'/')
}

/// The top bit of each byte of `word` that equals `byte`, exactly: no carry passes from one byte to
/// the next.
#[inline]
const fn equals(word: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let rest = word ^ (byte as u64 * 0x0101_0101_0101_0101);
    !(((rest & LOW) + LOW) | rest | LOW)
}

/// Where the name that begins at `start` ends.
#[inline]
pub(super) fn end_of_name(text: &[u8], start: usize) -> usize {
    text[start..]
        .iter()
        .position(|&b| b == b'/')
        .map_or(text.len(), |length| start + length)
}

/// `.` or `..`.
#[inline]
pub(super) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// What is left of `path` below `prefix`; none when it is not below. Both canonical, neither the
/// root.
#[inline]
pub(super) fn rest_below<'p>(path: &'p [u8], prefix: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(prefix)?.strip_prefix(b"/")
}

/// Whether `path` may have a component that an exact prefix test misreads: an empty one, `.` or
/// `..`. Sometimes true for `..name`.
#[inline]
pub(super) fn needs_care(path: &[u8]) -> bool {
    let dots = |a: u8, b: u8| (a == b'.') & ((b == b'.') | (b == b'/'));
    let odd = match *path {
        [] => false,
        [b'.'] | [.., b'/', b'.'] | [.., b'/', b'/'] => true,
        [a, b, ..] => dots(a, b),
        _ => false,
    };
    // Three bytes are looked at from each place; ten give eight places at once.
    const WINDOW: usize = 10;
    let Some(last) = path.len().checked_sub(WINDOW) else {
        return odd
            || path
                .windows(3)
                .any(|w| (w[0] == b'/') & ((w[1] == b'/') | dots(w[1], w[2])));
    };
    let mut found = u64::from(odd);
    let mut at = 0;
    loop {
        found |= odd_places(path, at.min(last));
        at += 8;
        if at > last + 7 {
            return found != 0;
        }
    }
}

/// Of the eight places from `at` on, those where a slash is followed by a slash, `..` or `./`: the
/// top bit of each byte.
#[inline]
fn odd_places(path: &[u8], at: usize) -> u64 {
    let word = |at: usize| {
        let bytes = path.get(at..).and_then(|rest| rest.first_chunk::<8>());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes)) // the caller leaves room for a window
    };
    let (first, second, third) = (word(at), word(at + 1), word(at + 2));
    let dots = equals(second, b'.') & (equals(third, b'.') | equals(third, b'/'));
    equals(first, b'/') & (equals(second, b'/') | dots)
}

/// Whether an absolute path with dots never comes back to the root, so that its first component
/// decides what it can enter.
pub(super) fn stays_below_first(path: &[u8]) -> bool {
    let mut depth = 0u32;
    let mut names = path
        .split(|&b| b == b'/')
        .filter(|name| !matches!(*name, b"" | b"."));
    names.all(|name| {
        depth = match name {
            b".." => depth.saturating_sub(1),
            _ => depth + 1,
        };
        depth > 0
    })
}

/// Whether `path` has a component `..`.
pub(super) fn climbs(path: &[u8]) -> bool {
    path.split(|&b| b == b'/').any(|name| name == b"..")
}

/// Follows path text against one target, by text alone: how far the current position agrees with
/// the target.
pub(super) struct Tracker<'t> {
    target: &'t [u8],
    /// The target's first `agreed` bytes are the position's beginning: whole components.
    agreed: usize,
    /// Components of the position beyond those.
    beyond: usize,
}

impl<'t> Tracker<'t> {
    /// At byte `agreed` of `target`, which is 0 (the root) or the place of a slash.
    pub fn at(target: &'t [u8], agreed: usize) -> Self {
        Self {
            target,
            agreed,
            beyond: 0,
        }
    }

    /// Goes along `path`; true as soon as the position is the target.
    pub fn enters(&mut self, path: &[u8]) -> bool {
        path.split(|&b| b == b'/').any(|name| self.step(name))
    }

    fn step(&mut self, name: &[u8]) -> bool {
        match name {
            b"" | b"." => return false,
            b".." if self.beyond > 0 => self.beyond -= 1,
            b".." => {
                self.agreed = self.target[..self.agreed]
                    .iter()
                    .rposition(|&b| b == b'/')
                    .unwrap_or(0);
            }
            _ => {
                // Canonical targets have no component after which neither a slash nor the end
                // comes.
                let wanted = self.target.get(self.agreed + 1..).unwrap_or(b"");
                let fits =
                    wanted.starts_with(name) && matches!(wanted.get(name.len()), None | Some(b'/'));
                if self.beyond == 0 && fits {
                    self.agreed += 1 + name.len();
                } else {
                    self.beyond += 1;
                }
            }
        }
        self.beyond == 0 && self.agreed == self.target.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{last_slash, needs_care};
    use std::vec::Vec;

    #[test]
    fn the_last_slash_is_found_wherever_it_is() {
        for length in 0..40 {
            for first in 0..=length {
                for second in first..=length {
                    let mut path = std::vec![b'.'; length];
                    for at in [first, second] {
                        if let Some(byte) = path.get_mut(at) {
                            *byte = b'/';
                        }
                    }
                    let plainly = path.iter().rposition(|&byte| byte == b'/');
                    assert_eq!(last_slash(&path), plainly, "{path:?}");
                }
            }
        }
    }

    /// What `needs_care` means, a component at a time; `..name` counts, as documented.
    fn plainly(path: &[u8]) -> bool {
        let parts: Vec<&[u8]> = path.split(|&b| b == b'/').collect();
        parts.iter().enumerate().any(|(i, part)| {
            let empty = part.is_empty() && i > 0 && !(i == 1 && path == b"/");
            let trailing =
                part.is_empty() && i + 1 == parts.len() && i > 0 && !path.ends_with(b"//");
            (empty && !trailing) || *part == b"." || part.starts_with(b"..")
        })
    }

    #[test]
    fn every_odd_component_is_noticed_wherever_it_stands() {
        let pieces: [&[u8]; 7] = [b"a", b"bcdefgh", b".", b"..", b"", b".hidden", b"..name"];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    for lead in [&b""[..], b"/", b"/longer-than-eight/"] {
                        let path = [lead, a, b"/", b, b"/", c].concat();
                        assert_eq!(
                            needs_care(&path),
                            plainly(&path),
                            "{:?}",
                            std::string::String::from_utf8_lossy(&path)
                        );
                    }
                }
            }
        }
    }
}
