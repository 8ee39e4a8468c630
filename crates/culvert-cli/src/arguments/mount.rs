//! The words of `culvert mount` and `culvert umount`.

use super::{Command, bad};
use crate::{
    failure::{Failure, shown},
    fuse,
    kernel_mount::{Log, Mount, Times},
};
use culvert::mount::{Options, Request, parse_options};
use culvert_server::{Parts, Settings, Way, capabilities, mounting::Rights, used_capabilities};
use lexopt::Arg::{Long, Short, Value};
use std::{
    ffi::{OsStr, OsString},
    num::NonZeroU16,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
    time::Duration,
};

const MOUNT: &str = "\
Usage: culvert mount [OPTION]... [-t TYPE] [-o OPTIONS] SOURCE TARGET
       culvert mount [OPTION]... -v SOURCE:TARGET[:OPTIONS]
       culvert mount [OPTION]... --mount type=TYPE,source=SOURCE,target=TARGET

Mounts SOURCE at the directory TARGET, by the kernel (FUSE), for all programs.
Returns when the mount can be used: 0, or 125 with the reason. Users other than
root need fusermount3 (package fuse3).

  -t TYPE          the file system; found from SOURCE when left out
                   (culvert drivers lists them); SOURCE of a union is a list,
                   A=RW:B=RO
  -o OPTIONS       of the file system, separated by commas; and allow_other,
                   suid, dev (root only: set-user-ID programs and devices),
                   valid=SECONDS, absent=SECONDS (how long what others change,
                   or make, may go unseen: 1 and 0; with valid=0 not at all),
                   transport={transports} (how requests come:
                   {names}),
                   request_timeout=SECONDS (the mount ends when a request is
                   not answered in time), extend=PART[+PART] (the kernel answers
                   for the server, by the module culvert-fuse-ext: metadata,
                   xattr; log, to extend_log=FILE, of users extend_uid=N[+N]);
                   extend_entries=N (how much it remembers), extend=/PATH.o (a
                   program of your own), extend_entries=MAP:N[+MAP:N] (of it)
      --mount FIELDS
                   source, target and options spelled out, as `culvert run`
                   takes them
  -f, --foreground stay in the foreground, messages on standard error
      --allow-other
                   other users may use the mount: with their own rights if root
                   mounts, else with yours (user_allow_other in /etc/fuse.conf)
      --restart    when the server dies, another one goes on with what is open
      --log PLACE  where messages go: a file, the system's journal (journal)
                   or standard error (terminal, the default with -f);
                   without it, nowhere
      --trace      a message for each request
      --without CAPABILITY
                   do not use this ability of the kernel; --without list
                   says which there are
      --with CAPABILITY
                   use this one, which is not used by default

  culvert mount linux.tar.xz /mnt
";

const UNMOUNT: &str = "\
Usage: culvert umount [--lazy] TARGET...
       culvert umount [--lazy] --all

Ends mounts of culvert mount.

  -a, --all        all of this user's; of root's, all there are
  -l, --lazy       also while they are in use: the mount leaves the tree at
                   once and ends with its last user
";

/// What `culvert mount --help` says.
fn help() -> String {
    let names = culvert_server::WAYS.map(|way| way.name).join(" or ");
    MOUNT
        .replace("{transports}", &Way::words("|"))
        .replace("{names}", &names)
}

/// What is said to the kernel mount, not to the driver.
#[derive(Default)]
struct Own {
    foreground: bool,
    rights: Rights,
    settings: Settings,
    restart: bool,
    times: Times,
    log: Option<Log>,
    /// `extend=log`.
    extension_logs: bool,
}

/// Reads what follows `culvert mount`.
pub fn mount(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let wrong = |error: lexopt::Error| bad(&error, "mount");
    let (mut driver, mut volume, mut options) = (None, None, Options::new());
    let mut paths = Vec::<OsString>::new();
    let mut own = Own::default();
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(help())),
            Short('t') | Long("type") => driver = Some(parser.value().map_err(wrong)?),
            Short('o') | Long("options") => {
                let text = parser.value().map_err(wrong)?;
                let more = parse_options(text.as_bytes());
                options.extend(more.map_err(|error| Failure::new(format!("-o {error}")))?);
            }
            Short('v') | Long("volume") if volume.is_none() && paths.is_empty() => {
                volume = Some(super::volume(&parser.value().map_err(wrong)?)?);
            }
            Long("mount") if volume.is_none() && paths.is_empty() => {
                volume = Some(super::fields(&parser.value().map_err(wrong)?)?);
            }
            Short('f') | Long("foreground") => own.foreground = true,
            Long("allow-other") => own.rights.allow_other = true,
            Long("restart") => own.restart = true,
            Long("trace") => own.settings.trace = true,
            Long("log") => own.log = Some(Log::named(parser.value().map_err(wrong)?)),
            argument @ Long("with" | "without") => {
                let with = argument == Long("with");
                let name = parser.value().map_err(wrong)?;
                if name == "list" {
                    return Ok(Command::Print(list()));
                }
                add(&mut own.settings, with, shown(name))?;
            }
            Value(path) if paths.len() < 2 && volume.is_none() => paths.push(path),
            other => return Err(wrong(other.unexpected())),
        }
    }
    let missing = |what: &str| {
        Failure::new(format!("no {what} was given")).advice("try: culvert mount --help")
    };
    let mut request = match volume {
        Some(mut request) => {
            request.driver = driver.map(shown).or(request.driver);
            request.options.extend(options);
            request
        }
        None => {
            let mut paths = paths.into_iter();
            let source = paths.next().ok_or_else(|| missing("source"))?;
            let target = paths.next().ok_or_else(|| missing("target"))?;
            let driver = driver.as_ref().map(|driver| driver.as_bytes());
            Request::new(driver, source.as_bytes(), target.as_bytes(), options)
                .map_err(|error| Failure::new(error.to_string()))?
        }
    };
    request = crate::bindings::resolved(request, own.foreground)?;
    if let Some(served) = request
        .driver
        .as_deref()
        .and_then(crate::shared_object::served_type)
    {
        request.driver = Some(served);
    }
    let is_served = |request: &Request| request.driver.as_deref().is_some_and(fuse::is_served);
    for (name, value) in std::mem::take(&mut request.options) {
        // A FUSE server knows its own.
        if is_served(&request) {
            request.options.push((name, value));
        } else if name == "type" && request.driver.is_none() {
            request.driver = Some(shown(OsStr::from_bytes(&value)));
        } else if !own.take(&name, &value)? {
            request.options.push((name, value));
        }
    }
    if own.extension_logs != own.settings.extend.log.is_some() {
        return Err(Failure::new(
            "extend=log and extend_log=FILE go together: what is logged, and where",
        ));
    }
    check(&own.settings.extend)?;
    Ok(Command::Mount(Box::new(Mount {
        request,
        foreground: own.foreground,
        rights: own.rights,
        settings: own.settings,
        restart: own.restart,
        times: own.times,
        log: own.log,
    })))
}

impl Own {
    /// Whether the option is one of the kernel mount's, which then holds. Of each pair of mount(8)
    /// the last one does: mount(8) puts what `user` implies in front.
    fn take(&mut self, name: &str, value: &[u8]) -> Result<bool, Failure> {
        if self.times.take(name)? {
            return Ok(true);
        }
        let Self {
            rights, settings, ..
        } = self;
        let text = || OsStr::from_bytes(value);
        match name {
            "valid" => settings.valid = Some(seconds(name, value)?),
            "absent" => settings.absent = Some(seconds(name, value)?),
            "with" | "without" => add(settings, name == "with", shown(text()))?,
            "request_timeout" => settings.request_timeout = Some(request_timeout(value)?),
            "extend" => self.extension_logs |= extend(&mut settings.extend, value)?,
            "extend_log" | "extend_uid" | "extend_entries" => {
                extend_by(&mut settings.extend, name, value.to_vec())?;
            }
            "transport" if value == b"auto" => settings.transport = None,
            "transport" => {
                let way = Way::named(value).ok_or_else(|| {
                    Failure::new(format!("option transport is one of {}", Way::words(", ")))
                })?;
                settings.transport = Some(way.word);
            }
            "log" => self.log = Some(Log::named(text().to_owned())),
            "noexec" => rights.no_exec = true,
            "exec" => rights.no_exec = false,
            "allow_other" => rights.allow_other = true,
            // As it is in any case: lines of fstab for other FUSE file systems have them.
            "default_permissions" | "nonempty" => {}
            "nosymfollow" => rights.no_symlinks = true,
            "symfollow" => rights.no_symlinks = false,
            "restart" => self.restart = true,
            "suid" => rights.set_id = true,
            "nosuid" => rights.set_id = false,
            "dev" => rights.devices = true,
            "nodev" => rights.devices = false,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn request_timeout(value: &[u8]) -> Result<u16, Failure> {
    let text = str::from_utf8(value).ok();
    let limit = text.and_then(|text| text.parse::<NonZeroU16>().ok());
    limit
        .map(NonZeroU16::get)
        .ok_or_else(|| Failure::new("option request_timeout wants a number of seconds, 1 to 65535"))
}

/// `extend=PART[+PART]...`; whether `log` is one.
fn extend(parts: &mut Parts, value: &[u8]) -> Result<bool, Failure> {
    let mut logs = false;
    if value.starts_with(b"/") {
        parts.object = Some(PathBuf::from(OsStr::from_bytes(value)));
        return Ok(false);
    }
    for part in value.split(|&byte| byte == b'+') {
        match part {
            b"metadata" => parts.metadata = true,
            b"xattr" => parts.xattr = true,
            b"log" => logs = true,
            _ => {
                return Err(Failure::new(
                    "option extend is made of metadata, xattr and log, as in extend=metadata+xattr, \
                     or the absolute path of an object",
                ));
            }
        }
    }
    Ok(logs)
}

/// Sizes are of the ready parts, or of an object's maps, which are there.
fn check(parts: &Parts) -> Result<(), Failure> {
    let of = match (&parts.object, parts.entries, parts.sizes.is_empty()) {
        (Some(_), 1.., _) => "an object's maps have sizes by name: extend_entries=MAP:N",
        (None, _, false) => "extend_entries=MAP:N is for extend=/PATH.o",
        _ => {
            let wrong = |why| Failure::new(format!("option extend_entries: {why}"));
            return parts.check_maps().map_err(wrong);
        }
    };
    Err(Failure::new(format!("option extend_entries: {of}")))
}

/// What belongs to `extend`.
fn extend_by(parts: &mut Parts, name: &str, value: Vec<u8>) -> Result<(), Failure> {
    if name == "extend_log" {
        let file = PathBuf::from(OsString::from_vec(value));
        parts.log = Some(file);
        // The server's directory is another one.
        return match parts.log.as_ref().is_some_and(|file| file.is_absolute()) {
            true => Ok(()),
            false => Err(Failure::new("option extend_log wants an absolute path")),
        };
    }
    let text = str::from_utf8(&value).unwrap_or_default();
    let (users, [least, most]) = (Parts::USERS, Parts::ENTRIES);
    if name == "extend_uid" {
        let numbers: Option<Vec<u32>> = text.split('+').map(|word| word.parse().ok()).collect();
        parts.users = numbers.filter(|all| all.len() <= users).ok_or_else(|| {
            Failure::new(format!(
                "option extend_uid wants numbers of users, {users} at most: extend_uid=0+1000"
            ))
        })?;
        return Ok(());
    }
    if text.contains(':') {
        let most = Parts::MAP_ENTRIES;
        let sized = |word: &str| {
            let (map, size) = word.split_once(':')?;
            let size = size.parse().ok().filter(|size| (1..=most).contains(size))?;
            (!map.is_empty()).then(|| (map.to_owned(), size))
        };
        let sizes: Option<Vec<_>> = text.split('+').map(sized).collect();
        parts.sizes = sizes.ok_or_else(|| {
            Failure::new(format!(
                "option extend_entries wants maps of the object, with 1 to {most} entries: \
                 extend_entries=MAP:N+MAP:N"
            ))
        })?;
        return Ok(());
    }
    let number: Option<usize> = text.parse().ok();
    parts.entries = number
        .filter(|entries| (least..=most).contains(entries))
        .ok_or_else(|| {
            Failure::new(format!(
                "option extend_entries wants a number from {least} to {most}"
            ))
        })?;
    Ok(())
}

/// Option `name`: a time in seconds, with a fraction or not.
fn seconds(name: &str, value: &[u8]) -> Result<Duration, Failure> {
    let digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let text = str::from_utf8(value)
        .ok()
        .filter(|_| value.iter().all(digit));
    let number = text.and_then(|text| text.parse().ok());
    let time = number.and_then(|number| Duration::try_from_secs_f64(number).ok());
    time.ok_or_else(|| {
        Failure::new(format!(
            "option {name} wants a number of seconds, as in {name}=1 or {name}=0.5"
        ))
    })
}

/// `--with NAME` or `--without NAME`.
fn add(settings: &mut Settings, with: bool, name: String) -> Result<(), Failure> {
    if with {
        check_request(&name)?;
        settings.with.push(name);
    } else {
        check_capability(&name)?;
        settings.without.push(name);
    }
    Ok(())
}

fn check_capability(name: &str) -> Result<(), Failure> {
    if capabilities::SWITCHES
        .iter()
        .any(|(known, _)| *known == name)
    {
        return Ok(());
    }
    match used_capabilities().find(|one| one.name == name) {
        Some(one) if one.switchable => Ok(()),
        Some(one) => Err(Failure::new(format!(
            "{name} cannot be left out: {}",
            one.reason
        ))),
        None => Err(Failure::new(format!("there is no capability \"{name}\""))
            .advice("try: culvert mount --without list")),
    }
}

fn check_request(name: &str) -> Result<(), Failure> {
    let known = |one: &capabilities::Capability| one.name == name;
    let mut switches = capabilities::SWITCHES.iter();
    match () {
        () if capabilities::ON_REQUEST.iter().any(known) => Ok(()),
        () if used_capabilities().any(known) || switches.any(|(one, _)| *one == name) => Err(
            Failure::new(format!("{name} is used anyway where it can be")),
        ),
        () => Err(
            Failure::new(format!("there is no capability \"{name}\" to be asked for"))
                .advice("try: culvert mount --with list"),
        ),
    }
}

/// What the kernel may offer, and what is made of it.
fn list() -> String {
    let mut text = String::from("Used where the kernel offers it and the file system can:\n\n");
    for one in used_capabilities() {
        let fixed = if one.switchable { "" } else { " (always)" };
        text += &format!("  {}{fixed}\n      {}\n", one.name, one.reason);
    }
    for (name, reason) in capabilities::SWITCHES {
        text += &format!("  {name}\n      {reason}\n");
    }
    text += "\nUsed where they are asked for (--with):\n\n";
    for one in capabilities::ON_REQUEST {
        text += &format!("  {}\n      {}\n", one.name, one.reason);
    }
    text += "\nNot used:\n\n";
    for (flag, reason) in capabilities::UNUSED {
        let known = culvert_server::flag_name(*flag);
        text += &format!("  {known}\n      {reason}\n");
    }
    text
}

/// Reads what follows `culvert umount`.
pub fn unmount(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let wrong = |error: lexopt::Error| bad(&error, "umount");
    let (mut targets, mut lazy, mut all) = (Vec::new(), false, false);
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(UNMOUNT.into())),
            Short('l') | Long("lazy") => lazy = true,
            Short('a') | Long("all") => all = true,
            Value(target) => targets.push(target),
            other => return Err(wrong(other.unexpected())),
        }
    }
    match (targets.is_empty(), all) {
        (true, false) => {
            Err(Failure::new("no target was given").advice("try: culvert umount --help"))
        }
        (false, true) => Err(Failure::new("--all and targets exclude each other")),
        _ => Ok(Command::Unmount { targets, lazy }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../man/culvert-mount.1");

    /// Whether the page has `word`, as a word of its own.
    fn tells(word: &str) -> bool {
        let apart = |c: char| !(c.is_alphanumeric() || "-_".contains(c));
        PAGE.split(apart)
            .any(|found| found.trim_start_matches('-') == word)
    }

    #[test]
    fn the_manual_page_has_every_word_of_the_help() {
        let apart = |c: char| c.is_whitespace() || ",;(".contains(c);
        let mount = help();
        for text in [&*mount, UNMOUNT] {
            let options = text.split(apart).filter_map(|word| word.strip_prefix("--"));
            let assigned = text.split(apart).filter_map(|word| word.split_once('='));
            let assigned = assigned.map(|(name, _)| name);
            for word in options.chain(assigned) {
                let word = word.trim_end_matches(['.', ']']);
                assert!(tells(word), "man/culvert-mount.1 lacks {word}");
            }
        }
        for way in culvert_server::WAYS {
            let word = format!("transport={}", way.word);
            assert!(PAGE.contains(&word), "man/culvert-mount.1 lacks {word}");
        }
        for word in [
            "allow_other",
            "suid",
            "nosuid",
            "dev",
            "nodev",
            "exec",
            "noexec",
            "symfollow",
            "nosymfollow",
            "noatime",
            "relatime",
            "strictatime",
            "nodiratime",
            "lazytime",
            "default_permissions",
            "nonempty",
            "restart",
            "log",
            "with",
            "without",
            "watch",
        ] {
            assert!(tells(word), "man/culvert-mount.1 lacks {word}");
        }
    }

    #[test]
    fn the_manual_page_has_every_capability() {
        let used = used_capabilities().filter(|one| one.switchable);
        let all = used.chain(capabilities::ON_REQUEST).map(|one| one.name);
        for name in all.chain(capabilities::SWITCHES.iter().map(|(name, _)| *name)) {
            assert!(tells(name), "man/culvert-mount.1 lacks {name}");
        }
    }

    const EXAMPLE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../extensions/example/example.o"
    );

    /// What is wrong with options, `extend=` first.
    fn wrong(object: &str, entries: &str) -> String {
        let mut parts = Parts::default();
        extend(&mut parts, object.as_bytes()).expect("a part or an object");
        let taken = extend_by(&mut parts, "extend_entries", entries.into());
        let wrong = taken.and_then(|()| check(&parts)).err();
        wrong.map_or_else(String::new, |wrong| wrong.to_string())
    }

    #[test]
    fn maps_of_an_object_have_sizes_by_name() {
        for (object, entries, why) in [
            (EXAMPLE, "hidden:4", ""),
            (EXAMPLE, "hidden:4+looks:16777216", ""),
            (
                EXAMPLE,
                "seen:4",
                "there is no map seen, but hidden, looks, closed",
            ),
            (EXAMPLE, "hidden:0", "with 1 to 16777216 entries"),
            (EXAMPLE, "hidden:16777217", "with 1 to 16777216 entries"),
            (EXAMPLE, "hidden:4+", "wants maps of the object"),
            (EXAMPLE, ":4", "wants maps of the object"),
            (EXAMPLE, "4096", "have sizes by name"),
            ("metadata", "4096", ""),
            ("metadata", "names:4096", "is for extend=/PATH.o"),
            // Whoever serves says that it cannot be read.
            ("/none.o", "seen:4", ""),
        ] {
            let said = wrong(object, entries);
            let fits = said.is_empty() == why.is_empty() && said.contains(why);
            assert!(fits, "{object} {entries}: {said}");
        }
    }
}
