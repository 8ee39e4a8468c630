//! Patterns of paths.

/// Whether all of `path` matches `pattern`: `?` is any byte but a slash, `*` any number of these,
/// `**` any number of any bytes, `[...]` one byte of a class (`[a-z]`, `[!a-z]`, never a slash);
/// everything else is itself. In time proportional to the product of both lengths.
pub fn matches(pattern: &[u8], path: &[u8]) -> bool {
    /// Where to go on after a star took one byte more.
    #[derive(Clone, Copy)]
    struct Retry {
        pattern: usize,
        path: usize,
    }
    let (mut at, mut position) = (0, 0);
    let (mut star, mut stars): (Option<Retry>, Option<Retry>) = (None, None);
    loop {
        let rest = &pattern[at..];
        if rest.starts_with(b"**") {
            at += 2;
            stars = Some(Retry {
                pattern: at,
                path: position,
            });
            star = None;
            continue;
        }
        if rest.first() == Some(&b'*') {
            at += 1;
            star = Some(Retry {
                pattern: at,
                path: position,
            });
            continue;
        }
        match (one(rest), path.get(position)) {
            (None, None) => return true,
            (Some((length, accepts)), Some(&byte)) if accepts(byte, &rest[..length]) => {
                at += length;
                position += 1;
                continue;
            }
            _ => {}
        }
        let retry = match (&mut star, &mut stars) {
            (Some(retry), _) if path.get(retry.path).is_some_and(|&byte| byte != b'/') => retry,
            (single, Some(retry)) if retry.path < path.len() => {
                *single = None;
                retry
            }
            _ => return false,
        };
        retry.path += 1;
        (at, position) = (retry.pattern, retry.path);
    }
}

/// Whether an element of a pattern accepts a byte, given the element's text.
type Accepts = fn(u8, &[u8]) -> bool;

/// The first element of a pattern that takes one byte: its length, and what it accepts.
fn one(pattern: &[u8]) -> Option<(usize, Accepts)> {
    match pattern.first()? {
        b'?' => Some((1, |byte, _| byte != b'/')),
        b'[' => match class_end(pattern) {
            Some(end) => Some((end + 1, in_class)),
            None => Some((1, |byte, _| byte == b'[')),
        },
        _ => Some((1, |byte, text| byte == text[0])),
    }
}

/// Where the class at the start of `pattern` ends: a `]` that is not its first member.
fn class_end(pattern: &[u8]) -> Option<usize> {
    let first = 1 + usize::from(pattern.get(1) == Some(&b'!'));
    let members = pattern.get(first + 1..)?;
    Some(first + 1 + members.iter().position(|&byte| byte == b']')?)
}

fn in_class(byte: u8, class: &[u8]) -> bool {
    let inner = &class[1..class.len() - 1];
    let (negated, mut members) = match inner {
        [b'!', rest @ ..] => (true, rest),
        _ => (false, inner),
    };
    let mut found = false;
    loop {
        members = match members {
            [low, b'-', high, rest @ ..] => {
                found |= (*low..=*high).contains(&byte);
                rest
            }
            [single, rest @ ..] => {
                found |= *single == byte;
                rest
            }
            [] => break,
        };
    }
    byte != b'/' && found != negated
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_whole_paths() {
        for (pattern, yes, no) in [
            ("/a", &["/a"][..], &["/", "/ab", "/a/b", "a"][..]),
            ("/*", &["/a", "/"], &["/a/b"]),
            ("/**", &["/", "/a", "/a/b"], &[]),
            ("**.c", &["/x.c", "/a/b/x.c", ".c", "/.c.c"], &["/x.cc"]),
            ("/a/*/c", &["/a/b/c", "/a//c"], &["/a/b/b/c", "/a/c"]),
            (
                "/a/**/c",
                &["/a/b/c", "/a/b/b/c", "/a//c"],
                &["/a/c", "/a/b/cc"],
            ),
            ("/?", &["/a"], &["/", "/ab", "//"]),
            ("/[a-c]x", &["/ax", "/cx"], &["/dx", "/x"]),
            ("/[!a-c]x", &["/dx"], &["/ax", "//x"]),
            ("/[]]", &["/]"], &["/["]),
            ("/[", &["/["], &["/]", "/"]),
            (
                "/*a*b",
                &["/ab", "/xaxb", "/aab", "/abab"],
                &["/ba", "/a/b"],
            ),
            ("**/*.[ch]", &["/x.c", "/d/x.h"], &["/d.c/x"]),
            ("**a*b**c", &["/a/abxc", "abc"], &["/a/b", "/a/b/c"]),
        ] {
            for path in yes {
                assert!(
                    matches(pattern.as_bytes(), path.as_bytes()),
                    "{pattern} {path}"
                );
            }
            for path in no {
                assert!(
                    !matches(pattern.as_bytes(), path.as_bytes()),
                    "{pattern} {path}"
                );
            }
        }
    }
}
