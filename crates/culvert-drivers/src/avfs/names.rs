//! Names as AVFS writes them: `[base]#handler[options][:parameters]`.

use super::handlers::{Handler, find};
use alloc::{borrow::Cow, vec::Vec};

/// What stands behind the last `#` of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who is to look into the file.
    pub handler: Handler,
    /// Option `+`: for writing.
    pub writes: bool,
    /// Option `=`: nothing is kept.
    pub forgets: bool,
}

/// Takes `name` apart at its last `#` that is not one of a pair: the file, `##` in it still for
/// `#`, and how to look into it. None where there is no such, or nobody of that name.
pub fn split(name: &[u8]) -> Option<(&[u8], Asked)> {
    let (mut at, mut last) = (0, None);
    while at < name.len() {
        match name[at..] {
            [b'#', b'#', ..] => at += 1,
            [b'#', ..] => last = Some(at),
            _ => {}
        }
        at += 1;
    }
    let (base, rest) = name.split_at(last?);
    Some((base, asked(&rest[1..])?))
}

fn asked(text: &[u8]) -> Option<Asked> {
    let is_word = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    let end = text.iter().position(|byte| !is_word(byte));
    let (word, mut options) = text.split_at(end.unwrap_or(text.len()));
    let mut asked = Asked {
        handler: find(word)?,
        writes: false,
        forgets: false,
    };
    loop {
        match options {
            // No handler here has parameters.
            [] | [b':'] => return Some(asked),
            [b'+', ..] => asked.writes = true,
            [b'=', ..] => asked.forgets = true,
            // The size of a gzip file is known anyway.
            [b'-', b's', ..] => options = &options[1..],
            _ => return None,
        }
        options = &options[1..];
    }
}

/// `name` with `#` for `##`.
pub fn unescaped(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.windows(2).any(|pair| pair == b"##") {
        return Cow::Borrowed(name);
    }
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, after @ ..] = rest {
        plain.push(*first);
        rest = match rest {
            [b'#', b'#', after @ ..] => after,
            _ => after,
        };
    }
    Cow::Owned(plain)
}

/// Where a link that leads to `target` leads to who looks into it by `how`, what stands behind its
/// name.
pub fn through(target: &[u8], how: &[u8]) -> Vec<u8> {
    let signs = target.iter().rev().take_while(|&&byte| byte == b'#');
    // What would be taken for the beginning of `how` is doubled.
    let doubled = &target[target.len() - signs.count()..];
    [target, doubled, how].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::codec::Format;

    #[test]
    fn names_are_taken_apart_at_the_last_sign() {
        let file = |name: &'static [u8]| split(name).map(|(base, asked)| (base, asked.handler));
        for (name, want) in [
            (&b"x.tgz#"[..], Some((&b"x.tgz"[..], Handler::Content))),
            (
                b"x.tgz#ugz#utar",
                Some((b"x.tgz#ugz", find(b"utar").unwrap())),
            ),
            (b"x#ugz-s", Some((b"x", Handler::Alone(Format::Gzip)))),
            (b"x#uzip=", Some((b"x", find(b"uzip").unwrap()))),
            (b"x#uzip:", Some((b"x", find(b"uzip").unwrap()))),
            (b"a##b#", Some((b"a##b", Handler::Content))),
            (b"#avfsstat", Some((b"", Handler::Status))),
            (b"plain", None),
            (b"a##b", None),
            (b"a###", Some((b"a##", Handler::Content))),
            (b"x#nobody", None),
            (b"#autosave me", None),
            (b"x#ugz-9", None),
            (b"", None),
        ] {
            assert_eq!(file(name), want, "{:?}", name.escape_ascii());
        }
        assert!(split(b"x.tgz#+").unwrap().1.writes);
        assert!(split(b"x.tgz#=").unwrap().1.forgets);
    }

    #[test]
    fn pairs_stand_for_one() {
        for (name, want) in [
            (&b"a##b"[..], &b"a#b"[..]),
            (b"a", b"a"),
            (b"##", b"#"),
            (b"a####", b"a##"),
            (b"a#b", b"a#b"),
        ] {
            assert_eq!(&*unescaped(name), want);
        }
        assert_eq!(through(b"../a#1/x.tgz", b"#utar"), b"../a#1/x.tgz#utar");
        assert_eq!(through(b"a##", b"#"), b"a#####");
        assert_eq!(split(b"a#####").unwrap().0, b"a####");
    }
}
