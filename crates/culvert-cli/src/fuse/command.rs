//! The words of a server's command line.

use super::DEVICE_PATH;
use crate::{
    failure::{FAILED, Failure, path},
    program,
};
use culvert::mount::{Mount, Options};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStringExt,
    path::Path,
};

/// What most servers take: those of libfuse's `fuse_main`. `%s` is the source, `%m` the target,
/// `%f` the device, open, in a run, and else the target; `%o` the options after `-o`, or, at the
/// end of a word, behind commas. `-f` and `no_detach` are for those that stay in the foreground,
/// `--daemon` for the others.
const USUAL: &[&str] = &["%s", "%m", "-f", "%o"];

/// Servers that take something else.
const OTHERS: &[(&str, &[&str])] = &[
    // "-f" is an error to them.
    ("ntfs-3g", &["%s", "%m", "no_detach,%o"]),
    ("lowntfs-3g", &["%s", "%m", "no_detach,%o"]),
    ("mount.exfat-fuse", &["%s", "%m", "%o"]),
    // Its own words end before libfuse's.
    ("mount.posixovl", &["-S", "%s", "%m", "--", "-f", "%o"]),
    // It notes its mounts in a file, for fusermount to find.
    ("fuseiso", &["-n", "%s", "%m", "-f", "%o"]),
    // They are several programs in one.
    ("borg", &["mount", "%s", "%m", "-f", "%o"]),
    ("rclone", &["mount", "%s", "%m", "--daemon", "%o"]),
    // go-fuse opens a file in its own mount, unless that is a descriptor.
    ("gocryptfs", &["-f", "%s", "%f", "%o"]),
];

/// Whose mount a server makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A run's.
    Run,
    /// The kernel's, by a server that stays in the foreground.
    KernelInForeground,
    /// The kernel's.
    Kernel,
}

/// The command of `mount`'s server, with its target and `options` for it.
pub fn words(
    mount: &Mount,
    options: &Options,
    target: &Path,
    by: By,
) -> Result<Vec<OsString>, Failure> {
    let name = mount.driver.strip_prefix("fuse.").unwrap_or_default();
    if name.is_empty() {
        return Err(Failure::new("type fuse needs the server's command")
            .advice("give command='NAME … %m', or type=fuse.NAME"));
    }
    // A source that was compiled to a shared object is called as the program is.
    let path_of = Path::new(name.strip_suffix(".so").unwrap_or(name));
    let called = path_of.file_name().unwrap_or_default();
    let form = OTHERS.iter().find(|(other, _)| called == OsStr::new(other));
    let list = list(options);
    let loaded = crate::shared_object::words(name)?;
    let is_loaded = loaded.is_some();
    let mut words: Vec<OsString> = match loaded {
        Some(words) => words,
        None => {
            let found = program::find(OsStr::new(name));
            vec![found.map_err(|failure| failure.status(FAILED))?.into()]
        }
    };
    let option = |list: Vec<u8>| ["-o".into(), OsString::from_vec(list)];
    for word in form.map_or(USUAL, |(_, form)| form) {
        match *word {
            // One that has none is named after its type.
            "%s" if mount.source == mount.driver.as_bytes() => {}
            // mount(8) wants a word there.
            "%s" if is_loaded && mount.source == b"none" => {}
            "%s" => words.push(path(&mount.source).into()),
            "%f" if by == By::Run => words.push(DEVICE_PATH.into()),
            "%m" | "%f" => words.push(target.into()),
            "-f" if by == By::Kernel => {}
            "--daemon" if by != By::Kernel => {}
            "no_detach,%o" if by != By::Kernel => {
                let more = [b"no_detach".to_vec(), list.clone()];
                let more = &more[..1 + usize::from(!list.is_empty())];
                words.extend(option(more.join(&b',')));
            }
            "%o" | "no_detach,%o" if list.is_empty() => {}
            "%o" | "no_detach,%o" => words.extend(option(list.clone())),
            word => words.push(word.into()),
        }
    }
    Ok(words)
}

/// The command `line`, where `%m` is the target, `%s` the source, `%f` the device: words of their
/// own, which the shell does not read. Nothing of `options` would reach the server.
pub fn typed<'a>(
    line: &[u8],
    mount: &Mount,
    mut options: impl Iterator<Item = &'a (String, Vec<u8>)>,
    target: &Path,
    device: &OsStr,
) -> Result<Vec<OsString>, Failure> {
    if let Some((name, _)) = options.next() {
        let what = format!("option {name}: the server is told nothing but its command");
        return Err(Failure::new(what).advice("write it into the command, as the server knows it"));
    }
    let text = filled(line)?;
    let mut words = vec![
        "/bin/sh".into(),
        "-c".into(),
        OsString::from_vec(text.clone()),
        "sh".into(),
        target.into(),
        path(&mount.source).into(),
    ];
    // It has a number of its own, which not every process may have.
    if text
        .windows(DEVICE_WORD.len())
        .any(|word| word == DEVICE_WORD)
    {
        words.push(device.into());
    }
    Ok(words)
}

/// The device, in the text of a command.
const DEVICE_WORD: &[u8] = b"\"$3\"";

/// What the shell reads for the command `line`; `%%` is a percent sign.
fn filled(line: &[u8]) -> Result<Vec<u8>, Failure> {
    let (mut text, mut quote, mut rest) = (b"exec ".to_vec(), None, line);
    while let [byte, behind @ ..] = rest {
        let (length, put): (usize, &[u8]) = match (byte, behind.first()) {
            (b'%', Some(b'%')) => (2, b"%"),
            (b'%', Some(name @ (b'm' | b's' | b'f'))) if quote.is_some() => {
                let what = format!("command: %{} stands in quotes", char::from(*name));
                return Err(Failure::new(what)
                    .advice("it needs none, whatever is in it; %% is a percent sign"));
            }
            (b'%', Some(b'm')) => (2, b"\"$1\""),
            (b'%', Some(b's')) => (2, b"\"$2\""),
            (b'%', Some(b'f')) => (2, DEVICE_WORD),
            (b'\\', Some(_)) if quote != Some(b'\'') => (2, &rest[..2]),
            (b'\'' | b'"', _) => {
                match quote {
                    None => quote = Some(*byte),
                    Some(open) if open == *byte => quote = None,
                    Some(_) => {}
                }
                (1, &rest[..1])
            }
            _ => (1, &rest[..1]),
        };
        text.extend_from_slice(put);
        rest = &rest[length..];
    }
    Ok(text)
}

/// `text` with `to` for each `from`.
fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(byte) = rest.first() {
        match rest.strip_prefix(from) {
            Some(behind) => {
                out.extend_from_slice(to);
                rest = behind;
            }
            None => {
                out.push(*byte);
                rest = &rest[1..];
            }
        }
    }
    out
}

/// `options` as fuse_opt_parse(3) reads them.
fn list(options: &Options) -> Vec<u8> {
    let list: Vec<_> = options
        .iter()
        .map(|(name, value)| match value.is_empty() {
            true => name.clone().into_bytes(),
            false => [
                name.as_bytes(),
                b"=",
                &replaced(&replaced(value, b"\\", b"\\\\"), b",", b"\\,"),
            ]
            .concat(),
        })
        .collect();
    list.join(&b',')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    fn typed(name: &str, source: &str, by: By) -> String {
        let mount = Mount {
            driver: format!("fuse.{name}"),
            source: source.into(),
            target: b"/m".to_vec(),
            options: Vec::new(),
            branches: Vec::new(),
        };
        let options = vec![("a".to_owned(), b"b,c".to_vec()), ("d".into(), Vec::new())];
        // Whatever it is called, the program is one that there is.
        let place = std::env::temp_dir().join(format!("culvert-words-{name}-{}", by as u8));
        std::fs::create_dir_all(&place).unwrap();
        let program = place.join(name);
        std::fs::copy("/bin/true", &program).unwrap();
        let mount = Mount {
            driver: format!("fuse.{}", program.display()),
            ..mount
        };
        let words = words(&mount, &options, Path::new("/m"), by).unwrap();
        std::fs::remove_dir_all(place).unwrap();
        let words = words.iter().skip(1).map(|word| word.as_bytes());
        String::from_utf8(words.collect::<Vec<_>>().join(&b' ')).unwrap()
    }

    #[test]
    fn places_of_a_command_stand_outside_of_quotes() {
        for (line, want) in [
            ("x %m", "exec x \"$1\""),
            ("x -d '100%%' %s,%m", "exec x -d '100%' \"$2\",\"$1\""),
            ("x \\' %f \\\"%m", "exec x \\' \"$3\" \\\"\"$1\""),
            ("x '\\' %m", "exec x '\\' \"$1\""),
            (
                "x \"it's\" %m %% %%m %x %",
                "exec x \"it's\" \"$1\" % %m %x %",
            ),
        ] {
            let text = filled(line.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), want);
        }
        for line in ["x \"%m\"", "x '%s'", "sh -c 'x \"$0\" %f'", "x \"\\\" %m"] {
            assert!(filled(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn servers_are_started_by_their_own_words() {
        for (name, by, want) in [
            ("sshfs", By::Run, "x /m -f -o a=b\\,c,d"),
            ("sshfs", By::Kernel, "x /m -o a=b\\,c,d"),
            ("ntfs-3g", By::Run, "x /m -o no_detach,a=b\\,c,d"),
            ("ntfs-3g", By::Kernel, "x /m -o a=b\\,c,d"),
            ("rclone", By::Kernel, "mount x /m --daemon -o a=b\\,c,d"),
            ("rclone", By::Run, "mount x /m -o a=b\\,c,d"),
            ("gocryptfs", By::Run, "-f x /dev/fd/100 -o a=b\\,c,d"),
            ("gocryptfs", By::KernelInForeground, "-f x /m -o a=b\\,c,d"),
        ] {
            assert_eq!(typed(name, "x", by), want, "{name} {by:?}");
        }
    }
}
