//! `mount.culvert`: what mount(8) calls for `mount -t culvert` and for lines of fstab(5).
//!
//! `mount.culvert SOURCE TARGET [-sfnv] [-o OPTIONS] [-t TYPE]`, as mount(8) says under "External
//! helpers". The file system's type is in option `type=`, in SOURCE (`archive#/srv/x.tar`), or
//! found from SOURCE. DEFUSE's spelling is understood too (section 5.3 of its paper):
//! `mount -t culvert -o backend=SOURCE,library=LIBRARY culvert TARGET`.

use super::{Command, mount::mount};
use crate::{
    failure::{Failure, shown},
    kernel_mount::remount::Remount,
};
use culvert::mount::option_fields;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
};

/// Names by which this program is that helper.
const NAMES: [&[u8]; 2] = [b"mount.culvert", b"mount.fuse.culvert"];

/// The exit status of a mount that failed, as mount(8) has it.
pub const FAILED: u8 = 32;

/// Whether the program was called by the name `name`.
pub fn is_called(name: &OsStr) -> bool {
    let last = name.as_bytes().rsplit(|&byte| byte == b'/').next();
    last.is_some_and(|last| NAMES.contains(&last))
}

const USAGE: &str = "\
Usage: mount.culvert [TYPE#]SOURCE TARGET [-sfnv] [-o OPTIONS]

Called by mount(8): mount -t culvert [-o type=TYPE,OPTIONS] SOURCE TARGET
In /etc/fstab:      SOURCE TARGET culvert type=TYPE,OPTIONS 0 0
As with DEFUSE:     mount -t culvert -o backend=SOURCE,library=FILE culvert TARGET
";

/// The words of [`mount`] for those that mount(8) gives.
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, Failure> {
    let mut parser = lexopt::Parser::from_args(arguments.collect::<Vec<_>>());
    let wrong =
        |error: lexopt::Error| Failure::new(error.to_string()).advice("try: mount.culvert --help");
    let (mut paths, mut options, mut driver, mut fake) = (Vec::new(), Vec::new(), None, false);
    use lexopt::Arg::{Long, Short, Value};
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(USAGE.into())),
            Short('o') => options.push(parser.value().map_err(wrong)?),
            // "fuse.culvert" or "culvert.archive": what follows our own name is the type.
            Short('t') => {
                let value = parser.value().map_err(wrong)?;
                driver = shown(&value)
                    .rsplit_once("culvert.")
                    .map(|(_, driver)| driver.to_owned());
            }
            Short('N') => {
                parser.value().map_err(wrong)?;
            }
            Short('f') => fake = true,
            Short('s' | 'n' | 'v' | 'r' | 'w') => {}
            Value(path) if paths.len() < 2 => paths.push(path),
            other => return Err(wrong(other.unexpected())),
        }
    }
    let words = options
        .iter()
        .flat_map(|options| pieces(options.as_bytes()));
    if words.clone().any(|option| option == b"remount") {
        let target = paths.pop().map(OsString::into_vec).ok_or_else(|| {
            Failure::new("no target was given").advice("try: mount.culvert --help")
        })?;
        if fake {
            return Ok(Command::Print(String::new()));
        }
        let options = words.map(<[u8]>::to_vec).collect();
        return Ok(Command::Remount(Remount { target, options }));
    }
    let [source, target] = <[OsString; 2]>::try_from(paths).map_err(|_| {
        Failure::new("source and target are wanted").advice("try: mount.culvert --help")
    })?;
    let (named, mut source) = split_type(source);
    let is_defuses = words.clone().any(|word| word.starts_with(b"library="));
    let mut arguments: Vec<OsString> = Vec::new();
    let mut kept = Vec::new();
    for option in words {
        match option.strip_prefix(b"type=") {
            Some(name) => driver = Some(shown(OsStr::from_bytes(name))),
            None if is_defuses && option.starts_with(b"library=") => {
                let library = unescaped(&option[b"library=".len()..]);
                // A type with a slash is a library's path.
                driver = Some(match library.contains('/') {
                    true => library,
                    false => format!("./{library}"),
                });
            }
            None if is_defuses && option.starts_with(b"backend=") => {
                source = unescaped(&option[b"backend=".len()..]).into();
            }
            None if is_of_mount(option) => {}
            None => kept.push(option),
        }
    }
    if let Some(driver) = driver.or(named) {
        arguments.extend(["-t".into(), driver.into()]);
    }
    if !kept.is_empty() {
        arguments.extend(["-o".into(), OsString::from_vec(kept.join(&b','))]);
    }
    arguments.extend(["--".into(), source, target]);
    let mut parser = lexopt::Parser::from_args(arguments);
    match mount(&mut parser)? {
        Command::Mount(_) if fake => Ok(Command::Print(String::new())),
        command => Ok(command),
    }
}

/// The value of an option as it is without the backslashes that quote commas.
fn unescaped(text: &[u8]) -> String {
    shown(OsStr::from_bytes(text)).replace("\\,", ",")
}

/// `TYPE#SOURCE` as both; else the source alone. A type is a word, so that names of files with `#`
/// in them stay whole.
fn split_type(source: OsString) -> (Option<String>, OsString) {
    let bytes = source.as_bytes();
    let Some(at) = bytes.iter().position(|&byte| byte == b'#') else {
        return (None, source);
    };
    let (word, rest) = (&bytes[..at], &bytes[at + 1..]);
    match culvert_drivers::list().find(|driver| driver.name.as_bytes() == word) {
        Some(driver) => (Some(driver.name.into()), OsStr::from_bytes(rest).to_owned()),
        None => (None, source),
    }
}

/// The options in `text`. One that cannot be taken apart is one, which is refused later.
fn pieces(text: &[u8]) -> Vec<&[u8]> {
    let mut found = option_fields(text).unwrap_or_else(|_| vec![text]);
    found.retain(|piece| !piece.is_empty());
    found
}

/// Options that are mount(8)'s or the service manager's, and say nothing to a file system; and
/// those that are so anyway.
fn is_of_mount(option: &[u8]) -> bool {
    const WORDS: &str = "defaults auto noauto user nouser users owner group nofail _netdev rw \
        async \
        sync dirsync iversion noiversion mand nomand silent loud bootwait nobootwait";
    option.starts_with(b"x-")
        || option.starts_with(b"X-")
        || option.starts_with(b"comment=")
        || option.starts_with(b"user=")
        || option.starts_with(b"uhelper=")
        || WORDS.split(' ').any(|known| known.as_bytes() == option)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_mount::Mount;

    fn parsed(words: &[&str]) -> Mount {
        match parse(words.iter().map(OsString::from)).unwrap() {
            Command::Mount(mount) => *mount,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_mount_says_is_understood() {
        let options = "rw,noauto,nofail,x-systemd.automount,_netdev,user=me,noexec,type=archive,allow_other,dev";
        let mount = parsed(&["/srv/a b.tar", "/mnt", "-o", options]);
        assert_eq!(mount.request.driver.as_deref(), Some("archive"));
        assert_eq!(mount.request.source, b"/srv/a b.tar");
        assert!(
            mount.request.options.is_empty(),
            "{:?}",
            mount.request.options
        );
        let rights = mount.rights;
        assert!(rights.allow_other && rights.devices && !rights.set_id && rights.no_exec);
        // As mount(8) says it for `user,suid,exec`.
        let mount = parsed(&["/srv", "/mnt", "-o", "noexec,nosuid,nodev,suid,exec"]);
        let rights = mount.rights;
        assert!(rights.set_id && !rights.devices && !rights.no_exec);
        let mount = parsed(&["passthrough#/srv", "/mnt", "-n", "-v", "-o", "ro,driven"]);
        assert_eq!(mount.request.driver.as_deref(), Some("passthrough"));
        assert_eq!(mount.request.source, b"/srv");
        assert_eq!(mount.request.options.len(), 2);
        // No type is called so.
        assert_eq!(parsed(&["/a#b", "/mnt"]).request.source, b"/a#b");
        // Nothing is done.
        for words in [&["/a", "/mnt", "-f"][..], &["/mnt", "-fo", "remount,ro"]] {
            let parsed = parse(words.iter().map(OsString::from));
            assert!(matches!(parsed, Ok(Command::Print(_))), "{parsed:?}");
        }
    }

    #[test]
    fn a_librarys_mount_may_be_spelled_as_defuse_spells_it() {
        for (options, driver, source) in [
            ("backend=host:/a,library=/b/l.so,x", "/b/l.so", "host:/a"),
            (r"library=l\,m.so,backend=/a\,b", "./l,m.so", "/a,b"),
            ("library=./l.so", "./l.so", "culvert"),
        ] {
            let mount = parsed(&["culvert", "/mnt", "-o", options]);
            assert_eq!(mount.request.driver.as_deref(), Some(driver));
            assert_eq!(mount.request.source, source.as_bytes());
        }
        // Without a library it is an option like others.
        let mount = parsed(&["/srv", "/mnt", "-o", "type=archive,backend=x"]);
        assert_eq!(mount.request.source, b"/srv");
        assert_eq!(mount.request.options.len(), 1);
    }

    #[test]
    fn quoted_commas_stay() {
        assert_eq!(pieces(br"a,,b\,c"), [&b"a"[..], br"b\,c"]);
        let list = &b"lowerdir=/a:(source=/b,type=archive,ro)"[..];
        assert_eq!(pieces(&[list, b",ro"].concat()), [list, b"ro"]);
        assert!(is_called(OsStr::new("/sbin/mount.culvert")));
        assert!(!is_called(OsStr::new("culvert")));
    }
}
