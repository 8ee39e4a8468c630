//! The commands and their options, in one table: completion is made of it, and tests hold the help
//! texts and the parser to it.

/// What a word on the command line may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value.
    None,
    /// Free text: nothing is completed.
    Text,
    /// A file or directory.
    File,
    /// SOURCE:TARGET[:OPTIONS].
    Volume,
    /// type=TYPE,source=SOURCE,...
    Fields,
    /// A file system.
    Type,
    /// A file system, or a layer over one.
    Described,
    /// Where messages go.
    Log,
    /// A capability that can be left out.
    Without,
    /// A capability that can be asked for.
    With,
    /// The target of a mount of ours.
    Mounted,
    /// A command of the table.
    Command,
    /// A shell that completion is made for.
    Shell,
    /// A package of pkg-config(1).
    Package,
    /// A program, with its own words behind it.
    Program,
}

/// An option of a command.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its letter.
    pub short: Option<char>,
    /// Its long name.
    pub long: Option<&'static str>,
    /// What follows it.
    pub value: Value,
    /// What it does, in a few words.
    pub about: &'static str,
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// As typed.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Its options; `-h` and `--help` beside these.
    pub flags: &'static [Flag],
    /// What its other words are.
    pub rest: Value,
}

const fn flag(long: &'static str, value: Value, about: &'static str) -> Flag {
    Flag {
        short: None,
        long: Some(long),
        value,
        about,
    }
}

const fn short(letter: char, flag: Flag) -> Flag {
    Flag {
        short: Some(letter),
        ..flag
    }
}

const fn word(
    name: &'static str,
    about: &'static str,
    flags: &'static [Flag],
    rest: Value,
) -> Word {
    Word {
        name,
        about,
        flags,
        rest,
    }
}

const DIAGNOSIS: &str = "say what works here and how a program is intercepted";
const ALL: Flag = short('a', flag("all", Value::None, "all of them"));
const LAZY: Flag = short('l', flag("lazy", Value::None, "also while they are in use"));
const VOLUME: Flag = short(
    'v',
    flag("volume", Value::Volume, "mount a source at a target"),
);
const FIELDS: Flag = flag("mount", Value::Fields, "mount, spelled out");
const JSON: Flag = flag("json", Value::None, "JSON instead of text");

/// All commands, in the order of the help.
pub const WORDS: &[Word] = &[
    Word {
        name: "run",
        about: "run a program with file systems of its own",
        flags: &[
            VOLUME,
            FIELDS,
            flag("page-memory", Value::Text, "memory for mapped files"),
            flag("root", Value::File, "make a target the root directory"),
            flag("strict", Value::None, "refuse what cannot be intercepted"),
            flag("private", Value::None, "cover the targets in a namespace"),
            flag("no-private", Value::None, "never do so"),
            flag("no-patch", Value::None, "rewrite nothing, for debugging"),
        ],
        rest: Value::Program,
    },
    Word {
        name: "mount",
        about: "mount a file system for all programs",
        flags: &[
            VOLUME,
            short('t', flag("type", Value::Type, "the file system")),
            short('o', flag("options", Value::Text, "its options")),
            short(
                'f',
                flag("foreground", Value::None, "stay in the foreground"),
            ),
            FIELDS,
            flag("allow-other", Value::None, "for other users, too"),
            flag("restart", Value::None, "go on when the server dies"),
            flag("log", Value::Log, "where messages go"),
            flag("trace", Value::None, "a message for each request"),
            flag("without", Value::Without, "an ability not to be used"),
            flag("with", Value::With, "an ability to be used"),
        ],
        rest: Value::File,
    },
    word("umount", "end mounts", &[ALL, LAZY], Value::Mounted),
    word("list", "list mounts", &[JSON], Value::None),
    word(
        "log",
        "say what a log holds",
        &[
            short('f', flag("follow", Value::None, "lines as they come")),
            flag("now", Value::None, "do not wait for programs"),
            flag("plot", Value::File, "draw a picture"),
        ],
        Value::File,
    ),
    word(
        "memory",
        "say where bytes of files in memory lie",
        &[],
        Value::File,
    ),
    word("save", "make an archive of a directory", &[], Value::File),
    word(
        "plfs",
        "look at PLFS containers",
        &[
            flag("plot", Value::File, "draw the writes"),
            flag("at", Value::Text, "the byte at this offset"),
        ],
        Value::File,
    ),
    word(
        "sync",
        "serve processes that append to one file",
        &[
            flag("socket", Value::File, "where it listens"),
            flag(
                "hosts",
                Value::File,
                "serve all hosts that share a back end",
            ),
            flag("listen", Value::Text, "address that other hosts connect to"),
            flag("tls", Value::None, "clients talk by TLS"),
            flag("workers", Value::Text, "threads that answer"),
            flag("clients", Value::Text, "processes connected at most"),
        ],
        Value::None,
    ),
    word(
        "extend",
        "load extensions for mounts of users",
        &[
            flag("allow", Value::File, "the list of objects"),
            flag("programs", Value::Text, "programs of a user at most"),
            flag("memory", Value::Text, "MiB of tables of a user at most"),
        ],
        Value::None,
    ),
    word(
        "drivers",
        "list or describe file systems",
        &[],
        Value::Described,
    ),
    word("doctor", DIAGNOSIS, &[JSON], Value::Program),
    word(
        "config",
        "say what compiles sources for libfuse",
        &[
            flag("cflags", Value::None, "the compiler's words"),
            flag("libs", Value::None, "the linker's words"),
            flag("pkg-config", Value::Package, "a file of pkg-config"),
        ],
        Value::None,
    ),
    word("help", "say more about a command", &[], Value::Command),
    word("version", "say which version this is", &[], Value::None),
    word(
        "completion",
        "print what a shell completes by",
        &[],
        Value::Shell,
    ),
];

/// The shells that completion is made for.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Words that are offered in the place of `value`.
pub fn choices(value: Value) -> Vec<&'static str> {
    let types = culvert_drivers::list().map(|driver| driver.name);
    use culvert_server::capabilities::{ON_REQUEST, SWITCHES};
    match value {
        Value::Type => types.collect(),
        Value::Described => {
            let layers = culvert_drivers::layers::list().map(|layer| layer.name);
            let layers = layers.filter(|name| culvert_drivers::find(name).is_err());
            types.chain(layers).collect()
        }
        Value::Volume => vec!["memory:"],
        Value::Fields => vec!["type=", "source=", "target="],
        Value::Log => vec!["journal", "terminal"],
        Value::Without => {
            let used = culvert_server::used_capabilities().filter(|one| one.switchable);
            let switches = SWITCHES.iter().map(|(name, _)| *name);
            used.map(|one| one.name)
                .chain(switches)
                .chain(["list"])
                .collect()
        }
        Value::With => ON_REQUEST
            .iter()
            .map(|one| one.name)
            .chain(["list"])
            .collect(),
        Value::Command => WORDS.iter().map(|word| word.name).collect(),
        Value::Shell => SHELLS.to_vec(),
        Value::Package => vec!["culvert", "fuse", "fuse3"],
        _ => Vec::new(),
    }
}
