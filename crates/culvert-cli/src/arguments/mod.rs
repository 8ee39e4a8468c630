//! The command line: what the user asked for, in his own words, nothing looked at yet.

mod config;
mod extend;
mod log;
mod memory;
mod mount;
pub mod mount_helper;
mod plfs;
mod save;
mod sync;

use crate::{
    completion,
    failure::{Failure, shown},
    fuse,
    kernel_mount::{Mount, remount::Remount},
    logs,
    run::Run,
    run_again::Again,
    words::{Value, WORDS},
};
use culvert::mount::{Request, parse_mount, parse_volume};
use culvert_preload::start::other_user;
use culvert_sync::Kind;
use lexopt::Arg::{self, Long, Short};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// What is to be done.
#[derive(Debug)]
pub enum Command {
    /// Print this text and stop.
    Print(String),
    /// `culvert run`.
    Run(Run),
    /// The second half of `culvert run`, in a process of that run.
    RunInside(Run),
    /// A program of a run, for another user than that run's.
    RunAgain(Again),
    /// What programs of the run in this directory, which is over, have stored in mappings goes to
    /// their files.
    Recover(PathBuf),
    /// The pager of the run in this directory.
    RunPager(PathBuf),
    /// The process that writes a log.
    WriteLog(logs::Job),
    /// The guardian of a FUSE server, and the descriptor that keeps its mount.
    Guard(fuse::Job, i32),
    /// The host of the mount in this directory.
    Host(PathBuf),
    /// Hands the requests of a mount directory to a server that is not intercepted.
    Adapt(PathBuf, Vec<OsString>),
    /// `culvert log`.
    Log(logs::Read),
    /// `culvert memory`.
    Memory(crate::memory::Memory),
    /// `culvert plfs`.
    Plfs(crate::plfs::Plfs),
    /// `culvert save`.
    Save(crate::save::Save),
    SaveAfter(crate::save::After),
    /// `culvert sync`.
    Sync(crate::sync::Sync),
    /// The service that mounts with `sync=auto` have, or the relay of those with `tls=yes`, at this
    /// socket.
    SyncInBackground(PathBuf, culvert_sync::Kind),
    /// `culvert extend`.
    Extend(crate::extend::Extend),
    /// `culvert mount`.
    Mount(Box<Mount>),
    /// `mount -o remount`
    Remount(Remount),
    /// `culvert umount`.
    Unmount {
        /// Directories, as typed; none: all of the user's.
        targets: Vec<OsString>,
        /// Also while they are in use.
        lazy: bool,
    },
    /// `culvert list [--json]`.
    List {
        /// JSON instead of text.
        json: bool,
    },
    /// `culvert drivers [TYPE]`.
    Drivers {
        /// The one driver to describe.
        name: Option<String>,
    },
    /// `culvert config`.
    Config(crate::config::Config),
    /// A FUSE server that is a shared object, and its words.
    Program(Vec<OsString>),
    /// `culvert doctor [--json] [-- COMMAND]`.
    Doctor {
        /// The program to look at, with its arguments.
        command: Vec<OsString>,
        /// JSON instead of a table.
        json: bool,
    },
}

const USAGE: &str = "\
Usage: culvert run [-v SOURCE:TARGET[:OPTIONS]]... [--] COMMAND...
       culvert mount [-t TYPE] [-o OPTIONS] SOURCE TARGET
       culvert umount TARGET...
       culvert list [--json]
       culvert log [-f] [--plot FILE] LOG
       culvert memory regions [MEMORY [PATH]]
       culvert save DIRECTORY ARCHIVE
       culvert plfs COMMAND CONTAINER
       culvert sync
       culvert extend
       culvert drivers [TYPE]
       culvert doctor [--json] [-- COMMAND...]
       culvert config [--cflags] [--libs]
       culvert help [COMMAND]
       culvert version
       culvert completion bash|zsh|fish

Runs programs on file systems that live in the program's own process.

  run      run a program; directories, memory and archives named by -v or
           --mount appear to it
  mount    mount a file system for all programs, by the kernel (FUSE)
  umount   end such a mount
  list     list such mounts, with what was asked of their servers
  log      say what a log of the layer log holds
  memory   say where bytes of files in memory lie
  save     make an archive of a directory, in place of the old one
  plfs     look at PLFS containers, check and repair them
  sync     serve processes that append to one file (sync=auto)
  extend   load extensions for mounts of ordinary users
  drivers  list the file systems there are, or describe one
  doctor   say what works on this machine and why not; with a command:
           how it would be intercepted
  config   say what compiles sources for libfuse against Culvert
  help     say more about a command
  version  say which version this is
  completion
           print what bash, zsh or fish completes by

`culvert COMMAND --help` says more, the manual page culvert(1) everything.
";

const RUN: &str = "\
Usage: culvert run [OPTION]... [--] COMMAND [ARGUMENT]...

Runs COMMAND; in it and all its children SOURCE appears at TARGET. No root, no
/dev/fuse, no daemon, nothing unpacked, nothing mounted in the kernel.

  -v, --volume SOURCE:TARGET[:OPTIONS]
                   the type is found from SOURCE: a directory (passed
                   through), memory or memory:NAME, or an archive (tar, zip,
                   7z, cpio, deb, rpm or an ISO image, compressed or not);
                   TARGET is an empty directory or does not exist yet; OPTIONS
                   are separated by commas; colons in names are written \\:
                   A:B:TARGET:type=union makes one tree of several
      --mount type=TYPE,source=SOURCE,target=TARGET[,OPTION[=VALUE]]...
                   the same, spelled out
      --page-memory SIZE
                   how much memory the bytes of mapped files may take (K, M,
                   G, T); usually three quarters of /dev/shm
      --root TARGET
                   COMMAND finds the files of the mount at TARGET, and of
                   those within it, and no others: its root directory
      --strict     refuse programs that cannot be intercepted (exit 126)
                   instead of warning
      --private    cover the targets in a private mount namespace, so that
                   what is not intercepted fails instead of finding an empty
                   directory
      --no-private never do so (as root it is the default)
      --no-patch   rewrite no instruction: mounts are not visible; for
                   debugging a program under the same environment

The exit status is COMMAND's; 125 when culvert itself failed, 126 when COMMAND
cannot be executed, 127 when it was not found.

  culvert run -v linux.tar.xz:/tmp/linux -- grep -r futex /tmp/linux/kernel
";

const LIST: &str = "\
Usage: culvert list [--json]

Lists the mounts of culvert mount that are this user's (of root: all), with
their servers and how many requests of each kind they have answered.
";

const HELP: &str = "\
Usage: culvert help [COMMAND]

Says how culvert, or one of its commands, is used.
";

const VERSION: &str = "\
Usage: culvert version

Says which version of culvert this is.
";

const COMPLETION: &str = "\
Usage: culvert completion bash|zsh|fish

Prints what the shell completes command lines of culvert by; scripts/install
puts it where shells look. By hand, in the shell's start-up file:

  bash   source <(culvert completion bash)
  zsh    source <(culvert completion zsh)      after compinit
  fish   culvert completion fish | source
";

const DRIVERS: &str = "\
Usage: culvert drivers [TYPE]

Lists the file systems there are; with TYPE describes one and its options.
";

const DOCTOR: &str = "\
Usage: culvert doctor [--json] [-- COMMAND [ARGUMENT]...]

Says what works on this machine, what does not, why, and what follows from it.
With COMMAND: how it and each of its libraries would be intercepted, without
running it. Exits with 1 when something that `culvert run` needs is missing.
";

/// Reads the command line `arguments` (without the program's own name).
pub fn parse<I>(arguments: I) -> Result<Command, Failure>
where
    I: IntoIterator<Item = OsString>,
    I::IntoIter: 'static,
{
    let mut parser = lexopt::Parser::from_args(arguments);
    let Some(first) = parser.next().map_err(|error| bad(&error, ""))? else {
        return Err(Failure::new("no command given").advice("try: culvert --help"));
    };
    match first {
        Long("help") | Short('h') => Ok(Command::Print(USAGE.into())),
        Long("version") | Short('V') => Ok(Command::Print(version())),
        Arg::Value(word) => match word.to_str() {
            Some("run") => {
                Ok(run(&mut parser)?.map_or_else(|| Command::Print(RUN.into()), Command::Run))
            }
            Some(crate::INSIDE) => Ok(
                run(&mut parser)?.map_or_else(|| Command::Print(RUN.into()), Command::RunInside)
            ),
            Some(word) if word.as_bytes() == other_user::WORD.to_bytes() => run_again(&mut parser),
            Some(crate::RECOVER) => match parser.next().map_err(|error| bad(&error, ""))? {
                Some(Arg::Value(directory)) => Ok(Command::Recover(directory.into())),
                _ => Err(Failure::new("no run directory given")),
            },
            Some(word) if word.as_bytes() == culvert_cache::pager::WORD.to_bytes() => {
                match parser.next().map_err(|error| bad(&error, ""))? {
                    Some(Arg::Value(directory)) => Ok(Command::RunPager(directory.into())),
                    _ => Err(Failure::new("no run directory given")),
                }
            }
            Some(logs::WRITER) => log::writer(&mut parser),
            Some(fuse::GUARDIAN) => {
                let words: Vec<OsString> = parser
                    .raw_args()
                    .map_err(|error| bad(&error, ""))?
                    .collect();
                let lock = words.first().and_then(|word| word.to_str()?.parse().ok());
                let job = fuse::Job::parse(words.into_iter().skip(1).collect());
                let given = lock.zip(job).map(|(lock, job)| Command::Guard(job, lock));
                given.ok_or_else(|| Failure::new("no server given"))
            }
            Some(fuse::HOST) => match parser.next().map_err(|error| bad(&error, ""))? {
                Some(Arg::Value(directory)) => Ok(Command::Host(directory.into())),
                _ => Err(Failure::new("no mount directory given")),
            },
            Some(fuse::ADAPTER) => {
                let words = parser.raw_args().map_err(|error| bad(&error, ""))?;
                let mut words = words.collect::<Vec<_>>().into_iter();
                match words.next() {
                    Some(place) => Ok(Command::Adapt(place.into(), words.collect())),
                    None => Err(Failure::new("no mount directory given")),
                }
            }
            Some(crate::shared_object::PROGRAM) => {
                let words = parser.raw_args().map_err(|error| bad(&error, ""))?;
                Ok(Command::Program(words.collect()))
            }
            Some("config") => config::config(&mut parser),
            Some("log") => log::log(&mut parser),
            Some("memory") => memory::memory(&mut parser),
            Some("plfs") => plfs::plfs(&mut parser),
            Some("save") => save::save(&mut parser),
            Some(crate::save::AFTER) => save::after(&mut parser),
            Some("extend") => extend::extend(&mut parser),
            Some("sync") => sync::sync(&mut parser),
            Some(crate::sync::WORD) => sync::background(&mut parser, Kind::Service),
            Some(crate::sync::RELAY_WORD) => sync::background(&mut parser, Kind::Relay),
            Some("mount") => mount::mount(&mut parser),
            Some("umount") => mount::unmount(&mut parser),
            Some("list") => plain(&mut parser, "list", LIST, |given| {
                Ok(Command::List { json: given.json })
            }),
            Some("drivers") => plain(&mut parser, "drivers", DRIVERS, |given| {
                let name = given.words.first().map(shown);
                Ok(Command::Drivers { name })
            }),
            Some("doctor") => plain(&mut parser, "doctor", DOCTOR, |given| {
                let (command, json) = (given.words, given.json);
                Ok(Command::Doctor { command, json })
            }),
            Some("help") => plain(&mut parser, "help", HELP, |given| {
                help(given.words.into_iter().next())
            }),
            Some("version") => plain(&mut parser, "version", VERSION, |_| {
                Ok(Command::Print(version()))
            }),
            Some("completion") => plain(&mut parser, "completion", COMPLETION, |given| {
                let shell = given.words.first().ok_or_else(|| {
                    Failure::new("no shell was given").advice("bash, zsh or fish")
                })?;
                completion::script(&shown(shell)).map(Command::Print)
            }),
            _ => Err(unknown(&word)),
        },
        other => Err(bad(&other.unexpected(), "")),
    }
}

/// What `culvert version` says.
fn version() -> String {
    format!("culvert {}\n", env!("CARGO_PKG_VERSION"))
}

/// The failure of a command that there is not.
fn unknown(word: &OsStr) -> Failure {
    let names: Vec<&str> = WORDS.iter().map(|word| word.name).collect();
    Failure::new(format!("unknown command \"{}\"", shown(word))).advice(format!(
        "there are: {}; try: culvert --help",
        names.join(", ")
    ))
}

/// `culvert help [COMMAND]`: what `culvert COMMAND --help` says, and where more stands.
fn help(word: Option<OsString>) -> Result<Command, Failure> {
    let Some(word) = word else {
        return Ok(Command::Print(USAGE.into()));
    };
    let known = WORDS.iter().find(|known| *known.name == *word);
    let known = known.ok_or_else(|| unknown(&word))?;
    let page = match known.name {
        "run" | "mount" | "log" | "plfs" | "sync" | "extend" | "drivers" | "doctor" => {
            format!("culvert-{}", known.name)
        }
        "umount" | "list" => "culvert-mount".into(),
        _ => "culvert".into(),
    };
    match parse([known.name.into(), OsString::from("--help")])? {
        Command::Print(text) => Ok(Command::Print(format!(
            "{text}\nThe manual page {page}(1) says more: man {page}\n"
        ))),
        other => Ok(other),
    }
}

/// The words that a command takes which has no options, or `--json` alone.
struct Plain {
    json: bool,
    words: Vec<OsString>,
}

/// Reads what follows command `name`, and makes of it what `make` says; its help is `help`.
fn plain(
    parser: &mut lexopt::Parser,
    name: &str,
    help: &str,
    make: impl FnOnce(Plain) -> Result<Command, Failure>,
) -> Result<Command, Failure> {
    let wrong = |error: lexopt::Error| bad(&error, name);
    let known = WORDS.iter().find(|known| known.name == name);
    let rest = known.map_or(Value::None, |known| known.rest);
    let has_json = known.is_some_and(|known| !known.flags.is_empty());
    let (mut json, mut words) = (false, Vec::new());
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(help.into())),
            Long("json") if has_json => json = true,
            Arg::Value(word) if rest != Value::None && words.is_empty() => {
                words.push(word);
                if rest == Value::Program {
                    words.extend(parser.raw_args().map_err(wrong)?);
                }
            }
            other => return Err(wrong(other.unexpected())),
        }
    }
    make(Plain { json, words })
}

fn bad(error: &lexopt::Error, command: &str) -> Failure {
    let space = if command.is_empty() { "" } else { " " };
    Failure::new(error.to_string()).advice(format!("try: culvert{space}{command} --help"))
}

/// A size in bytes with an optional unit; none where it is no such.
fn bytes(text: &std::ffi::OsStr) -> Option<u64> {
    let text = text.to_str()?;
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        b'T' => (&text[..text.len() - 1], 1u64 << 40),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(unit).filter(|&bytes| bytes != 0)
}

/// The words that a program gives that starts again, each as it stands.
fn run_again(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let words = parser.raw_args().map_err(|error| bad(&error, ""))?;
    let words: Vec<OsString> = words.collect();
    let number = |at: usize| words.get(at)?.to_str()?.parse::<i32>().ok();
    match (number(0), number(1), words.get(2), words.get(3..)) {
        (Some(descriptor), Some(flags), Some(program), Some(arguments)) => {
            Ok(Command::RunAgain(Again {
                descriptor,
                flags: flags as u8,
                program: program.into(),
                arguments: arguments.to_vec(),
            }))
        }
        _ => Err(Failure::new("no program given")),
    }
}

/// What -v says.
fn volume(text: &OsStr) -> Result<Request, Failure> {
    parse_volume(text.as_bytes()).map_err(|error| {
        Failure::new(format!("-v {error}")).advice(
            "-v SOURCE:TARGET[:OPTIONS], A:B:TARGET:type=union for several sources; a colon in a \
            name is \\:",
        )
    })
}

/// The words of `run`; None: its help is wanted.
fn run(parser: &mut lexopt::Parser) -> Result<Option<Run>, Failure> {
    let mut run = Run::default();
    let wrong = |error: lexopt::Error| bad(&error, "run");
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Long("help") | Short('h') => return Ok(None),
            Short('v') | Long("volume") => {
                let text = parser.value().map_err(wrong)?;
                run.mounts.push(volume(&text)?);
            }
            Long("mount") => {
                let text = parser.value().map_err(wrong)?;
                run.mounts.push(fields(&text)?);
            }
            Long("page-memory") => {
                let text = parser.value().map_err(wrong)?;
                let bytes = bytes(&text).ok_or_else(|| {
                    Failure::new(format!("--page-memory: \"{}\" is no size", shown(&text)))
                        .advice("a number of bytes, perhaps with K, M, G or T")
                })?;
                run.page_memory = Some(bytes);
            }
            Long("root") => run.root = Some(parser.value().map_err(wrong)?.into()),
            Long("strict") => run.strict = true,
            Long("no-patch") => run.no_patch = true,
            Long("private") => run.private = Some(true),
            Long("no-private") => run.private = Some(false),
            Arg::Value(program) => {
                run.command.push(program);
                run.command.extend(parser.raw_args().map_err(wrong)?);
                return Ok(Some(run));
            }
            other => return Err(wrong(other.unexpected())),
        }
    }
    Err(Failure::new("no program to run was given").advice("try: culvert run --help"))
}

/// The mount that `--mount` is followed by. A type that there is not is the first thing that is
/// wrong with it: what else it needs is unknown.
fn fields(text: &OsStr) -> Result<Request, Failure> {
    parse_mount(text.as_bytes()).map_err(|error| {
        let mut names = text.as_bytes().split(|&byte| byte == b',');
        let name = names.find_map(|field| str::from_utf8(field.strip_prefix(b"type=")?).ok());
        match name.map(culvert_drivers::find) {
            Some(Err(unknown)) => Failure::new(format!("--mount: {unknown}")),
            _ => Failure::new(format!("--mount {error}")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn parsed(text: &str) -> Run {
        match parse(words(text)).unwrap() {
            Command::Run(run) => run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_end_at_the_program() {
        for (text, command, mounts) in [
            ("run true", "true", 0),
            ("run -v a:b -- ls -v x:y --strict", "ls -v x:y --strict", 1),
            ("run -va:b --volume=c:d ls --help", "ls --help", 2),
            ("run --mount src=a,dst=b -- -x", "-x", 1),
            ("run -- ls -- -l", "ls -- -l", 0),
        ] {
            let run = parsed(text);
            assert_eq!(run.command, words(command), "{text}");
            assert_eq!(run.mounts.len(), mounts, "{text}");
            assert!(!run.strict);
        }
        assert!(parsed("run --strict --no-patch --private x").strict);
        for (size, bytes) in [("3", 3), ("64M", 64 << 20), ("1T", 1 << 40)] {
            let run = parsed(&format!("run --page-memory {size} x"));
            assert_eq!(run.page_memory, Some(bytes));
        }
        assert_eq!(parsed("run --no-private x").private, Some(false));
    }

    #[test]
    fn a_kernel_mount_may_have_several_sources() {
        let text = "mount --mount type=last,source=/a,source=/b,target=/mnt,noexec --restart";
        let Command::Mount(mount) = parse(words(text)).unwrap() else {
            panic!("{text} mounts");
        };
        assert_eq!(mount.request.source, b"/a");
        assert_eq!(mount.request.more_sources, [b"/b"]);
        assert!(mount.rights.no_exec && mount.restart && mount.request.options.is_empty());
    }

    #[test]
    fn a_list_of_branches_is_the_same_for_every_command() {
        let of = |text: &str| match parse(words(text)).unwrap() {
            Command::Mount(mount) => mount.request,
            Command::Run(run) => run.mounts.into_iter().next().expect("one"),
            other => panic!("{other:?}"),
        };
        let wanted = of("mount -t union /a=RW:/b=RO /mnt").branches().unwrap();
        assert_eq!(
            (&*wanted[1].source, &*wanted[1].how),
            (&b"/b"[..], &b"RO"[..])
        );
        for text in [
            "mount -o type=union /a=RW:/b=RO /mnt",
            "mount -v /a=RW:/b=RO:/mnt:type=union",
            "mount --mount type=union,source=/a=RW:/b=RO,target=/mnt",
            "run -v /a=RW:/b=RO:/mnt:type=union x",
            "run --mount source=/a=RW,source=/b=RO,type=union,target=/mnt x",
        ] {
            let request = of(text);
            assert_eq!(request.driver.as_deref(), Some("union"), "{text}");
            assert_eq!(request.branches().unwrap(), wanted, "{text}");
            assert!(request.options.is_empty(), "{text}");
        }
    }

    #[test]
    fn bad_command_lines_say_what_is_wrong() {
        for (text, want) in [
            ("", "no command given"),
            ("mnt a b", "unknown command \"mnt\""),
            ("mount", "no source"),
            ("mount a", "no target"),
            ("mount a b c", "unexpected argument"),
            ("mount -v a:b c", "unexpected argument"),
            ("mount --without speed a b", "no capability \"speed\""),
            ("mount -o ro,,x a b", "option"),
            ("umount", "no target"),
            ("--frobnicate", "--frobnicate"),
            ("run", "no program to run"),
            ("run -v", "missing argument for option '-v'"),
            ("run -v a ls", "no target"),
            ("run --mount type=archive ls", "no source"),
            ("run --fast ls", "invalid option '--fast'"),
            ("run --strict=yes ls", "unexpected argument"),
            ("run --page-memory=0 ls", "is no size"),
            ("run --page-memory=9999999999T ls", "is no size"),
            ("run --page-memory=12x ls", "is no size"),
            ("drivers a b", "unexpected argument"),
            ("doctor --xml", "invalid option '--xml'"),
        ] {
            let failure = parse(words(text)).unwrap_err();
            assert_eq!(failure.status, crate::failure::FAILED);
            let message = failure.to_string();
            assert!(message.contains(want), "{text}: {message}");
        }
    }

    /// The options that a help text explains: of each line that begins with one, all.
    fn explained(help: &str) -> Vec<String> {
        let mut found = Vec::new();
        for line in help.lines() {
            let text = line.trim_start();
            if text.len() == line.len() || line.len() - text.len() > 6 || !text.starts_with('-') {
                continue;
            }
            let names = text
                .split_whitespace()
                .take_while(|word| word.starts_with('-'));
            found.extend(names.map(|name| name.trim_end_matches(',').to_owned()));
        }
        found
    }

    #[test]
    fn the_manual_page_shows_how_each_command_is_called() {
        const PAGE: &str = include_str!("../../../../man/culvert.1");
        let (synopsis, _) = PAGE.split_once(".Sh DESCRIPTION").unwrap();
        for word in WORDS {
            let line = format!(".Nm\n.Cm {}\n", word.name);
            assert!(
                synopsis.contains(&line),
                "man/culvert.1 lacks {}",
                word.name
            );
        }
    }

    #[test]
    fn help_completion_and_parser_know_the_same_options() {
        for word in WORDS {
            let Command::Print(help) = parse(words(&format!("help {}", word.name))).unwrap() else {
                panic!("help {} prints", word.name);
            };
            let explained = explained(&help);
            let names = |flag: &words::Flag| -> Vec<String> {
                let short = flag.short.map(|letter| format!("-{letter}"));
                let long = flag.long.map(|name| format!("--{name}"));
                short.into_iter().chain(long).collect()
            };
            for flag in word.flags {
                let names = names(flag);
                let any = names.iter().any(|name| explained.contains(name));
                assert!(
                    any || help.contains(&names[0]),
                    "{}: {names:?}: {help}",
                    word.name
                );
                for name in names {
                    let value = if flag.value == words::Value::None {
                        ""
                    } else {
                        " x"
                    };
                    let parsed = parse(words(&format!("{} {name}{value}", word.name)));
                    if let Err(failure) = parsed {
                        let text = failure.to_string();
                        assert!(!text.contains("invalid option"), "{name}: {text}");
                    }
                }
            }
            let known: Vec<String> = word.flags.iter().flat_map(names).collect();
            for name in explained {
                assert!(
                    known.contains(&name),
                    "{}: {name} is not in the table",
                    word.name
                );
            }
        }
    }
}
