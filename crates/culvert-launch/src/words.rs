//! The command lines of `culvert run` that the first stage reads itself.

use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::mount::{Request, parse_mount, parse_volume};

/// A plain command line.
#[derive(Debug)]
pub struct Words {
    /// The mounts, in the order given.
    pub mounts: Vec<Request>,
    /// Whether targets are covered in a private mount namespace; None: where it costs no privilege.
    pub private: Option<bool>,
    /// Which argument is the program.
    pub program: usize,
}

/// Reads `arguments`, the command's own name first. None: anything but a complete command line
/// whose options are of the usual few is for the whole command, which also says what is wrong.
pub fn plain(arguments: &[&CStr]) -> Option<Words> {
    let mut words = Words {
        mounts: Vec::new(),
        private: None,
        program: 0,
    };
    let mut rest = arguments.iter().map(|word| word.to_bytes()).enumerate();
    // mount(8) calls the command by such names, and means other words.
    let (_, own) = rest.next()?;
    let name = own.rsplit(|&byte| byte == b'/').next()?;
    if name.starts_with(b"mount.") {
        return None;
    }
    rest.next().filter(|(_, word)| *word == b"run")?;
    words.program = loop {
        let (at, word) = rest.next()?;
        let long = |name: &[u8]| word.strip_prefix(name)?.strip_prefix(b"=");
        match word {
            b"--" => break at + 1,
            b"-v" | b"--volume" => words.mounts.push(parse_volume(rest.next()?.1).ok()?),
            b"--mount" => words.mounts.push(parse_mount(rest.next()?.1).ok()?),
            b"--no-private" => words.private = Some(false),
            [b'-', ..] => match (long(b"--volume"), long(b"--mount")) {
                (Some(value), _) => words.mounts.push(parse_volume(value).ok()?),
                (_, Some(value)) => words.mounts.push(parse_mount(value).ok()?),
                _ => return None,
            },
            _ => break at,
        }
    };
    let program = arguments.get(words.program)?;
    (!program.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CString, string::String, vec::Vec};

    fn read(text: &str) -> Option<(usize, String, Option<bool>)> {
        let words: Vec<CString> = text
            .split(' ')
            .map(|word| CString::new(word).unwrap())
            .collect();
        let words: Vec<&CStr> = words.iter().map(|word| word.as_c_str()).collect();
        let plain = plain(&words)?;
        let program = words[plain.program].to_str().unwrap().into();
        Some((plain.mounts.len(), program, plain.private))
    }

    #[test]
    fn usual_command_lines_are_plain() {
        for (text, mounts, program) in [
            ("culvert run true", 0, "true"),
            ("culvert run -v a:b -- ls -v x:y --strict", 1, "ls"),
            ("culvert run --volume=c:d -v a:b ls --help", 2, "ls"),
            ("culvert run --mount src=a,dst=b -- -x", 1, "-x"),
            ("culvert run --mount=src=a,dst=b x", 1, "x"),
            ("x run -- ls -- -l", 0, "ls"),
        ] {
            assert_eq!(read(text), Some((mounts, program.into(), None)), "{text}");
        }
        let covered = read("culvert run --no-private x").unwrap();
        assert_eq!(covered.2, Some(false));
    }

    #[test]
    fn what_is_wrong_or_rare_is_not() {
        for text in [
            "culvert",
            "culvert run",
            "culvert run --",
            "culvert run -- ",
            "culvert run -v",
            "culvert run -v a:b",
            "culvert run -v a ls",
            "culvert run -va:b ls",
            "culvert run --mount type=archive ls",
            "culvert run --strict ls",
            "culvert run --strict=yes ls",
            "culvert run --no-private=yes ls",
            "culvert run --private ls",
            "culvert run --no-patch ls",
            "culvert run --page-memory 3 ls",
            "culvert run --volumes=a:b ls",
            "culvert run --help",
            "culvert run - x",
            "culvert mount a b",
            "culvert runs true",
            "culvert --help",
            "mount.culvert a b",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
